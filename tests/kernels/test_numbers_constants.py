"""What is known at compile time gives the same numbers as the same values from memory."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

from tests.kernels.harness import EXECUTORS, run
from tests.kernels.random_programs import NUMPY_TYPES, PRELUDE
from tests.kernels.test_numbers_casts import assert_same

SYMBOLS = ["+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%", "<", "=="]


def kernel_of(kind: str, values: list[int], literals: bool):
    """Every operation on every pair, of constants and from memory; on tensors both, or the second one a number."""
    lines, place = [], 0
    symbols = [symbol for symbol in SYMBOLS if "float" not in kind or symbol in "+-*%<=="]
    symbols = [symbol for symbol in symbols if kind != "int1" or symbol not in ("//", "%", "<<", ">>")]
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            for symbol in symbols:
                known = f"gl.to_tensor({left!r}).to(gl.{kind})"
                other = f"{right!r}" if literals else f"gl.to_tensor({right!r}).to(gl.{kind})"
                second = other if literals else f"gl.load(x + {j})"
                for output, text in (
                    ("known", f"({known} {symbol} {other})"),
                    ("loaded", f"(gl.load(x + {i}) {symbol} {second})"),
                    ("mixed", f"(gl.load(x + {i}) {symbol} {other})"),
                ):
                    lines.append(f"    gl.store({output} + {place}, {text})")
                place += 1
    body = "\n".join(lines)
    source = f"{PRELUDE}@glueball.jit\ndef kernel(x, known, loaded, mixed):\n{body}\n"
    filename = f"<constants of {kind}, {literals}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"__name__": "constants"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["kernel"], place


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("literals", [False, True], ids=["tensors", "literals"])
@pytest.mark.parametrize("kind", ["int1", "int8", "uint16", "int32", "uint64", "float32"])
def test_constants_are_as_values_from_memory(kind, literals, executor, monkeypatch):
    numpy_type = NUMPY_TYPES[kind]
    if kind == "int1":
        values = [False, True]
    elif "float" in kind:
        values = [0.0, 1.0, -1.5]
    else:
        ends = np.iinfo(numpy_type)
        values = sorted({0, 3, int(ends.max), int(ends.min)} | ({-1} if ends.min < 0 else set()))
    kernel, count = kernel_of(kind, values, literals)
    outputs = [np.zeros(count, np.float64 if "float" in kind else np.int64) for _ in range(3)]
    run(executor, monkeypatch, kernel[(1,)], np.array(values, numpy_type), *outputs)
    for output in (outputs[0], outputs[2]):
        assert_same(output, outputs[1])
