"""Global memory accesses: registers whose addresses lie side by side move together, up to 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glueball.lower.context import Context, lowers
from glueball.lower.linear import cta_rank, lane_id, warp_id
from glueball.lower.terms import Lowered, Registers, Term, conjunction, extend_offset, materialize, register_type
from glueball.thread import arithmetic, conversion, memory
from glueball.thread.builder import Builder, power_of_two_in, wrapped
from glueball.thread.ir import Value
from glueball.thread.nvidia import cluster
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type, dtype, element_of, pointer_type

WIDEST_ACCESS_BYTES = 16


@dataclass(slots=True)
class Access:
    """One instruction: the registers it moves, in address order."""

    address: Value
    offset: int
    mask: Term
    registers: list[int]


@lowers("pointer_add")
def pointer_add(context: Context, operation: Operation) -> None:
    """Pointers move by elements: the index is widened and scaled once, its constant part becomes bytes."""
    pointers, indices = operation.operands
    builder = context.builder
    pointer, index = element_of(pointers.type), element_of(indices.type)
    assert isinstance(pointer, pointer_type) and isinstance(index, dtype)
    size = builder.constant("i64", pointer.element_ty.itemsize)

    def rule(address: Term, position: Term) -> Term:
        wide = extend_offset(builder, position, index, index=index.signed)
        scaled = builder.mul(wide.base, size)
        offset = address.offset + wide.offset * pointer.element_ty.itemsize
        return Term(builder.add(address.base, scaled), int(wrapped(offset, "i64")))

    rows = zip(context.terms(pointers), context.terms(indices), strict=True)
    context.bind(operation.result, tuple(rule(*row) for row in rows))


@lowers("load")
def load(context: Context, operation: Operation) -> None:
    """A load; registers with the same address are loaded once."""
    builder, element = context.builder, _stored_element(operation)
    addresses = context.terms(operation.operands[0])
    masks = context.terms(operation.operands[1]) if len(operation.operands) > 1 else None
    others = context.terms(operation.operands[2]) if len(operation.operands) > 2 else None
    kind = memory_type(element)
    loaded: dict[int, Value] = {}
    twins: dict[int, int] = {}
    for access in plan_accesses(addresses, masks, element.itemsize, twins, others):
        operands = [access.address]
        if masks is not None and access.mask.base.constant is not True:
            operands.append(materialize(builder, access.mask))
        masked = len(operands) == 2
        replaced = masked and others is not None
        if replaced and others is not None:
            operands += [as_stored(builder, materialize(builder, others[r]), element) for r in access.registers]
        attributes = {**_qualifiers(operation), **_shape(kind, access, masked=masked), "replaced": replaced}
        for register, value in zip(
            access.registers, builder.emit(memory.GLOBAL_LOAD, operands, attributes), strict=True
        ):
            loaded[register] = as_register(builder, value, element)
    count = len(addresses)
    context.bind(operation.result, tuple(Term(loaded[twins.get(r, r)]) for r in range(count)))


@lowers("store")
def store(context: Context, operation: Operation) -> None:
    """A store; of several holders of one element only the first writes."""
    builder, element = context.builder, _stored_element(operation)
    pointers, values = operation.operands[0], context.terms(operation.operands[1])
    addresses = context.terms(pointers)
    masks = context.terms(operation.operands[2]) if len(operation.operands) > 2 else None
    representative = representative_mask(context, context.values[pointers])
    masks = _both(masks, representative, len(addresses))
    kind = memory_type(element)
    keep = representative_registers(context.values[pointers])
    for access in plan_accesses(addresses, masks, element.itemsize, {}, None, keep):
        operands = [access.address]
        masked = masks is not None and access.mask.base.constant is not True
        if masked:
            operands.append(materialize(builder, access.mask))
        operands += [as_stored(builder, materialize(builder, values[r]), element) for r in access.registers]
        builder.emit(memory.GLOBAL_STORE, operands, {**_qualifiers(operation), **_shape(kind, access, masked=masked)})


def memory_type(element: dtype | pointer_type) -> str:
    """The register type an element has on its way to memory: a bool is a byte."""
    return "i8" if isinstance(element, dtype) and element.is_bool() else register_type(element)


def plan_accesses(
    addresses: Registers,
    masks: Registers | None,
    itemsize: int,
    twins: dict[int, int],
    others: Registers | None,
    keep: Callable[[int], bool] = lambda _: True,
) -> list[Access]:
    """Groups registers into the widest aligned accesses that their addresses and masks allow.

    `twins` receives, for every register that repeats the address, mask and replacement of an earlier one, that one.
    """
    groups: dict[Any, dict[int, int]] = {}
    for register, term in enumerate(addresses):
        if not keep(register):
            continue
        key = (id(term.base), _identity(masks, register))
        group = groups.setdefault(key, {})
        first = group.setdefault(term.offset, register)
        if first != register:
            if others is not None and others[first] != others[register]:
                groups[*key, register] = {term.offset: register}
            else:
                twins[register] = first
    accesses: list[Access] = []
    for group in groups.values():
        accesses += _widest(addresses, masks, itemsize, group)
    accesses.sort(key=lambda access: min(access.registers))
    return accesses


def _identity(masks: Registers | None, register: int) -> Any:
    return None if masks is None else (id(masks[register].base), *map(id, masks[register].also))


def _widest(addresses: Registers, masks: Registers | None, itemsize: int, group: dict[int, int]) -> list[Access]:
    """Splits the registers of one base address, by offset, into aligned runs."""
    accesses = []
    pending = dict(sorted(group.items()))
    while pending:
        offset, first = next(iter(pending.items()))
        term = addresses[first]
        aligned = min(term.base.divisibility, power_of_two_in(offset), WIDEST_ACCESS_BYTES)
        count = max(1, aligned // itemsize)
        while any(offset + index * itemsize not in pending for index in range(count)):
            count //= 2
        registers = [pending.pop(offset + index * itemsize) for index in range(count)]
        mask = masks[first] if masks is not None else Term(term.base)
        accesses.append(Access(term.base, offset, mask, registers))
    return accesses


def representative_registers(lowered: Lowered) -> Callable[[int], bool]:
    """Which registers are the first holder of their elements."""
    if not isinstance(lowered.type, distributed_type):
        return lambda _: True
    redundant = lowered.type.linear.free_variables()["register"]
    return lambda register: register & redundant == 0


def representative_mask(context: Context, lowered: Lowered) -> Term | None:
    """The predicate of threads that are the first holders of their elements; None where all are."""
    if isinstance(lowered.type, distributed_type):
        redundant = lowered.type.linear.free_variables()
        return idle_mask(context.builder, redundant["lane"], redundant["warp"], redundant["block"])
    return idle_mask(context.builder, context.target.lanes - 1, context.num_warps - 1, context.num_ctas - 1)


def idle_mask(builder: Builder, lanes: int, warps: int, ctas: int = 0) -> Term | None:
    """The predicate of threads whose masked bits of lane, warp and CTA are all zero; None where nothing is masked."""
    mask = None
    for identifier, bits in ((lane_id, lanes), (warp_id, warps), (cta_rank, ctas)):
        if bits:
            part = builder.logical_and(identifier(builder), builder.constant("i32", bits))
            term = Term(builder.compare(arithmetic.COMPARE_SIGNED, "eq", part, builder.constant("i32", 0)))
            mask = term if mask is None else conjunction(mask, term)
    return mask


def read_shared(
    builder: Builder, offset: Value, rank: Value | None, others: Sequence[Value], attributes: dict[str, Any]
) -> Sequence[Value]:
    """A load from shared memory: the CTA's own, or that of the CTA of a rank. `others` are mask and replacements."""
    if rank is None:
        return builder.emit(memory.SHARED_LOAD, [offset, *others], attributes)
    return builder.emit(cluster.REMOTE_LOAD, [offset, rank, *others], {**attributes, "remote": True})


def _both(masks: Registers | None, extra: Term | None, count: int) -> Registers | None:
    if extra is None:
        return masks
    return (extra,) * count if masks is None else tuple(conjunction(mask, extra) for mask in masks)


def _stored_element(operation: Operation) -> dtype | pointer_type:
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, pointer_type)
    return pointer.element_ty


def _shape(kind: str, access: Access, *, masked: bool) -> dict[str, Any]:
    return {"type": kind, "count": len(access.registers), "offset": access.offset, "masked": masked}


def _qualifiers(operation: Operation) -> dict[str, Any]:
    attributes = operation.attributes
    return {
        "cache": attributes.get("cache_modifier") or "",
        "eviction": attributes.get("eviction_policy") or "",
        "volatile": bool(attributes.get("volatile")),
        "cache_policy": attributes.get("cache_policy"),
        "prefetch": attributes.get("prefetch"),
    }


def as_register(builder: Builder, value: Value, element: dtype | pointer_type) -> Value:
    """An element as it came from memory, as the register that arithmetic uses."""
    if isinstance(element, dtype) and element.is_bool():
        return builder.compare(arithmetic.COMPARE_SIGNED, "ne", value, builder.constant("i8", 0))
    return value


def as_stored(builder: Builder, value: Value, element: dtype | pointer_type) -> Value:
    """A register as its element goes to memory."""
    if isinstance(element, dtype) and element.is_bool():
        return builder.convert(conversion.ZERO_EXTEND, value, "i8")
    return value
