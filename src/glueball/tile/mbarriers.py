"""What an mbarrier is to the reference executor: a phase, the arrivals it waits for, and bytes on their way.

In a cluster every CTA has a word at the same place. Those that the view's layout does not tell apart are a group, of
which only the word in the CTA of the lowest rank, the lead, is used.
"""

from __future__ import annotations

from dataclasses import dataclass

from glueball.tile.types import int64, shared_memory_descriptor_type

GREATEST_COUNT = (1 << 20) - 1
"""Arrivals, and bytes of one `expect`, that an mbarrier can count (PTX ISA, `mbarrier`)."""


@dataclass(slots=True)
class BarrierWord:
    """An mbarrier: `expected` arrivals a phase, `pending` of them missing, `bytes` expected and not there yet.

    `phase` counts the phases that are over.
    """

    expected: int
    pending: int
    phase: int = 0
    bytes: int = 0

    def arrive(self, count: int, more_bytes: int = 0) -> bool:
        """Counts arrivals, after expecting more bytes; False where fewer were missing."""
        self.bytes += more_bytes
        if count > self.pending:
            return False
        self.pending -= count
        self._complete()
        return True

    def receive(self, size: int) -> None:
        """Bytes have come; they may come before they are expected."""
        self.bytes -= size
        self._complete()

    def has_passed(self, parity: int) -> bool:
        """Whether the phase of that parity is over, as seen in the phase after it."""
        return (self.phase & 1) != parity

    def _complete(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected

    def __str__(self) -> str:
        return f"phase {self.phase & 1}, {self.pending} of {self.expected} arrivals missing, {self.bytes} bytes missing"


def is_word(kind: shared_memory_descriptor_type) -> bool:
    """Whether a view is of one mbarrier in each CTA or group of CTAs."""
    return kind.element_ty == int64 and kind.numel * group_size(kind) == kind.layout.ctas


def group_mask(kind: shared_memory_descriptor_type) -> int:
    """The bits of a rank in which the CTAs of a group differ."""
    return sum(1 << bit for bit, basis in enumerate(kind.linear.flat_bases("block")) if not basis)


def group_size(kind: shared_memory_descriptor_type) -> int:
    """CTAs of a group."""
    return 1 << group_mask(kind).bit_count()
