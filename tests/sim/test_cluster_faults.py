"""Every fault planted into kernels of clusters is reported with a CTA's rank, and the kernels as they are give none.

The kernels are those of rows that a cluster shares, multicast copies, products and rings, arrivals and stores in other
CTAs, and conversions and reductions across CTAs. Beside the kinds of `tests.sim.planting` there are faults of one CTA
alone: what it leaves out or does otherwise, turns that it takes more or less, and its early end.
"""

from __future__ import annotations

import re

import pytest

from tests.sim.cluster_launches import CLUSTER_KERNELS
from tests.sim.planting import places
from tests.sim.planting_uneven import CLUSTER_FAULTS, CTAS
from tests.sim.reports import Simulate, check_every_place, check_schedules, count_faults

READ_ONLY = "the buffer that is refilled has only been read through the other proxy"
ORDERED_TWICE = "another barrier orders the same accesses"
ITSELF = "the one thread that goes on has itself done or waited for what the barrier orders"
ENDED = "the end of workers orders the same accesses"
RECEIVED = "what the other CTA sends has been waited for, and nothing else is done in a CTA's memory from there"
DOES_NOT = "that CTA leaves it to the other one"
GOES_THERE = "that is where it goes anyway"
ONE_STORES = "only the other CTA stores what both have"
EVERYWHERE = ("", " in CTA 0", " in CTA 1")
HARMLESS: dict[tuple[str, str], dict[int, str]] = {
    ("softmax", "no proxy fence"): dict.fromkeys((0, 1), READ_ONLY),
    ("norm", "no proxy fence"): dict.fromkeys((0, 1, 2), READ_ONLY),
    ("softmax", "no barrier"): {1: RECEIVED, 2: ITSELF, 3: ITSELF},
    ("norm", "no barrier"): {1: RECEIVED, 2: ITSELF, 3: ITSELF, 4: ORDERED_TWICE},
    **{("softmax", f"no barrier in CTA {rank}"): {2: ITSELF, 3: ITSELF} for rank in (0, 1)},
    **{("norm", f"no barrier in CTA {rank}"): {2: ITSELF, 3: ITSELF, 4: ORDERED_TWICE} for rank in (0, 1)},
    ("copied", "no barrier"): {1: ORDERED_TWICE},
    ("copied", "no barrier in CTA 1"): dict.fromkeys((2, 3), ONE_STORES),
    ("product", "no barrier"): {2: ORDERED_TWICE},
    ("ring", "no proxy fence"): {0: READ_ONLY},
    **{("ring", f"no barrier{where}"): {0: ITSELF, 2: ENDED, 5: ITSELF} for where in EVERYWHERE},
    ("ring", "no wait in CTA 0"): {1: "it waits for all to have freed the slot, itself among them"},
    ("ring", "no wait in CTA 1"): {2: DOES_NOT},
    ("ring", "other phase in CTA 1"): {2: DOES_NOT},
    ("ring", "more arrivals due in CTA 1"): dict.fromkeys((2, 5), DOES_NOT),
    ("ring", "fewer arrivals due in CTA 1"): dict.fromkeys((0, 1), DOES_NOT),
    ("ring", "no initialisation in CTA 1"): dict.fromkeys((2, 5), DOES_NOT),
    ("ring", "arrivals in CTA 0"): {0: GOES_THERE},
    ("partitions", "no proxy fence"): {0: READ_ONLY},
    ("partitions", "no barrier"): {0: ITSELF, 2: ENDED, 3: RECEIVED, 6: ITSELF},
    ("partitions", "no barrier in CTA 0"): {0: ITSELF, 2: ENDED, 4: "only that CTA fills its slot", 6: ITSELF},
    ("partitions", "no barrier in CTA 1"): {0: ITSELF, 2: ENDED, 6: ITSELF},
    **{("arrivals", f"no wait{where}"): {0: ORDERED_TWICE} for where in EVERYWHERE},
    ("arrivals", "no barrier"): {1: ORDERED_TWICE},
    ("arrivals", "an arrival too few in CTA 1"): {0: DOES_NOT},
    ("arrivals", "an arrival too many in CTA 1"): {0: DOES_NOT},
    **{("pair", f"no wait{where}"): {0: ORDERED_TWICE} for where in EVERYWHERE},
    ("pair", "no barrier"): {2: ORDERED_TWICE},
    ("pair", "other phase in CTA 1"): {0: DOES_NOT},
    ("pair", "more arrivals due in CTA 1"): {0: DOES_NOT},
    ("pair", "fewer arrivals due in CTA 1"): {0: DOES_NOT},
    ("pair", "no initialisation in CTA 1"): {0: DOES_NOT},
    ("pair", "arrivals in CTA 0"): {0: GOES_THERE},
    ("sent", "no barrier"): {1: RECEIVED},
}  # fmt: skip
"""Places where the change is no fault that a report could be about, and why."""


BEFORE_OTHERS = {("pair", "an arrival too many in CTA 1")}
"""What happens before the other CTA arrives, whose arrival is then the one too many."""


def harmless_in(name: str) -> dict[str, dict[int, str]]:
    """For each kind, the places in a kernel where it is none."""
    return {kind: places for (kernel, kind), places in HARMLESS.items() if kernel == name}


def planted_faults(simulate: Simulate) -> dict[str, int]:
    """How many faults are planted into each kernel, harmless ones left out."""
    return {
        name: count_faults(simulate, make, CLUSTER_FAULTS, harmless_in(name)) for name, make in CLUSTER_KERNELS.items()
    }


@pytest.mark.parametrize("name", CLUSTER_KERNELS)
def test_every_planted_fault_is_reported(name: str, simulate: Simulate) -> None:
    """Where one CTA has the fault, the report names that CTA among those that it names."""
    for kind, error in check_every_place(simulate, CLUSTER_KERNELS[name], CLUSTER_FAULTS, harmless_in(name)):
        culprit = re.search(r"CTA \d", kind)
        if culprit and (name, kind) not in BEFORE_OTHERS:
            assert culprit[0] in error.error_message, error


def test_the_faults_are_many(simulate: Simulate) -> None:
    functions = [simulate(make(), "in_order") for make in CLUSTER_KERNELS.values()]
    assert all(function.num_ctas == CTAS for function in functions)
    assert sum(planted_faults(simulate).values()) >= 600
    for kind, fault in CLUSTER_FAULTS.items():
        assert any(places(function, fault) for function in functions), kind


@pytest.mark.parametrize("name", CLUSTER_KERNELS)
def test_kernels_as_they_are(name: str, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    check_schedules(simulate, monkeypatch, CLUSTER_KERNELS[name], range(5))
