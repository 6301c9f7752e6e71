"""Atomic accesses of global memory, one element a thread, and the clock that bounds waiting for one.

Operands are the address, the mask if `masked`, then the operands of the operation. Attributes: `operation`, `type`,
`semantic` (`relaxed`, `acquire`, `release`, `acq_rel`), `scope` (`cta`, `gpu`, `sys`), `offset` (bytes, immediate).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glueball import numerics
from glueball.errors import TargetError
from glueball.thread.arithmetic import as_unsigned
from glueball.thread.ir import BITS, Attributes, Effect, Emitter, Instruction, Record, Value
from glueball.thread.memory import (
    CONSTRAINTS,
    access_bytes,
    global_pointer,
    guarded,
    merge_guarded,
    rejoin,
    split_operands,
)
from glueball.thread.words import llvm_type

Array = Any

EXCHANGE = "exchange"
COMPARE_EXCHANGE = "compare_exchange"


def _unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda left, right: function(as_unsigned(left), as_unsigned(right)).view(left.dtype)


OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": numerics.rounding_once(operator.add),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "max_signed": np.maximum,
    "min_signed": np.minimum,
    "max_unsigned": _unsigned(np.maximum),
    "min_unsigned": _unsigned(np.minimum),
    EXCHANGE: lambda _, new: new,
}
"""What memory holds after an operation, given what it held and the operand."""

_PTX_NAMES = {
    "max_signed": ("max", "s"), "min_signed": ("min", "s"), "max_unsigned": ("max", "u"), "min_unsigned": ("min", "u"),
    "and": ("and", "b"), "or": ("or", "b"), "xor": ("xor", "b"), EXCHANGE: ("exch", "b"),
    COMPARE_EXCHANGE: ("cas", "b"),
}  # fmt: skip
LLVM_NAMES = {
    "max_signed": "max", "min_signed": "min", "max_unsigned": "umax", "min_unsigned": "umin", "and": "and", "or": "or",
    "xor": "xor", EXCHANGE: "xchg",
}  # fmt: skip
_LLVM_ORDERINGS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_LLVM_SCOPES = {"cta": ' syncscope("workgroup")', "gpu": ' syncscope("agent")', "sys": ""}
_ADDITIONS = {"i32": "u32", "i64": "u64", "f16": "noftz.f16", "bf16": "noftz.bf16", "f32": "f32", "f64": "f64"}
BF16_GENERATION = 90
GET_REALTIME = 131


def _result_types(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return (attributes["type"],) if attributes["result"] else ()


def _loaded_type(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return (attributes["type"],)


def _nothing(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


def ptx_operation(attributes: Attributes, emitter: Emitter) -> str:
    """Operation and type, such as `add.f32`."""
    name, kind = attributes["operation"], attributes["type"]
    if name == "add":
        if kind == "bf16" and emitter.target.generation < BF16_GENERATION:
            raise TargetError(f"{emitter.target.name} has no atomic addition of bfloat16; sm_90 and later have it")
        return f"add.{_ADDITIONS[kind]}"
    spelled, letter = _PTX_NAMES[name]
    return f"{spelled}.{letter}{BITS[kind]}"


def _register(kind: str) -> str:
    """The PTX register class of a type; one of 8 bits travels in 16."""
    return CONSTRAINTS["i16" if kind == "i8" else llvm_type(kind)]


def _assembly(instruction: Instruction, emitter: Emitter, opcode: str, *, result: bool) -> None:
    """One predicated access as inline assembly: `opcode [result,] [address], operands`."""
    attributes = instruction.attributes
    kind, (mask, values) = attributes["type"], split_operands(instruction)
    narrow = kind == "i8"
    spelled = "i16" if narrow else llvm_type(kind)
    first = 1 if result else 0
    names = [f"${first + 1 + index}" for index in range(len(values))]
    guard = f"@${first + 1 + len(values)} " if mask is not None else ""
    operands = ", ".join((*(["$0"] if result else []), f"[${first} + {attributes['offset']}]", *names))
    text = f"{guard}{opcode} {operands};"
    if result and mask is not None:
        text = f"mov.b{max(16, BITS[kind])} $0, 0; {text}"
    letter = _register(kind)
    constraints = [f"=&{letter}"] if result else []
    constraints += ["l", *([letter] * len(values)), *(["b"] if mask is not None else [])]
    arguments = [f"i64 {emitter.name(instruction.operands[0])}"]
    arguments += [f"{spelled} {_widened(emitter, value)}" for value in values]
    arguments += [f"i1 {emitter.name(mask)}"] if mask is not None else []
    call = f'asm sideeffect "{text}", "{",".join((*constraints, "~{memory}"))}"({", ".join(arguments)})'
    if not result:
        emitter.line(f"call void {call}")
        return
    name = emitter.name(instruction.results[0])
    if narrow:
        wide = emitter.fresh()
        emitter.line(f"{wide} = call i16 {call}")
        emitter.line(f"{name} = trunc i16 {wide} to i8")
    else:
        emitter.line(f"{name} = call {spelled} {call}")


def _widened(emitter: Emitter, value: Value) -> str:
    if value.type != "i8":
        return emitter.name(value)
    wide = emitter.fresh()
    emitter.line(f"{wide} = zext i8 {emitter.name(value)} to i16")
    return wide


def _atomic_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """`red` where nobody asks for the old value and the ordering exists for it, else `atom`."""
    attributes, result = instruction.attributes, bool(instruction.results)
    semantic, scope, what = attributes["semantic"], attributes["scope"], ptx_operation(instruction.attributes, emitter)
    exchanges = attributes["operation"] in (EXCHANGE, COMPARE_EXCHANGE)
    if not result and not exchanges and semantic in ("relaxed", "release"):
        _assembly(instruction, emitter, f"red.{semantic}.{scope}.global.{what}", result=False)
        return
    if result:
        _assembly(instruction, emitter, f"atom.{semantic}.{scope}.global.{what}", result=True)
        return
    _discarding(instruction, emitter, f"atom.{semantic}.{scope}.global.{what}")


def _discarding(instruction: Instruction, emitter: Emitter, opcode: str) -> None:
    """An `atom` whose result goes to a register of its own."""
    attributes = instruction.attributes
    mask, values = split_operands(instruction)
    names = [f"${1 + index}" for index in range(len(values))]
    guard = f"@${1 + len(values)} " if mask is not None else ""
    operands = ", ".join(("old", f"[$0 + {attributes['offset']}]", *names))
    text = f"{{ .reg .b{max(16, BITS[attributes['type']])} old; {guard}{opcode} {operands}; }}"
    letter, spelled = _register(attributes["type"]), llvm_type(attributes["type"])
    constraints = ["l", *([letter] * len(values)), *(["b"] if mask is not None else []), "~{memory}"]
    arguments = [f"i64 {emitter.name(instruction.operands[0])}"]
    arguments += [f"{spelled} {emitter.name(value)}" for value in values]
    arguments += [f"i1 {emitter.name(mask)}"] if mask is not None else []
    emitter.line(f'call void asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)})')


def _atomic_amd(instruction: Instruction, emitter: Emitter) -> None:
    attributes = instruction.attributes
    mask, values = split_operands(instruction)
    kind, ordering = attributes["type"], _LLVM_ORDERINGS[attributes["semantic"]]
    pointer = f"ptr addrspace(1) {global_pointer(emitter, instruction)}"
    scope = _LLVM_SCOPES[attributes["scope"]]
    guard = guarded(emitter, mask)
    old = emitter.fresh()
    if attributes["operation"] == COMPARE_EXCHANGE:
        integer = f"i{BITS[kind]}"
        wanted, new = (_as_bits(emitter, value) for value in values)
        failure = {"acq_rel": "acquire", "release": "monotonic"}.get(ordering, ordering)
        pair, bits = emitter.fresh(), emitter.fresh()
        emitter.line(f"{pair} = cmpxchg {pointer}, {integer} {wanted}, {integer} {new}{scope} {ordering} {failure}")
        emitter.line(f"{bits} = extractvalue {{ {integer}, i1 }} {pair}, 0")
        emitter.line(f"{old} = bitcast {integer} {bits} to {llvm_type(kind)}")
    else:
        name = LLVM_NAMES.get(attributes["operation"]) or ("fadd" if "f" in kind else "add")
        value = f"{llvm_type(kind)} {emitter.name(values[0])}"
        emitter.line(f"{old} = atomicrmw {name} {pointer}, {value}{scope} {ordering}")
    _finish(instruction, emitter, guard, old)


def _as_bits(emitter: Emitter, value: Value) -> str:
    bits = emitter.fresh()
    emitter.line(f"{bits} = bitcast {llvm_type(value.type)} {emitter.name(value)} to i{BITS[value.type]}")
    return bits


def _finish(instruction: Instruction, emitter: Emitter, guard: tuple[str, str, str] | None, old: str) -> None:
    """Rejoins and gives the result its name."""
    rejoin(emitter, guard)
    if not instruction.results:
        return
    result, kind = emitter.name(instruction.results[0]), llvm_type(instruction.attributes["type"])
    if guard is None:
        emitter.line(f"{result} = select i1 true, {kind} {old}, {kind} {old}")
    else:
        merge_guarded(emitter, guard, result, kind, old)


def _load_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    attributes = instruction.attributes
    opcode = f"ld.{attributes['semantic']}.{attributes['scope']}.global.b{BITS[attributes['type']]}"
    _assembly(instruction, emitter, opcode, result=True)


def _store_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    attributes = instruction.attributes
    opcode = f"st.{attributes['semantic']}.{attributes['scope']}.global.b{BITS[attributes['type']]}"
    _assembly(instruction, emitter, opcode, result=False)


def _place_on_amd(instruction: Instruction, emitter: Emitter) -> str:
    attributes = instruction.attributes
    order = f"{_LLVM_SCOPES[attributes['scope']]} {_LLVM_ORDERINGS[attributes['semantic']]}"
    return f"ptr addrspace(1) {global_pointer(emitter, instruction)}{order}, align {access_bytes(attributes)}"


def _load_amd(instruction: Instruction, emitter: Emitter) -> None:
    mask, _ = split_operands(instruction)
    place = _place_on_amd(instruction, emitter)
    guard, old = guarded(emitter, mask), emitter.fresh()
    emitter.line(f"{old} = load atomic {llvm_type(instruction.attributes['type'])}, {place}")
    _finish(instruction, emitter, guard, old)


def _store_amd(instruction: Instruction, emitter: Emitter) -> None:
    mask, (value,) = split_operands(instruction)
    place = _place_on_amd(instruction, emitter)
    guard = guarded(emitter, mask)
    emitter.line(f"store atomic {llvm_type(value.type)} {emitter.name(value)}, {place}")
    rejoin(emitter, guard)


def _clock_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    emitter.line(
        f'{emitter.name(instruction.results[0])} = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()'
    )


def _clock_amd(instruction: Instruction, emitter: Emitter) -> None:
    """The constant clock ticks a hundred million times a second; newer GPUs are asked for it by a message."""
    ticks = emitter.fresh()
    if emitter.target.lanes == 64:
        emitter.declare("declare i64 @llvm.amdgcn.s.memrealtime()")
        emitter.line(f"{ticks} = call i64 @llvm.amdgcn.s.memrealtime()")
    else:
        emitter.declare("declare i64 @llvm.amdgcn.s.sendmsg.rtn.i64(i32)")
        emitter.line(f"{ticks} = call i64 @llvm.amdgcn.s.sendmsg.rtn.i64(i32 {GET_REALTIME})")
    emitter.line(f"{emitter.name(instruction.results[0])} = mul i64 {ticks}, 10")


READ, WRITE = Effect("global", "read", access_bytes), Effect("global", "write", access_bytes)

ATOMIC = Record(
    name="atomic",
    result_types=_result_types,
    llvm={"nvidia": _atomic_nvidia, "amd": _atomic_amd},
    issue=lambda machine, attributes, *operands: machine.atomic(attributes, *operands),
    pure=False,
    effects=(READ, WRITE),
)
ATOMIC_LOAD = Record(
    name="atomic_load",
    result_types=_loaded_type,
    llvm={"nvidia": _load_nvidia, "amd": _load_amd},
    issue=lambda machine, attributes, *operands: machine.global_load(attributes, *operands),
    pure=False,
    effects=(READ,),
)
ATOMIC_STORE = Record(
    name="atomic_store",
    result_types=_nothing,
    llvm={"nvidia": _store_nvidia, "amd": _store_amd},
    issue=lambda machine, attributes, *operands: machine.global_store(attributes, *operands),
    pure=False,
    effects=(WRITE,),
)
NANOSECONDS = Record(
    name="nanoseconds",
    result_types=lambda _, __: ("i64",),
    llvm={"nvidia": _clock_nvidia, "amd": _clock_amd},
    issue=lambda machine, _: machine.nanoseconds(),
    pure=False,
)
