"""What a report of a fault must say: a right class, the author's lines, and whose fault it is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import glueball.kernels
import tests.kernels
from glueball import errors
from glueball.errors import SimulationError
from glueball.kernels.ladder import Launch
from glueball.sim.scheduler import SCHEDULES
from glueball.thread.control import PARTITIONS
from glueball.thread.ir import Function, Instruction, Region
from tests.sim.planting import Fault, places

Simulate = Callable[..., Function]
Make = Callable[[], Launch]
SOURCES = tuple(str(Path(package.__path__[0])) for package in (glueball.kernels, tests.kernels))
ARRIVALS = {"mbarrier_arrive", "mbarrier_expect"}
MBARRIERS = {*ARRIVALS, "mbarrier_init", "mbarrier_invalidate", "mbarrier_wait"}
COPIES = {"bulk_tensor_load", "copy_async", "store_async"}
UNITS = {*COPIES, "bulk_tensor_store", "warpgroup_mma"}
READS = {"shared_load", "remote_load", "load_matrix", "bulk_tensor_store", "warpgroup_mma"}
STORES = {"shared_store", "store_matrix"}
ACCESSES = {*READS, *STORES, *COPIES, *MBARRIERS}
REMOTE = {"remote_load", "store_async", "bulk_tensor_load", *ARRIVALS}
LINES: dict[type[SimulationError], tuple[set[str], set[str]]] = {
    errors.ReadBeforeWaitError: ({*READS, "float_truncate"}, UNITS),
    errors.OverwriteInFlightError: ({*STORES, *COPIES}, UNITS),
    errors.WaitCountError: ({*ACCESSES, "float_truncate"}, UNITS),
    errors.UninitializedReadError: (READS, set()),
    errors.SharedMemoryRaceError: (ACCESSES, ACCESSES),
    errors.ProxyFenceError: (UNITS, STORES),
    errors.DeadlockError: ({"mbarrier_wait", "cluster_barrier", "partitions"}, {*COPIES, *MBARRIERS}),
    errors.BarrierUnderflowError: (ARRIVALS, MBARRIERS),
    errors.BarrierStateError: ({*MBARRIERS, *COPIES}, {"mbarrier_invalidate"}),
    errors.PhaseOverrunError: ({*ARRIVALS, *COPIES}, {"mbarrier_wait"}),
    errors.PendingAtExitError: ({*UNITS, *ARRIVALS, "mbarrier_invalidate"}, {*COPIES, *MBARRIERS}),
    errors.RemoteMemoryError: (REMOTE, set()),
}
"""What stands at the line of a report of a class, and what at the other line that it names."""


def arrays(launch: Launch) -> list[bytes]:
    """The contents of a launch's arrays, of those behind descriptors as well."""
    whole = (getattr(argument, "base", argument) for argument in launch.arguments)
    return [np.ascontiguousarray(each).tobytes() for each in whole if isinstance(each, np.ndarray)]


def reported(simulate: Simulate, make: Make, fault: Fault, number: int) -> SimulationError | None:
    """What the first schedule that notices the fault says of it."""
    for schedule in SCHEDULES:
        try:
            simulate(make(), schedule, fault, number)
        except SimulationError as error:
            return error
    return None


def check_every_place(
    simulate: Simulate, make: Make, faults: Mapping[str, Fault], harmless: Mapping[str, Mapping[int, str]]
) -> list[tuple[str, SimulationError]]:
    """Faults are reported wherever they are planted, but where they are harmless; gives kinds and reports."""
    found = []
    function = simulate(make(), "in_order")
    planted = [(kind, number) for kind in faults for number in range(len(places(function, faults[kind])))]
    for kind, number in planted:
        error = reported(simulate, make, faults[kind], number)
        if number in harmless.get(kind, {}):
            assert error is None, f"{kind} {number} is not harmless: {error}"
            continue
        assert error is not None, f"nothing is said of {kind} {number}"
        assert isinstance(error, faults[kind].reports), f"{kind} {number}: {type(error).__name__}: {error}"
        check_lines(error, function)
        check_names(error, function)
        found.append((kind, error))
    return found


def check_lines(error: SimulationError, function: Function) -> None:
    """The report's lines are of the author's text, and such as its class is about."""
    kinds = next(LINES[kind] for kind in type(error).__mro__ if kind in LINES)
    held = defaultdict(set)
    for _, each in instructions(function.body):
        held[each.location].add(each.record.name)
    for location, kind in zip((error.location, error.details.get("other")), kinds, strict=True):
        assert location is not None or kind is kinds[1], error
        if location is not None:
            assert str(location.file).startswith(SOURCES), error
            assert held[location] & kind, f"{sorted(held[location])}: {error}"


def check_names(error: SimulationError, function: Function) -> None:
    """The report names a partition that its line is of, and a CTA, where there are several."""
    partitions = {partition for partition, each in instructions(function.body) if each.location == error.location}
    if any(each.record is PARTITIONS for each in function.body.walk()):
        assert any(partition in error.error_message for partition in partitions), error
    if function.num_ctas > 1:
        assert re.search(r"\bCTA \d of cluster \d", error.error_message), error


def instructions(region: Region, partition: str = "the default partition") -> Iterator[tuple[str, Instruction]]:
    """All instructions, each with the partition that it is of."""
    for each in region.instructions:
        yield partition, each
        for number, inner in enumerate(each.regions):
            worker = each.record is PARTITIONS and number > 0
            yield from instructions(inner, f"worker {number}" if worker else partition)


def check_schedules(simulate: Simulate, monkeypatch: pytest.MonkeyPatch, make: Make, seeds: range) -> None:
    """No report and the same results under every schedule."""
    launch = make()
    simulate(launch, "in_order")
    expected = arrays(launch)
    for schedule, seed in [("late", 0), *(("random", seed) for seed in seeds)]:
        monkeypatch.setenv("GLUEBALL_SEED", str(seed))
        launch = make()
        simulate(launch, schedule)
        assert arrays(launch) == expected, (schedule, seed)


def count_faults(
    simulate: Simulate, make: Make, faults: Mapping[str, Fault], harmless: Mapping[str, Mapping[int, str]]
) -> int:
    """At how many places of a kernel some faults are planted, harmless ones left out."""
    function = simulate(make(), "in_order")
    return sum(len(places(function, fault)) for fault in faults.values()) - sum(map(len, harmless.values()))
