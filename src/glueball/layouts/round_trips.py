"""Plans a trip through shared memory: which tile, in how many rounds, and by which instructions.

A tensor that does not fit goes through in pieces. A piece is a coset of a subspace of the tensor's index bits: one that
has the lanes of both sides in it, so that every round is written and read by all of them, and as many of the bits that
make vectors as fit. The positions of the tile number the pieces by their highest bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glueball.layouts import f2
from glueball.layouts.in_place import moved, resting_matrices, resting_vector
from glueball.layouts.linear import LinearLayout
from glueball.layouts.matrix_moves import Matrices, matrices_of, matrix_accesses
from glueball.layouts.memory import VECTOR_BYTES, wavefronts
from glueball.layouts.plans import SharedAccess, SharedRoundTrip
from glueball.layouts.swizzle import Side, Vectors, as_served, common_vector, extra_vector, extra_vectors, swizzle


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: two layouts, which are comparable, and what the target has.
    `in_place` says that register i of the result is register i of the source in a loop's next turn.
    """

    source: LinearLayout
    destination: LinearLayout
    element_bytes: int
    banks: int
    matrix_loads: bool = False
    matrix_stores: bool = False
    in_place: bool = False

    @property
    def block_changes(self) -> tuple[int, ...]:
        """What the CTA bits of the destination differ by from those of the source."""
        pairs = zip(self.source.flat_bases("block"), self.destination.flat_bases("block"), strict=True)
        return tuple(before ^ after for before, after in pairs)

    @property
    def other_parts(self) -> dict[int, int]:
        """The bits of a rank under which CTAs of the source hold other elements, each with the elements' basis.

        Empty where no data leaves its CTA.
        """
        held = f2.Echelon(cta_columns(self.source))
        if all(vector in held for vector in (*cta_columns(self.destination), *self.block_changes)):
            return {}
        blocks = enumerate(self.source.flat_bases("block"))
        return {1 << bit: basis for bit, basis in blocks if held.add(basis)}


@dataclass(frozen=True, slots=True)
class Mover:
    """How one side accesses the tile: as a swizzle sees it, and by which matrices, if any."""

    layout: LinearLayout
    side: Side
    matrices: Matrices | None = None


@dataclass(frozen=True, slots=True)
class Tile:
    """Where elements go: a flat coordinate per bit of a position; the lowest `scratch_bits` are those of a round."""

    positions: tuple[int, ...]
    scratch_bits: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tile, and for each side how it is accessed and how many position bits are in one access."""

    tile: Tile
    movers: tuple[Mover, Mover]
    vector_bits: tuple[int, int]


def cta_columns(layout: LinearLayout) -> tuple[int, ...]:
    """The bases of everything inside one CTA."""
    return tuple(basis for name in ("register", "lane", "warp") for basis in layout.flat_bases(name))


def plan_round_trip(request: Request, scratch_bytes: int) -> SharedRoundTrip:
    """The cheapest trip that uses at most `scratch_bytes`, which must hold an element."""
    writer = _mover(request.source, request.source.free_variables(), ())
    reader = _mover(request.destination, {}, request.block_changes)
    generators = f2.independent(cta_columns(request.source))
    if others := request.other_parts:
        reader = _in_piece(reader, generators, tuple(others.values()))
        request = replace(request, matrix_loads=False)
    fitting = (scratch_bytes // request.element_bytes).bit_length() - 1
    if fitting >= len(generators):
        return _cheapest(request, writer, reader, generators, [])
    plans = []
    for preference in _preferences(writer.side, reader.side, request.element_bytes):
        ordered = f2.independent((*preference, *generators))
        plans.append(_cheapest(request, writer, reader, ordered[:fitting], ordered[fitting:]))
    return min(plans, key=lambda plan: _cost(request, plan))


def _mover(layout: LinearLayout, free: dict[str, int], changes: tuple[int, ...]) -> Mover:
    registers = tuple(f2.independent(layout.flat_bases("register")))
    lanes, warps = (
        tuple(0 if free.get(name, 0) >> bit & 1 else basis for bit, basis in enumerate(layout.flat_bases(name)))
        for name in ("lane", "warp")
    )
    return Mover(layout, Side(registers, lanes, (*lanes, *warps, *changes)))


def _preferences(writer: Side, reader: Side, element_bytes: int) -> Iterator[tuple[int, ...]]:
    """What a piece should have in it, the most important first."""
    lanes, threads = (*writer.lanes, *reader.lanes), (*writer.threads, *reader.threads)
    common = common_vector(writer, reader, element_bytes)
    pairs = ((writer, reader), (reader, writer))
    extra = [vector for side, other in pairs for vector in extra_vector(side, other, common, element_bytes)]
    yield (*lanes, *common, *threads, *extra)
    yield (*lanes, *common, *extra, *threads)
    yield (*lanes, *threads, *common, *extra)


def _cheapest(
    request: Request, writer: Mover, reader: Mover, piece: Sequence[int], section: Sequence[int]
) -> SharedRoundTrip:
    """The cheapest plan whose rounds move the span of `piece`, and its cosets by the combinations of `section`."""
    readers = [replace(reader, side=side) for side in as_served(reader.side, request.banks)]
    if section:
        writer, *readers = (_in_piece(mover, piece, section) for mover in (writer, *readers))

    def cheapest(candidates: Callable[..., Iterator[Candidate]], *best: SharedRoundTrip) -> SharedRoundTrip:
        found = (each for one in readers for each in candidates(request, writer, one, piece, section))
        plans = (plan for plan in (_round_trip(request, each) for each in found) if plan is not None)
        return min((*best, *plans), key=lambda plan: _cost(request, plan))

    best = cheapest(_plain_candidates)
    widest = min(best.write_vector, best.read_vector) * request.element_bytes == VECTOR_BYTES
    return best if widest and not request.in_place else cheapest(_matrix_candidates, best)


def _cost(request: Request, plan: SharedRoundTrip) -> tuple[int, ...]:
    """What plans are compared by: issue slots; where those are equal, moves between trips, then address registers."""
    if not request.in_place:
        return (plan.issue_slots,)
    changes = moved(plan.write.groups, plan.read.groups, plan.element_bytes)
    return plan.issue_slots, *changes, plan.write.addresses + plan.read.addresses


def _in_piece(mover: Mover, piece: Sequence[int], section: Sequence[int]) -> Mover:
    """A side as it accesses one piece: threads that are not all in it are moved there."""
    whole = f2.Echelon((*piece, *section))
    mask = (1 << len(piece)) - 1

    def moved(vectors: Sequence[int]) -> tuple[int, ...]:
        return tuple(f2.apply(piece, (whole.solve(vector) or 0) & mask) for vector in vectors)

    registers = tuple(f2.intersection(mover.side.registers, piece))
    return Mover(mover.layout, Side(registers, moved(mover.side.lanes), moved(mover.side.threads)))


def _plain_candidates(
    request: Request, writer: Mover, reader: Mover, piece: Sequence[int], section: Sequence[int]
) -> Iterator[Candidate]:
    """Tiles for vector accesses: the widest that both sides have in common, then wider ones for either side."""
    common = common_vector(writer.side, reader.side, request.element_bytes)

    def tile(owner: Side, other: Side, vectors: Vectors) -> Tile | None:
        offsets = swizzle(owner, other, vectors, piece, request.element_bytes, request.banks)
        return None if offsets is None else Tile((*offsets, *section), len(piece))

    shared = len(common)
    for both in (common, *_resting(request, writer, reader, piece, shared)):
        plain = tile(writer.side, reader.side, Vectors(both, ()))
        if plain is not None:
            yield Candidate(plain, (writer, reader), (shared, shared))
    for owner, other in ((writer, reader), (reader, writer)):
        choices = list(extra_vectors(owner.side, other.side, common, request.element_bytes))
        shorter = ((count, extra) for count in range(len(choices[0]), 0, -1) for extra in choices)
        for count, extra in shorter:
            found = tile(owner.side, other.side, Vectors(common, extra[:count]))
            if found is not None:
                wide = shared + count
                yield Candidate(found, (writer, reader), (wide, shared) if owner is writer else (shared, wide))
                break


def _resting(
    request: Request, writer: Mover, reader: Mover, piece: Sequence[int], count: int
) -> Iterator[tuple[int, ...]]:
    """Another vector of as many bits that both sides have, for a conversion in place."""
    if request.in_place:
        threads = (*writer.side.threads, *reader.side.threads)
        inside = f2.Echelon(piece)
        vector = resting_vector(request.source, request.destination, threads, count)
        if len(vector) == count and all(basis in inside for basis in vector):
            yield vector


def _matrix_candidates(
    request: Request, writer: Mover, reader: Mover, piece: Sequence[int], section: Sequence[int]
) -> Iterator[Candidate]:
    """Tiles whose lowest bits are the rows of the matrices that one side or both move."""
    inside = f2.Echelon(piece)
    common = common_vector(writer.side, reader.side, request.element_bytes)

    def choices(mover: Mover, other: LinearLayout, changes: tuple[int, ...], allowed: bool) -> list[Mover]:
        warps = mover.layout.flat_bases("warp")
        threads = (*mover.layout.flat_bases("lane"), *warps, *changes)
        if not allowed or any(vector not in inside for vector in threads):
            return [mover]
        registers = f2.independent((*common, *mover.side.registers), mover.side.threads)
        found = matrices_of(mover.layout, registers, request.element_bytes)
        if request.in_place:
            found += resting_matrices(mover.layout, other, registers, mover.side.threads, request.element_bytes)
        return [mover] + [
            Mover(mover.layout, Side(matrices.row, matrices.rows, (*matrices.rows, *warps, *changes)), matrices)
            for matrices in found
        ]

    stores = request.matrix_stores and not request.source.free_variables()["lane"]
    for write in choices(writer, reader.layout, (), stores):
        for read in choices(reader, writer.layout, request.block_changes, request.matrix_loads):
            found = _matrix_vectors(write, read)
            if found is None:
                continue
            owner, other, vectors, vector_bits = found
            offsets = swizzle(owner, other, vectors, piece, request.element_bytes, request.banks)
            if offsets is not None:
                yield Candidate(Tile((*offsets, *section), len(piece)), (write, read), vector_bits)


def _matrix_vectors(write: Mover, read: Mover) -> tuple[Side, Side, Vectors, tuple[int, int]] | None:
    """Owner, other side, the lowest bits of the tile, and the bits of one access of the writer and of the reader."""
    if write.matrices is not None and read.matrices is not None:
        row = read.matrices.row
        both = (len(row), len(row))
        return (read.side, write.side, Vectors(row, ()), both) if row == write.matrices.row else None
    owner, other = (write, read) if write.matrices is not None else (read, write)
    if owner.matrices is None:
        return None
    row = owner.matrices.row
    held, threads = f2.Echelon(other.side.registers), f2.independent(other.side.threads)
    count = 0
    while count < len(row) and row[count] in held and len(f2.independent(row[: count + 1], threads)) == count + 1:
        count += 1
    vectors = Vectors(row[:count], row[count:])
    bits = (len(row), count) if owner is write else (count, len(row))
    return owner.side, other.side, vectors, bits


def _round_trip(request: Request, candidate: Candidate) -> SharedRoundTrip | None:
    """The plan that a candidate stands for; None where its accesses would not be whole."""
    source, destination, tile = request.source, request.destination, candidate.tile
    changes = request.block_changes
    sides = []
    for mover, block, bits, store in zip(
        candidate.movers, ((0,) * len(changes), changes), candidate.vector_bits, (True, False), strict=True
    ):
        access = _access(request, mover, block, tile, bits, store)
        if access is None:
            return None
        sides.append(access)
    held = f2.Echelon(destination.flat_bases("register"))
    columns = [held.solve(basis) or 0 for basis in destination.flat_bases("register")]
    copies = tuple(f2.apply(columns, index) for index in range(destination.size("register")))
    bases = {
        "offset": tile.positions[: tile.scratch_bits],
        "round": tile.positions[tile.scratch_bits :],
        "block": source.flat_bases("block"),
    }
    return SharedRoundTrip(
        LinearLayout.from_flat_bases(bases, source.shape), sides[0], sides[1], copies, request.element_bytes
    )


def _access(
    request: Request, mover: Mover, block: tuple[int, ...], tile: Tile, vector_bits: int, store: bool
) -> SharedAccess | None:
    others = {} if store else request.other_parts
    position = f2.Echelon((*tile.positions, *others.values()))
    names = ("register", "lane", "warp")
    solved = {name: tuple(position.solve(basis) or 0 for basis in mover.layout.flat_bases(name)) for name in names}
    solved["block"] = tuple(position.solve(basis) or 0 for basis in block)
    size = 1 << (len(tile.positions) + len(others))
    where = LinearLayout.from_flat_bases(solved, (size,), ("position",))
    free = where.free_variables() if store else {}
    matrices, transposed = 0, False
    if mover.matrices is None:
        groups = _groups(where, vector_bits)
    else:
        found = matrix_accesses(mover.matrices, position, solved["register"], tile.scratch_bits)
        if found is None:
            return None
        groups, matrices, transposed = found.groups, found.matrices, mover.matrices.transposed
        where = LinearLayout.from_flat_bases({**solved, "lane": found.lanes}, (size,), ("position",))
    idle_lanes, idle_warps = free.get("lane", 0), free.get("warp", 0)
    if not _whole(where, vector_bits, idle_lanes, idle_warps):
        return None
    plain_load = not (store or matrices or others)
    per_access = _wavefronts(where, tile.scratch_bits, vector_bits, request, idle_lanes, matrices, load=plain_load)
    total = per_access * len(groups)
    round_bits = len(tile.positions) - tile.scratch_bits
    return SharedAccess(
        groups, where, tile.scratch_bits, idle_lanes, idle_warps, total, matrices, transposed, round_bits, tuple(others)
    )


def _whole(positions: LinearLayout, vector_bits: int, idle_lanes: int, idle_warps: int) -> bool:
    """Whether no thread's accesses start within a vector."""
    idle = {"lane": idle_lanes, "warp": idle_warps, "block": 0}
    return not any(
        basis & ((1 << vector_bits) - 1)
        for name, mask in idle.items()
        for bit, basis in enumerate(positions.flat_bases(name))
        if not mask >> bit & 1
    )


def _wavefronts(
    positions: LinearLayout,
    scratch_bits: int,
    vector_bits: int,
    request: Request,
    idle_lanes: int,
    matrices: int,
    *,
    load: bool,
) -> int:
    """Wavefronts of one access of a warp, of all rounds together.

    Registers and warps only XOR a constant into all addresses, which renames banks: every access costs the same.
    """
    lanes = positions.table("lane")
    index = np.arange(len(lanes))
    active = index < 8 * matrices if matrices else index & idle_lanes == 0
    offsets = (lanes & ((1 << scratch_bits) - 1)) * request.element_bytes
    rounds = lanes >> scratch_bits
    width = request.element_bytes << vector_bits
    parts = [np.where(active & (rounds == number), offsets, -1) for number in np.unique(rounds[active])]
    return sum(wavefronts(part, width, request.banks, load=load) for part in parts)


def _groups(positions: LinearLayout, vector_bits: int) -> tuple[tuple[int, ...], ...]:
    """The distinct registers of a thread, grouped into accesses and ordered by position within each."""
    free = positions.free_variables()["register"]
    groups: dict[int, dict[int, int]] = {}
    for register, position in enumerate(positions.table("register").tolist()):
        if not register & free:
            groups.setdefault(position >> vector_bits, {})[position & ((1 << vector_bits) - 1)] = register
    return tuple(tuple(group[index] for index in sorted(group)) for group in groups.values())
