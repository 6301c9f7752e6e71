"""Copies of boxes of a tensor between global and shared memory by the copy engine (PTX ISA, `cp.async.bulk.tensor`).

Operands of a load: the descriptor (`i64`), the byte offsets of the destination and of the mbarrier in their
allocations (`i32`), the predicate (`i1`; one message for each lane where it holds), the coordinates of the box
(`i32`, innermost first), for im2col the offsets (`i32`, innermost first) and, for `multicast`, a bit for each CTA of
the cluster that the box goes to, at the same offsets, with its mbarrier told (`i32`). Of a store: descriptor, source
offset, predicate, coordinates. Attributes: `allocation` and `offset` of the bytes in shared memory,
`barrier_allocation` and `barrier_offset` of the mbarrier, `rank` of the tensor, `im2col`, `box` (bytes of one message),
`reduction` (how a store changes what is there; `None` replaces it) and `cache_policy` (an eviction policy or `None`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.thread.ir import Attributes, Completion, Effect, Emitter, Instruction, Record, Value
from glueball.thread.nvidia.cache_hints import with_policy
from glueball.thread.nvidia.mbarrier import guarded

REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
LOAD_VERSION = 86
"""The PTX version with loads whose destination is the block's own shared memory."""
ALIGNMENT = 128
"""Bytes at whose multiples a box starts in shared memory."""
GRANULE = 16


def _granule(_: Attributes) -> int:
    return GRANULE


class _Assembly:
    """Operands of one inline assembly, numbered as they come."""

    def __init__(self) -> None:
        self.constraints: list[str] = []
        self.arguments: list[str] = []

    def add(self, constraint: str, argument: str) -> str:
        """Takes an operand; how the text names it."""
        self.constraints.append(constraint)
        self.arguments.append(argument)
        return f"${len(self.arguments) - 1}"

    def braced(self, values: Sequence[Value], emitter: Emitter, kind: str = "i32", constraint: str = "r") -> str:
        """Several registers as a vector operand."""
        return "{" + ", ".join(self.add(constraint, f"{kind} {emitter.name(value)}") for value in values) + "}"

    def guard(self, predicate: Value, emitter: Emitter) -> str:
        """The guard of an instruction."""
        guard, constraint, argument = guarded(predicate, len(self.arguments), emitter)
        if constraint:
            self.add(constraint[1:], argument[2:])
        return guard

    def call(self, emitter: Emitter, text: str) -> None:
        """The instruction."""
        constraints = ",".join([*self.constraints, "~{memory}"])
        emitter.line(f'call void asm sideeffect "{text}", "{constraints}"({", ".join(self.arguments)})')


def _halves(values: Sequence[Value], emitter: Emitter) -> list[str]:
    """Registers of 16 bits with the low halves."""
    names = []
    for value in values:
        names.append(emitter.fresh())
        emitter.line(f"{names[-1]} = trunc i32 {emitter.name(value)} to i16")
    return names


def _emit_load(instruction: Instruction, emitter: Emitter) -> None:
    emitter.require_version(LOAD_VERSION)
    attributes = instruction.attributes
    descriptor, destination, barrier, predicate, *places = instruction.operands
    receivers = [places.pop()] if attributes.get("multicast") else []
    rank = attributes["rank"]
    target = emitter.shared_address(instruction, destination)
    word = emitter.shared_address(instruction, barrier, "barrier_allocation")
    assembly = _Assembly()
    shared = f"[{assembly.add('r', f'i32 {target}')} + {attributes['offset']}]"
    tensor = assembly.add("l", f"i64 {emitter.name(descriptor)}")
    coordinates = assembly.braced(places[:rank], emitter)
    signal = f"[{assembly.add('r', f'i32 {word}')} + {attributes['barrier_offset']}]"
    operands = f"{shared}, [{tensor}, {coordinates}], {signal}"
    if attributes["im2col"]:
        taps = ", ".join(assembly.add("h", f"i16 {name}") for name in _halves(places[rank:], emitter))
        operands += f", {{{taps}}}"
    for name in _halves(receivers, emitter):
        operands += f", {assembly.add('h', f'i16 {name}')}"
    guard = assembly.guard(predicate, emitter)
    mode = "im2col" if attributes["im2col"] else "tile"
    space, end = ("cluster", ".multicast::cluster") if receivers else ("cta", "")
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::{space}.global.{mode}.mbarrier::complete_tx::bytes{end}"
    assembly.call(emitter, with_policy(attributes["cache_policy"], opcode, operands, guard))


def _emit_store(instruction: Instruction, emitter: Emitter) -> None:
    attributes = instruction.attributes
    descriptor, source, predicate, *coordinates = instruction.operands
    address = emitter.shared_address(instruction, source)
    assembly = _Assembly()
    tensor = assembly.add("l", f"i64 {emitter.name(descriptor)}")
    place = assembly.braced(coordinates, emitter)
    shared = f"[{assembly.add('r', f'i32 {address}')} + {attributes['offset']}]"
    guard = assembly.guard(predicate, emitter)
    reduction = attributes["reduction"]
    changing, how = (".reduce", f".{reduction}") if reduction else ("", "")
    opcode = f"cp{changing}.async.bulk.tensor.{attributes['rank']}d.global.shared::cta{how}.tile.bulk_group"
    assembly.call(emitter, with_policy(attributes["cache_policy"], opcode, f"[{tensor}, {place}], {shared}", guard))


def _emit_wait_group(instruction: Instruction, emitter: Emitter) -> None:
    read = ".read" if instruction.attributes["read_only"] else ""
    text = f"cp.async.bulk.wait_group{read} {instruction.attributes['pending']};"
    emitter.line(f'call void asm sideeffect "{text}", "~{{memory}}"()')


def _emit_fence(instruction: Instruction, emitter: Emitter) -> None:
    space = "cluster" if instruction.attributes["cluster"] else "cta"
    emitter.line(f'call void asm sideeffect "fence.proxy.async.shared::{space};", "~{{memory}}"()')


def _nothing(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


_FEATURE: dict[str, Any] = {"pure": False, "targets": frozenset({"bulk_copy"})}

BULK_TENSOR_LOAD = Record(
    name="bulk_tensor_load",
    result_types=_nothing,
    llvm={"nvidia": _emit_load},
    issue=lambda machine, attributes, *operands: machine.bulk_load(attributes, *operands),
    complete=lambda machine, message: message.land(),
    effects=(Effect("global", "read", _granule, "async"), Effect("shared", "write", _granule, "async")),
    completion=Completion.MBARRIER,
    in_order=False,
    **_FEATURE,
)
BULK_TENSOR_STORE = Record(
    name="bulk_tensor_store",
    result_types=_nothing,
    llvm={"nvidia": _emit_store},
    issue=lambda machine, attributes, *operands: machine.bulk_store(attributes, *operands),
    complete=lambda machine, message: message.land(),
    effects=(Effect("shared", "read", _granule, "async"), Effect("global", "write", _granule, "async")),
    completion=Completion.COMMIT_GROUP,
    in_order=False,
    **_FEATURE,
)
BULK_COMMIT_GROUP = Record(
    name="bulk_commit_group",
    result_types=_nothing,
    llvm={"nvidia": 'call void asm sideeffect "cp.async.bulk.commit_group;", "~{{memory}}"()'},
    issue=lambda machine, _: machine.bulk_commit_group(),
    **_FEATURE,
)
BULK_WAIT_GROUP = Record(
    name="bulk_wait_group",
    result_types=_nothing,
    llvm={"nvidia": _emit_wait_group},
    issue=lambda machine, attributes: machine.bulk_wait_group(attributes["pending"], attributes["read_only"]),
    blocking=True,
    **_FEATURE,
)
FENCE_PROXY_ASYNC = Record(
    name="fence_proxy_async",
    result_types=_nothing,
    llvm={"nvidia": _emit_fence},
    issue=lambda machine, attributes: machine.fence_proxy_async(attributes["cluster"]),
    **_FEATURE,
)
