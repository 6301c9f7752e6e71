"""The compilations that `compile.py` times: every kernel of the library, as its functions launch it.

A job holds texts and numbers only, so that it means the same to glueball and to the peer.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

from glueball import kernels, language
from glueball.kernels import arrays, copy, elementwise, matrices, rows, scan, scatter
from glueball.kernels.ladder import RUNGS, tensors
from glueball.language import constexpr
from glueball.runtime.jit import JITFunction
from glueball.runtime.options import OPTION_NAMES
from glueball.runtime.specialization import specialize
from glueball.targets import TARGETS
from glueball.tile.types import ScalarType, dtype, pointer_type

BFLOAT16 = ml_dtypes.bfloat16
_LANGUAGE_NAMES = {value.name: name for name, value in vars(language).items() if isinstance(value, dtype)}
LADDER = ("b4", "f-converted", "g-opposite")


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel for one set of argument types.

    `source` names an entry of the sources; `types` gives run-time parameters a type and a divisor, in order;
    `constants` gives the others an expression of the language's names.
    """

    name: str
    source: str
    kernel: str
    types: dict[str, tuple[str, int]]
    constants: dict[str, str]
    options: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The job as plain values."""
        return asdict(self)


def _normal(*shape: int, dtype: Any = BFLOAT16) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _ladder() -> Iterator[None]:
    for rung in RUNGS:
        if rung.name in LADDER:
            rung.launch(*tensors(rung.view, lambda shape: np.zeros(shape, np.float32), 512, 512), 32).run()
            yield


def _calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Each finished kernel on arrays of a usual size: with bfloat16 elements, unless it is about others."""
    x, line = _normal(64, 4096), _normal(4096)
    long, short = _normal(4, 131072), _normal(64, 1000)
    column, classes = np.ones(64, np.float32), np.zeros(64, np.int64)
    quantised = np.zeros((64, 4096), ml_dtypes.float8_e4m3fn), column
    yield "copy", lambda: list(_ladder())
    yield "add", lambda: kernels.add(_normal(10000, dtype=np.float32), _normal(10000, dtype=np.float32))
    yield "softmax", lambda: kernels.softmax(x)
    yield "softmax of long rows", lambda: kernels.softmax(long)
    yield "layer norm", lambda: kernels.layer_norm(x, line, line)
    yield "layer norm of long rows", lambda: kernels.layer_norm(long, _normal(131072), _normal(131072))
    yield "layer norm backward", lambda: kernels.layer_norm_backward(x, x, line, column, column)
    yield "RMS norm", lambda: kernels.rms_norm(x, line)
    yield "RMS norm of long rows", lambda: kernels.rms_norm(long, _normal(131072))
    yield "RMS norm backward", lambda: kernels.rms_norm_backward(x, x, line, column)
    yield "row sum", lambda: kernels.row_sum(x)
    yield "row maximum of long rows", lambda: kernels.row_max(long)
    yield "dropout", lambda: kernels.dropout(x, 0.1, 5)
    yield "transpose", lambda: kernels.transpose(_normal(1000, 700, dtype=np.float32))
    yield "transpose bf16", lambda: kernels.transpose(x)
    yield "histogram", lambda: kernels.histogram(np.zeros(100000, np.int32), 256)
    yield "prefix sum", lambda: kernels.cumsum(x)
    yield "prefix sum of long rows", lambda: kernels.cumsum(long)
    yield "quantise int8", lambda: kernels.quantize_rows(x)
    yield "quantise fp8", lambda: kernels.quantize_rows(x, "float8_e4m3fn")
    yield "dequantise int8", lambda: kernels.dequantize_rows(np.zeros((64, 4096), np.int8), column)
    yield "dequantise fp8", lambda: kernels.dequantize_rows(*quantised)
    yield "embedding", lambda: kernels.embedding(x, np.zeros((3, 11), np.int64))
    yield "cross entropy", lambda: kernels.cross_entropy(short, classes)
    yield "cross entropy backward", lambda: kernels.cross_entropy_backward(column, short, classes, column)
    small, large = ((_normal(size, size, dtype=np.float32),) * 2 for size in (512, 1024))
    # Gluon cannot add up products of narrow floats in float32 by multiply-adds.
    yield "matmul", lambda: kernels.matmul(*small)
    yield "matmul of large matrices", lambda: kernels.matmul(*large)


PLAIN_TARGET = TARGETS["sm_80"]
"""What functions believe they launch for: kernels with descriptors and clusters are not among those compared."""


def jobs() -> list[Job]:
    """All of them; a function that launches several kernels gives several, equal ones once."""
    found: dict[tuple[object, ...], Job] = {}
    names: Counter[str] = Counter()
    for title, call in _calls():
        for position, (kernel, arguments, keywords) in enumerate(_launches(call)):
            specialization = specialize(kernel.rules, kernel.bind(arguments, keywords))
            key = (kernel, specialization.key, keywords["num_warps"])
            if key in found:
                continue
            name = f"{title}: {kernel.__name__}" if position else title
            names[name] += 1
            if names[name] > 1:
                name += f" {names[name]}"
            found[key] = _job(name, kernel, specialization, keywords)
    return list(found.values())


def _launches(call: Callable[[], object]) -> list[tuple[JITFunction, tuple[Any, ...], dict[str, Any]]]:
    """What a function launches; nothing runs."""
    seen: list[tuple[JITFunction, tuple[Any, ...], dict[str, Any]]] = []

    def record(kernel: JITFunction, _: object) -> Callable[..., None]:
        return lambda *arguments, **keywords: seen.append((kernel, arguments, keywords))

    target_here = mock.patch.object(arrays, "default_target", lambda: PLAIN_TARGET)
    with mock.patch.object(JITFunction, "__getitem__", record), target_here:
        call()
    return seen


def _job(name: str, kernel: JITFunction, specialization: Any, keywords: dict[str, Any]) -> Job:
    types, constants = {}, {}
    for argument in specialization.arguments:
        if isinstance(argument.type, constexpr):
            constants[argument.name] = _expression(argument.type.value)
        else:
            types[argument.name] = (_type_text(argument.type), argument.divisibility)
    options = {name: value for name, value in keywords.items() if name in OPTION_NAMES}
    return Job(name, kernel.__module__.rsplit(".", 1)[1], kernel.__name__, types, constants, options)


def _expression(value: Any) -> str:
    """A compile-time value in names that both sides have; the peer tells lists from tuples."""
    if isinstance(value, dtype):
        return _LANGUAGE_NAMES[value.name]
    if isinstance(value, tuple):
        return f"[{', '.join(map(_expression, value))}]"
    if is_dataclass(value):
        parts = [f"{field.name}={_expression(getattr(value, field.name))}" for field in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    return repr(value)


def _type_text(kind: ScalarType) -> str:
    if isinstance(kind, pointer_type):
        return f"*{_type_text(kind.element_ty)}"
    return re.sub("^(u?)int", lambda found: found[1] or "i", kind.name)


def sources() -> dict[str, str]:
    """The kernels of each module, without what launches them; only these lines are compiled, on either side."""
    modules = (copy, elementwise, matrices, rows, scan, scatter)
    return {module.__name__.rsplit(".", 1)[1]: _kernels_of(module) for module in modules}


def _kernels_of(module: ModuleType) -> str:
    text = inspect.getsource(module)
    parts = ["import glueball\nimport glueball.language as gl\n"]
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("glueball.kernels."):
            parts += _constants(importlib.import_module(str(statement.module)), {one.name for one in statement.names})
        elif isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            parts.append(_lines(text, statement, statement.decorator_list[0].lineno))
        elif _is_constant(statement):
            parts.append(_lines(text, statement, statement.lineno))
    return "\n\n".join(parts)


def _constants(module: ModuleType, names: set[str]) -> list[str]:
    text = inspect.getsource(module)
    found = [each for each in ast.parse(text).body if _is_constant(each) and each.target.id in names]
    return [_lines(text, each, each.lineno) for each in found]


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation) == "gl.constexpr"


def _lines(text: str, statement: ast.stmt, first: int) -> str:
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno]) + "\n"
