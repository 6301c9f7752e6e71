"""Expands layout conversions into what moves the data: nothing, renamed registers, shuffles or scratch memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glueball.errors import CompilationError, LayoutError
from glueball.layouts import ConversionPlan, Nothing, RegisterPermutation, SharedRoundTrip, Shuffles, plan_conversion
from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.passes.placement import lifetimes
from glueball.tile.types import distributed_type, dtype

SCRATCH_ALIGNMENT = 16
TOGETHER_BYTES = 1 << 14
"""Conversions next to one another go through scratch memory together, with one barrier, up to this size."""


def expand_conversions(function: TileFunction, target: Target) -> None:
    """Replaces every `convert_layout`. Scratch memory takes what the function's own allocations leave."""
    left = {operation: target.shared_bytes - taken for operation, taken in _taken(function)}
    _Pass(target, left, frozenset(_in_place(function.body))).expand(function.body)


def _taken(function: TileFunction) -> Iterator[tuple[Operation, int]]:
    """Each `convert_layout` with the bytes of the allocations that live there."""
    if all(operation.opcode != "convert_layout" for operation in function.body.walk()):
        return
    held = lifetimes(function)
    for clock, operation in enumerate(function.body.walk(), 1):
        if operation.opcode == "convert_layout":
            alive = (each.allocation.attributes["bytes"] for each in held if each.first <= clock <= each.last)
            yield operation, sum(-(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT for size in alive)


def conversion_plan(
    operation: Operation, target: Target, shared_bytes: int | None = None, *, in_place: bool = False
) -> ConversionPlan:
    """How a `convert_layout` will be done in `shared_bytes`, all that the target has if they are not given.

    `in_place` says that its result is its source in the next turn of a loop. `CompilationError` at its line where it
    cannot be done.
    """
    source, destination = operation.operands[0].type, operation.result.type
    assert isinstance(source, distributed_type) and isinstance(destination, distributed_type)
    element = source.element_ty
    bits = element.memory_bits if isinstance(element, dtype) else element.primitive_bitwidth
    try:
        return plan_conversion(
            source.linear,
            destination.linear,
            bits,
            banks=target.shared_banks,
            shared_bytes=target.shared_bytes if shared_bytes is None else shared_bytes,
            matrix_loads=target.supports("load_matrix"),
            matrix_stores=target.supports("store_matrix"),
            in_place=in_place,
        )
    except LayoutError as error:
        raise CompilationError(str(error), operation.location) from error


@dataclass(slots=True)
class _Pass:
    """The pass under way: the bytes left for each conversion, those done in place, and what became of results."""

    target: Target
    left: Mapping[Operation, int]
    in_place: frozenset[Operation]
    renamed: dict[Value, Value] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def expand(self, region: Region) -> None:
        """Replaces every `convert_layout` of a region and of those inside it."""
        result: list[Operation] = []
        loads: list[Operation] = []
        waiting: set[Value] = set()
        pending_bytes = 0
        for operation in region.operations:
            operation.operands = [self.renamed.get(operand, operand) for operand in operation.operands]
            for inner in operation.regions:
                self.expand(inner)
            expanded, size = [operation], 0
            if operation.opcode == "convert_layout":
                in_place = operation in self.in_place
                plan = conversion_plan(operation, self.target, self.left[operation], in_place=in_place)
                expanded, size = _expansion(operation, plan, self.numbers), plan.shared_bytes
                self.renamed[operation.result] = expanded[-1].result
            if loads and (not size or pending_bytes + size > TOGETHER_BYTES or waiting & set(operation.operands)):
                result += loads
                loads, waiting, pending_bytes = [], set(), 0
            if size:
                loads.append(expanded.pop())
                waiting.add(loads[-1].result)
                pending_bytes += size
            result += expanded
        region.operations[:] = result + loads


def _in_place(region: Region) -> Iterator[Operation]:
    """The conversions in loops whose result is, register by register, their source in the next turn."""
    for loop in region.walk():
        if loop.opcode not in ("for", "while"):
            continue
        body = loop.regions[-1]
        yielded = body.operations[-1].operands if body.operations else []
        carried = body.arguments[len(body.arguments) - len(yielded) :]
        conversions = [operation for operation in body.operations if operation.opcode == "convert_layout"]
        for conversion in conversions:
            sources = _same_registers(conversion.operands[0])
            for argument, following in zip(carried, yielded, strict=True):
                if argument in sources and conversion.result in _same_registers(following):
                    yield conversion


def _same_registers(value: Value) -> set[Value]:
    """A tile and those that it is made of register by register."""
    found: set[Value] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += [operand for operand in _operands(value) if _keeps_registers(operand, value)]
    return found


def _operands(value: Value) -> Sequence[Value]:
    operation = value.operation
    return () if operation is None or operation.opcode == "convert_layout" or operation.regions else operation.operands


def _keeps_registers(operand: Value, result: Value) -> bool:
    """Whether register i of a result depends on register i of an operand."""
    if not isinstance(operand.type, distributed_type) or not isinstance(result.type, distributed_type):
        return False
    permuted = result.operation is not None and result.operation.opcode == "permute"
    return permuted or operand.type.linear == result.type.linear


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
            operations = [Operation("allocate_shared", (), (), allocation, location=location)]
            received: tuple[Value, ...] = ()
            for number in range(plan.rounds):
                access = {"allocation": name, "plan": plan} | ({"round": number} if plan.rounds > 1 else {})
                operations.append(Operation("shared_store", (source,), (), access, location=location))
                operations.append(Operation("shared_load", received, types, dict(access), location=location))
                received = (operations[-1].result,)
            return operations
    raise TypeError(f"unknown conversion plan {plan!r}")
