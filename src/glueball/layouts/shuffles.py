"""Layout conversions that stay inside a warp: registers exchanged within lanes, and values shuffled between them.

For each slot (register r, lane l) of the destination, a linear map gives the slot of the source that holds its
element: (A r ^ B l, C r ^ D l), plus terms of the warp and CTA. With E chosen such that G = C E ^ D loses nothing,
lane l receives register k ^ E l in round k, from lane C k ^ G l, which sends register A k ^ F (own lane ^ C k), where
F G = A E ^ B. So every round sends one register of each lane, after the registers of each lane have been permuted by
an XOR with F l, and before they are permuted by an XOR with E l.

Where no such F exists, because lanes that fetch from one lane want different registers of it, a register is fetched
once for each of the variants that are wanted, and the receiver chooses: variants are further bits of its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout

SHUFFLE_BITS = 32


@dataclass(frozen=True, slots=True)
class ThreadFunction:
    """A value that depends on the thread: `base` XOR the columns of the set bits of its lane, warp and CTA."""

    base: int
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    block: tuple[int, ...]

    def __call__(self, lane: int, warp: int = 0, block: int = 0) -> int:
        """The value in one thread."""
        return self.base ^ f2.apply(self.lane, lane) ^ f2.apply(self.warp, warp) ^ f2.apply(self.block, block)

    @property
    def lane_flips(self) -> int | None:
        """The bits in which the value differs from the thread's own lane; None where threads differ in that."""
        own = tuple(1 << bit for bit in range(len(self.lane)))
        return None if self.lane != own or any(self.warp) or any(self.block) else self.base


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of an exchange: in threads where the masked bits have odd parity, register i takes i ^ `swap`."""

    swap: int
    lane_mask: int
    warp_mask: int
    block_mask: int

    def applies(self, lane: int, warp: int = 0, block: int = 0) -> bool:
        """Whether a thread swaps its registers in this stage."""
        bits = (lane & self.lane_mask).bit_count()
        bits += (warp & self.warp_mask).bit_count() + (block & self.block_mask).bit_count()
        return bits % 2 == 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A permutation of registers within each thread: register i takes register i ^ f(thread), in a few stages."""

    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, lane: Sequence[int], warp: Sequence[int], block: Sequence[int]) -> Exchange:
        """The exchange whose f is the XOR of the columns of the thread's set bits."""
        columns = [*lane, *warp, *block]
        span = f2.Echelon(columns)
        pivots = f2.independent(columns)
        positions = [columns.index(pivot) for pivot in pivots]
        masks = [0] * len(pivots)
        for bit, column in enumerate(columns):
            combination = span.solve(column) or 0
            for index, position in enumerate(positions):
                masks[index] |= (combination >> position & 1) << bit
        stages = []
        for pivot, mask in zip(pivots, masks, strict=True):
            lane_mask = mask & ((1 << len(lane)) - 1)
            warp_mask = mask >> len(lane) & ((1 << len(warp)) - 1)
            stages.append(Stage(pivot, lane_mask, warp_mask, mask >> (len(lane) + len(warp))))
        return cls(tuple(stages))

    def schedule(self, outputs: Iterable[int]) -> list[tuple[Stage, tuple[int, ...]]]:
        """Each stage with the registers that it must produce so that `outputs` come out right; one select each."""
        needed = set(outputs)
        steps = []
        for stage in reversed(self.stages):
            steps.append((stage, tuple(sorted(needed))))
            needed |= {register ^ stage.swap for register in needed}
        return steps[::-1]

    def selects(self, outputs: Iterable[int]) -> int:
        """Number of selects for these outputs."""
        return sum(len(registers) for _, registers in self.schedule(outputs))


@dataclass(frozen=True, slots=True)
class ShuffleRound:
    """One value per lane moves: `destinations[i]` receives what `sources[i]` is in lane `source_lane` of the warp.

    The registers of a round travel together, packed into one 32-bit value where they are narrower.
    """

    source_lane: ThreadFunction
    sources: tuple[int, ...]
    destinations: tuple[int, ...]

    @property
    def is_move(self) -> bool:
        """Whether every lane receives from itself, so that nothing is shuffled."""
        return self.source_lane.lane_flips == 0


@dataclass(frozen=True, slots=True)
class WarpMoves:
    """The steps of a conversion inside each warp.

    Source registers go through `before`, rounds move them into place, `after` permutes what was received, and
    register i of the result is then `copies[i]`. More registers may be received than the result has.
    """

    before: Exchange
    rounds: tuple[ShuffleRound, ...]
    after: Exchange
    copies: tuple[int, ...]

    @property
    def received(self) -> int:
        """Registers that the rounds receive, all variants included."""
        return sum(len(step.destinations) for step in self.rounds)


def plan_moves(source: LinearLayout, destination: LinearLayout, element_bits: int) -> WarpMoves | None:
    """Moves inside each warp that turn one layout into the other; None where data must leave its warp."""
    return _Solver(source, destination).solve(max(1, SHUFFLE_BITS // max(8, element_bits)))


class _Solver:
    """Slots of the source are integers here: the register in the low bits, the lane above them."""

    def __init__(self, source: LinearLayout, destination: LinearLayout) -> None:
        self.source = source
        self.destination = destination
        self.registers = source.flat_bases("register")
        self.lanes = source.flat_bases("lane")
        self.shift = len(self.registers)
        self.span = f2.Echelon((*self.registers, *self.lanes))
        received = f2.Echelon(destination.flat_bases("register"))
        free = [combination.bit_length() - 1 for combination in received.kernel]
        self.kept = [bit for bit in range(destination.bits("register")) if bit not in free]
        self.copies = [received.solve(basis) or 0 for basis in destination.flat_bases("register")]

    def solve(self, pack: int) -> WarpMoves | None:
        warp = self._changes("warp")
        block = self._changes("block")
        registers = self._slots([self.destination.flat_bases("register")[bit] for bit in self.kept])
        if warp is None or block is None or registers is None:
            return None
        found = []
        for prefer_own in (True, False):
            lanes = self._lane_slots(prefer_own)
            if lanes is None:
                return None
            exchange, lanes = self._choose(registers, lanes)
            moves = self._moves(registers, lanes, exchange, warp, block, pack)
            found.append(moves)
            if moves.received == 1 << len(registers):
                break
        return min(found, key=lambda moves: moves.received)

    def _slots(self, vectors: Sequence[int]) -> list[int] | None:
        slots = [self.span.solve(vector) for vector in vectors]
        found = [slot for slot in slots if slot is not None]
        return found if len(found) == len(slots) else None

    def _changes(self, name: str) -> list[int] | None:
        """Slots that make up for the difference of two bases of a warp or CTA bit."""
        own, wanted = self.source.flat_bases(name), self.destination.flat_bases(name)
        return self._slots([one ^ two for one, two in zip(own, wanted, strict=True)])

    def _lane_slots(self, prefer_own: bool) -> list[int] | None:
        """For each lane bit a slot that holds its element, in the lane itself where a register there has it."""
        own = f2.Echelon(self.registers)
        slots = []
        for bit, (before, wanted) in enumerate(zip(self.lanes, self.destination.flat_bases("lane"), strict=True)):
            register = own.solve(before ^ wanted) if prefer_own else None
            slot = self.span.solve(wanted) if register is None else register | 1 << (self.shift + bit)
            if slot is None:
                return None
            slots.append(slot)
        return slots

    def _lane(self, slot: int) -> int:
        return slot >> self.shift

    def _choose(self, registers: list[int], lanes: list[int]) -> tuple[list[int], list[int]]:
        """E, as one combination of kept registers per lane bit, and lane slots that go with it."""
        senders = f2.Echelon(map(self._lane, registers))
        stay = [senders.solve(self._lane(slot) ^ 1 << bit) for bit, slot in enumerate(lanes)]
        found = [combination for combination in stay if combination is not None]
        if len(found) == len(stay):
            return found, lanes
        count = len(registers)
        # Lane combinations that only hold copies, with the registers that cancel them.
        copies = [mask for mask in f2.kernel([*registers, *lanes]) if mask >> count]
        clashing = [mask for mask in f2.kernel([*map(self._lane, registers), *map(self._lane, lanes)]) if mask >> count]
        basis = [mask >> count for mask in copies]
        chosen = [mask & ((1 << count) - 1) for mask in copies]
        changes = [0] * len(basis)
        targets = f2.independent(map(self._lane, registers))
        spare = self._spare_slots([*map(self._lane, registers), *map(self._lane, lanes)])
        for clash in f2.independent([mask >> count for mask in clashing], basis):
            if targets:
                goal = targets.pop(0) ^ self._lane(f2.apply(lanes, clash))
                chosen.append(senders.solve(goal) or 0)
                changes.append(0)
            elif spare:
                chosen.append(0)
                changes.append(spare.pop(0))
            else:
                chosen.append(0)
                changes.append(0)
            basis.append(clash)
        return self._per_lane_bit(basis, chosen), [
            slot ^ change for slot, change in zip(lanes, self._per_lane_bit(basis, changes), strict=True)
        ]

    def _spare_slots(self, used_lanes: Sequence[int]) -> list[int]:
        """Slots that hold copies of element zero in lanes that would otherwise send nothing."""
        span = f2.Echelon(used_lanes)
        return [mask for mask in f2.kernel([*self.registers, *self.lanes]) if span.add(self._lane(mask))]

    def _per_lane_bit(self, basis: Sequence[int], values: Sequence[int]) -> list[int]:
        """Values of a linear function on each lane bit, given on some independent combinations, zero on others."""
        units = [1 << bit for bit in range(len(self.lanes))]
        span = f2.Echelon([*basis, *f2.independent(units, basis)])
        mask = (1 << len(basis)) - 1
        return [f2.apply(values, (span.solve(unit) or 0) & mask) for unit in units]

    def _moves(
        self, registers: list[int], lanes: list[int], exchange: list[int], warp: list[int], block: list[int], pack: int
    ) -> WarpMoves:
        low = (1 << self.shift) - 1
        received = [slot ^ f2.apply(registers, mask) for slot, mask in zip(lanes, exchange, strict=True)]
        gathered = [self._lane(slot) for slot in received]
        independent = self._independent_bits(gathered)
        sent = self._per_lane_bit([gathered[bit] for bit in independent], [received[bit] & low for bit in independent])
        by_warp = [slot & low ^ f2.apply(sent, self._lane(slot)) for slot in warp]
        by_block = [slot & low ^ f2.apply(sent, self._lane(slot)) for slot in block]
        # What each lane bit wants beyond what its sender can tell from its own lane.
        wanted = [slot & low ^ f2.apply(sent, lane) for slot, lane in zip(received, gathered, strict=True)]
        differences = f2.independent(wanted)
        variants = f2.Echelon(differences)
        choice = [variants.solve(want) or 0 for want in wanted]
        columns = tuple(gathered), tuple(map(self._lane, warp)), tuple(map(self._lane, block))
        above = self.destination.bits("register")
        groups: dict[int, list[tuple[int, int]]] = {}
        for index in range(1 << len(registers)):
            slot = f2.apply(registers, index)
            lane = self._lane(slot)
            source, destination = slot & low ^ f2.apply(sent, lane), self._register(index)
            groups.setdefault(lane, []).extend(
                (source ^ f2.apply(differences, variant), destination | variant << above)
                for variant in range(1 << len(differences))
            )
        rounds = []
        for lane, pairs in groups.items():
            source_lane = ThreadFunction(lane, *columns)
            size = len(pairs) if source_lane.lane_flips == 0 else pack
            for start in range(0, len(pairs), size):
                sources, destinations = zip(*pairs[start : start + size], strict=True)
                rounds.append(ShuffleRound(source_lane, sources, destinations))
        none = [0] * len(warp), [0] * len(block)
        swaps = [self._register(mask) | variant << above for mask, variant in zip(exchange, choice, strict=True)]
        copies = tuple(f2.apply(self.copies, index) for index in range(self.destination.size("register")))
        return WarpMoves(Exchange.of(sent, by_warp, by_block), tuple(rounds), Exchange.of(swaps, *none), copies)

    def _independent_bits(self, vectors: Sequence[int]) -> list[int]:
        span = f2.Echelon()
        return [bit for bit, vector in enumerate(vectors) if span.add(vector)]

    def _register(self, combination: int) -> int:
        """The destination register that a combination of the kept register bits names."""
        return sum(1 << bit for index, bit in enumerate(self.kept) if combination >> index & 1)
