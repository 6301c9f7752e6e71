"""What arguments are compiled as."""

from __future__ import annotations

import inspect
import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.function import JITCallable
from glueball.runtime.parameters import ParameterRule, parse_type, rules_of
from glueball.runtime.specialization import ArgumentSpec, fit_argument, scalar_value, specialize, specialize_argument
from glueball.tile.types import pointer_type

PLAIN = ParameterRule("p")
LAYOUT = gl.BlockedLayout([1], [32], [4], [0])
Pair = namedtuple("Pair", "first second")


def aligned(dtype: Any, offset: int = 0) -> np.ndarray[Any, Any]:
    """An array whose address is `offset` bytes after a multiple of 16."""
    storage = np.zeros(256, np.uint8)
    start = -storage.ctypes.data % 16 + offset
    return storage[start : start + 64].view(dtype)


def constant(value: Any, rule: ParameterRule = PLAIN) -> Any:
    kind = specialize_argument(rule, value).type
    assert isinstance(kind, gl.constexpr)
    return kind.value


@JITCallable
def helper(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("value", "kind", "divisibility"),
    [
        (2, gl.int32, 1), (0, gl.int32, 16), (-32, gl.int32, 16), (-1, gl.int32, 1), (48, gl.int32, 16),
        (2**31 - 1, gl.int32, 1), (-(2**31), gl.int32, 16), (2**31, gl.int64, 16), (-(2**31) - 1, gl.int64, 1),
        (2**63 - 1, gl.int64, 1), (2**63, gl.uint64, 16), (2**64 - 1, gl.uint64, 1),
        (True, gl.int1, 1), (False, gl.int1, 1), (1.0, gl.float32, 1), (16.0, gl.float32, 1),
        (np.int64(5), gl.int32, 1), (np.uint8(16), gl.int32, 16), (np.float64(2.5), gl.float32, 1),
        (np.bool_(True), gl.int1, 1),
    ],
)  # fmt: skip
def test_numbers(value: Any, kind: Any, divisibility: int) -> None:
    found = specialize_argument(PLAIN, value)
    assert (found.type, found.divisibility) == (kind, divisibility)
    assert scalar_value(found) == value


@pytest.mark.parametrize("value", [1, np.int32(1), None, helper, gl.constexpr(7), (1, None), gl.constexpr("text")])
def test_constants(value: Any) -> None:
    expected = value.value if isinstance(value, gl.constexpr) else value
    assert constant(value) == expected


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(OverflowError, match="`p`"):
        specialize_argument(PLAIN, value)


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (np.bool_, gl.int1), (np.int8, gl.int8), (np.uint64, gl.uint64), (np.float16, gl.float16),
        (np.float64, gl.float64), (ml_dtypes.bfloat16, gl.bfloat16), (ml_dtypes.float8_e4m3fn, gl.float8e4nv),
        (ml_dtypes.float8_e5m2fnuz, gl.float8e5b16),
    ],
)  # fmt: skip
def test_arrays_are_pointers(dtype: Any, element: Any) -> None:
    found = specialize_argument(PLAIN, aligned(dtype))
    assert (found.type, found.divisibility) == (pointer_type(element), 16)


def test_alignment_of_arrays() -> None:
    assert specialize_argument(PLAIN, aligned(np.float32, 4)).divisibility == 1
    unaligned = ParameterRule("p", specialize_alignment=False)
    assert specialize_argument(unaligned, aligned(np.float32)).divisibility == 1


def test_array_without_dimensions_is_a_pointer() -> None:
    assert specialize_argument(PLAIN, np.zeros((), np.int32)).type == pointer_type(gl.int32)


@pytest.mark.parametrize("value", ["text", [1, 2], gl.int32, LAYOUT, object(), {}, len])
def test_what_needs_a_constexpr_parameter(value: Any) -> None:
    with pytest.raises(TypeError, match="failed to specialize argument of type"):
        specialize_argument(PLAIN, value)


@pytest.mark.parametrize("value", [3, 1.5, "text", gl.int32, LAYOUT, helper, (1, (2.0, LAYOUT)), None, True])
def test_constexpr_parameters_take_any_hashable_value(value: Any) -> None:
    assert constant(value, ParameterRule("p", is_constexpr=True)) == value


def test_constexpr_parameters_refuse_unhashable_values() -> None:
    with pytest.raises(TypeError, match=r"`p`.*hashable.*list"):
        specialize_argument(ParameterRule("p", is_constexpr=True), [1])


def test_tuples() -> None:
    assert constant(Pair(1, None)) == Pair(1, None)
    assert isinstance(constant(Pair(1, None)), Pair)
    found = specialize_argument(PLAIN, Pair((1, 16), 3.0))
    assert str(found.type) == "((constexpr[1], int32), fp32)"
    assert [(leaf.name, leaf.divisibility) for leaf in found.leaves] == [("p.0.1", 16), ("p.1", 1)]
    assert len({specialize_argument(PLAIN, value).key for value in ((1, 16), (1, 32), (1, 3), (2, 16))}) == 3


def keys_of(*values: Any, constexpr: bool = False) -> list[object]:
    return [specialize_argument(ParameterRule("p", is_constexpr=constexpr), value).key for value in values]


def test_keys_tell_apart_what_compiles_differently() -> None:
    run_time = keys_of(1, 2, 16, True, 1.0, None, aligned(np.int32), aligned(np.int32, 4), aligned(np.float32), 2**40)
    assert len(set(run_time)) == len(run_time)
    compile_time = keys_of(1, True, 1.0, "1", 0.0, -0.0, None, (1,), (True,), LAYOUT, gl.int32, "int32", constexpr=True)
    assert len(set(compile_time)) == len(compile_time)


@dataclass(frozen=True)
class Scale:
    factor: Any
    seen: Any = field(default=None, compare=False)


def test_keys_tell_apart_what_equals_for_python_only() -> None:
    scales = keys_of(
        Scale(1), Scale(1.0), Scale(True), Scale(0.0), Scale(-0.0), Scale((1,)), Scale((True,)), constexpr=True
    )
    assert len(set(scales)) == len(scales)
    assert keys_of(Scale(2), constexpr=True) == keys_of(Scale(2, seen=[]), constexpr=True)
    turned = namedtuple("Pair", "second first")
    named = keys_of(Pair(1, None), turned(1, None), (1, None))
    assert len(set(named)) == len(named)


def test_keys_are_equal_where_code_is() -> None:
    assert len(set(keys_of(2, 3, 5, -7))) == 1
    assert len(set(keys_of(0, 16, 32))) == 1
    assert len(set(keys_of(0.5, 2.0))) == 1
    nan = float("nan")
    assert len(set(keys_of(nan, float("nan"), constexpr=True))) == 1
    assert len(set(keys_of(LAYOUT, gl.BlockedLayout([1], [32], [4], [0]), constexpr=True))) == 1


def rules(function: Any, **lists: Any) -> dict[str, ParameterRule]:
    return rules_of(inspect.signature(function), function.__globals__, **lists)


def test_do_not_specialize() -> None:
    def kernel(a: Any, b: Any, c: Any) -> None: ...

    found = rules(kernel, do_not_specialize=["a", 1], do_not_specialize_on_alignment=("c",))
    types = specialize(found, {"a": 1, "b": 16, "c": 1}).arguments
    assert [(argument.type, argument.divisibility) for argument in types[:2]] == [(gl.int32, 1)] * 2
    assert isinstance(types[2].type, gl.constexpr)
    assert specialize_argument(found["c"], 16).divisibility == 1
    with pytest.raises(TypeError, match="'d', which is no parameter"):
        rules(kernel, do_not_specialize=["d"])


def test_constexpr_parameter_cannot_be_excluded() -> None:
    def kernel(a: gl.constexpr) -> None: ...

    with pytest.raises(CompilationError, match="`a` is constexpr"):
        rules(kernel, do_not_specialize=["a"])


def test_annotations() -> None:
    def kernel(
        a: gl.int64,
        b: "i64",  # noqa: F821, UP037
        c: gl.float64,
        d: "*kfp16",  # noqa: F722
        e: "gl.constexpr",  # noqa: UP037
        f: int,
        g: gl.pointer_type(gl.int8),
        h: "u8",  # noqa: F821, UP037
    ) -> None: ...

    found = rules(kernel)
    assert found["a"].type == found["b"].type == gl.int64
    assert not found["a"].specialize_value
    assert specialize_argument(found["b"], 1).type == gl.int64
    assert specialize_argument(found["a"], 32).divisibility == 16
    assert specialize_argument(found["c"], 3).type == gl.float64
    assert scalar_value(specialize_argument(found["c"], 3)).dtype == np.float64
    assert specialize_argument(found["d"], aligned(np.float16)).type == pointer_type(gl.float16, const=True)
    assert found["e"].is_constexpr
    assert found["f"].type is None
    assert found["g"].type == pointer_type(gl.int8)
    with pytest.raises(TypeError, match=r"`a` is annotated int64 and takes an integer, not the float 1.5"):
        specialize_argument(found["a"], 1.5)
    with pytest.raises(OverflowError, match="300 does not fit the annotated uint8"):
        specialize_argument(found["h"], 300)
    with pytest.raises(TypeError, match="cannot take a pointer"):
        specialize_argument(found["h"], aligned(np.uint8))
    with pytest.raises(TypeError, match="takes an array, not 3"):
        specialize_argument(found["d"], 3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("fp32", gl.float32), ("float32", gl.float32), ("i1", None), ("u1", gl.int1), ("i64", gl.int64),
        ("gl.bfloat16", gl.bfloat16), ("fp8e4nv", gl.float8e4nv), ("*i8", pointer_type(gl.int8)),
        ("*kbf16", pointer_type(gl.bfloat16, const=True)), ("float8_e5m2", gl.float8e5), ("", None), ("*", None),
        ("**i8", None),
    ],
)  # fmt: skip
def test_names_of_types(text: str, kind: Any) -> None:
    if kind is None:
        with pytest.raises(ValueError, match="unknown type"):
            parse_type(text)
    else:
        assert parse_type(text) == kind


def test_argument_specs() -> None:
    found = specialize_argument(PLAIN, ArgumentSpec(pointer_type(gl.float32), 16))
    assert (found.type, found.divisibility) == (pointer_type(gl.float32), 16)
    with pytest.raises(ValueError, match="not a power of two"):
        ArgumentSpec(gl.int32, 3)
    with pytest.raises(TypeError, match="element or pointer type"):
        ArgumentSpec("fp32")  # type: ignore[arg-type]


def test_arguments_of_a_compiled_kernel_must_fit() -> None:
    pointer = specialize_argument(PLAIN, aligned(np.float32))
    assert fit_argument(pointer, aligned(np.float32)).divisibility == 16
    with pytest.raises(TypeError, match="multiple of 16"):
        fit_argument(pointer, aligned(np.float32, 4))
    with pytest.raises(TypeError, match="not for an array of float64"):
        fit_argument(pointer, aligned(np.float64))
    with pytest.raises(TypeError, match="not for an array of int32"):
        fit_argument(pointer, aligned(np.int32))
    with pytest.raises(TypeError, match="compiled as the constant 1, not 5"):
        fit_argument(specialize_argument(PLAIN, 1), 5)
    assert scalar_value(fit_argument(specialize_argument(PLAIN, 16), 1 << 20)) == 1 << 20


def test_floats_beyond_float32_are_infinite_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scalar_value(specialize_argument(PLAIN, 1e300)) == np.inf
