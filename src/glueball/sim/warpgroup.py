"""Matrix products of warp groups: what they read, what their accumulators are until a wait, and what the wait ends.

The poison of an accumulator says which product must have been waited for: `serial * 2`, plus one where the value is
undefined for other reasons. Serials count the products of a partition from 1 on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    OverwriteInFlightError,
    PendingAtExitError,
    ReadBeforeWaitError,
    SimulationError,
    WaitCountError,
)
from glueball.location import SourceLocation
from glueball.numerics import matrix_element, matrix_product
from glueball.sim.commit_groups import CommitGroups
from glueball.sim.fragments import (
    Factor,
    accumulators_of_rows,
    along_k,
    operand_addresses,
    rows_of_accumulators,
    steps_by_part,
    steps_of_registers,
    undefined_sums,
)
from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.shared import Placement
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes
from glueball.thread.nvidia import matrix
from glueball.thread.nvidia.matrix_operands import ADDRESS_UNIT, MatrixOperand
from glueball.thread.nvidia.warpgroup import ROWS

if TYPE_CHECKING:
    from glueball.sim.machine import Machine

GROUP_WARPS = 4
MEMORY = {"f16": NUMPY["f16"], "bf16": NUMPY["bf16"], "tf32": NUMPY["f32"], "s8": NUMPY["i8"], **matrix.OPERANDS}


@dataclass(slots=True)
class Read:
    """What a warp group reads of shared memory, in some blocks: pieces of 16 bytes at `places`, `[block, piece]`."""

    group: int
    places: Array


@dataclass(slots=True, eq=False)
class Product:
    """A product that has started, in the blocks `ctas`.

    `seen` is what it has read, and where in the arena, if it may read as late as at the wait.
    """

    instruction: int
    serial: int
    ctas: Array
    reads: list[Read] = field(default_factory=list)
    seen: list[tuple[Any, Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Given:
    """The operands of a product: accumulators, factors, whether to add, and the poison of the first two."""

    totals: Sequence[Any]
    factors: Sequence[Any]
    use: Any
    totals_poison: Sequence[Any]
    factors_poison: Sequence[Any]

    @classmethod
    def of(cls, attributes: Attributes, operands: Sequence[Any], poison: Sequence[Any]) -> Given:
        """Those of an instruction."""
        if attributes["fresh"]:
            return cls((), operands, False, (), poison)
        count = attributes["accumulators"]
        return cls(operands[:count], operands[count:-1], operands[-1], poison[:count], poison[count:-1])


class Products:
    """The products of one partition that are under way."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.groups: CommitGroups[Product] = CommitGroups()
        self.started = 0
        self.done: Array = np.zeros((machine.ctas, 1, 1), np.int64)
        self._agent = -1

    # A product starts

    def start(self, attributes: Attributes, operands: Sequence[Any], poison: Sequence[Any]) -> tuple[Array, ...]:
        """The accumulators as they will be; leaves their poison with the machine."""
        machine, count = self.machine, attributes["accumulators"]
        taking_part = machine.whole_blocks("a matrix product")
        ctas = np.arange(machine.ctas) if taking_part is None else np.flatnonzero(taking_part)
        self.started += 1
        product = Product(machine.at, self.started, ctas)
        given = Given.of(attributes, operands, poison)
        results = [self._multiply(attributes, product, group, given) for group in range(machine.warps // GROUP_WARPS)]
        self._keep(product)
        pending = np.full((1, 1, 1), 2 * product.serial, np.int64)
        machine.poison = (pending,) * count
        if any(flags is not None for _, flags in results):
            shape = (machine.ctas, GROUP_WARPS, machine.lanes, count)
            both: Array = np.concatenate([_spread(flags, shape) for _, flags in results], axis=1) | pending[..., None]
            machine.poison = tuple(both[..., index] for index in range(count))
        values = np.concatenate([values for values, _ in results], axis=1)
        return tuple(values[..., index] for index in range(count))

    def _keep(self, product: Product) -> None:
        """The product is under way, in a group of its own."""
        active = self.machine.active_array()
        self.groups.add(product, active)
        self.groups.commit(active)

    def _multiply(
        self, attributes: Attributes, product: Product, group: int, given: Given
    ) -> tuple[Array, Booleans | None]:
        """The accumulators of a warp group, `[cta, warp, lane, register]`, and which are undefined."""
        machine = self.machine
        right = self._shared_factor(attributes, product, group, "right", given.factors[-1])
        if attributes["left"] is None:
            left = self._left_registers(attributes, group, given)
        else:
            left = self._shared_factor(attributes, product, group, "left", given.factors[0])
        adds = np.broadcast_to(np.asarray(given.use), machine.shape)[:, group * GROUP_WARPS, 0][:, None, None]
        held = self._group_registers(given.totals, group)
        flags = self._group_registers(_each_once(_undefined, given.totals_poison), group)
        parts, bad = [], []
        shape = (machine.ctas, ROWS, attributes["columns"])
        for number, (lefts, rights) in enumerate(steps_by_part(attributes)):
            registers = slice(number * attributes["part"], (number + 1) * attributes["part"])
            total = np.zeros(shape, NUMPY[attributes["kind"]])
            if held is not None:
                total = np.where(adds, rows_of_accumulators(held[..., registers]), total)
            rows, columns = along_k(left.values[:, lefts]), along_k(right.values[:, rights])
            parts.append(accumulators_of_rows(matrix_product(rows, columns.swapaxes(1, 2), total)))
            addends = None if flags is None else adds & rows_of_accumulators(flags[..., registers])
            bad.append(undefined_sums(left, right, lefts, rights, addends))
        values = np.concatenate(parts, axis=-1)
        if all(flags is None for flags in bad):
            return values, None
        return values, np.concatenate([accumulators_of_rows(_spread(flags, shape)) for flags in bad], axis=-1)

    def _group_registers(self, values: Sequence[Any], group: int) -> Array | None:
        """What the lanes of a warp group hold: `[cta, warp, lane, register]`; `None` for nothing."""
        if all(value is None for value in values):
            return None
        shape, first = self.machine.shape, group * GROUP_WARPS
        spread = [np.broadcast_to(False if value is None else value, shape) for value in values]
        return np.stack([each[:, first : first + GROUP_WARPS] for each in spread], axis=-1)

    def _left_registers(self, attributes: Attributes, group: int, given: Given) -> Factor:
        """The left matrix in registers."""
        size = attributes["item_bytes"]
        held = self._group_registers(given.factors[:-1], group)
        flags = self._group_registers(_each_once(_undefined, given.factors_poison[:-1]), group)
        assert held is not None
        values = steps_of_registers(held, size).view(MEMORY[attributes["types"][0]])
        return Factor(matrix_element(values), None if flags is None else steps_of_registers(flags, size))

    # Operands in shared memory

    def _shared_factor(self, attributes: Attributes, product: Product, group: int, side: str, offset: Any) -> Factor:
        """A matrix in shared memory for a warp group, whose reading starts."""
        name, prefix = attributes["types"][0 if side == "left" else 1], "left_" if side == "left" else ""
        allocation = self.machine.function.allocations[attributes[f"{prefix}allocation"]]
        bases = allocation.offset + attributes[f"{prefix}offset"] + self._uniform(offset, group)
        operand: MatrixOperand = attributes[side]
        rows = ROWS if side == "left" else attributes["columns"]
        starts = tuple(dict.fromkeys(getattr(step, side) for step in attributes["steps"]))
        shape = (operand, starts, rows, attributes["inner"], attributes["item_bytes"])
        different = np.unique(bases[product.ctas] if len(bases) > 1 else bases)
        if len(different) == 1:
            addresses, pieces = (each[None] for each in operand_addresses(int(different[0]), *shape))
        else:
            self.machine.group.expand()
            found = {int(base): operand_addresses(int(base), *shape) for base in different}
            addresses, pieces = (np.stack([found[int(base)][part] for base in bases[product.ctas]]) for part in (0, 1))
        low, high = int(pieces.min()), int(pieces.max()) + ADDRESS_UNIT
        if low < allocation.offset or high > allocation.offset + allocation.bytes:
            raise OutOfBoundsError(
                f"a matrix product reads bytes {low - allocation.offset} to {high - allocation.offset} of shared "
                f"memory `{allocation.name}`, which has {allocation.bytes} ({self.machine.name})",
                self.machine.location,
            )
        self._begin_reading(product, group, allocation.name, pieces)
        return self._elements(product, addresses, name)

    def _uniform(self, offset: Any, group: int) -> Array:
        """A byte offset that all threads of a warp group agree on: `[1 or cta]`."""
        machine = self.machine
        found = np.asarray(offset, np.int64)
        if found.ndim == 3 and found.shape[1:] != (1, 1):
            found = np.broadcast_to(found, (found.shape[0], machine.warps, machine.lanes))
            found = found[:, group * GROUP_WARPS : (group + 1) * GROUP_WARPS]
            if (found != found[:, :1, :1]).any():
                raise SimulationError("the threads of a warp group multiply different matrices", machine.location)
            found = found[:, 0, 0]
        found = found.reshape(-1)
        if (found % ADDRESS_UNIT).any():
            raise MisalignedAccessError(
                f"a matrix starts at a multiple of {ADDRESS_UNIT} bytes of shared memory, not at {int(found[0])}",
                machine.location,
            )
        return found

    def _begin_reading(self, product: Product, group: int, name: str, pieces: Array) -> None:
        """Checks the bytes that are read from now on, until a wait."""
        machine, shared = self.machine, self.machine.shared
        shadow = machine.group.shadow
        read = Read(group, np.broadcast_to(pieces, (len(product.ctas), pieces.shape[1])))
        product.reads.append(read)
        placement = self._placement(product, read, product.ctas, name)
        touch = shared.touch(placement, ADDRESS_UNIT, machine.at)
        fault = shared.faults(placement, "read")
        unwritten = shadow.written.reshape(-1).take(touch.entries) < 0
        if unwritten.any():
            fault("uninitialized", int(unwritten.any(axis=1).argmax()), -1, machine.agent)
        shadow.begin_source(touch, fault)

    def _placement(self, product: Product, read: Read, ctas: Array, name: str) -> Placement:
        """Where some of a product's blocks read, as accesses of the group's first thread."""
        machine = self.machine
        rows = machine.group.rows_of(ctas)
        places = read.places[np.isin(product.ctas, ctas)][: len(rows)]
        rows, first = np.repeat(rows, places.shape[1]), read.group * GROUP_WARPS * machine.lanes
        return machine.shared.of_thread(name, rows, places.reshape(-1), first)

    def _elements(self, product: Product, addresses: Array, name: str) -> Factor:
        """The elements at byte addresses `[1 or block, step, row, k]`, of all blocks; zeros where one does not ask."""
        machine, kind = self.machine, MEMORY[name]
        arena = machine.shared.arena
        place = (product.ctas[:, None, None, None], addresses // kind.itemsize)
        values = np.zeros((machine.ctas, *addresses.shape[1:]), kind)
        values[product.ctas] = arena.view(kind)[place]
        self._remember(product, place, values[product.ctas].view(f"u{kind.itemsize}"))
        bad, found = None, machine.group.shadow.poison_at(product.ctas, addresses)
        if found is not None:
            bad = np.zeros(values.shape, bool)
            bad[product.ctas] = found
        return Factor(matrix_element(values), bad)

    def _remember(self, product: Product, place: Any, values: Array) -> None:
        """Keeps what was read if the product may read it as late as at the wait."""
        if self.machine.launch.scheduler.schedule == "late":
            product.seen.append((place, values))

    # Waits

    def wait(self, pending: int, values: Sequence[Any], poison: Sequence[Any]) -> tuple[Any, ...]:
        """All products but the latest ones end; values as they are, with the machine their poison from now on."""
        machine = self.machine
        for share in self.groups.wait(machine.active_array(), pending, machine.location):
            product = share.work
            threads = np.broadcast_to(
                share.threads, (machine.ctas, 1, 1) if share.threads.shape[1] == 1 else machine.shape
            )
            ctas = np.flatnonzero(threads.any(axis=(1, 2)))
            self._check_unchanged(product)
            self._finish_reading(product, ctas)
            self.done[ctas] = product.serial
        machine.poison = tuple(_each_once(self._settled, poison))
        return tuple(values)

    def _check_unchanged(self, product: Product) -> None:
        """What is read as late as at the wait must be what was there when the product started."""
        machine = self.machine
        for place, values in product.seen:
            if (machine.shared.arena.view(values.dtype)[place] != values).any():
                line = machine.instructions[product.instruction].location
                text = f"a matrix of the product started at {line} was overwritten before this wait"
                raise OverwriteInFlightError(text, machine.location, other=line)

    def _settled(self, poison: Mask) -> Any:
        """Poison without that of products that are done."""
        if poison is None or poison.dtype == bool:
            return poison
        left = np.where(poison // 2 > self.done, poison, poison & 1)
        return left if (left > 1).any() else _undefined(left)

    def _finish_reading(self, product: Product, ctas: Array) -> None:
        """Threads that have waited may use what the product read: its warp group at once, others after a barrier."""
        machine = self.machine
        shadow, clocks = machine.group.shadow, machine.group.clocks
        if len(ctas) < machine.ctas:
            machine.group.expand()
        alone = machine.warps == GROUP_WARPS
        if alone and self._agent < 0:
            self._agent = clocks.add_agent(machine.agent)
        for read in product.reads:
            placement = self._placement(product, read, ctas, "")
            touch = machine.shared.touch(placement, ADDRESS_UNIT, product.instruction)
            if alone:
                shadow.finish_source_for(touch, self._agent, product.serial)
            else:
                shadow.finish_source(touch)
        if alone:
            clocks.finish(machine.agent, self._agent, machine.group.rows_of(ctas), product.serial)

    # Reports

    def forbid(self, poison: Any, origins: Sequence[int]) -> None:
        """Reports an accumulator that an active thread uses, although no wait has given it back."""
        flags = np.asarray(poison)
        if flags.dtype == bool:
            return
        used = (flags // 2 > 0) & self.machine.active_array()
        if used.any():
            self._report(int(np.broadcast_to(flags, used.shape)[used].max()) // 2, origins)

    def _report(self, serial: int, origins: Sequence[int]) -> NoReturn:
        machine = self.machine
        lines = [machine.instructions[origin].location for origin in origins]
        line = " or ".join(str(each) for each in dict.fromkeys(lines))
        text = f"an accumulator is used before the matrix product started at {line} was waited for"
        if (self.done >= serial).all():
            text += ": there was a wait, but this is not what it gave back; use the result of warpgroup_mma_wait"
        else:
            for origin in origins:
                if missed := self.groups.missed_wait(origin):
                    raise WaitCountError(f"{text}: {missed[0]}", machine.location, other=lines[0])
        raise ReadBeforeWaitError(text, machine.location, other=lines[0])

    def finish(self) -> None:
        """Reports products that are under way when the blocks end."""
        for share in self.groups.shares():
            location: SourceLocation = self.machine.instructions[share.work.instruction].location
            missed = self.groups.missed_wait(share.work.instruction)
            raise PendingAtExitError(
                f"{self.machine.name} ended while the matrix product started at {location} is under way: "
                f"{missed[0] if missed else 'there is no wait for it'}",
                location,
            )


def _each_once(function: Callable[[Any], Any], poison: Sequence[Any]) -> list[Any]:
    """What a function gives for the poison of every register; many of them share one array."""
    found = {key: function(each) for key, each in {id(each): each for each in poison}.items()}
    return [found[id(each)] for each in poison]


def _undefined(poison: Any) -> Booleans | None:
    """Where a value is undefined, products apart; `None` for nowhere."""
    if poison is None:
        return None
    found = np.asarray(poison if poison.dtype == bool else poison & 1, bool)
    return found if found.any() else None


def _spread(flags: Booleans | None, shape: tuple[int, ...]) -> Booleans:
    return np.broadcast_to(np.zeros((), bool) if flags is None else flags, shape)
