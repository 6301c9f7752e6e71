"""Marks integer arithmetic that feeds an address: it must not wrap, and lowering may keep its constants apart."""

from __future__ import annotations

from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.types import dtype, element_of

ARITHMETIC = frozenset({"add", "sub", "mul", "cast"})
RENAMING = frozenset({"splat", "broadcast", "expand_dims", "hint", "permute", "convert_layout"})


def mark_indices(function: TileFunction, _: Target) -> None:
    """Sets the attribute `index` on signed sums, products, widenings and remainders that become a pointer's offset."""
    seen: set[Value] = set()
    for operation in function.body.walk():
        if operation.opcode == "pointer_add":
            _mark(operation.operands[1], seen)


def _mark(value: Value, seen: set[Value]) -> None:
    pending = [value]
    while pending:
        value = pending.pop()
        operation = value.operation
        if value in seen or operation is None:
            continue
        seen.add(value)
        if operation.opcode in RENAMING:
            pending += operation.operands
        elif operation.opcode in ARITHMETIC and _is_signed_integer(operation):
            operation.attributes["index"] = True
            pending += operation.operands
        elif operation.opcode == "rem" and _is_signed_integer(operation):
            # What it is the remainder of may wrap, as that of a hash does.
            operation.attributes["index"] = True


def _is_signed_integer(operation: Operation) -> bool:
    element = element_of(operation.result.type)
    source = element_of(operation.operands[0].type)
    return (
        isinstance(element, dtype) and isinstance(source, dtype) and element.is_int_signed() and source.is_int_signed()
    )
