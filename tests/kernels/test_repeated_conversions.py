"""Conversions that a loop does again and again: values stay in their registers, narrow ones in their words."""

from __future__ import annotations

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from benchmarks.conversion_loop import transpose_repeatedly
from glueball.codegen import disassembly
from glueball.layouts.in_place import moved
from glueball.runtime.compiler import Pipeline
from glueball.runtime.kernel import CompiledKernel
from glueball.targets import TARGETS
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.machine_code import needs_disassembler

TARGET = TARGETS["sm_90a"]
BFLOAT16 = ml_dtypes.bfloat16
EXTENT = 128


def layouts(vector: int, warps: int, extent: int = EXTENT) -> tuple[gl.BlockedLayout, gl.BlockedLayout]:
    """A layout by rows, `vector` elements of a thread side by side, and the same transposed."""
    along = min(32, extent // vector)
    rows = gl.BlockedLayout([1, vector], [32 // along, along], [warps, 1], [1, 0])
    return rows, gl.BlockedLayout([vector, 1], [along, 32 // along], [1, warps], [0, 1])


@glueball.jit
def doubled_between(x_ptr, y_ptr, times, SIZE: gl.constexpr, first: gl.constexpr, second: gl.constexpr):
    """Doubles a tile after every third transposition: a loop in a loop, and arithmetic on what they carry."""
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, first))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, first))
    place = row[:, None] * SIZE + column[None, :]
    value = gl.load(x_ptr + place)
    for _ in range(times):
        for _ in range(3):
            value = gl.convert_layout(value, second).permute(1, 0)
        value = value + value
    gl.store(y_ptr + place, value)


def compiled(dtype: type, vector: int, warps: int) -> CompiledKernel:
    first, second = layouts(vector, warps)
    tile = np.zeros((EXTENT, EXTENT), dtype)
    keywords = {"SIZE": EXTENT, "first": first, "second": second, "num_warps": warps, "target": TARGET}
    return glueball.compile_only(transpose_repeatedly, tile, tile.copy(), 8, **keywords)


def loop(kernel: CompiledKernel) -> Counter[str]:
    """Opcodes of the loop of a kernel that has one, without their suffixes."""
    texts = disassembly.line_table(kernel.machine_code.binary)
    barriers = [number for number, each in enumerate(texts) if each.text.startswith("BAR.")]
    last = next(number for number, each in enumerate(texts) if number > barriers[-1] and "BRA" in each.text)
    names = (re.sub(r"^@!?U?P\w+\s+", "", each.text).split()[0] for each in texts[barriers[0] : last])
    return Counter(name.split(".")[0] for name in names)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("times", [0, 3, 4])
@pytest.mark.parametrize(("dtype", "vector"), [(np.float32, 4), (BFLOAT16, 1), (np.float16, 8), (np.int8, 1)])
def test_transposed_again_and_again(
    executor: str, dtype: type, vector: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = layouts(vector, 4)
    x = random_array((EXTENT, EXTENT), np.int8).astype(dtype)
    y = np.zeros_like(x)
    keywords = {"SIZE": EXTENT, "first": first, "second": second, "num_warps": 4}
    run(executor, monkeypatch, lambda *arguments: transpose_repeatedly[(1,)](*arguments, **keywords), x, y, times)
    np.testing.assert_array_equal(y, x.T if times % 2 else x)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("dtype", "vector"), [(BFLOAT16, 8), (np.float16, 1), (np.int16, 8)])
def test_arithmetic_between_transpositions(
    executor: str, dtype: type, vector: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = layouts(vector, 4, 64)
    x = random_array((64, 64), np.int8).astype(dtype)
    y = np.zeros_like(x)
    keywords = {"SIZE": 64, "first": first, "second": second, "num_warps": 4}
    run(executor, monkeypatch, lambda *arguments: doubled_between[(1,)](*arguments, **keywords), x, y, 3)
    np.testing.assert_array_equal(y, x.T * np.asarray(8, dtype))


def test_only_what_comes_back_is_planned_in_place() -> None:
    found = {}
    for kernel in (transpose_repeatedly, doubled_between):
        first, second = layouts(8, 4)
        tile = np.zeros((EXTENT, EXTENT), BFLOAT16)
        keywords = {"SIZE": EXTENT, "first": first, "second": second, "num_warps": 4, "target": TARGET}
        function = Pipeline(glueball.compile_only(kernel, tile, tile.copy(), 8, **keywords).request).tile
        (plan,) = (each.attributes["plan"] for each in function.body.walk() if each.opcode == "shared_store")
        found[kernel] = moved(plan.write.groups, plan.read.groups, plan.element_bytes)
    assert found == {transpose_repeatedly: (0, 0), doubled_between: (0, 0)}


# (element type, elements side by side, warps): shared accesses of the loop, and its other instructions as measured.
LOOPS = {
    (np.float32, 1, 4): (64, 98),
    (np.float32, 1, 8): (32, 50),
    (np.float32, 4, 4): (64, 7),
    (np.float32, 4, 8): (80, 2),
    (BFLOAT16, 1, 4): (32, 2),
    (BFLOAT16, 1, 8): (16, 34),
    (BFLOAT16, 8, 4): (32, 2),
    (BFLOAT16, 8, 8): (16, 2),
}
TOLERANCE = 1.1


@needs_disassembler
@pytest.mark.parametrize(("case", "measured"), LOOPS.items())
def test_the_loop_does_little_but_move_data(case: tuple[type, int, int], measured: tuple[int, int]) -> None:
    kernel = compiled(*case)
    found = loop(kernel)
    accesses = found["STS"] + found["LDS"] + found["LDSM"]
    assert (found["BAR"], accesses, found["LDL"] + found["STL"]) == (2, measured[0], 0)
    assert found.total() - accesses - 2 <= measured[1] * TOLERANCE
    # Two blocks fit side by side, so that one writes or reads while the other waits.
    assert kernel.n_regs is not None
    assert kernel.n_regs <= TARGET.registers // (kernel.threads * 2)
