"""Counts of what the hardware's counters count: requests, sectors, wavefronts, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from glueball.layouts.memory import SECTOR_BYTES, merges, merges_loads
from glueball.location import SourceLocation
from glueball.sim.masks import Array, Mask
from glueball.thread.ir import Instruction

BANK_BYTES = 4


@dataclass(slots=True)
class Counts:
    """What memory instructions cost.

    `requests` are warp-wide executions with at least one active lane. Global memory: `sectors` are the distinct 32-byte
    sectors of each request, `useful_bytes` the distinct bytes its lanes asked for. Shared memory: `wavefronts` are the
    passes over the banks, `ideal_wavefronts` those needed if no two words met in a bank: one for each group of lanes
    that are served together. A request to the memory of several CTAs takes its wavefronts in each of them.
    """

    requests: int = 0
    sectors: int = 0
    useful_bytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    def add(self, other: Counts) -> None:
        """Adds another count to this one."""
        self.requests += other.requests
        self.sectors += other.sectors
        self.useful_bytes += other.useful_bytes
        self.wavefronts += other.wavefronts
        self.ideal_wavefronts += other.ideal_wavefronts

    def times(self, factor: int) -> Counts:
        """This count repeated."""
        return Counts(
            self.requests * factor,
            self.sectors * factor,
            self.useful_bytes * factor,
            self.wavefronts * factor,
            self.ideal_wavefronts * factor,
        )

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors of a request; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Share of the bytes moved in sectors that were asked for; 0 without sectors."""
        return self.useful_bytes / (self.sectors * SECTOR_BYTES) if self.sectors else 0.0


@dataclass(slots=True)
class InstructionCounts:
    """Counts of one instruction of the thread IR; `issued` is how many warps executed it."""

    instruction: Instruction
    issued: int = 0
    counts: Counts = field(default_factory=Counts)

    @property
    def name(self) -> str:
        """Name of the instruction's record."""
        return self.instruction.record.name

    @property
    def location(self) -> SourceLocation:
        """The author's line."""
        return self.instruction.location


@dataclass(slots=True)
class Report:
    """Counts of a launch, per instruction in program order and in total.

    `checked` tells whether the sanitizer was on: only then does a launch that ended well say that it has no fault.
    """

    instructions: list[InstructionCounts]
    checked: bool

    @staticmethod
    def of(instructions: Sequence[Instruction], *, checked: bool) -> Report:
        """A report with every count zero."""
        return Report([InstructionCounts(instruction) for instruction in instructions], checked)

    def total(self, name: str) -> Counts:
        """Sum over the instructions with a record of that name."""
        total = Counts()
        for entry in self.instructions:
            if entry.name == name:
                total.add(entry.counts)
        return total

    def issued(self, name: str) -> int:
        """How many warps executed instructions with a record of that name."""
        return sum(entry.issued for entry in self.instructions if entry.name == name)

    def by_location(self) -> dict[SourceLocation, list[InstructionCounts]]:
        """The instructions of each source location."""
        found: dict[SourceLocation, list[InstructionCounts]] = {}
        for entry in self.instructions:
            found.setdefault(entry.location, []).append(entry)
        return found

    @property
    def global_loads(self) -> Counts:
        """Global loads, without asynchronous copies."""
        return self.total("global_load")

    @property
    def global_stores(self) -> Counts:
        """Global stores."""
        return self.total("global_store")

    @property
    def shared_loads(self) -> Counts:
        """Shared loads."""
        return self.total("shared_load")

    @property
    def shared_stores(self) -> Counts:
        """Shared stores, without asynchronous copies."""
        return self.total("shared_store")

    @property
    def matrix_loads(self) -> Counts:
        """Loads of matrices from shared memory."""
        return self.total("load_matrix")

    @property
    def matrix_stores(self) -> Counts:
        """Stores of matrices to shared memory."""
        return self.total("store_matrix")

    @property
    def asynchronous_copies(self) -> Counts:
        """Copies from global to shared memory: sectors of the source, wavefronts of the destination."""
        return self.total("copy_async")

    @property
    def global_atomics(self) -> Counts:
        """Atomic changes of global memory, with or without a result."""
        return self.total("atomic")

    @property
    def shared_atomics(self) -> Counts:
        """Atomic changes of shared memory, with or without a result."""
        total = self.total("shared_atomic")
        total.add(self.total("shared_add"))
        return total

    @property
    def remote_loads(self) -> Counts:
        """Loads from the shared memory of CTAs of the cluster, the own one among them."""
        return self.total("remote_load")

    @property
    def remote_stores(self) -> Counts:
        """Asynchronous stores to the shared memory of CTAs of the cluster, the own one among them."""
        return self.total("store_async")

    @property
    def barriers(self) -> int:
        """Barriers, counted once for every warp."""
        return self.issued("barrier")

    @property
    def shuffles(self) -> int:
        """Shuffles, counted once for every warp."""
        return self.issued("shuffle") + self.issued("shift")

    @property
    def instructions_issued(self) -> int:
        """Warp-wide executions of any instruction but structured control flow."""
        return sum(entry.issued for entry in self.instructions)


def count_global(addresses: Array, predicate: Mask, width: int, ctas: int, warps: int) -> Counts:
    """Counts of one global access of `width` bytes a lane; addresses up to a common multiple of 32.

    Addresses and predicate are broadcastable to `[ctas, warps, lanes]`; an axis of extent 1 stands for equal threads.
    """
    rows, predicate, repeat = _warp_rows(addresses, predicate, ctas, warps)
    if predicate is None:
        return _count_sectors(rows, width).times(repeat)
    full = predicate.all(axis=1)
    partial = predicate.any(axis=1) & ~full
    counts = _count_sectors(rows[full], width)
    if partial.any():
        counts.add(_count_sectors(_filled(rows[partial], predicate[partial]), width))
    return counts.times(repeat)


def _count_sectors(rows: Array, width: int) -> Counts:
    requests = rows.shape[0]
    if requests == 0:
        return Counts()
    steps = rows[:, 1:] - rows[:, :-1]
    if steps.size and steps.min() < 0:
        rows = np.sort(rows, axis=1)
        steps = rows[:, 1:] - rows[:, :-1]
    sectors = rows >> 5
    return Counts(
        requests=requests,
        sectors=requests + int(np.count_nonzero(sectors[:, 1:] != sectors[:, :-1])),
        useful_bytes=width * (requests + int(np.count_nonzero(steps))),
    )


def count_shared(offsets: Array, predicate: Mask, width: int, banks: int, ctas: int, *, load: bool = False) -> Counts:
    """Counts of one shared access of `width` bytes a lane at byte offsets that are multiples of it.

    The banks give 4 bytes each in one wavefront, so lanes are served in phases that ask for at most all of that: on
    32 banks a whole warp of 32-bit accesses, half a warp of 64-bit ones, a quarter of 128-bit ones. Within a phase an
    aligned vector takes an aligned group of banks, so groups stand for banks. Equal words are read once, and a `load`
    may serve two phases at once: see `layouts.memory.merges`. `offsets` are `[1 or ctas, warps, lanes]`.
    """
    rows, predicate, repeat = _warp_rows(offsets, predicate, ctas, offsets.shape[1])
    unit = max(width, BANK_BYTES)
    groups = banks * BANK_BYTES // unit
    phase = min(rows.shape[1], groups)
    counts = Counts(requests=rows.shape[0] if predicate is None else int(np.count_nonzero(predicate.any(axis=1))))
    words = rows // unit if predicate is None else np.where(predicate, rows // unit, -1)
    if load and width > BANK_BYTES and merges_loads(rows.shape[1], banks):
        words = words.reshape(-1, 2 * phase)
        together = merges(words)
        if together.any():
            counts.add(_count_wavefronts(words[together], groups))
            words = words[~together]
    counts.add(_count_wavefronts(words.reshape(-1, phase), groups))
    return counts.times(repeat)


def _count_wavefronts(words: Array, groups: int) -> Counts:
    """Wavefronts of rows of lanes that are served together; the word of a lane that takes no part is negative."""
    words = np.sort(words, axis=1)
    distinct = words >= 0
    distinct[:, 1:] &= words[:, 1:] != words[:, :-1]
    groups_hit = (np.arange(words.shape[0])[:, None] * groups + words % groups)[distinct]
    worst = np.bincount(groups_hit, minlength=words.shape[0] * groups).reshape(-1, groups).max(axis=1)
    return Counts(wavefronts=int(worst.sum()), ideal_wavefronts=int(np.count_nonzero(worst)))


def _warp_rows(values: Array, predicate: Mask, ctas: int, warps: int) -> tuple[Array, Mask, int]:
    """Values and predicate as `[warps that differ, lanes]` and how often each stands for an equal warp."""
    shape = np.broadcast_shapes((1, 1, 1), values.shape, () if predicate is None else predicate.shape)
    repeat = (ctas // shape[0]) * (warps // shape[1])
    rows = np.broadcast_to(values, shape).reshape(-1, shape[2])
    if predicate is not None:
        predicate = np.broadcast_to(predicate, shape).reshape(-1, shape[2])
    return rows, predicate, repeat


def _filled(rows: Array, predicate: Array) -> Array:
    """Rows whose inactive lanes repeat the first active one, which adds nothing distinct."""
    first = np.take_along_axis(rows, predicate.argmax(axis=1)[:, None], axis=1)
    return np.where(predicate, rows, first)
