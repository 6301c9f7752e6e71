"""Expands layout conversions into what moves the data: nothing, renamed registers, shuffles or scratch memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from glueball.errors import CompilationError, LayoutError
from glueball.layouts import ConversionPlan, Nothing, RegisterPermutation, SharedRoundTrip, Shuffles, plan_conversion
from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.types import distributed_type, dtype

SCRATCH_ALIGNMENT = 16


def expand_conversions(function: TileFunction, target: Target) -> None:
    """Replaces every `convert_layout`."""
    _expand_region(function.body, target, {}, itertools.count())


def conversion_plan(operation: Operation, target: Target) -> ConversionPlan:
    """How a `convert_layout` will be done; `CompilationError` at its line where it cannot be."""
    source, destination = operation.operands[0].type, operation.result.type
    assert isinstance(source, distributed_type) and isinstance(destination, distributed_type)
    element = source.element_ty
    bits = element.memory_bits if isinstance(element, dtype) else element.primitive_bitwidth
    try:
        return plan_conversion(
            source.linear, destination.linear, bits, banks=target.shared_banks, shared_bytes=target.shared_bytes
        )
    except LayoutError as error:
        raise CompilationError(str(error), operation.location) from error


def _expand_region(region: Region, target: Target, renamed: dict[Value, Value], numbers: Iterator[int]) -> None:
    result: list[Operation] = []
    for operation in region.operations:
        operation.operands = [renamed.get(operand, operand) for operand in operation.operands]
        for inner in operation.regions:
            _expand_region(inner, target, renamed, numbers)
        if operation.opcode != "convert_layout":
            result.append(operation)
            continue
        plan = conversion_plan(operation, target)
        expanded = _expansion(operation, plan, numbers)
        result += expanded
        renamed[operation.result] = expanded[-1].result if expanded else operation.operands[0]
    region.operations[:] = result


def _expansion(operation: Operation, plan: ConversionPlan, numbers: Iterator[int]) -> list[Operation]:
    (source,) = operation.operands
    destination = operation.result.type
    assert isinstance(destination, distributed_type)
    types = [destination]
    location = operation.location
    match plan:
        case Nothing():
            attributes = {"sources": tuple(range(destination.linear.size("register"))), "plan": plan}
            return [Operation("permute_registers", (source,), types, attributes, location=location)]
        case RegisterPermutation():
            attributes = {"sources": plan.sources, "plan": plan}
            return [Operation("permute_registers", (source,), types, attributes, location=location)]
        case Shuffles():
            return [Operation("shuffle", (source,), types, {"plan": plan}, location=location)]
        case SharedRoundTrip():
            name = f"conversion_{next(numbers)}"
            allocation = {"name": name, "bytes": plan.shared_bytes, "alignment": SCRATCH_ALIGNMENT, "offset": 0}
            access = {"allocation": name, "plan": plan}
            return [
                Operation("allocate_shared", (), (), allocation, location=location),
                Operation("shared_store", (source,), (), dict(access), location=location),
                Operation("shared_load", (), types, dict(access), location=location),
            ]
    raise TypeError(f"unknown conversion plan {plan!r}")
