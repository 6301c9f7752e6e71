"""How many registers a tile takes, and how much of that is copies."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.layouts.linear import LinearLayout

REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class RegisterBudget:
    """Registers that one thread spends on a tile.

    `elements` are the elements of one thread, `distinct` those that are different, `registers` the 32-bit registers
    that all of them take when narrow ones are packed, and `copy_registers` those that the different ones do not need.
    `holders` are the threads of all warps and CTAs that hold each element.
    """

    elements: int
    distinct: int
    registers: int
    copy_registers: int
    holders: int

    @property
    def copies(self) -> int:
        """Elements of one thread that it holds more than once."""
        return self.elements - self.distinct


def register_budget(layout: LinearLayout, element_bits: int) -> RegisterBudget:
    """Count the registers of a tile with elements of `element_bits` in a map over (register, lane, warp, block)."""
    free = layout.free_variables()
    elements = layout.size("register")
    distinct = elements >> free.get("register", 0).bit_count()
    registers, needed = (-(-count * element_bits // REGISTER_BITS) for count in (elements, distinct))
    holders = 1
    for name in layout.inputs:
        if name != "register":
            holders <<= free[name].bit_count()
    return RegisterBudget(elements, distinct, registers, registers - needed, holders)
