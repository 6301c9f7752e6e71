"""Elementwise functions: fused multiply-add, absolute value, rounding, roots, the functions of mathematics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glueball import mathematics, numerics
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, Reference, TileArray, fault
from glueball.tile.operations.references import applying, on_numbers
from glueball.tile.operations.rules import (
    ElementRule,
    elementwise,
    expect_counts,
    is_float,
    is_integer,
)
from glueball.tile.types import ScalarType, float32, float64

APPROXIMATED: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "divide": np.divide,
}
"""Functions of float32 that hardware approximates, in float64."""


def _is_wide_float(element: ScalarType) -> bool:
    return element in (float32, float64)


def _is_wide_integer(element: ScalarType) -> bool:
    return is_integer(element) and element.primitive_bitwidth in (32, 64)


def _absolute(x: Array) -> Array:
    return x if x.dtype.kind == "u" else np.asarray(np.abs(x))


def _has_absolute(element: ScalarType) -> bool:
    return is_integer(element) or element.is_floating()


def _absolute_reference(machine: Machine, operation: Operation, operands: Any) -> list[TileArray]:
    if operation.result.type.scalar.name == "fp8e4b15":
        return [TileArray(operands[0].values & np.uint8(0x7F), operands[0].poison)]
    return list(on_numbers(_absolute, choosing=True)(machine, operation, operands))


def _check_function(table: dict[str, Any], rule: ElementRule, what: str) -> Callable[[Operation], None]:
    def check(operation: Operation) -> None:
        name = operation.attributes["function"]
        if name not in table:
            raise fault(operation, f"has no function {name!r}")
        elementwise(_operands_of(name), rule, what)(operation)

    return check


def _operands_of(name: str) -> int:
    if name == "divide":
        return 2
    return mathematics.FUNCTIONS[name].operands if name in mathematics.FUNCTIONS else 1


def _approximate(machine: Machine, operation: Operation, operands: Any) -> Any:
    function = APPROXIMATED[operation.attributes["function"]]

    def rounded(*values: Array) -> Array:
        return np.asarray(function(*(value.astype(np.float64) for value in values))).astype(np.float32)

    return applying(rounded)(machine, operation, operands)


def _function(machine: Machine, operation: Operation, operands: Any) -> Any:
    name = operation.attributes["function"]
    return applying(lambda *values: mathematics.on_arrays(name, *values))(machine, operation, operands)


def _wide(name: str, meaning: str, function: Callable[..., Array]) -> OperationDefinition:
    return OperationDefinition(name, meaning, elementwise(1, _is_wide_float, "float32 or float64"), applying(function))


def _bare(operands: int, rule: ElementRule, what: str, reference: Reference, name: str, meaning: str
          ) -> OperationDefinition:  # fmt: skip
    return OperationDefinition(name, meaning, elementwise(operands, rule, what), reference)


def _check_assume(operation: Operation) -> None:
    expect_counts(operation, 1, 0)


FUNCTION_OPERATIONS = (
    _bare(3, is_float, "floats", applying(numerics.fused_multiply_add), "fma", "`x * y + z` rounded once."),
    _bare(2, _is_wide_integer, "32-bit or 64-bit integers", applying(numerics.high_product), "umulhi",
          "The upper half of the product of two integers."),
    _bare(1, _has_absolute, "integers or floats", _absolute_reference, "absolute",
          "The absolute value; the least signed integer stays what it is."),
    _wide("floor", "The greatest whole number that is not above.", np.floor),
    _wide("ceil", "The least whole number that is not below.", np.ceil),
    _wide("round_to_zero", "The whole part.", np.trunc),
    _wide("round_even", "The nearest whole number, ties to even.", np.rint),
    _wide("sqrt", "The correctly rounded square root.", np.sqrt),
    OperationDefinition(
        "approximate",
        "A function of float32 as the hardware approximates it, within the bound stated for it.",
        _check_function(APPROXIMATED, lambda element: element == float32, "float32"),
        _approximate,
        attributes=frozenset({"function"}),
    ),
    OperationDefinition(
        "function",
        "A function of `glueball.mathematics`, the same bits on every executor.",
        _check_function(mathematics.FUNCTIONS, _is_wide_float, "float32 or float64"),
        _function,
        attributes=frozenset({"function"}),
    ),
)  # fmt: skip
