"""How a tensor gets from one distributed layout to another, and what that costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import access_wavefronts, bytes_of
from glueball.layouts.shuffles import WarpMoves, plan_moves
from glueball.layouts.swizzle import Side, Vectors, common_vector, extra_vector, swizzle

# Issue slots of one warp, with which plans are compared: a multiprocessor starts four instructions a cycle, but takes
# one shuffle or shared-memory wavefront, and two selects; the two barriers around a shared round trip idle the rest.
WAVEFRONT_SLOTS = 4
SHUFFLE_SLOTS = 4
SELECT_SLOTS = 2
BARRIER_SLOTS = 64
BARRIERS = 2


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
        received = [register for step in self.moves.rounds for register in step.destinations]
        return (self.moves.before.selects(sent) + self.moves.after.selects(received)) * self._words

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
class SharedAccess:
    """One side of a round trip through shared memory.

    `groups` are the registers of each access, in the order of their offsets; its address is that of its first one.
    `offsets` maps (register, lane, warp, block) to the offset in elements. Only threads whose masked lane and warp
    bits are zero take part. `wavefronts` counts those of all accesses of one warp.
    """

    groups: tuple[tuple[int, ...], ...]
    offsets: LinearLayout
    idle_lanes: int
    idle_warps: int
    wavefronts: int

    @property
    def vector(self) -> int:
        """Elements of one access."""
        return len(self.groups[0])


@dataclass(frozen=True, slots=True)
class SharedRoundTrip(ConversionPlan):
    """All data is written to shared memory in one layout and, after a barrier, read in the other.

    `tile` maps "offset" (in elements), and "block" where CTAs hold different parts, to coordinates. Register i of the
    result is register `copies[i]` of those that were read.
    """

    tile: LinearLayout
    write: SharedAccess
    read: SharedAccess
    copies: tuple[int, ...]
    element_bytes: int

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
    def instructions(self) -> int:
        """Data-moving instructions of one thread: selects, shuffles, shared accesses and barriers."""
        return len(self.write.groups) + len(self.read.groups) + BARRIERS

    @property
    def issue_slots(self) -> int:
        """The estimate by which plans are compared."""
        wavefronts = self.write.wavefronts + self.read.wavefronts
        return WAVEFRONT_SLOTS * wavefronts + BARRIER_SLOTS * BARRIERS + self.instructions

    def describe(self) -> str:
        """One sentence for people."""
        sides = [
            f"{len(access.groups)} {verb} of {access.vector * self.element_bytes} bytes a thread "
            f"in {access.wavefronts} wavefronts a warp"
            for verb, access in (("writes", self.write), ("reads", self.read))
        ]
        return f"through {self.shared_bytes} bytes of shared memory: {sides[0]}, {sides[1]}"


def plan_conversion(
    source: LinearLayout, destination: LinearLayout, element_bits: int, *, banks: int = 32, shared_bytes: int
) -> ConversionPlan:
    """The cheapest way from one layout of a tensor to another.

    Raises LayoutError where the layouts are not of the same shape, lanes, warps and CTAs, where data would have to
    leave its CTA, or where it must go through more shared memory than `shared_bytes`.
    """
    _check_comparable(source, destination)
    if all(source.flat_bases(name) == destination.flat_bases(name) for name in ("lane", "warp", "block")):
        if source.flat_bases("register") == destination.flat_bases("register"):
            return Nothing()
        renaming = _rename_registers(source, destination)
        if renaming is not None:
            return renaming
    _check_ctas(source, destination)
    moves = plan_moves(source, destination, element_bits)
    inside = None if moves is None else Shuffles(moves, element_bits)
    needed = (1 << f2.rank(_cta_columns(source))) * bytes_of(element_bits)
    if inside is not None and (inside.issue_slots <= BARRIER_SLOTS * BARRIERS or needed > shared_bytes):
        return inside
    if needed > shared_bytes:
        raise LayoutError(
            f"converting this layout of a tensor of shape {list(source.shape)} takes {needed} bytes of shared memory, "
            f"and {shared_bytes} are available"
        )
    through_shared = _plan_round_trip(source, destination, bytes_of(element_bits), banks)
    if inside is not None and inside.issue_slots <= through_shared.issue_slots:
        return inside
    return through_shared


def _check_comparable(source: LinearLayout, destination: LinearLayout) -> None:
    if source.shape != destination.shape:
        raise LayoutError(f"cannot convert a tensor of {list(source.shape)} into one of {list(destination.shape)}")
    for name, what in (("lane", "lanes in a warp"), ("warp", "warps"), ("block", "CTAs")):
        if source.bits(name) != destination.bits(name):
            raise LayoutError(
                f"cannot convert between layouts of {source.size(name)} and of {destination.size(name)} {what}"
            )
    for layout in (source, destination):
        if not layout.is_surjective():
            raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements:\n{layout}")


def _cta_columns(layout: LinearLayout) -> tuple[int, ...]:
    return (*layout.flat_bases("register"), *layout.flat_bases("lane"), *layout.flat_bases("warp"))


def _block_changes(source: LinearLayout, destination: LinearLayout) -> tuple[int, ...]:
    pairs = zip(source.flat_bases("block"), destination.flat_bases("block"), strict=True)
    return tuple(before ^ after for before, after in pairs)


def _check_ctas(source: LinearLayout, destination: LinearLayout) -> None:
    held = f2.Echelon(_cta_columns(source))
    if any(vector not in held for vector in (*_cta_columns(destination), *_block_changes(source, destination))):
        raise LayoutError("converting between these layouts moves data between CTAs, which is not supported")


def _rename_registers(source: LinearLayout, destination: LinearLayout) -> RegisterPermutation | None:
    held = f2.Echelon(source.flat_bases("register"))
    columns = [held.solve(basis) for basis in destination.flat_bases("register")]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns):
        return None
    return RegisterPermutation(tuple(f2.apply(found, index) for index in range(1 << len(found))))


def _plan_round_trip(
    source: LinearLayout, destination: LinearLayout, element_bytes: int, banks: int
) -> SharedRoundTrip:
    free = source.free_variables()
    generators = f2.independent(_cta_columns(source))
    changes = _block_changes(source, destination)
    writer = _side(source, free, ())
    reader = _side(destination, {}, changes)
    plans = []
    for offsets, write_bits, read_bits in _tiles(writer, reader, generators, element_bytes, banks):
        plans.append(_round_trip(source, destination, offsets, (write_bits, read_bits), element_bytes, banks))
    return min(plans, key=lambda plan: plan.issue_slots)


def _side(layout: LinearLayout, free: dict[str, int], changes: tuple[int, ...]) -> Side:
    registers = tuple(f2.independent(layout.flat_bases("register")))
    lanes, warps = (
        tuple(0 if free.get(name, 0) >> bit & 1 else basis for bit, basis in enumerate(layout.flat_bases(name)))
        for name in ("lane", "warp")
    )
    return Side(registers, lanes, (*lanes, *warps, *changes))


def _tiles(
    writer: Side, reader: Side, generators: list[int], element_bytes: int, banks: int
) -> list[tuple[tuple[int, ...], int, int]]:
    """Possible tiles, each with the vector bits of the writer's and the reader's accesses."""
    common = common_vector(writer, reader, element_bytes)
    shared = len(common)
    tiles = []
    plain = swizzle(writer, reader, Vectors(common, ()), generators, element_bytes, banks)
    if plain is not None:
        tiles.append((plain, shared, shared))
    for owner, other in ((writer, reader), (reader, writer)):
        extra = extra_vector(owner, common, element_bytes)
        for count in range(len(extra), 0, -1):
            offsets = swizzle(owner, other, Vectors(common, extra[:count]), generators, element_bytes, banks)
            if offsets is not None:
                wide = shared + count
                tiles.append((offsets, wide, shared) if owner is writer else (offsets, shared, wide))
                break
    return tiles


def _round_trip(
    source: LinearLayout,
    destination: LinearLayout,
    offsets: tuple[int, ...],
    vector_bits: tuple[int, int],
    element_bytes: int,
    banks: int,
) -> SharedRoundTrip:
    position = f2.Echelon(offsets)
    changes = _block_changes(source, destination)
    tile = LinearLayout.from_flat_bases({"offset": offsets, "block": source.flat_bases("block")}, source.shape)
    bits = element_bytes * 8
    size = 1 << len(offsets)

    def access(layout: LinearLayout, block: tuple[int, ...], vector: int, store: bool) -> SharedAccess:
        bases = {name: layout.flat_bases(name) for name in ("register", "lane", "warp")} | {"block": block}
        solved = {name: [position.solve(basis) or 0 for basis in column] for name, column in bases.items()}
        where = LinearLayout.from_flat_bases(solved, (size,), ("offset",))
        free = where.free_variables() if store else {}
        wavefronts = access_wavefronts(where, bits, 1 << vector, banks=banks, store=store)
        return SharedAccess(_groups(where, vector), where, free.get("lane", 0), free.get("warp", 0), wavefronts)

    held = f2.Echelon(destination.flat_bases("register"))
    columns = [held.solve(basis) or 0 for basis in destination.flat_bases("register")]
    copies = tuple(f2.apply(columns, index) for index in range(destination.size("register")))
    write = access(source, (0,) * len(changes), vector_bits[0], True)
    read = access(destination, changes, vector_bits[1], False)
    return SharedRoundTrip(tile, write, read, copies, element_bytes)


def _groups(offsets: LinearLayout, vector_bits: int) -> tuple[tuple[int, ...], ...]:
    """The distinct registers of a thread, grouped into accesses and ordered by offset within each."""
    free = offsets.free_variables()["register"]
    groups: dict[int, dict[int, int]] = {}
    for register, offset in enumerate(offsets.table("register").tolist()):
        if not register & free:
            groups.setdefault(offset >> vector_bits, {})[offset & ((1 << vector_bits) - 1)] = register
    return tuple(tuple(group[index] for index in sorted(group)) for group in groups.values())
