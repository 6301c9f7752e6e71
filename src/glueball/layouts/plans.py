"""The ways to get a tensor from one distributed layout to another, and what each of them costs.

Plans are compared by issue slots: a multiprocessor of the targets starts up to four instructions a cycle, and an
instruction that some unit takes at a slower pace is worth as many of these slots as it keeps others from using. Counted
are the data-moving instructions of one warp. A shuffle and a wavefront of shared memory take a cycle of the one
load-and-store unit, so four slots; a select takes half the width of an arithmetic unit, so two; the instruction that
asks for the wavefronts takes one slot on top of them. A barrier makes each warp wait for the slowest one and for the
pipeline to drain, about 16 cycles. What both ways have alike is left out: packing of narrow elements into words, and
addresses, which are one register per thread and an immediate per access for most layouts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from glueball.layouts import f2
from glueball.layouts.linear import IndexArray, LinearLayout
from glueball.layouts.shuffles import WarpMoves

WAVEFRONT_SLOTS = 4
SHUFFLE_SLOTS = 4
SELECT_SLOTS = 2
BARRIER_SLOTS = 64
BARRIERS_PER_ROUND = 2


class ConversionPlan(ABC):
    """Base of the ways to convert a layout. Counts are per warp; `instructions` those of one thread."""

    __slots__ = ()

    @property
    def instructions(self) -> int:
        """Data-moving instructions of one thread: selects, shuffles, shared accesses and barriers."""
        return 0

    @property
    def shuffles(self) -> int:
        """32-bit shuffles of one warp."""
        return 0

    @property
    def shared_bytes(self) -> int:
        """Scratch shared memory that the conversion needs."""
        return 0

    @property
    def wavefronts_write(self) -> int:
        """Shared-memory wavefronts of one warp's writes."""
        return 0

    @property
    def wavefronts_read(self) -> int:
        """Shared-memory wavefronts of one warp's reads."""
        return 0

    @property
    def issue_slots(self) -> int:
        """The estimate by which plans are compared."""
        return 0

    @property
    def is_trivial(self) -> bool:
        """Whether at most registers are renamed."""
        return False

    @abstractmethod
    def describe(self) -> str:
        """One sentence for people."""


@dataclass(frozen=True, slots=True)
class Nothing(ConversionPlan):
    """The layouts are equal."""

    @property
    def is_trivial(self) -> bool:
        """Whether at most registers are renamed."""
        return True

    def describe(self) -> str:
        """One sentence for people."""
        return "free: both layouts are the same map"


@dataclass(frozen=True, slots=True)
class RegisterPermutation(ConversionPlan):
    """Register i of the destination is register `sources[i]` of the source, in every thread."""

    sources: tuple[int, ...]

    @property
    def is_trivial(self) -> bool:
        """Whether at most registers are renamed."""
        return True

    def describe(self) -> str:
        """One sentence for people."""
        return f"free: {len(self.sources)} registers of each thread are renamed"


@dataclass(frozen=True, slots=True)
class Shuffles(ConversionPlan):
    """Data stays in its warp: registers are exchanged within lanes and shuffled between them."""

    moves: WarpMoves
    element_bits: int

    @property
    def shuffles(self) -> int:
        """32-bit shuffles of one warp."""
        rounds = sum(not step.is_move for step in self.moves.rounds)
        return rounds * self._words

    @property
    def selects(self) -> int:
        """32-bit selects of one thread."""
        sent = [register for step in self.moves.rounds for register in step.sources]
        return (self.moves.before.selects(sent) + self.moves.after.selects(self.moves.copies)) * self._words

    @property
    def instructions(self) -> int:
        """Data-moving instructions of one thread: selects, shuffles, shared accesses and barriers."""
        return self.shuffles + self.selects

    @property
    def issue_slots(self) -> int:
        """The estimate by which plans are compared."""
        return SHUFFLE_SLOTS * self.shuffles + SELECT_SLOTS * self.selects

    @property
    def _words(self) -> int:
        return max(1, self.element_bits // 32)

    def describe(self) -> str:
        """One sentence for people."""
        if not self.shuffles:
            return f"inside each thread: {self.selects} selects"
        return f"inside each warp: {self.shuffles} shuffles and {self.selects} selects"


@dataclass(frozen=True, slots=True)
class Condition:
    """Threads whose lane, warp and CTA select, by XOR of the columns of their set bits, a given value."""

    lane: tuple[int, ...]
    warp: tuple[int, ...]
    value: int
    block: tuple[int, ...] = ()

    def holds(self, lane: int, warp: int, block: int = 0) -> bool:
        """Whether a thread is one of them."""
        return f2.apply(self.lane, lane) ^ f2.apply(self.warp, warp) ^ f2.apply(self.block, block) == self.value


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One side of a trip through shared memory.

    `groups` are the registers of each access, in the order of their offsets; its address is that of its first one.
    `positions` maps (register, lane, warp, block) to a position in the tile: its lowest `scratch_bits` bits are the
    offset in elements, the `round_bits` above are the round, and each bit above those says whether the access goes to
    the CTA whose rank differs from the thread's own by that entry of `ranks`. Only threads whose masked lane and warp
    bits are zero take part. `wavefronts` counts those of all accesses of one warp.

    Where `matrices` is not 0, an access moves that many 8 x 8 matrices of 16 bits by ldmatrix or stmatrix: "lane" of
    `positions` is then the lane that gives the address of a row of 16 bytes, and the registers of a group are those
    that a lane gets or gives, matrix by matrix.
    """

    groups: tuple[tuple[int, ...], ...]
    positions: LinearLayout
    scratch_bits: int
    idle_lanes: int
    idle_warps: int
    wavefronts: int
    matrices: int = 0
    transposed: bool = False
    round_bits: int = 0
    ranks: tuple[int, ...] = ()

    @property
    def vector(self) -> int:
        """Elements of one access of one thread."""
        return len(self.groups[0])

    @property
    def instructions(self) -> int:
        """Accesses of one thread in all rounds, those that it is masked off included."""
        return len(self.groups) << f2.rank((*self._rounds("lane"), *self._rounds("warp")))

    def offset_bases(self, name: str) -> tuple[int, ...]:
        """The offsets, in elements, that the bits of an input dimension of `positions` add."""
        return tuple(basis & ((1 << self.scratch_bits) - 1) for basis in self.positions.flat_bases(name))

    def offset_of(self, register: int) -> int:
        """The offset, in elements, that a register adds to that of its thread."""
        return f2.apply(self.offset_bases("register"), register)

    @property
    def addresses(self) -> int:
        """Registers that a thread needs for its addresses: constants that meet none of its own bits are immediates."""
        own = reduce(or_, (*self.offset_bases("lane"), *self.offset_bases("warp"), *self.offset_bases("block")), 0)
        return len({self.offset_of(group[0]) & own for group in self.groups})

    def in_round(self, number: int) -> Iterator[tuple[tuple[int, ...], Condition | None]]:
        """The accesses of a round, each with the threads that make it; None where all do."""
        lanes, warps, blocks = self._rounds("lane"), self._rounds("warp"), self._rounds("block")
        possible = f2.Echelon((*lanes, *warps, *blocks))
        registers = self._rounds("register")
        for group in self.groups:
            wanted = f2.apply(registers, group[0]) ^ number
            if possible.rank == 0:
                if wanted == 0:
                    yield group, None
            elif wanted in possible:
                yield group, Condition(lanes, warps, wanted, blocks)

    def rank_bases(self, name: str) -> tuple[int, ...]:
        """By how much the bits of an input dimension of `positions` change the rank of the CTA that is accessed."""
        above = self.scratch_bits + self.round_bits
        return tuple(f2.apply(self.ranks, basis >> above) for basis in self.positions.flat_bases(name))

    @property
    def crosses_ctas(self) -> bool:
        """Whether some thread accesses the memory of another CTA."""
        return any(any(self.rank_bases(name)) for name in self.positions.inputs)

    def _rounds(self, name: str) -> tuple[int, ...]:
        mask = (1 << self.round_bits) - 1
        return tuple(basis >> self.scratch_bits & mask for basis in self.positions.flat_bases(name))


@dataclass(frozen=True, slots=True)
class SharedRoundTrip(ConversionPlan):
    """Data is written to shared memory in one layout and, after a barrier, read in the other; all of it, or in rounds.

    `tile` maps "offset" (in elements), "round", and "block" where CTAs hold different parts, to coordinates. Register
    i of the result is register `copies[i]` of those that were read. Where data leaves its CTA, the reads are from the
    memory of the CTA that has it, and the barriers those of the cluster.
    """

    tile: LinearLayout
    write: SharedAccess
    read: SharedAccess
    copies: tuple[int, ...]
    element_bytes: int

    @property
    def rounds(self) -> int:
        """How many pieces the tensor goes through shared memory in."""
        return self.tile.size("round")

    @property
    def write_vector(self) -> int:
        """Elements that one thread writes at a time."""
        return self.write.vector

    @property
    def read_vector(self) -> int:
        """Elements that one thread reads at a time."""
        return self.read.vector

    @property
    def shared_bytes(self) -> int:
        """Scratch shared memory that the conversion needs."""
        return self.tile.size("offset") * self.element_bytes

    @property
    def wavefronts_write(self) -> int:
        """Shared-memory wavefronts of one warp's writes."""
        return self.write.wavefronts

    @property
    def wavefronts_read(self) -> int:
        """Shared-memory wavefronts of one warp's reads."""
        return self.read.wavefronts

    @property
    def barriers(self) -> int:
        """Barriers: one before each round's reads, and one before its writes."""
        return BARRIERS_PER_ROUND * self.rounds

    @property
    def instructions(self) -> int:
        """Data-moving instructions of one thread: selects, shuffles, shared accesses and barriers."""
        return self.write.instructions + self.read.instructions + self.barriers

    @property
    def issue_slots(self) -> int:
        """The estimate by which plans are compared."""
        wavefronts = self.write.wavefronts + self.read.wavefronts
        return WAVEFRONT_SLOTS * wavefronts + BARRIER_SLOTS * self.barriers + self.instructions

    def round_of_elements(self) -> IndexArray:
        """The round in which each element moves, in the shape of the tensor."""
        elements = (self.tile.table("offset")[:, None] ^ self.tile.table("block")).ravel()
        result: IndexArray = np.empty(self.tile.elements, np.int64)
        for number, start in enumerate(self.tile.table("round")):
            result[elements ^ start] = number
        return result.reshape(self.tile.shape)

    def describe(self) -> str:
        """One sentence for people."""
        sides = []
        for verb, instruction, access in (("writes", "stmatrix", self.write), ("reads", "ldmatrix", self.read)):
            means = f" by {instruction}{'.trans' if access.transposed else ''}" if access.matrices else ""
            sides.append(
                f"{access.instructions} {verb} of {access.vector * self.element_bytes} bytes a thread{means} "
                f"in {access.wavefronts} wavefronts a warp"
            )
        rounds = f" in {self.rounds} rounds" if self.rounds > 1 else ""
        whose = " of all CTAs" if self.read.crosses_ctas else ""
        return f"through {self.shared_bytes} bytes of shared memory{whose}{rounds}: {sides[0]}, {sides[1]}"
