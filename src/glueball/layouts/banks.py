"""What accesses of a tile cost in shared memory of any layout, padded ones included, on any target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.base import DistributedLayout, SharedLayout
from glueball.layouts.linear import IndexArray, LinearLayout
from glueball.layouts.memory import VECTOR_BYTES, WORD_BYTES, bytes_of, merged, merges_loads, worst_bank
from glueball.layouts.padded import PaddedSharedLayout, PartitionedSharedLayout
from glueball.targets import Target

# Half a warp's 16-byte reads on AMD, in the lanes that are served together: by AMD's guides, not consecutive ones.
# With 64 banks two of these groups are served at a time.
READ_GROUPS = (
    (0, 1, 2, 3, 20, 21, 22, 23),
    (4, 5, 6, 7, 16, 17, 18, 19),
    (8, 9, 10, 11, 28, 29, 30, 31),
    (12, 13, 14, 15, 24, 25, 26, 27),
)
GROUPED_PAIRS = ((0, 3), (1, 2))
HALF_WARP = 32


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """How a target serves one warp's accesses: `banks` of 4 bytes, so many lanes at a time as fill them all.

    `grouped_reads` says that 16-byte reads of 64 lanes are served in AMD's groups of lanes instead of consecutive ones.
    """

    lanes: int = 32
    banks: int = 32
    grouped_reads: bool = False

    @classmethod
    def of(cls, target: Target) -> SharedMemory:
        """The shared memory of a target."""
        return cls(target.lanes, target.shared_banks, target.family == "amd" and target.lanes == 2 * HALF_WARP)

    def phases(self, access_bytes: int, *, store: bool = False) -> tuple[tuple[int, ...], ...]:
        """The lanes that fill all banks and are served together, in accesses of so many bytes.

        Two phases of a load may be served at once: see `memory.merges`.
        """
        if self.grouped_reads and access_bytes == VECTOR_BYTES and not store:
            groups: tuple[tuple[int, ...], ...] = READ_GROUPS
            if self.banks == 2 * HALF_WARP:
                groups = tuple(tuple(sorted((*READ_GROUPS[one], *READ_GROUPS[two]))) for one, two in GROUPED_PAIRS)
            return tuple(
                tuple(lane + start for lane in group) for start in range(0, self.lanes, HALF_WARP) for group in groups
            )
        count = min(self.lanes, self.banks * WORD_BYTES // max(WORD_BYTES, access_bytes))
        return tuple(tuple(range(start, start + count)) for start in range(0, self.lanes, count))


@dataclass(frozen=True, slots=True)
class TileAccess:
    """What one CTA's accesses of a whole tile cost.

    One instruction of a warp accesses `vector_elements` elements of every lane; there are `instructions` of them, of
    all warps together. `wavefronts` is what they take and `least` what they would take without bank conflicts: one for
    each group of lanes that are served together. `conflicts` counts the wavefronts beyond the first of the worst phase,
    as if every phase of a load were served alone.
    """

    vector_elements: int
    instructions: int
    wavefronts: int
    least: int
    conflicts: int


def tile_access(
    layout: DistributedLayout,
    shared: SharedLayout,
    shape: tuple[int, ...],
    element_bits: int,
    *,
    memory: SharedMemory | None = None,
    store: bool = False,
) -> TileAccess:
    """Count the accesses of a tile of `shape` in registers to one in shared memory, at the widest vectors of 16 bytes.

    Registers of a thread that hold the same element are accessed once, and every lane takes part. By default the
    memory is that of NVIDIA: 32 banks, 32 lanes. Raises LayoutError where the lanes disagree or an element lies in
    another CTA's memory.
    """
    memory = SharedMemory(lanes=layout.lanes) if memory is None else memory
    if layout.lanes != memory.lanes:
        raise LayoutError(f"the layout is made for {layout.lanes} lanes, the memory for {memory.lanes}: {layout}")
    element_bytes = bytes_of(element_bits)
    offsets = shared_offsets(layout.linear(shape), shared, shape)
    vector = _widest_vector(offsets, shared, VECTOR_BYTES // element_bytes)
    phases = memory.phases(element_bytes * vector, store=store)
    merging = merges_loads(memory.lanes, memory.banks) and not store
    wavefronts = least = conflicts = instructions = 0
    for addresses, repeats in _instructions(offsets, shared, vector):
        apart = [addresses[[*phase]] * element_bytes for phase in phases]
        together = merged(apart) if merging else apart
        costs, alone = (
            [worst_bank(places, element_bytes * vector, memory.banks) for places in groups]
            for groups in (together, apart)
        )
        instructions += repeats
        wavefronts += repeats * sum(costs)
        least += repeats * len(costs)
        conflicts = max(conflicts, max(alone) - 1)
    return TileAccess(vector, instructions, wavefronts, least, conflicts)


def bank_conflicts(
    layout: DistributedLayout,
    shared: SharedLayout,
    shape: tuple[int, ...],
    element_bits: int,
    *,
    memory: SharedMemory | None = None,
    store: bool = False,
) -> int:
    """Wavefronts beyond the first that each phase of an access takes, at worst; 0 where no phase has a conflict.

    Arguments and errors are those of `tile_access`.
    """
    return tile_access(layout, shared, shape, element_bits, memory=memory, store=store).conflicts


def shared_offsets(layout: LinearLayout, shared: SharedLayout, shape: tuple[int, ...]) -> LinearLayout:
    """The map (register, lane, warp) -> offset in elements, before padding, of the elements that a thread holds.

    With partitions the offset is within the partition. Raises LayoutError where an element lies in another CTA.
    """
    tile = shared.linear(shape)
    columns = [column for name, column in zip(tile.inputs, tile.columns, strict=True) if name != "block"]
    span = f2.Echelon(basis for column in columns for basis in column)
    size = 1 << tile.bits("offset")
    bases: dict[str, list[int]] = {}
    for name in ("register", "lane", "warp"):
        solved = []
        for basis in layout.flat_bases(name):
            offset = span.solve(basis)
            if offset is None:
                raise LayoutError(f"the element {list(layout.unflatten(basis))} lies in the memory of another CTA")
            solved.append(offset & (size - 1))
        bases[name] = solved
    return LinearLayout.from_flat_bases(bases, (size,), ("offset",))


def _widest_vector(offsets: LinearLayout, shared: SharedLayout, limit: int) -> int:
    """The most consecutive, aligned elements, a power of two, that every thread holds in registers."""
    inner = shared.partition_layout if isinstance(shared, PartitionedSharedLayout) else shared
    if isinstance(inner, PaddedSharedLayout):
        limit = min([limit, *(value for pair in inner.interval_padding_pairs for value in pair)])
    registers = f2.Echelon(offsets.flat_bases("register"))
    others = reduce(lambda one, two: one | two, (*offsets.flat_bases("lane"), *offsets.flat_bases("warp")), 0)
    vector = 1
    while 2 * vector <= limit and vector in registers and not others & vector:
        vector *= 2
    return vector


def _instructions(offsets: LinearLayout, shared: SharedLayout, vector: int) -> Iterator[tuple[IndexArray, int]]:
    """Addresses of the lanes, in elements, for each kind of instruction, with how many there are of it."""
    inner = shared.partition_layout if isinstance(shared, PartitionedSharedLayout) else shared
    lanes = offsets.table("lane")
    starts = np.unique(offsets.table("register") & -vector)
    if not isinstance(inner, PaddedSharedLayout):
        # Registers and warps only XOR a constant into all addresses, which renames banks: every access costs the same.
        yield lanes, len(starts) * offsets.size("warp")
        return
    for warp in offsets.table("warp").tolist():
        for start in starts.tolist():
            yield np.asarray(inner.address((lanes & -vector) ^ start ^ (warp & -vector))), 1
