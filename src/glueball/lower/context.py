"""What every lowering rule works with, and the table the rules register in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glueball.lower.terms import Lowered, Registers, Term
from glueball.targets import Target
from glueball.thread.builder import Builder
from glueball.thread.ir import SharedAllocation
from glueball.tile.buffers import Group, Places
from glueball.tile.ir import Operation, Region, Value


@dataclass(slots=True)
class Context:
    """The kernel being lowered: the instruction builder and what each tile value became."""

    builder: Builder
    target: Target
    num_warps: int
    lower_region: Callable[[Context, Region], tuple[Value, ...]]
    values: dict[Value, Lowered] = field(default_factory=dict)
    allocations: dict[str, SharedAllocation] = field(default_factory=dict)
    views: Mapping[Value, Places] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    tile_allocations: Mapping[str, Operation] = field(default_factory=dict)

    def terms(self, value: Value) -> Registers:
        """The registers of a tile value."""
        return self.values[value].terms

    def term(self, value: Value) -> Term:
        """The register of a scalar value."""
        (term,) = self.values[value].terms
        return term

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
