"""Faults by their names: for each what is left out where, the class of the report, and whom and what it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from glueball import errors
from glueball.errors import SimulationError
from tests.sim.cluster_launches import CLUSTER_KERNELS
from tests.sim.faulty_kernels import KERNELS
from tests.sim.planting import places
from tests.sim.planting_uneven import CLUSTER_FAULTS, TURNS
from tests.sim.reports import Simulate, check_lines, check_names, reported

FAULTS = {**CLUSTER_FAULTS, **TURNS}
V8, RING, SOFTMAX = "product v8", "ring", "softmax partitions"


@dataclass(frozen=True)
class Case:
    """A fault of a kind, planted at the instruction of that number that can have it; `text` must be in the report."""

    kernel: str
    kind: str
    number: int
    error: type[SimulationError]
    text: str


PARTITION_CASES = {
    "partitions waiting for each other": Case(
        SOFTMAX, "other phase", 2, errors.DeadlockError,
        r"the default partition of block 0 waits at .* for phase 0 of mbarrier `loaded`.*"
        r"worker 1 of block 0 waits at .* for phase 0 of mbarrier `free`",
    ),
    "unequal trip counts: the copying partition stops a turn before the others": Case(
        V8, "a turn fewer", 5, errors.DeadlockError,
        r"after a warp-specialized thread exited: the default partition of block 0 waits at .*`full`.*"
        r"worker 1 of block 0 waits at .*`full`.* last changed at .* by worker 2 of block 0; worker 2 has ended",
    ),
    "unequal trip counts: a multiplying partition stops a turn before the others": Case(
        V8, "a turn fewer", 3, errors.DeadlockError,
        r"the default partition of block 0 waits at .*`full`.*worker 2 of block 0 waits at .*`empty`",
    ),
    "an accumulator read in flight": Case(
        V8, "one group too many under way", 5, errors.WaitCountError,
        r"an accumulator is used before the matrix product started at .* was waited for.*\(worker 1 of block 0\)",
    ),
    "an operand refilled in flight": Case(
        V8, "no wait for a group", 3, errors.WaitCountError,
        r"`a_ring` is written .* before the matrix product started at .* was waited for.*\(worker 2 of block 0\)",
    ),
    "an operand refilled in flight: freed a turn early": Case(
        V8, "one group too many under way", 7, errors.SharedMemoryRaceError,
        r"`a_ring` is written .*, which worker 1 has read .*\(worker 2 of block 0\)",
    ),
    "a slot read before the wait": Case(
        SOFTMAX, "other phase", 0, errors.UninitializedReadError,
        r"`ring` is read .*, never written .*\(the default partition of block 0\)",
    ),
}  # fmt: skip

CLUSTER_CASES = {
    "a remote arrival too few": Case(
        RING, "an arrival too few in CTA 1", 1, errors.DeadlockError,
        r"worker 1 of CTA 0 of cluster 0 waits at .*`all_free` of CTA 0: 1 of 2 arrivals and 0 bytes are missing",
    ),
    "a remote arrival too many": Case(
        RING, "an arrival too many in CTA 1", 1, errors.OverwriteInFlightError,
        r"`ring` of CTA 1 is written .*\(worker 1 of CTA 0 of cluster 0\)",
    ),
    "multicast to a CTA that has left": Case(
        RING, "CTA 1 leaves early", 1, errors.RemoteMemoryError,
        r"worker 1 of CTA 0 of cluster 0 reaches into the shared memory of CTA 1 of cluster 0, which has ended",
    ),
    "initialisation without the cluster's barrier": Case(
        RING, "no barrier", 1, errors.RemoteMemoryError,
        r"worker 1 of CTA 0 of cluster 0 reaches into .* of CTA 1 of cluster 0, which may not have started yet",
    ),
    "initialisation without the cluster's fence": Case(
        RING, "no fence after initialisation", 0, errors.SharedMemoryRaceError,
        r"`full` of CTA 1 is used .*, which the default partition of CTA 1 .* has written .* no cluster barrier",
    ),
    "no cluster barrier before others read": Case(
        "conversions", "no barrier", 4, errors.SharedMemoryRaceError, r"\(the kernel of CTA 1 of cluster 0\)"
    ),
    "one thread at a partition's cluster barrier before others have read": Case(
        "partitions", "no barrier in CTA 1", 4, errors.SharedMemoryRaceError,
        r"`view` of CTA 1 is written .*, which the default partition of CTA 1 of cluster 0 has read at .*"
        r"\(worker 1 of CTA 0 of cluster 0\)",
    ),
    "no cluster barrier at the end": Case(
        "sum", "no barrier", 1, errors.RemoteMemoryError,
        r"CTA 0 of cluster 0 reaches into the shared memory of CTA 1 of cluster 0, which has ended",
    ),
    "a slot refilled before all ranks freed it": Case(
        RING, "no wait", 2, errors.OverwriteInFlightError,
        r"`ring` of CTA 1 is written .* with no wait for the mbarrier of .*\(worker 1 of CTA 0 of cluster 0\)",
    ),
    "a slot refilled before all ranks freed it, one of them still reading": Case(
        RING, "no barrier", 4, errors.SharedMemoryRaceError,
        r"`ring` is written .*, which the default partition of CTA \d of cluster 0 has read",
    ),
    "read before the wait": Case(
        RING, "other phase in CTA 1", 0, errors.ReadBeforeWaitError,
        r"`ring` is read .* with no wait .*CTA 1.*\(the default partition of CTA 1 of cluster 0\)",
    ),
    "fewer bytes expected than come": Case(
        RING, "half the bytes in CTA 1", 0, errors.ByteCountError,
        r"`full` of CTA 1: 0 of 1 arrivals and -1024 bytes are missing.*all arrivals are there and 2048 bytes",
    ),
    "more bytes expected than come": Case(
        RING, "twice the bytes in CTA 1", 0, errors.ByteCountError,
        r"`full` of CTA 1: 0 of 1 arrivals and 2048 bytes are missing.*all arrivals are there and 2048 bytes",
    ),
    "a wrong phase": Case(
        RING, "other phase in CTA 1", 1, errors.DeadlockError,
        r"worker 1 of CTA 1 of cluster 0 waits at .* for phase 0 of mbarrier `free` of CTA 1",
    ),
    "no initialisation": Case(
        RING, "no initialisation in CTA 0", 2, errors.BarrierStateError,
        r"`all_free` of CTA 0 is none.*CTA \d of cluster 0",
    ),
    "unequal trip counts of CTAs": Case(
        RING, "a turn fewer in CTA 1", 0, errors.PendingAtExitError,
        r"CTA 1 of cluster 0 ended without a wait for the mbarrier of the copy started at .* by worker 1 of CTA 0",
    ),
    "a multicast copy that leaves a CTA out": Case(
        "copied", "a copy for one CTA", 0, errors.DeadlockError, r"CTA 1 of cluster 0 waits at .*2048 bytes are missing"
    ),
    "an mbarrier invalidated in the middle of a phase": Case(
        "pair", "an arrival too many in CTA 1", 0, errors.PendingAtExitError,
        r"`bar` of CTA 0 is invalidated in the middle of a phase: 1 of 2 arrivals",
    ),
}  # fmt: skip
CASES = {**PARTITION_CASES, **CLUSTER_CASES}


@pytest.mark.parametrize("name", CASES)
def test_faults_by_name(name: str, simulate: Simulate) -> None:
    case = CASES[name]
    make = (CLUSTER_KERNELS if name in CLUSTER_CASES else KERNELS)[case.kernel]
    function, fault = simulate(make(), "in_order"), FAULTS[case.kind]
    assert case.number < len(places(function, fault))
    error = reported(simulate, make, fault, case.number)
    assert type(error) is case.error, error
    assert re.search(case.text, error.error_message, re.DOTALL), error
    check_lines(error, function)
    check_names(error, function)
