"""Global and shared memory accesses of one thread: vectors up to 16 bytes, predicated, with immediate offsets.

Operands of a load are the address, then the mask if `masked`, then one replacement per element if `replaced`; of a
store the address, the mask if `masked`, then the elements. Attributes: `type`, `count`, `offset` (bytes, immediate)
and for global memory `cache` (a cache modifier such as `.cg`), `eviction`, `volatile`, and perhaps `cache_policy` (an
eviction policy of the second-level cache) and `prefetch` (bytes that it fetches). Every access is one instruction: the
templates hide it from passes that merge or split memory accesses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from glueball.thread.ir import BITS, Attributes, Effect, Emitter, Instruction, Record, Value
from glueball.thread.nvidia.cache_hints import HINT_VERSION, EvictionPolicy, hint_words, in_policy_scope
from glueball.thread.words import llvm_type, pack, unpack, vector_of, word_names, word_shape, word_type

CONSTRAINTS = {"i16": "h", "half": "h", "bfloat": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
UNCACHED = (".cv", ".wt")


def access_bytes(attributes: Attributes) -> int:
    """Bytes one lane moves."""
    return int(BITS[attributes["type"]] * attributes["count"] // 8)


def _loaded_types(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return (attributes["type"],) * int(attributes["count"])


def _stored_types(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


def global_qualifiers(emitter: Emitter, attributes: Attributes) -> str:
    """PTX suffixes for volatility, or else for eviction priority or cache operator and the second-level cache."""
    if attributes.get("volatile"):
        return ".volatile.global"
    eviction, prefetch = attributes.get("eviction"), attributes.get("prefetch")
    hint, _ = hint_words(_policy(attributes))
    if eviction or hint or prefetch:
        emitter.require_version(HINT_VERSION)
    first = f".L1::{eviction}" if eviction else attributes.get("cache") or ""
    return f".global{first}{hint}{f'.L2::{prefetch}B' if prefetch else ''}"


def _policy(attributes: Attributes) -> EvictionPolicy | None:
    """The second-level cache's priority of an access; volatile ones have none."""
    return None if attributes.get("volatile") else attributes.get("cache_policy")


def split_operands(instruction: Instruction) -> tuple[Value | None, Sequence[Value]]:
    """The mask, if any, and the elements to store or to put where the mask does not hold."""
    rest = instruction.operands[2 if instruction.attributes.get("remote") else 1 :]
    return (rest[0], rest[1:]) if instruction.attributes.get("masked") else (None, rest)


def _braced(first: int, count: int) -> str:
    """A PTX vector operand; a single register stands alone."""
    names = ", ".join(f"${index}" for index in range(first, first + count))
    return names if count == 1 else "{" + names + "}"


def _register_type(kind: str, bits: int) -> str:
    """LLVM type of the register of a word: PTX has none of 8 bits."""
    return "i16" if bits == 8 else word_type(kind, bits)


@functools.lru_cache(maxsize=4096)
def _load_assembly(
    opcode: str, kind: str, count: int, offset: int, address: str, masked: bool, replaced: bool,
    policy: EvictionPolicy | None,
) -> tuple[str, str]:  # fmt: skip
    """Result type and the text of a PTX load up to its arguments.

    A masked load without replacements writes zeros first: ptxas makes branches of registers that only some lanes write.
    """
    bits, words = word_shape(kind, count)
    register = _register_type(kind, bits)
    guard = f"@${words + 1} " if masked else ""
    vector = f".v{words}" if words > 1 else ""
    text = f"{guard}{opcode}{vector}.b{bits} {_braced(0, words)}, [${words} + {offset}]{hint_words(policy)[1]};"
    early = ""
    if masked and not replaced:
        text = "".join(f"mov.b{max(bits, 16)} ${index}, 0; " for index in range(words)) + text
        early = "&"
    constraints = [f"={early}{CONSTRAINTS[register]}"] * words + [address] + ["b"] * masked
    if replaced:
        constraints += [str(index) for index in range(words)]
    result = register if words == 1 else "{" + ", ".join([register] * words) + "}"
    text = in_policy_scope(policy, text)
    return result, f'call {result} asm sideeffect "{text}", "{",".join(constraints)}"'


@functools.lru_cache(maxsize=4096)
def _store_assembly(
    opcode: str, kind: str, count: int, offset: int, address: str, masked: bool, policy: EvictionPolicy | None
) -> str:
    """The text of a PTX store up to its arguments."""
    bits, words = word_shape(kind, count)
    guard = f"@${words + 1} " if masked else ""
    vector = f".v{words}" if words > 1 else ""
    text = f"{guard}{opcode}{vector}.b{bits} [$0 + {offset}], {_braced(1, words)}{hint_words(policy)[1]};"
    text = in_policy_scope(policy, text)
    constraints = [address] + [CONSTRAINTS[_register_type(kind, bits)]] * words + ["b"] * masked
    return f'call void asm sideeffect "{text}", "{",".join(constraints)}"'


def ptx_load(emitter: Emitter, instruction: Instruction, opcode: str, address: str, address_constraint: str) -> None:
    """One predicated vector load as inline assembly."""
    attributes, results = instruction.attributes, instruction.results
    kind, count = attributes["type"], attributes["count"]
    mask, replacements = split_operands(instruction)
    bits, word_count = word_shape(kind, count)
    result_type, call = _load_assembly(
        opcode, kind, count, attributes["offset"], address_constraint, mask is not None, bool(replacements),
        _policy(attributes),
    )  # fmt: skip
    arguments = [address]
    if mask is not None:
        arguments.append(f"i1 {emitter.name(mask)}")
    if replacements:
        register = _register_type(kind, bits)
        packed = pack(emitter, replacements, bits, word_count)
        arguments += [f"{register} {_widened(emitter, word, bits)}" for word in packed]
    words = word_names(emitter, results, bits, word_count)
    loaded = words[0] if word_count == 1 and bits > 8 else emitter.fresh()
    emitter.line(f"{loaded} = {call}({', '.join(arguments)})")
    if bits == 8:
        emitter.line(f"{words[0]} = trunc i16 {loaded} to i8")
    elif word_count > 1:
        for index, word in enumerate(words):
            emitter.line(f"{word} = extractvalue {result_type} {loaded}, {index}")
    if count > word_count:
        unpack(emitter, words, bits, results)


def ptx_store(emitter: Emitter, instruction: Instruction, opcode: str, address: str, address_constraint: str) -> None:
    """One predicated vector store as inline assembly."""
    attributes = instruction.attributes
    kind, count = attributes["type"], attributes["count"]
    mask, values = split_operands(instruction)
    bits, word_count = word_shape(kind, count)
    register = _register_type(kind, bits)
    packed = pack(emitter, values, bits, word_count)
    arguments = [address] + [f"{register} {_widened(emitter, word, bits)}" for word in packed]
    if mask is not None:
        arguments.append(f"i1 {emitter.name(mask)}")
    masked, policy = mask is not None, _policy(attributes)
    call = _store_assembly(opcode, kind, count, attributes["offset"], address_constraint, masked, policy)
    emitter.line(f"{call}({', '.join(arguments)})")


def _widened(emitter: Emitter, word: str, bits: int) -> str:
    if bits > 8:
        return word
    wide = emitter.fresh()
    emitter.line(f"{wide} = zext i8 {word} to i16")
    return wide


def guarded(emitter: Emitter, mask: Value | None) -> tuple[str, str, str] | None:
    """Opens the block that runs where the mask holds; gives the blocks before, inside and after."""
    if mask is None:
        return None
    before, inside, after = emitter.block(), emitter.fresh()[1:], emitter.fresh()[1:]
    emitter.line(f"br i1 {emitter.name(mask)}, label %{inside}, label %{after}")
    emitter.open_block(inside)
    return before, inside, after


def rejoin(emitter: Emitter, guard: tuple[str, str, str] | None) -> None:
    """Ends the block that `guarded` opened, if it did."""
    if guard is not None:
        emitter.line(f"br label %{guard[2]}")
        emitter.open_block(guard[2])


def merge_guarded(emitter: Emitter, guard: tuple[str, str, str], result: str, kind: str, value: str) -> None:
    """Gives what the guarded block found a name after it; any value, but always the same, where it did not run."""
    merged = emitter.fresh()
    emitter.line(f"{merged} = phi {kind} [ {value}, %{guard[1]} ], [ poison, %{guard[0]} ]")
    emitter.line(f"{result} = freeze {kind} {merged}")


def _vector_type(kind: str, count: int) -> str:
    return llvm_type(kind) if count == 1 else f"<{count} x {llvm_type(kind)}>"


def _volatile(attributes: Attributes) -> str:
    """LLVM's flag for accesses that no cache may answer."""
    return "volatile " if attributes.get("volatile") or attributes.get("cache") in UNCACHED else ""


def llvm_load(emitter: Emitter, instruction: Instruction, pointer: str, space: int) -> None:
    """A vector load as LLVM's own, under a branch where masked."""
    attributes, results = instruction.attributes, instruction.results
    mask, replacements = split_operands(instruction)
    vector = _vector_type(attributes["type"], attributes["count"])
    fallback = vector_of(emitter, replacements) if replacements else ""
    guard = guarded(emitter, mask)
    merged = emitter.name(results[0]) if len(results) == 1 else emitter.fresh()
    loaded = merged if guard is None else emitter.fresh()
    place = f"ptr addrspace({space}) {pointer}, align {access_bytes(attributes)}"
    emitter.line(f"{loaded} = load {_volatile(attributes)}{vector}, {place}")
    rejoin(emitter, guard)
    if guard is not None and fallback:
        emitter.line(f"{merged} = phi {vector} [ {loaded}, %{guard[1]} ], [ {fallback}, %{guard[0]} ]")
    elif guard is not None:
        merge_guarded(emitter, guard, merged, vector, loaded)
    _keep_apart(emitter)
    if len(results) > 1:
        for index, result in enumerate(results):
            emitter.line(f"{emitter.name(result)} = extractelement {vector} {merged}, i32 {index}")


def llvm_store(emitter: Emitter, instruction: Instruction, pointer: str, space: int) -> None:
    """A vector store as LLVM's own, under a branch where masked."""
    attributes = instruction.attributes
    mask, values = split_operands(instruction)
    stored = vector_of(emitter, values)
    guard = guarded(emitter, mask)
    vector = _vector_type(attributes["type"], attributes["count"])
    place = f"ptr addrspace({space}) {pointer}, align {access_bytes(attributes)}"
    emitter.line(f"store {_volatile(attributes)}{vector} {stored}, {place}")
    rejoin(emitter, guard)
    _keep_apart(emitter)


def _keep_apart(emitter: Emitter) -> None:
    """Nothing at all, which LLVM may not move accesses across: so it cannot merge two of them."""
    emitter.line('call void asm sideeffect "", "~{memory}"()')


def global_pointer(emitter: Emitter, instruction: Instruction) -> str:
    """The address of an access, with its immediate offset, as an LLVM pointer."""
    base, pointer = emitter.fresh(), emitter.fresh()
    emitter.line(f"{base} = inttoptr i64 {emitter.name(instruction.operands[0])} to ptr addrspace(1)")
    emitter.line(f"{pointer} = getelementptr i8, ptr addrspace(1) {base}, i64 {instruction.attributes['offset']}")
    return pointer


def shared_pointer(emitter: Emitter, instruction: Instruction) -> str:
    """The pointer to where an access of an allocation goes, its immediate offset included."""
    base, pointer = emitter.shared_address(instruction, instruction.operands[0]), emitter.fresh()
    emitter.line(f"{pointer} = getelementptr i8, ptr addrspace(3) {base}, i32 {instruction.attributes['offset']}")
    return pointer


def _global_load_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    address = f"i64 {emitter.name(instruction.operands[0])}"
    ptx_load(emitter, instruction, f"ld{global_qualifiers(emitter, instruction.attributes)}", address, "l")


def _global_store_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    address = f"i64 {emitter.name(instruction.operands[0])}"
    ptx_store(emitter, instruction, f"st{global_qualifiers(emitter, instruction.attributes)}", address, "l")


def _shared_load_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    address = emitter.shared_address(instruction, instruction.operands[0])
    ptx_load(emitter, instruction, "ld.shared", f"i32 {address}", "r")


def _shared_store_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    address = emitter.shared_address(instruction, instruction.operands[0])
    ptx_store(emitter, instruction, "st.shared", f"i32 {address}", "r")


def _shared_add_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """An atomic addition whose result nobody asks for."""
    mask, (value,) = split_operands(instruction)
    address = emitter.shared_address(instruction, instruction.operands[0])
    guard = "@$2 " if mask is not None else ""
    text = f"{guard}red.shared.add.u32 [$0 + {instruction.attributes['offset']}], $1;"
    arguments = [f"i32 {address}", f"i32 {emitter.name(value)}"]
    if mask is not None:
        arguments.append(f"i1 {emitter.name(mask)}")
    constraints = ",".join(["r", "r", "b"][: len(arguments)])
    emitter.line(f'call void asm sideeffect "{text}", "{constraints}"({", ".join(arguments)})')


def _shared_add_amd(instruction: Instruction, emitter: Emitter) -> None:
    mask, (value,) = split_operands(instruction)
    pointer = shared_pointer(emitter, instruction)
    guard = guarded(emitter, mask)
    place = f"ptr addrspace(3) {pointer}, i32 {emitter.name(value)}"
    emitter.line(f'{emitter.fresh()} = atomicrmw add {place} syncscope("workgroup") monotonic')
    rejoin(emitter, guard)


GLOBAL_LOAD = Record(
    name="global_load",
    result_types=_loaded_types,
    llvm={
        "nvidia": _global_load_nvidia,
        "amd": lambda instruction, emitter: llvm_load(emitter, instruction, global_pointer(emitter, instruction), 1),
    },
    issue=lambda machine, attributes, *operands: machine.global_load(attributes, *operands),
    pure=False,
    effects=(Effect("global", "read", access_bytes),),
)
GLOBAL_STORE = Record(
    name="global_store",
    result_types=_stored_types,
    llvm={
        "nvidia": _global_store_nvidia,
        "amd": lambda instruction, emitter: llvm_store(emitter, instruction, global_pointer(emitter, instruction), 1),
    },
    issue=lambda machine, attributes, *operands: machine.global_store(attributes, *operands),
    pure=False,
    effects=(Effect("global", "write", access_bytes),),
)
SHARED_LOAD = Record(
    name="shared_load",
    result_types=_loaded_types,
    llvm={
        "nvidia": _shared_load_nvidia,
        "amd": lambda instruction, emitter: llvm_load(emitter, instruction, shared_pointer(emitter, instruction), 3),
    },
    issue=lambda machine, attributes, *operands: machine.shared_load(attributes, *operands),
    pure=False,
    effects=(Effect("shared", "read", access_bytes),),
)
SHARED_ADD = Record(
    name="shared_add",
    result_types=_stored_types,
    llvm={"nvidia": _shared_add_nvidia, "amd": _shared_add_amd},
    issue=lambda machine, attributes, *operands: machine.shared_add(attributes, *operands),
    pure=False,
    effects=(Effect("shared", "read", access_bytes), Effect("shared", "write", access_bytes)),
)
SHARED_STORE = Record(
    name="shared_store",
    result_types=_stored_types,
    llvm={
        "nvidia": _shared_store_nvidia,
        "amd": lambda instruction, emitter: llvm_store(emitter, instruction, shared_pointer(emitter, instruction), 3),
    },
    issue=lambda machine, attributes, *operands: machine.shared_store(attributes, *operands),
    pure=False,
    effects=(Effect("shared", "write", access_bytes),),
)
