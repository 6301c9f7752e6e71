"""Every fault planted into the library's asynchronous kernels is reported, and the kernels as they are give none.

The kernels are those of the addition ladder, the matrix products, copies, gathers and row kernels; a fault of each kind
of `tests.sim.planting` goes to every place that can have it. Each must be reported with a right class, at lines that
the class is about, and with the partition that they are of, under at least one of the three schedules.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.sim.faulty_kernels import KERNELS
from tests.sim.planting import FAULTS, Fault
from tests.sim.planting_uneven import TURNS
from tests.sim.reports import Simulate, check_every_place, check_schedules, count_faults

PARTITIONED = ("add partitions", "softmax partitions", "product v8")
LAST_GROUPS = "the groups after the last tile are empty"
READ_ONLY = "the buffer that is refilled has only been read through the other proxy"
ORDERED_TWICE = "another barrier orders the same accesses in every turn that this launch takes"
OWN_PLACE = "each thread overwrites only what it has read itself"
ITSELF = "the one thread that goes on has itself done or waited for what the barrier orders"
NEXT_COMMIT = "the commit of the next store takes this one along"
LAST_STORE = "nobody waits for the last tile to be stored, which is missing then"
HARMLESS: dict[tuple[str, str], dict[int, str]] = {
    ("add triple", "no wait for a group"): {0: LAST_GROUPS},
    ("add triple", "one group too many under way"): {0: LAST_GROUPS},
    ("softmax held", "no proxy fence"): {0: READ_ONLY},
    ("softmax read again", "no proxy fence"): {0: READ_ONLY},
    ("add ring", "no barrier"): {1: OWN_PLACE, 3: ORDERED_TWICE},
    ("add partitions", "no barrier"): {0: OWN_PLACE, 2: ITSELF},
    ("gather", "no barrier"): {1: ITSELF},
    ("transpose", "no commit"): {0: NEXT_COMMIT},
    ("transpose", "no barrier"): {1: ORDERED_TWICE},
    ("product v3", "no barrier"): {3: ORDERED_TWICE},
    ("product v8", "no barrier"): {4: ITSELF},
    ("softmax partitions", "no proxy fence"): {0: READ_ONLY},
    ("softmax partitions", "no barrier"): {4: ITSELF},
    ("add partitions", "a turn fewer"): {2: LAST_STORE},
    ("softmax partitions", "a turn fewer"): {2: LAST_STORE},
}
"""Places where the change is no fault that a report could be about, and why."""


def faults_of(name: str) -> Mapping[str, Fault]:
    """The kinds that are planted into a kernel."""
    return {**FAULTS, **TURNS} if name in PARTITIONED else FAULTS


def harmless_in(name: str) -> dict[str, dict[int, str]]:
    """For each kind, the places in a kernel where it is none."""
    return {kind: places for (kernel, kind), places in HARMLESS.items() if kernel == name}


def planted_faults(simulate: Simulate) -> dict[str, int]:
    """How many faults are planted into each kernel, harmless ones left out."""
    return {name: count_faults(simulate, make, faults_of(name), harmless_in(name)) for name, make in KERNELS.items()}


@pytest.mark.parametrize("name", KERNELS)
def test_every_planted_fault_is_reported(name: str, simulate: Simulate) -> None:
    check_every_place(simulate, KERNELS[name], faults_of(name), harmless_in(name))


def test_the_faults_are_many(simulate: Simulate) -> None:
    counts = planted_faults(simulate)
    assert len(counts) >= 12
    assert sum(counts.values()) >= 480
    assert sum(counts[name] for name in PARTITIONED) >= 150, "across partitions"


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_as_they_are(name: str, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    check_schedules(simulate, monkeypatch, KERNELS[name], range(3))
