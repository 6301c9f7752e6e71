"""Atomic accesses of global memory: each element exactly once, however many threads hold it.

On whole arrays, elements of one operation that share an address change it one after the other, row by row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from glueball import numerics
from glueball.errors import DeadlockError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Access,
    Array,
    Effects,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean, pointee
from glueball.tile.types import dtype, int64, pointer_type

KINDS = ("add", "max", "min", "and", "or", "xor", "exchange")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "cta", "sys")

CHANGES: dict[str, Callable[[Array, Array], Array]] = {
    "add": numerics.rounding_once(operator.add),
    "max": np.maximum,
    "min": np.minimum,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exchange": lambda _, new: new,
}

READING = Effects(reads_global=True)
WRITING = Effects(writes_global=True)
CHANGING = Effects(reads_global=True, writes_global=True)


def refused(kind: str, element: dtype) -> str:
    """Why an operation does not take elements of a type; empty where it does."""
    bits = element.primitive_bitwidth
    fits = bits >= 32 and (not element.is_floating() or kind in ("add", "exchange"))
    fits |= kind == "add" and element.is_floating() and bits == 16
    return "" if fits else f"atomic_{'xchg' if kind == 'exchange' else kind} does not support {element}"


def _check_common(operation: Operation, values: int, results: int, semantics: Sequence[str]) -> dtype:
    """Counts, masks and words; the element type."""
    expect_counts(operation, 1 + values, results, most_operands=2 + values)
    pointer, *rest = operation.operands
    element = pointee(operation, pointer)
    if len(rest) > values and not is_boolean(rest[-1].type.scalar):
        raise fault(operation, f"needs a mask of int1, not {rest[-1].type.scalar}")
    for value in rest[:values]:
        if value.type.scalar != element:
            raise fault(operation, f"through {pointer.type.scalar} takes {element}, not {value.type.scalar}")
    expect_alike(operation, *operation.operands, *operation.results)
    if operation.attributes["semantic"] not in semantics:
        raise fault(operation, f"has no memory semantic {operation.attributes['semantic']!r}")
    if operation.attributes["scope"] not in SCOPES:
        raise fault(operation, f"has no scope {operation.attributes['scope']!r}")
    writes = operation.opcode not in ("atomic_load", "atomic_poll")
    if writes and isinstance(pointer.type.scalar, pointer_type) and pointer.type.scalar.const:
        raise fault(operation, "cannot write through a constant pointer")
    return element


def _check_change(operation: Operation) -> None:
    element = _check_common(operation, 1, 1, SEMANTICS)
    kind = operation.attributes["kind"]
    if kind not in KINDS:
        raise fault(operation, f"has no kind {kind!r}")
    if reason := refused(kind, element):
        raise fault(operation, f"breaks a rule: {reason}")
    if operation.result.type.scalar != element:
        raise fault(operation, f"gives {element}, not {operation.result.type.scalar}")


def _check_compare(operation: Operation) -> None:
    element = _check_common(operation, 2, 1, SEMANTICS)
    if element.primitive_bitwidth not in (16, 32, 64) or operation.result.type.scalar != element:
        raise fault(operation, f"exchanges elements of 16, 32 or 64 bits and gives one, not {element}")


def _check_load(operation: Operation) -> None:
    element = _check_common(operation, 0, 1, ("relaxed", "acquire"))
    if operation.result.type.scalar != element:
        raise fault(operation, f"gives {element}, not {operation.result.type.scalar}")


def _check_store(operation: Operation) -> None:
    _check_common(operation, 1, 0, ("relaxed", "release"))


def _check_poll(operation: Operation) -> None:
    expect_counts(operation, 2, 1, most_operands=3)
    element = pointee(operation, operation.operands[0])
    if not element.is_int() or element.primitive_bitwidth not in (16, 32, 64):
        raise fault(operation, f"compares integers of 16, 32 or 64 bits, not {element}")
    if operation.operands[1].type.scalar != element or not is_boolean(operation.result.type.scalar):
        raise fault(operation, f"takes {element} and gives int1")
    expect_alike(operation, *operation.operands[:2], operation.result)
    if len(operation.operands) > 2 and operation.operands[2].type != int64:
        raise fault(operation, f"waits for an int64 of nanoseconds, not {operation.operands[2].type}")


def _in_turn(
    machine: Machine,
    operation: Operation,
    operands: Sequence[TileArray],
    values: int,
    change: Callable[..., Array],
) -> Sequence[TileArray]:
    """Elements changed one after the other; what was there before each."""
    addresses, active = _places(machine, operation, operands, values)
    given = [initialized(machine, operation, operand, "value", active)[active] for operand in operands[1 : 1 + values]]
    kind = numpy_type(operation.operands[1].type)
    flat = addresses[active]
    old = np.zeros(flat.shape, kind)
    remaining = np.arange(flat.size)
    access = Access(operation.opcode, operation.location, machine.program)
    while remaining.size:
        _, first = np.unique(flat[remaining], return_index=True)
        now = remaining[first]
        held = machine.memory.load(access, flat[now], kind)
        old[now] = held
        machine.memory.store(access, flat[now], np.asarray(change(held, *(value[now] for value in given))))
        remaining = np.delete(remaining, first)
    return [_result(old, active)]


def _places(machine: Machine, operation: Operation, operands: Sequence[TileArray], values: int) -> tuple[Array, Array]:
    """Addresses, and which elements are accessed."""
    active = np.ones(operands[0].values.shape, np.bool_)
    if len(operands) > 1 + values:
        active = initialized(machine, operation, operands[1 + values], "mask")
    return initialized(machine, operation, operands[0], "address", active), active


def _result(found: Array, active: Array) -> TileArray:
    values = np.zeros(active.shape, found.dtype)
    values[active] = found
    return TileArray(values, None if active.all() else ~active)


def _change(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return _in_turn(machine, operation, operands, 1, CHANGES[operation.attributes["kind"]])


def _compare(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    def change(held: Array, wanted: Array, new: Array) -> Array:
        bits = f"u{held.dtype.itemsize}"
        return np.where(held.view(bits) == np.ascontiguousarray(wanted).view(bits), new, held)

    return _in_turn(machine, operation, operands, 2, change)


def _load(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    addresses, active = _places(machine, operation, operands, 0)
    access = Access(operation.opcode, operation.location, machine.program)
    return [_result(machine.memory.load(access, addresses[active], numpy_type(operation.result.type)), active)]


def _store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    addresses, active = _places(machine, operation, operands, 1)
    values = initialized(machine, operation, operands[1], "value", active)
    access = Access(operation.opcode, operation.location, machine.program)
    machine.memory.store(access, addresses[active], values[active])
    return []


def _poll(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    addresses, _ = _places(machine, operation, operands[:1], 0)
    access = Access(operation.opcode, operation.location, machine.program)
    expected = initialized(machine, operation, operands[1], "value")
    found = machine.memory.load(access, addresses, numpy_type(operation.operands[1].type)) == expected
    if len(operands) < 3 and not np.all(found):
        raise DeadlockError(
            f"`atomic_poll` waits for a value that no program before it has stored: programs run one after the other "
            f"here (program {machine.program})",
            operation.location,
            program=machine.program,
        )
    return [TileArray(np.asarray(found))]


ORDER = frozenset({"semantic", "scope"})

ATOMIC_OPERATIONS = (
    OperationDefinition(
        "atomic_change", "Changes memory by `kind` and gives what was there before.", _check_change, _change,
        effects=CHANGING, pure=False, attributes=ORDER | {"kind"}, optional_attributes=frozenset({"unused"}),
    ),
    OperationDefinition(
        "atomic_compare_exchange", "Writes the third where memory holds the second; gives what was there before.",
        _check_compare, _compare, effects=CHANGING, pure=False, attributes=ORDER,
        optional_attributes=frozenset({"unused"}),
    ),
    OperationDefinition(
        "atomic_load", "What memory holds.", _check_load, _load, effects=READING, pure=False, attributes=ORDER
    ),
    OperationDefinition(
        "atomic_store", "Writes memory.", _check_store, _store, effects=WRITING, pure=False, attributes=ORDER
    ),
    OperationDefinition(
        "atomic_poll", "Reads memory until it holds the second, or as many nanoseconds as the third have passed.",
        _check_poll, _poll, effects=READING, pure=False, attributes=ORDER,
    ),
)  # fmt: skip
