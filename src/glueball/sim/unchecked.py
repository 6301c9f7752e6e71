"""Stand-ins for what the sanitizer remembers: they are told the same and keep nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball import numerics
from glueball.sim.clocks import Clocks
from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.overflows import Overflows
from glueball.sim.poison import PoisonAnalysis
from glueball.sim.shadow import Fault, Shadow, Touch
from glueball.sim.transfers import Load, Store, Transfers
from glueball.sim.warpgroup import Product, Products
from glueball.thread.ir import Function

if TYPE_CHECKING:
    from glueball.sim.launch import Launch
    from glueball.sim.machine import Machine
    from glueball.sim.remote import Parcel
    from glueball.sim.shared import Placement

_NOTHING: Array = np.zeros((0, 0), np.int64)
_NO_TOUCH = Touch(0, _NOTHING, _NOTHING, _NOTHING)


class NoClocks(Clocks):
    """Clocks that stand still."""

    def expand(self, ctas: int) -> None: ...
    def add_agent(self, owner: int = -1) -> int:
        return 0

    def add_observer(self) -> int:
        return 0

    def join(self, observer: int, source: int, rows: Mask = None) -> None: ...
    def learn(self, partition: int, source: int, threads: Callable[[], Booleans]) -> None: ...
    def barrier(self, partition: int, rows: Mask = None) -> None: ...
    def publish(
        self, observer: int, partition: int, everyone: bool, threads: Callable[[], Booleans], rows: Mask
    ) -> None: ...
    def end_phase(self, agent: int, gathering: int, passed: int, rows: Booleans) -> None: ...
    def finish(self, partition: int, agent: int, rows: Array, time: int) -> None: ...
    def meet(self, partitions: Sequence[int], *, led: bool = False) -> None: ...
    def announce(self, agent: int) -> None: ...
    def start(self, parent: int, worker: int, rows: Mask = None) -> None: ...
    def end(self, parent: int, worker: int, rows: Mask = None) -> None: ...


class NoShadow(Shadow):
    """Memory without a shadow: all of it always holds something, and no accesses clash."""

    def __init__(self, launch: Launch, ctas: int, size: int, clocks: Clocks) -> None:
        self.granule = launch.granule

    def expand(self) -> None: ...
    def touch(self, placement: Placement, width: int, instruction: int, partition: int) -> Touch:
        return _NO_TOUCH

    def entries(self, rows: Array, places: Array, width: int) -> Array:
        return _NOTHING

    def record_read(self, touch: Touch, fault: Fault) -> None: ...
    def record_word(self, touch: Touch, fault: Fault) -> None: ...
    def record_write(self, touch: Touch, fault: Fault) -> bool:
        return False

    def record_atomic(self, touch: Touch, fault: Fault) -> None: ...
    def begin(self, touch: Touch, instruction: int) -> None: ...
    def finish(self, touch: Touch) -> None: ...
    def finish_for(self, touch: Touch, agent: int, rows: Array) -> None: ...
    def begin_load(self, touch: Touch, agents: Array, fault: Fault, *, fenced: bool = True) -> None: ...
    def land(self, entries: Array, agent: int, rows: Array, instruction: int) -> None: ...
    def begin_source(self, touch: Touch, fault: Fault) -> None: ...
    def finish_source(self, touch: Touch) -> None: ...
    def finish_source_for(self, touch: Touch, agent: int, time: int) -> None: ...
    def fence(self, partition: int, threads: Mask) -> None: ...
    def set_barrier(self, touch: Touch, instruction: int) -> None: ...
    def set_poison(self, touch: Touch, poison: Mask) -> None: ...
    def get_poison(self, touch: Touch) -> Mask:
        return None

    def poison_at(self, ctas: Array, places: Array) -> Mask:
        return None

    def undefined(self, entries: Array) -> Mask:
        return None

    def unknown_reads(self, partition: int) -> Iterator[tuple[int, int]]:
        return iter(())

    def announce(self, place: int, size: int, agent: int, instruction: int) -> None: ...


class NoTransfers(Transfers):
    """Bulk copies that nobody watches."""

    def load(self, loads: Sequence[Load | Parcel]) -> None: ...
    def start(self, instruction: int, machine: Machine) -> None: ...
    def landed(self, load: Load | Parcel) -> None: ...
    def store(self, stores: Sequence[Store]) -> None: ...
    def written(self, store: Store) -> None: ...
    def check_access(
        self, machine: Machine, address: Array, predicate: Mask, offset: int, width: int, verb: str
    ) -> None: ...
    def finish(self) -> None: ...


class NoPoison(PoisonAnalysis):
    """The analysis by which every value is defined."""

    def __init__(self, function: Function, numbers: Mapping[int, int]) -> None:
        self._origins = {}
        self._products = self.shared = frozenset()


class NoOverflows(Overflows):
    """Arithmetic that may wrap."""

    def compute(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return function(left, right)

    def remainder_of_run(self, left: Any, right: Any) -> Any:
        return numerics.remainder(left, right)


class UnwatchedProducts(Products):
    """Matrix products that are done as soon as they have started."""

    def wait(self, pending: int, values: Sequence[Any], poison: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values)

    def finish(self) -> None: ...
    def _keep(self, product: Product) -> None: ...
    def _begin_reading(self, product: Product, group: int, name: str, pieces: Array) -> None: ...
    def _remember(self, product: Product, place: Any, values: Array) -> None: ...
