"""Priorities in the second-level cache as an operand of memory instructions (PTX ISA, `createpolicy`)."""

from __future__ import annotations

from typing import Protocol

DEFAULT_SECONDARY = "evict_unchanged"
"""Priority of the rest where none is named."""
HINT_VERSION = 74
"""The PTX version with `createpolicy`, cache hints and prefetch sizes."""


class EvictionPolicy(Protocol):
    """What a `cache_policy` attribute holds: a priority for a fraction of the accesses, another one for the rest.

    The priorities are those of `createpolicy.fractional.L2`, such as `evict_first`.
    """

    @property
    def primary(self) -> str:
        """Priority of the fraction."""

    @property
    def fraction(self) -> float:
        """Share of the accesses, in (0, 1]."""

    @property
    def secondary(self) -> str:
        """Priority of the rest."""

    def __hash__(self) -> int:
        """Equal policies have equal hashes."""


def with_policy(policy: EvictionPolicy | None, opcode: str, operands: str, guard: str = "") -> str:
    """Inline assembly of one instruction with its second-level cache hint, if it has one."""
    hint, operand = hint_words(policy)
    return in_policy_scope(policy, f"{guard}{opcode}{hint} {operands}{operand};")


def hint_words(policy: EvictionPolicy | None) -> tuple[str, str]:
    """The qualifier and the last operand that an instruction has inside `in_policy_scope`; nothing without a policy."""
    return ("", "") if policy is None else (".L2::cache_hint", ", policy")


def in_policy_scope(policy: EvictionPolicy | None, text: str) -> str:
    """Inline assembly in which `policy` is the register with the priority; without one, the text as it is."""
    if policy is None:
        return text
    secondary = "" if policy.secondary == DEFAULT_SECONDARY else f".L2::{policy.secondary}"
    made = f"createpolicy.fractional.L2::{policy.primary}{secondary}.b64 policy, {float(policy.fraction)!r};"
    return f"{{ .reg .b64 policy; {made} {text} }}"
