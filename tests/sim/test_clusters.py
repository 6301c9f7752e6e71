"""What the simulator reports of clusters: each inserted barrier is needed, and so is what the author must write."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import sim
from glueball.errors import (
    BarrierStateError,
    ByteCountError,
    DeadlockError,
    GlueballError,
    OverwriteInFlightError,
    PendingAtExitError,
    PhaseOverrunError,
    ReadBeforeWaitError,
    RemoteMemoryError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
)
from glueball.language.nvidia.hopper import async_store, cluster, mbarrier, tma
from glueball.lower import lower
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.compiler import Pipeline
from glueball.sim.scheduler import SCHEDULES
from glueball.targets import TARGETS
from glueball.tile.ir import Region, TileFunction
from tests.kernels import cluster_kernels as kernels

TARGET = TARGETS["sm_90a"]
INSERTED = ("cluster_barrier", "mbarrier_init_fence")
LINE = gl.BlockedLayout([2], [32], [4], [0], [[1]])
ROWS, COLUMNS = (gl.BlockedLayout([1, 2], [1, 32], [2, 2], [1, 0], bases) for bases in ([[1, 0]], [[0, 1]]))
SPLIT = gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])


KINDS = (
    SharedMemoryRaceError, RemoteMemoryError, PhaseOverrunError, DeadlockError, BarrierStateError,
    UninitializedReadError,
)  # fmt: skip


def launches() -> dict[str, tuple[Any, tuple[Any, ...], list[np.ndarray]]]:
    """Kernels, their compile-time and scalar arguments, and arrays."""
    numbers = np.arange(2048)
    return {
        "sum": (kernels.whole_sum, (LINE, 2048), [numbers.astype(np.float32), np.zeros(1, np.float32)]),
        "conversion": (
            kernels.converted_in_turns,
            (2, ROWS, COLUMNS, 32, 64),
            [numbers.astype(np.int32), np.zeros(2048, np.int32)],
        ),
        "arrivals": (kernels.passed_on, (3, 0, LINE, 256), [numbers.astype(np.int32), np.zeros(256, np.int32)]),
        "atomics": (
            kernels.tickets,
            (gl.BlockedLayout([1, 1], [32, 1], [2, 2], [1, 0], [[0, 0]]), 64),
            [np.zeros(65, np.int32), np.zeros(128, np.int32)],
        ),
    }


def tile_function(name: str, monkeypatch: pytest.MonkeyPatch) -> TileFunction:
    kernel, rest, arrays = launches()[name]
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    compiled = kernel[(1,)](*arrays, *rest, num_ctas=2)
    return Pipeline(compiled.request).tile


def inserted(function: TileFunction) -> list[tuple[Region, Any]]:
    regions = [function.body, *(region for each in function.body.walk() for region in each.regions)]
    found = [(region, each) for region in regions for each in region.operations]
    return [(region, each) for region, each in found if each.opcode in INSERTED]


def simulate(function: TileFunction, name: str, schedule: str) -> None:
    _, rest, arrays = launches()[name]
    scalars = [value for value in rest if isinstance(value, int)][: len(function.arguments) - len(arrays)]
    sim.run(lower(function, TARGET), TARGET, (1,), [*arrays, *scalars], schedule=schedule)


COUNTS = {"sum": 2, "conversion": 5, "arrivals": 4, "atomics": 3}
"""How many barriers and fences the kernels have; the author of `arrivals` has written one of them."""
NOT_NEEDED = {("arrivals", 2)}
"""The barrier at the end of a kernel, where nothing was done in the memory of others since the last one."""
CASES = [
    (name, number) for name, count in COUNTS.items() for number in range(count) if (name, number) not in NOT_NEEDED
]


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_inserted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = tile_function(name, monkeypatch)
    assert len(inserted(function)) == COUNTS[name]
    for schedule in SCHEDULES:
        simulate(function, name, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "number"), CASES)
def test_nothing_may_be_missing(name: str, number: int, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = tile_function(name, monkeypatch)
    region, operation = inserted(function)[number]
    region.operations.remove(operation)
    with pytest.raises(KINDS):
        simulate(function, name, schedule)


@glueball.jit
def runs_ahead(x, layout: gl.constexpr):
    """The first CTA arrives in the other one without waiting for it."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for k in range(3):
        mbarrier.arrive(bar, from_cta=0)
        mbarrier.wait(bar, k & 1)


@glueball.jit
def too_few(x, layout: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, from_cta=0)
    mbarrier.wait(bar, 0)


@glueball.jit
def never_initialised(x, layout: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.arrive(bar, from_cta=0)


@glueball.jit
def nobody_waits(x, layout: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, from_cta=0)


@glueball.jit
def sent_and_read(x, layout: gl.constexpr, shared: gl.constexpr, WAITS: gl.constexpr, BYTES: gl.constexpr):
    i = gl.arange(0, 256, layout=layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(gl.float32, [256], shared)
    mbarrier.expect(bar, BYTES)
    async_store(view, gl.load(x + i), bar)
    if WAITS:
        mbarrier.wait(bar, 0)
    gl.store(x + i, view.load(layout))
    mbarrier.wait(bar, 0)


@glueball.jit
def overwritten(source, y, layout: gl.constexpr, WAITS: gl.constexpr):
    """The first CTA loads the next block for both, whether or not the other one has read the last."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    for k in range(2):
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [k * source.block_shape[0], 0], bar, view, multicast=True)
        mbarrier.wait(bar, k & 1)
        gl.store(y + kernels.places(layout, source.block_shape[0], source.block_shape[1]), view.load(layout))
        if WAITS:
            cluster.barrier()


def report(kernel: Any, arguments: tuple[Any, ...], schedule: str, monkeypatch: pytest.MonkeyPatch) -> GlueballError:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    with pytest.raises(SimulationError) as caught:
        kernel[(1,)](*arguments, num_ctas=2)
    return caught.value


FAULTS = [
    (too_few, (LINE,), (DeadlockError,), "1 of 2 arrivals"),
    (never_initialised, (LINE,), (BarrierStateError, RemoteMemoryError), "CTA 0"),
    (nobody_waits, (LINE,), (PendingAtExitError, RemoteMemoryError), "CTA [01] of cluster 0"),
    (sent_and_read, (LINE, SPLIT, False, 512), (ReadBeforeWaitError,), "CTA [01]"),
    (sent_and_read, (LINE, SPLIT, True, 256), (ByteCountError,), "CTA [01] of cluster 0"),
    (sent_and_read, (LINE, SPLIT, True, 1024), (ByteCountError,), "512 bytes are missing"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("kernel", "rest", "kinds", "words"), FAULTS)
def test_faults(
    kernel: Any, rest: tuple[Any, ...], kinds: Any, words: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = report(kernel, (np.zeros(256, np.float32), *rest), schedule, monkeypatch)
    assert isinstance(error, kinds), error
    assert re.search(words, str(error)), error


def test_a_cta_that_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    error = report(runs_ahead, (np.zeros(256, np.float32), LINE), "in_order", monkeypatch)
    assert isinstance(error, PhaseOverrunError | DeadlockError)
    assert "CTA 1 of cluster 0" in str(error)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_memory_of_others_is_not_overwritten(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((128, 64), np.float16)
    layout = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    source = TensorDescriptor.from_tensor(array, [64, 64], layout)
    tile = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[0, 0]])
    y = np.zeros((64, 64), np.float16)
    error = report(overwritten, (source, y, tile, False), schedule, monkeypatch)
    assert isinstance(error, SharedMemoryRaceError | OverwriteInFlightError | PhaseOverrunError), error
    assert "CTA" in str(error)
    overwritten[(1,)](source, y, tile, True, num_ctas=2)


def test_a_request_whose_lanes_go_to_several_ctas_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    lanes, warps = [[256], [1], [2], [4], [8]], [[16], [32]]
    both = gl.DistributedLinearLayout([[128]], lanes, warps, [[64]], [512])
    sent = kernels.sent[(1,)](x, y, both, SPLIT, LINE, 512, num_ctas=2).report.remote_stores
    assert np.array_equal(x, y)
    rows, columns = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)
    home = gl.BlockedLayout([1, 2], [1, 32], [1, 4], [1, 0], [[1, 0]])
    lanes, warps = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8]], [[0, 16], [0, 32]]
    other = gl.DistributedLinearLayout([[0, 128]], lanes, warps, [[0, 64]], [2, 256])
    shared = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], [[1, 0]])
    read = kernels.through_view[(1,)](rows, columns, home, shared, other, 2, 256, num_ctas=2).report.remote_loads
    assert np.array_equal(rows, columns)
    requests = 2 * 2 * 4
    for counts in (sent, read):
        assert (counts.requests, counts.wavefronts, counts.ideal_wavefronts) == (requests, 2 * requests, 2 * requests)
