"""Functions of the language as regions of scalars, which an operation applies element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.language.broadcasting import to_operand
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.function import JITCallable
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.tile.ir import Region, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.types import ScalarType, distributed_type

CONTROL = ("if", "for", "while", "yield")


def function_argument(function: Any, operation: str, role: str) -> JITCallable:
    """An argument that is a function of the language; `TypeError` where it is none."""
    function = _unwrap_if_constexpr(function)
    if not isinstance(function, JITCallable):
        raise TypeError(f"{operation}'s {role} must be a function decorated with @glueball.jit, not {function!r}")
    return function


def region_of(
    function: JITCallable, arguments: Sequence[ScalarType], operation: str, builder: KernelBuilder
) -> tuple[Region, list[tensor]]:
    """A region that calls a function on scalars, and what it returns; the region has no end yet.

    Errors: `TypeError` for another number of parameters, `ValueError` for a function that accesses memory or needs
    other threads.
    """
    assert builder.inline is not None
    region = Region([Value(kind) for kind in arguments])
    outer, builder.region = builder.region, region
    # A function of elements does nothing else, so its arithmetic wraps unchecked.
    checks, builder.checks_overflow = builder.checks_overflow, False
    try:
        found = builder.inline(function, [tensor(argument) for argument in region.arguments])
        values = found.values if isinstance(found, language_tuple) else [found]
        if any(isinstance(value, constexpr) and value.value is None for value in values):
            raise TypeError(f"the function `{function.__name__}` of {operation} returns nothing")
        results = [to_operand(value, builder) for value in values]
    finally:
        builder.region, builder.checks_overflow = outer, checks
    _check_pure(region, function, operation)
    return region, results


def end_region(region: Region, results: Sequence[tensor], builder: KernelBuilder) -> None:
    """Ends a region with its results."""
    outer, builder.region = builder.region, region
    builder.create("yield", [result.handle for result in results])
    builder.region = outer


def _check_pure(region: Region, function: JITCallable, operation: str) -> None:
    for inner in region.walk():
        if inner.opcode not in CONTROL and not TILE_OPERATIONS[inner.opcode].pure:
            raise ValueError(
                f"the function `{function.__name__}` of {operation} works on single elements, so it cannot use "
                f"`{inner.opcode}`"
            )
        if any(isinstance(result.type, distributed_type) for result in inner.results):
            raise ValueError(f"the function `{function.__name__}` of {operation} works on scalars, not on tiles")
