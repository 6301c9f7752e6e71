"""Matrix products of warp groups, which run while the threads go on (PTX ISA, `wgmma`).

A `warpgroup_mma` is a whole product: a fence, its steps, and the commit of a group, in one block of assembly, so that
nothing touches the accumulators in between. Operands: the accumulators and, last of all, whether to add to them
(`i1`), both absent where `fresh`; the first matrix (a byte offset in its allocation as `i32`, or a lane's registers,
step by step); the byte offset of the second one.

Attributes: `columns` and `inner` (N and K of one instruction), `steps`, the `left` (None in registers) and `right`
matrix, `types` (of left, right and accumulators as PTX spells them), `allocation` and `offset` of the right matrix,
`left_allocation` and `left_offset` of the left one, `item_bytes`; of the accumulators the number, `accumulators`, their
register type, `kind`, and how many belong to one instruction, `part`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glueball.thread.ir import BITS, Attributes, Completion, Effect, Emitter, Instruction, Record, Scope, Value
from glueball.thread.nvidia.matrix_operands import ADDRESS_UNIT
from glueball.thread.words import llvm_type, pack, unpack

VERSION = 80
ROWS = 64
"""Rows of the result of one instruction."""
ADDRESS_MASK = 0x3FFFF
WORD = 32
LEFT_WORDS = 4
"""Registers of 32 bits that a lane gives for the left matrix of one instruction."""
INTEGERS = ("s8", "u8")
TRANSPOSABLE = ("f16", "bf16")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a product.

    `accumulator` counts parts of the accumulators; `left` is a byte offset, or counts what the instruction takes of the
    left registers; `right` is a byte offset; `first` says that it is the first one of its part.
    """

    accumulator: int
    left: int
    right: int
    first: bool


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a product, apart."""

    accumulators: Sequence[Value]
    left: Sequence[Value]
    right: Value
    use: Value | None

    @classmethod
    def of(cls, attributes: Attributes, operands: Sequence[Value]) -> Operands:
        """Those of an instruction with some attributes."""
        if attributes["fresh"]:
            *left, right = operands
            return cls((), left, right, None)
        count = attributes["accumulators"]
        *left, right, use = operands[count:]
        return cls(operands[:count], left, right, use)


@dataclass(slots=True)
class _Assembly:
    """A block of assembly whose results are registers of some types, which it reads as well where they are tied."""

    emitter: Emitter
    results: Sequence[str]
    tied: Sequence[str] = ()
    inputs: list[tuple[str, str]] = field(default_factory=list)

    def operand(self, letter: str, typed: str) -> str:
        """Another input: its name in the text."""
        self.inputs.append((letter, typed))
        return f"${len(self.results) + len(self.tied) + len(self.inputs) - 1}"

    def call(self, text: str, names: Sequence[str]) -> None:
        """Emits it, with names for its results."""
        early = "" if self.tied else "&"
        letters = [f"={early}{'f' if kind == 'float' else 'r'}" for kind in self.results]
        letters += [*(str(place) for place in range(len(self.tied))), *(letter for letter, _ in self.inputs)]
        constraints = ",".join([*letters, "~{memory}"])
        tied = (f"{kind} {name}" for kind, name in zip(self.results, self.tied, strict=bool(self.tied)))
        arguments = ", ".join([*tied, *(typed for _, typed in self.inputs)])
        shape = "{" + ", ".join(self.results) + "}" if len(self.results) > 1 else self.results[0]
        found = self.emitter.fresh()
        self.emitter.line(f'{found} = call {shape} asm sideeffect "{text}", "{constraints}"({arguments}) convergent')
        if len(names) == 1:
            self.emitter.line(f"{names[0]} = bitcast {shape} {found} to {shape}")
            return
        for index, name in enumerate(names):
            self.emitter.line(f"{name} = extractvalue {shape} {found}, {index}")


def _word_type(kind: str) -> str:
    return llvm_type(kind) if BITS[kind] == WORD else f"i{WORD}"


def _words(emitter: Emitter, values: Sequence[Value]) -> list[str]:
    """The registers of 32 bits that hold some values."""
    return pack(emitter, values, WORD, len(values) * BITS[values[0].type] // WORD)


def _called(assembly: _Assembly, text: str, groups: Sequence[Sequence[Value]]) -> None:
    """Emits a block of assembly; each group of its results has one type, of 32 bits or so that words hold several."""
    emitter = assembly.emitter
    counts = [len(group) * BITS[group[0].type] // WORD for group in groups]
    names: list[str] = []
    for group, count in zip(groups, counts, strict=True):
        whole = count == len(group)
        names += [emitter.name(value) for value in group] if whole else [emitter.fresh() for _ in range(count)]
    assembly.call(text, names)
    for group, count in zip(groups, counts, strict=True):
        words, names = names[:count], names[count:]
        if count < len(group):
            unpack(emitter, words, WORD, group)


def _descriptor(emitter: Emitter, assembly: _Assembly, address: str, start: int, bits: int) -> str:
    """The operand that is the 64-bit descriptor of a matrix, a number of bytes from an address."""
    masked, units, wide, base = (emitter.fresh() for _ in range(4))
    emitter.line(f"{masked} = and i32 {address}, {ADDRESS_MASK}")
    emitter.line(f"{units} = lshr i32 {masked}, {ADDRESS_UNIT.bit_length() - 1}")
    emitter.line(f"{wide} = zext i32 {units} to i64")
    bits += start // ADDRESS_UNIT
    emitter.line(f"{base} = add i64 {wide}, {bits - (1 << 64) if bits >> 63 else bits}")
    return assembly.operand("l", f"i64 {base}")


def _left_registers(emitter: Emitter, assembly: _Assembly, left: Sequence[Value]) -> list[str]:
    """The text of the left matrix in registers, step by step."""
    words = _words(emitter, left)
    if left[0].type == "f32":
        casts = [emitter.fresh() for _ in words]
        for cast, word in zip(casts, words, strict=True):
            emitter.line(f"{cast} = bitcast float {word} to i32")
        words = casts
    names = [assembly.operand("r", f"i32 {word}") for word in words]
    return ["{" + ", ".join(names[place : place + LEFT_WORDS]) + "}" for place in range(0, len(names), LEFT_WORDS)]


@dataclass(slots=True)
class _Descriptors:
    """Descriptors at byte offsets from a base, each made right before its first use, in a register of its own."""

    prefix: str
    base: str
    made: dict[int, str] = field(default_factory=dict)

    def at(self, place: int, text: list[str]) -> str:
        """The register that holds the descriptor of a byte offset, once the text has set it."""
        if place == 0:
            return self.base
        if place not in self.made:
            name = self.made[place] = f"{self.prefix}{len(self.made)}"
            text.append(f".reg .b64 {name}; add.s64 {name}, {self.base}, {place // ADDRESS_UNIT};")
        return self.made[place]


def _emit_mma(instruction: Instruction, emitter: Emitter) -> None:
    attributes, steps = instruction.attributes, instruction.attributes["steps"]
    emitter.require_version(VERSION)
    operands = Operands.of(attributes, instruction.operands)
    count = attributes["accumulators"] * BITS[attributes["kind"]] // WORD
    tied = _words(emitter, operands.accumulators) if operands.accumulators else ()
    assembly = _Assembly(emitter, [_word_type(attributes["kind"])] * count, tied)
    matrix, registers, left = attributes["left"], [], None
    if matrix is None:
        registers = _left_registers(emitter, assembly, operands.left)
    else:
        address = emitter.shared_address(instruction, operands.left[0], "left_allocation")
        left = _Descriptors("a", _descriptor(emitter, assembly, address, attributes["left_offset"], matrix.bits()))
    address = emitter.shared_address(instruction, operands.right)
    right = _Descriptors("b", _descriptor(emitter, assembly, address, attributes["offset"], attributes["right"].bits()))
    text = ["{ .reg .pred add;", f"setp.ne.b32 add, {_use(emitter, assembly, operands.use)}, 0;"]
    text.append("wgmma.fence.sync.aligned;")
    part = attributes["part"] * count // attributes["accumulators"]
    for step in steps:
        accumulators = ", ".join(f"${step.accumulator * part + index}" for index in range(part))
        first = registers[step.left] if left is None else left.at(step.left, text)
        text.append(_step_text(attributes, step, accumulators, first, right.at(step.right, text)))
    text.append("wgmma.commit_group.sync.aligned; }")
    wait, results = emitter.following, instruction.results
    if wait is not None and wait.record is WARPGROUP_WAIT and tuple(wait.operands) == tuple(results):
        # One block for both: LLVM takes its time over each that all accumulators go through.
        emitter.join_following(instruction)
        text.append(_wait_text(wait))
        results = wait.results
    _called(assembly, " ".join(text), [results])


def _use(emitter: Emitter, assembly: _Assembly, use: Value | None) -> str:
    """A number that is not zero where the product is added to the accumulators."""
    if use is None or use.constant is not None:
        return str(int(use is not None and bool(use.constant)))
    wide = emitter.fresh()
    emitter.line(f"{wide} = zext i1 {emitter.name(use)} to i32")
    return assembly.operand("r", f"i32 {wide}")


def _step_text(attributes: Attributes, step: Step, accumulators: str, left: str, right: str) -> str:
    left_type, right_type, total_type = attributes["types"]
    opcode = f"wgmma.mma_async.sync.aligned.m{ROWS}n{attributes['columns']}k{attributes['inner']}"
    flags = ["add" if step.first else "1"]
    if left_type not in INTEGERS:
        flags += ["1", "1"]
    if left_type in TRANSPOSABLE:
        matrices = (attributes["left"], attributes["right"])
        flags += [str(int(not matrix.k_major)) for matrix in matrices if matrix is not None]
    kinds = f"{total_type}.{left_type}.{right_type}"
    return f"{opcode}.{kinds} {{{accumulators}}}, {left}, {right}, {', '.join(flags)};"


def _wait_text(instruction: Instruction) -> str:
    return f"wgmma.wait_group.sync.aligned {instruction.attributes['pending']};"


def _emit_wait(instruction: Instruction, emitter: Emitter) -> None:
    """The accumulators go in and come out, so that none of their uses moves above the wait."""
    text = _wait_text(instruction)
    if not instruction.operands:
        emitter.line(f'call void asm sideeffect "{text}", "~{{memory}}"() convergent')
        return
    kinds: list[str] = []
    words: list[str] = []
    groups = _same_types(instruction.operands)
    for group in groups:
        found = _words(emitter, [instruction.operands[place] for place in group])
        kinds += [_word_type(instruction.operands[group[0]].type)] * len(found)
        words += found
    results = [[instruction.results[place] for place in group] for group in groups]
    _called(_Assembly(emitter, kinds, words), text, results)


def _same_types(values: Sequence[Value]) -> list[list[int]]:
    """Positions of values next to one another of one type."""
    groups: list[list[int]] = []
    for position, value in enumerate(values):
        if groups and values[groups[-1][0]].type == value.type:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


WARPGROUP_MMA = Record(
    name="warpgroup_mma",
    result_types=lambda _, attributes: (attributes["kind"],) * attributes["accumulators"],
    llvm={"nvidia": _emit_mma},
    issue=lambda machine, attributes, *operands: machine.warpgroup_mma(attributes, *operands),
    pure=False,
    scope=Scope.WARP_GROUP,
    effects=(Effect("shared", "read", lambda attributes: int(attributes["item_bytes"]), "async"),),
    completion=Completion.COMMIT_GROUP,
    convergent=True,
    targets=frozenset({"warpgroup_mma"}),
)
WARPGROUP_WAIT = Record(
    name="warpgroup_wait",
    result_types=lambda operands, _: tuple(operands),
    llvm={"nvidia": _emit_wait},
    issue=lambda machine, attributes, *operands: machine.warpgroup_wait(attributes["pending"], *operands),
    pure=False,
    scope=Scope.WARP_GROUP,
    convergent=True,
    blocking=True,
    targets=frozenset({"warpgroup_mma"}),
)
