"""What a memory access of a tile costs: requests and sectors in global memory, wavefronts in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.linear import IndexArray, LinearLayout

SECTOR_BYTES = 32
MERGING_LANES = 32
"""Lanes of a warp, and banks, of the memory that may serve two phases of a load at once (NVIDIA's)."""
WORD_BYTES = 4
VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """What one access of a whole tile asks of global memory, by all warps and CTAs together.

    `registers` are the groups of registers that one instruction of a thread accesses, in address order; `requests`
    counts warp-wide instructions, `sectors` the distinct 32-byte sectors of each, summed, and `useful_bytes` the
    distinct bytes of each, summed.
    """

    vector_elements: int
    registers: tuple[tuple[int, ...], ...]
    requests: int
    sectors: int
    useful_bytes: int

    @property
    def sectors_per_request(self) -> float:
        """Mean number of sectors of one warp-wide instruction."""
        return self.sectors / self.requests

    @property
    def efficiency(self) -> float:
        """The share of the moved sectors' bytes that is asked for."""
        return self.useful_bytes / (self.sectors * SECTOR_BYTES)


def global_access(
    layout: LinearLayout,
    strides: Sequence[int],
    element_bits: int,
    *,
    base_alignment: int = VECTOR_BYTES,
    base_address: int = 0,
    store: bool = False,
    vector_bytes: int = VECTOR_BYTES,
) -> GlobalAccess:
    """Count an access of the tile at address base + sum(stride * coordinate), with the widest legal vectors.

    `strides` are in elements, of any sign; `base_alignment` is the known divisor of the base address in bytes, which
    together with contiguity in registers limits the vector, as does `vector_bytes`; `base_address` is where the tile
    starts, in bytes, of which only the position in its sector matters. Registers of a thread that hold the same
    element are accessed once; a load is issued by every lane, a `store` by one holder of each element.
    """
    if len(strides) != len(layout.shape):
        raise LayoutError(f"{len(strides)} strides given for a tile of rank {len(layout.shape)}")
    element_bytes = bytes_of(element_bits)
    limit = min(vector_bytes, base_alignment) // element_bytes
    free = layout.free_variables() if store else {}
    chain = _contiguous_registers(layout, strides, limit, free)
    groups = _register_groups(layout, chain)
    lanes = _kept_indices(layout, "lane", free)
    starts = np.array([group[0] for group in groups], dtype=np.int64)
    requests = layout.table("register")[starts]
    for name in ("warp", "block"):
        requests = np.bitwise_xor.outer(requests, layout.table(name)[_kept_indices(layout, name, free)]).ravel()
    sectors, useful = _count_sectors(
        layout, strides, requests, layout.table("lane")[lanes], element_bytes, len(groups[0]), base_address
    )
    return GlobalAccess(len(groups[0]), groups, len(requests), sectors, useful)


def wavefronts(byte_offsets: IndexArray, access_bytes: int, banks: int = 32, *, load: bool = False) -> int:
    """Wavefronts that one warp-wide shared access takes: `byte_offsets` are those of the active lanes, lane 0 first.

    A lane that takes no part has a negative offset. As many consecutive lanes are served at a time as fill all banks
    of 4 bytes: a warp of 32 for accesses up to 4 bytes, half of it for 8, a quarter for 16. A `load` may serve two of
    these phases at once: see `merges`. Among the lanes served together, every further distinct word in the same bank
    takes a wavefront more.
    """
    lanes = banks * WORD_BYTES // max(WORD_BYTES, access_bytes)
    phases = [byte_offsets[start : start + lanes] for start in range(0, len(byte_offsets), lanes)]
    if load and merges_loads(len(byte_offsets), banks):
        phases = merged(phases)
    return sum(worst_bank(phase, access_bytes, banks) for phase in phases)


def merges_loads(lanes: int, banks: int) -> bool:
    """Whether memory of so many banks may serve two phases of a load by a warp of so many lanes at once."""
    return lanes == banks == MERGING_LANES


def merges(pairs: IndexArray) -> NDArray[np.bool_]:
    """For each row, the offsets of the lanes of two consecutive phases, whether a load of both is served at once.

    Measured on an H200: so it is where every lane `i` reads what lane `i ^ 1` reads, or every lane what lane `i ^ 2`
    does. A lane that takes no part, of negative offset, keeps the phases apart: no loads with such lanes were measured.
    """
    lanes = pairs.reshape(len(pairs), -1, 2, 2)
    alike = (lanes[..., 0] == lanes[..., 1]).all(axis=(1, 2)) | (lanes[:, :, 0] == lanes[:, :, 1]).all(axis=(1, 2))
    return np.asarray(alike & (pairs >= 0).all(axis=1))


def merged(phases: Sequence[IndexArray]) -> list[IndexArray]:
    """The offsets of the lanes that a load is served in, given those of its phases, in memory that merges them."""
    if len(phases) == 1:
        return list(phases)
    pairs = np.concatenate(phases).reshape(len(phases) // 2, -1)
    found: list[IndexArray] = []
    for number, together in enumerate(merges(pairs)):
        found += [pairs[number]] if together else phases[2 * number : 2 * number + 2]
    return found


def worst_bank(byte_offsets: IndexArray, access_bytes: int, banks: int) -> int:
    """Distinct words in the bank that has most of them, of lanes served together; negative offsets take no part."""
    words = max(1, access_bytes // WORD_BYTES)
    first = np.unique(byte_offsets[byte_offsets >= 0] // WORD_BYTES)
    touched = np.unique(first[:, None] + np.arange(words))
    return int(np.bincount(touched % banks).max()) if len(touched) else 0


def shared_wavefronts(
    layout: LinearLayout,
    tile: LinearLayout,
    element_bits: int,
    vector: int,
    *,
    banks: int = 32,
    store: bool = False,
) -> int:
    """Wavefronts that one warp takes to access its part of a shared tile, `vector` elements at a time.

    `layout` says who holds what, `tile` maps "offset" (in elements) to coordinates, one to one. Raises LayoutError
    where the registers do not hold `vector` consecutive elements.
    """
    span = f2.Echelon(tile.flat_bases("offset"))
    columns = []
    for name, column in zip(layout.inputs, layout.columns, strict=True):
        offsets = []
        for basis in column if name != "block" else ():
            offset = span.solve(basis)
            if offset is None:
                raise LayoutError(f"the shared tile does not hold the element {layout.unflatten(basis)}")
            offsets.append(offset)
        columns.append(tuple(offsets))
    size = 1 << tile.bits("offset")
    return access_wavefronts(
        LinearLayout(layout.inputs, tuple(columns), (size,), ("offset",)),
        element_bits,
        vector,
        banks=banks,
        store=store,
    )


def access_wavefronts(
    offsets: LinearLayout, element_bits: int, vector: int, *, banks: int = 32, store: bool = False
) -> int:
    """As `shared_wavefronts`, for a map (register, lane, warp) -> offset in elements."""
    element_bytes = bytes_of(element_bits)
    registers = f2.Echelon(offsets.flat_bases("register"))
    free = offsets.free_variables() if store else {}
    contiguous = all(1 << bit in registers for bit in range((vector - 1).bit_length()))
    for name in ("lane", "warp"):
        for bit, basis in enumerate(offsets.flat_bases(name)):
            contiguous &= basis & (vector - 1) == 0 or bool(free.get(name, 0) >> bit & 1)
    if not contiguous:
        raise LayoutError(f"threads do not hold {vector} consecutive elements of the shared tile")
    idle = np.arange(offsets.size("lane")) & free.get("lane", 0)
    # Registers and warps only XOR a constant into all addresses, which renames banks: every access costs the same.
    lanes = np.where(idle, -1, offsets.table("lane") * element_bytes)
    return ((1 << registers.rank) // vector) * wavefronts(lanes, element_bytes * vector, banks, load=not store)


def bytes_of(element_bits: int) -> int:
    """Bytes that an element takes in memory; booleans take one."""
    if element_bits not in (1, 8, 16, 32, 64):
        raise LayoutError(f"elements of {element_bits} bits cannot be stored, only of 1, 8, 16, 32 or 64")
    return max(1, element_bits // 8)


def _contiguous_registers(layout: LinearLayout, strides: Sequence[int], limit: int, free: dict[str, int]) -> list[int]:
    """Register masks whose elements lie 1, 2, 4, ... elements further, as long as `limit` and alignment permit."""
    weights = _weights(layout, strides)
    span = f2.Echelon(layout.flat_bases("register"))
    others = 0
    for name, column in zip(layout.inputs, layout.columns, strict=True):
        if name != "register":
            for position, basis in enumerate(column):
                others |= 0 if free.get(name, 0) >> position & 1 else basis
    chain: list[tuple[int, int]] = []
    while 2 << len(chain) <= limit:
        weight = 1 << len(chain)
        bit = next((bit for bit, value in enumerate(weights) if value == weight and not others >> bit & 1), None)
        mask = None if bit is None else span.solve(1 << bit)
        if bit is None or mask is None:
            break
        chain.append((bit, mask))
    while any(weight % (1 << len(chain)) for weight in _without(weights, [bit for bit, _ in chain])):
        chain.pop()
    return [mask for _, mask in chain]


def _without(values: Sequence[int], positions: Sequence[int]) -> list[int]:
    return [value for position, value in enumerate(values) if position not in positions]


def _weights(layout: LinearLayout, strides: Sequence[int]) -> list[int]:
    """For each bit of the flat index, the distance in elements that it stands for."""
    weights: list[int] = []
    for stride, extent in zip(reversed(strides), reversed(layout.shape), strict=True):
        weights.extend(stride << bit for bit in range(extent.bit_length() - 1))
    return weights


def _register_groups(layout: LinearLayout, chain: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The distinct registers of a thread, in groups that hold consecutive elements."""
    columns = layout.flat_bases("register")
    low = [f2.apply(columns, mask) for mask in chain]
    span = f2.Echelon(low)
    starts = [0]
    members = [f2.apply(chain, index) for index in range(1 << len(chain))]
    for bit, basis in enumerate(columns):
        if span.add(basis):
            mask = 1 << bit
            for chained, vector in zip(chain, low, strict=True):
                if basis & vector:
                    mask ^= chained
            starts += [start ^ mask for start in starts]
    return tuple(tuple(start ^ member for member in members) for start in starts)


def _kept_indices(layout: LinearLayout, name: str, free: dict[str, int]) -> IndexArray:
    """Indices of an input dimension whose free bits are zero."""
    indices: IndexArray = np.arange(layout.size(name), dtype=np.int64)
    kept: IndexArray = indices[indices & free.get(name, 0) == 0]
    return kept


def _count_sectors(
    layout: LinearLayout,
    strides: Sequence[int],
    requests: IndexArray,
    lanes: IndexArray,
    element_bytes: int,
    vector: int,
    base_address: int,
) -> tuple[int, int]:
    """Sectors and distinct bytes of all requests, given the flat index of each request and of each lane within one.

    Two requests cost the same where they start at the same place in a sector and agree in the index bits that lanes
    move; one of each kind is counted.
    """
    moved = int(np.bitwise_or.reduce(lanes, initial=0))
    addresses = _addresses(layout, strides, requests) * element_bytes + base_address
    kinds = (requests & moved) * SECTOR_BYTES + addresses % SECTOR_BYTES
    _, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    sectors = useful = 0
    span = vector * element_bytes
    for request, count in zip(requests[first].tolist(), counts.tolist(), strict=True):
        starts = np.unique(_addresses(layout, strides, request ^ lanes) * element_bytes + base_address)
        touched = np.unique((starts[:, None] + np.arange(0, span, min(span, SECTOR_BYTES))) // SECTOR_BYTES)
        last = np.unique((starts + span - 1) // SECTOR_BYTES)
        sectors += count * len(np.union1d(touched, last))
        gaps = np.diff(starts)
        useful += count * int(np.minimum(gaps, span).sum() + span)
    return sectors, useful


def _addresses(layout: LinearLayout, strides: Sequence[int], index: IndexArray) -> IndexArray:
    """Distance in elements from the base of flat indices."""
    total = np.zeros_like(index)
    for bit, weight in enumerate(_weights(layout, strides)):
        total += ((index >> bit) & 1) * weight
    return total
