"""What every lowering rule works with, and the table the rules register in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from glueball.lower.terms import Lowered, Registers, Term
from glueball.targets import Target
from glueball.thread import special
from glueball.thread.builder import Builder
from glueball.thread.ir import SharedAllocation
from glueball.thread.ir import Value as Register
from glueball.tile.buffers import Group, Places
from glueball.tile.ir import Operation, Region, Value
from glueball.tile.passes.contiguity import Runs


@dataclass(slots=True)
class Context:
    """The kernel being lowered: the instruction builder and what each tile value became.

    `global_scratch` is the address of the memory that the launch provides, where the kernel needs some.
    `num_warps` are those of the partition being lowered, `barrier` the hardware barrier by which its threads wait for
    one another, None where that is the whole block's. A program runs on `num_ctas` CTAs.

    `partition` is the number of the partition being lowered, `partitions` gives further ones theirs; `cluster_barriers`
    has the slot of each of those that wait for the same one in other CTAs. `words_elsewhere` are the allocations of
    mbarriers at which threads of other CTAs arrive, and `arrivals_carry_data` says whether those tell of data. `runs`
    is what is known of integers and pointers, carried ones too.
    """

    builder: Builder
    target: Target
    num_warps: int
    lower_region: Callable[[Context, Region], tuple[Value, ...]]
    values: dict[Value, Lowered] = field(default_factory=dict)
    allocations: dict[str, SharedAllocation] = field(default_factory=dict)
    views: Mapping[Value, Places] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    tile_allocations: Mapping[str, Operation] = field(default_factory=dict)
    barrier: int | None = None
    global_scratch: Register | None = None
    num_ctas: int = 1
    partition: int = 0
    partitions: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    cluster_barriers: dict[int, int] = field(default_factory=dict)
    words_elsewhere: frozenset[str] = frozenset()
    arrivals_carry_data: bool = True
    runs: Mapping[Value, Runs] = field(default_factory=dict)

    def terms(self, value: Value) -> Registers:
        """The registers of a tile value."""
        return self.values[value].terms

    def term(self, value: Value) -> Term:
        """The register of a scalar value."""
        (term,) = self.values[value].terms
        return term

    def program_id(self, axis: int) -> Register:
        """Index of the program along an axis; the CTAs of one are neighbours along the first."""
        return self._of_programs(self.builder.program_id(axis), axis)

    def num_programs(self, axis: int) -> Register:
        """Number of programs along an axis."""
        return self._of_programs(self.builder.emit(special.NUM_PROGRAMS, (), {"axis": axis})[0], axis)

    def _of_programs(self, blocks: Register, axis: int) -> Register:
        return blocks if axis else self.builder.shift_right(blocks, self.num_ctas.bit_length() - 1)

    def bind(self, value: Value, terms: Registers) -> None:
        """Records what a tile value became."""
        self.values[value] = Lowered(value.type, terms)


Rule = Callable[[Context, Operation], None]

RULES: dict[str, Rule] = {}


def lowers(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers a function as the lowering of tile operations."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register
