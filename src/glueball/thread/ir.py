"""The thread IR: what one thread does, in structured regions of instructions.

Types are the strings of `BITS`; global addresses are `i64`, shared addresses an allocation plus an `i32` byte offset.
Every instruction points at its `Record`, the one place that says what it is, how LLVM spells it and what it does to
arrays `[cta, warp, lane]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from glueball.location import UNKNOWN_LOCATION, SourceLocation
from glueball.targets import Target
from glueball.tensor_map import TensorMapType

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}

Attributes = Mapping[str, Any]


class Scope(Enum):
    """How many threads take part in one execution of an instruction."""

    LANE = "lane"
    WARP = "warp"
    WARP_GROUP = "warp group"
    CTA = "cta"
    CLUSTER = "cluster"


class Completion(Enum):
    """When the effects of an instruction are there."""

    NOW = "now"
    COMMIT_GROUP = "commit group"
    MBARRIER = "mbarrier"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Effect:
    """One access: `space` is `global` or `shared`, `access` `read` or `write`; `bytes` gives the bytes per lane."""

    space: str
    access: str
    bytes: Callable[[Attributes], int]
    proxy: str = "generic"


class Emitter(Protocol):
    """What the `llvm` part of a record may ask of the code printer.

    `first_warp` is the first warp, in the block, of the partition being printed.
    """

    target: Target
    first_warp: int

    following: Instruction | None
    """What comes after the instruction that is being printed."""

    def name(self, value: Value) -> str:
        """The value as LLVM text without its type: `%v7` or a literal."""

    def fresh(self) -> str:
        """A new LLVM register name."""

    def line(self, text: str) -> None:
        """One LLVM instruction in the current block."""

    def entry(self, text: str) -> None:
        """One LLVM instruction at the start of the function."""

    def declare(self, text: str) -> None:
        """A module-level declaration, printed once."""

    def block(self) -> str:
        """Name of the current basic block."""

    def open_block(self, name: str) -> None:
        """Starts a basic block."""

    def shared_address(self, instruction: Instruction, offset: Value, attribute: str = "allocation") -> str:
        """LLVM text of a shared pointer (AMD) or `i32` shared address (NVIDIA) for an allocation and byte offset.

        `attribute` is the attribute of the instruction that names the allocation.
        """

    def remember(self, values: Sequence[Value], word: str) -> None:
        """Notes that these registers are just what a word holds."""

    def word_of(self, values: Sequence[Value]) -> str | None:
        """The word that these registers, in this order, were taken out of."""

    def half_of(self, value: Value) -> tuple[str, bool] | None:
        """The word of 32 bits that a register of 16 was taken out of, and whether it is the upper half."""

    def join_following(self, instruction: Instruction) -> None:
        """Says that what follows is printed with an instruction, whose results are as many and the same."""

    def require_version(self, version: int) -> None:
        """Asks for at least this version of the assembly language, such as 74 for PTX 7.4."""


Template = str | Callable[["Instruction", Emitter], None]


@dataclass(frozen=True, slots=True)
class Record:
    """One instruction of the table, for the printer and the simulator alike.

    `result_types(operand types, attributes)` types the results. `llvm` maps a target family (`any`, `nvidia`, `amd`)
    to a template: a format string over `{0} {1}` (operands), `{r}` (result), `{t}` (result type), `{t0}` (operand
    type) and the attributes, or a function that emits. `issue(machine, attributes, *operands)` does it to arrays;
    a pure instruction has no effect but its results. `complete(machine, pending)` applies an asynchronous one.
    `targets` holds the families or features that have it, empty for all.
    """

    name: str
    result_types: Callable[[Sequence[str], Attributes], tuple[str, ...]]
    llvm: Mapping[str, Template]
    issue: Callable[..., Any]
    complete: Callable[..., None] | None = None
    pure: bool = True
    scope: Scope = Scope.LANE
    effects: tuple[Effect, ...] = ()
    completion: Completion = Completion.NOW
    in_order: bool = True
    convergent: bool = False
    blocking: bool = False
    targets: frozenset[str] = frozenset()

    def available_on(self, target: Target) -> bool:
        """Whether a target has this instruction."""
        return not self.targets or any(target.supports(feature) for feature in self.targets)

    def template(self, target: Target) -> Template:
        """How LLVM spells it on a target."""
        return self.llvm[target.family] if target.family in self.llvm else self.llvm["any"]


class Value:
    """A register of one thread, or a literal.

    `divisibility` is a power of two known to divide it, `level` how many regions enclose its definition.
    """

    __slots__ = ("constant", "divisibility", "level", "number", "type")

    def __init__(
        self, value_type: str, number: int, divisibility: int = 1, constant: Any = None, level: int = 0
    ) -> None:
        self.type = value_type
        self.number = number
        self.divisibility = divisibility
        self.constant = constant
        self.level = level

    def __repr__(self) -> str:
        return f"%{self.number}" if self.constant is None else f"{self.constant}"


class Instruction:
    """One use of a record; structured control flow holds regions."""

    __slots__ = ("attributes", "location", "operands", "record", "regions", "results")

    def __init__(
        self,
        record: Record,
        operands: Sequence[Value],
        results: Sequence[Value],
        attributes: Attributes,
        location: SourceLocation,
        regions: Sequence[Region] = (),
    ) -> None:
        self.record = record
        self.operands = operands
        self.results = results
        self.attributes = attributes
        self.location = location
        self.regions = regions


class Region:
    """Instructions in order; `arguments` are bound by the parent. Ends in `yield` where the parent takes values."""

    __slots__ = ("arguments", "instructions")

    def __init__(self, arguments: Sequence[Value] = ()) -> None:
        self.arguments = list(arguments)
        self.instructions: list[Instruction] = []

    def walk(self) -> Iterator[Instruction]:
        """Every instruction, outer before inner, in order."""
        for instruction in self.instructions:
            yield instruction
            for region in instruction.regions:
                yield from region.walk()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: its register, author's name, and element type (a `dtype` name) if it is a pointer.

    `descriptor` is the type of a tensor descriptor, whose register (`i64`) holds the generic address of the 128 bytes
    that describe the tensor; on the simulator, the handle of a `TensorMap` of the launch.
    """

    value: Value
    name: str
    pointee: str | None = None
    descriptor: TensorMapType | None = None


@dataclass(frozen=True, slots=True)
class SharedAllocation:
    """Shared memory one buffer occupies: `bytes` at `offset` of the block's arena."""

    name: str
    bytes: int
    alignment: int
    offset: int
    location: SourceLocation = UNKNOWN_LOCATION


@dataclass(slots=True)
class Function:
    """A kernel as one thread runs it. `executable` is where the simulator keeps its translations.

    `num_ctas` blocks next to one another are a cluster, which runs one program.

    With `global_scratch_bytes`, so many for each program, the last parameter is the address of that memory.
    """

    name: str
    parameters: list[Parameter]
    body: Region
    num_warps: int
    target: Target
    allocations: dict[str, SharedAllocation] = field(default_factory=dict)
    shared_bytes: int = 0
    global_scratch_bytes: int = 0
    location: SourceLocation = UNKNOWN_LOCATION
    options: dict[str, Any] = field(default_factory=dict)
    executable: Any = field(default=None, repr=False, compare=False)
    num_ctas: int = 1
