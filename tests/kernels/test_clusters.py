"""Programs of several CTAs: who holds, stores and counts what, and what comes from one CTA to another."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, OptionError, VerificationError
from glueball.language.nvidia.hopper import async_store, cluster, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor
from tests.kernels import cluster_kernels as kernels
from tests.kernels.harness import EXECUTORS, random_array, run

ROWS, COLUMNS = 32, 64
CLUSTERS = [2, 4, 8]
REPLICATED = "replicated"


def cga(ctas: int, axis: int | str, rank: int = 2) -> list[list[int]]:
    """The bases of CTAs that split one dimension, or have everything each."""
    bits = range(ctas.bit_length() - 1)
    return [[1 << bit if index == axis else 0 for index in range(rank)] for bit in bits]


def rows(ctas: int, axis: int | str) -> gl.BlockedLayout:
    return gl.BlockedLayout([1, 2], [1, 32], [2, 2], [1, 0], cga(ctas, axis))


def columns(ctas: int, axis: int | str) -> gl.BlockedLayout:
    return gl.BlockedLayout([2, 1], [32, 1], [2, 2], [0, 1], cga(ctas, axis))


def line(ctas: int, axis: int | str = 0) -> gl.BlockedLayout:
    return gl.BlockedLayout([2], [32], [4], [0], cga(ctas, axis, 1))


SPREADS = {
    "rows": lambda ctas: rows(ctas, 0),
    "columns": lambda ctas: rows(ctas, 1),
    "turned": lambda ctas: columns(ctas, 0),
    "replicated": lambda ctas: rows(ctas, REPLICATED),
}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_program_is_a_cluster(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(4 * 6, np.int32)
    run(executor, monkeypatch, lambda o: kernels.program_numbers[(3, 2)](o, num_ctas=4), out)
    expected = [[[program, 3, 2, 4] for program in range(3)]] * 2
    assert out.reshape(2, 3, 4).tolist() == expected


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("layout", [line(2), line(2, REPLICATED), gl.BlockedLayout([1], [32], [4], [0], [[1], [0]])])
def test_every_element_has_one_holder(layout: Any, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.zeros(512, np.int32)
    run(executor, monkeypatch, lambda o: kernels.counted_stores[(1,)](o, layout, 512, num_ctas=layout.ctas), counts)
    assert (counts == 1).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [*CLUSTERS, 16])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_are_added_up(axis: int, ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((3 * 4, 512), np.int8).astype(np.float32)
    y = np.zeros(12, np.float32)
    run(executor, monkeypatch, lambda a, b: kernels.row_sums[(3,)](a, b, rows(ctas, axis), 4, 512, num_ctas=ctas), x, y)
    assert (y == x.sum(1)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [*CLUSTERS, 16])
def test_a_sum_over_all_ctas(ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((3, 4096), np.int8).astype(np.float32)
    y = np.zeros(3, np.float32)
    run(executor, monkeypatch, lambda a, b: kernels.whole_sum[(3,)](a, b, line(ctas), 4096, num_ctas=ctas), x, y)
    assert (y == x.sum(1)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
def test_sums_do_not_depend_on_clusters_where_they_must_not(
    ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random_array((3, 4096), np.float32)
    found = []
    for count in (1, ctas):
        y = np.zeros(3, np.float32)
        layout = line(count)
        run(
            executor,
            monkeypatch,
            lambda a, b, layout=layout, count=count: kernels.whole_sum[(3,)](
                a, b, layout, 4096, num_ctas=count, deterministic=True
            ),
            x,
            y,
        )
        found.append(y)
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
def test_maxima_and_where_they_are(ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((8, 256), np.float32)
    y, z = np.zeros(8, np.float32), np.zeros(8, np.int32)
    layout = rows(ctas, 1)
    run(executor, monkeypatch, lambda *a: kernels.row_maxima[(1,)](*a, layout, 8, 256, num_ctas=ctas), x, y, z)
    assert (y == x.max(1)).all()
    assert (z == x.argmax(1)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_two_reductions_a_row(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((5, 2048), np.float32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda a, b: kernels.softmax_rows[(2,)](a, b, 5, line(4), 2048, num_ctas=4), x, y)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, exact / exact.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(SPREADS, 2)])
def test_conversions(source: str, target: str, ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((ROWS, COLUMNS), np.int32)
    y = np.zeros_like(x)
    layouts = SPREADS[source](ctas), SPREADS[target](ctas)
    run(executor, monkeypatch, lambda a, b: kernels.converted[(1,)](a, b, *layouts, ROWS, COLUMNS, num_ctas=ctas), x, y)
    assert (x == y).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_conversions_in_a_loop(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((ROWS, COLUMNS), np.int8).astype(np.int32)
    y = np.zeros_like(x)
    layouts = rows(2, 1), rows(2, 0)
    run(
        executor,
        monkeypatch,
        lambda a, b: kernels.converted_in_turns[(1,)](a, b, 3, *layouts, ROWS, COLUMNS, num_ctas=2),
        x,
        y,
    )
    assert (y == x + 3).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
def test_scans_and_gathers_and_histograms(ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, count = line(ctas), 1024
    x = random_array(count, np.int8).astype(np.int32)
    index = np.random.default_rng(1).integers(0, count, count).astype(np.int32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda a, b: kernels.scanned[(1,)](a, b, layout, count, num_ctas=ctas), x, y)
    assert (y == x.cumsum()).all()
    run(executor, monkeypatch, lambda *a: kernels.gathered[(1,)](*a, layout, count, num_ctas=ctas), x, index, y)
    assert (y == x[index]).all()
    values, bins = index % 64, np.zeros(64, np.int32)
    run(
        executor,
        monkeypatch,
        lambda a, b: kernels.counted[(1,)](a, b, layout, layout, count, 64, num_ctas=ctas),
        values,
        bins,
    )
    assert (bins == np.bincount(values, minlength=64)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_in_rows(axis: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((16, 128), np.int32)
    index = np.random.default_rng(1).integers(0, 128, x.shape).astype(np.int32)
    y = np.zeros_like(x)
    layout = rows(2, axis)
    run(executor, monkeypatch, lambda *a: kernels.gathered_in_rows[(1,)](*a, layout, 16, 128, num_ctas=2), x, index, y)
    assert (y == np.take_along_axis(x, index, 1)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("axis", [0, 1, REPLICATED])
def test_all_ctas_know_what_an_atomic_found(axis: Any, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = np.arange(-1, 64, dtype=np.int32)
    counters[0] = 7
    y = np.zeros((64, 2), np.int32)
    layout = gl.BlockedLayout([1, 1], [32, 1], [2, 2], [1, 0], cga(2, axis))
    run(executor, monkeypatch, lambda c, o: kernels.tickets[(1,)](c, o, layout, 64, num_ctas=2), counters, y)
    assert (y == np.arange(64)[:, None] + 7).all()
    assert counters[0] == 8
    assert (counters[1:] == np.arange(1, 65)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("shared", [0, 1, REPLICATED])
@pytest.mark.parametrize(("source", "target"), [*itertools.product(SPREADS, ["rows", "columns", "replicated"])])
def test_views_in_all_ctas(
    source: str, target: str, shared: Any, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random_array((ROWS, COLUMNS), np.int32)
    y = np.zeros_like(x)
    layouts = SPREADS[source](2), gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga(2, shared)), SPREADS[target](2)
    run(executor, monkeypatch, lambda a, b: kernels.through_view[(1,)](a, b, *layouts, ROWS, COLUMNS, num_ctas=2), x, y)
    assert (x == y).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("ctas", "kept"), [(2, None), (2, 0), (2, 1), *((4, kept) for kept in (None, 0, 1, 2, 3))])
def test_arrivals_in_other_ctas(ctas: int, kept: int | None, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(256, np.int8).astype(np.int32)
    y = np.zeros_like(x)
    run(
        executor, monkeypatch, lambda a, b: kernels.passed_on[(1,)](a, b, 4, kept, line(ctas), 256, num_ctas=ctas), x, y
    )
    assert (y == x * 6).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("ctas", [2, 4])
def test_an_mbarrier_of_a_pair(ctas: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(256, np.int8).astype(np.int32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda a, b: kernels.shared_barrier[(1,)](a, b, line(ctas), 256, num_ctas=ctas), x, y)
    assert (y == x + 1).all()


ACROSS = gl.DistributedLinearLayout([[1]], [[2], [4], [8], [16], [128]], [[32], [0]], [[64]], [256])
"""A layout of which a part of each CTA lies in the memory of the other one."""


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", [line(2), ACROSS])
def test_stores_that_an_mbarrier_counts(source: Any, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(256, np.float32)
    y = np.zeros_like(x)
    shared = gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])
    run(executor, monkeypatch, lambda a, b: kernels.sent[(1,)](a, b, source, shared, line(2), 256, num_ctas=2), x, y)
    assert (x == y).all()


def described(bases: list[list[int]], block: list[int]) -> Any:
    """Makes a descriptor of an array, whose block is spread over CTAs."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16, cga_layout=bases)
    return lambda array: TensorDescriptor.from_tensor(array, block, layout)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("bases", "multicast"),
    [
        ([[1, 0]], False),
        ([[0, 1]], False),
        ([[0, 0]], False),
        ([[0, 0]], True),
        ([[0, 0], [1, 0]], True),
        ([[1, 0], [0, 0]], True),
        ([[1, 0], [0, 1]], False),
    ],
)
def test_bulk_copies_of_parts(
    bases: list[list[int]], multicast: bool, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = random_array((256, 128), np.int8).astype(np.float16)
    y = np.zeros_like(x)
    layout = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0], bases)
    describe = described(bases, [64, 128])

    def launch(a: Any, b: Any) -> Any:
        return kernels.copied[(2,)](describe(a), describe(b), 2, multicast, layout, num_ctas=1 << len(bases))

    run(executor, monkeypatch, launch, x, y)
    assert (y == x + 1).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("multicast", [False, True])
def test_partitions_wait_for_their_like(multicast: bool, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((256, 64), np.int8).astype(np.float16)
    y = np.zeros_like(x)
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[0, 0]])
    describe = described([[0, 0]], [64, 64])

    def launch(a: Any, b: Any) -> Any:
        return kernels.in_partitions[(1,)](describe(a), b, 4, multicast, layout, num_ctas=2)

    run(executor, monkeypatch, launch, x, y)
    assert (x == y).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stages", [1, 3])
def test_a_ring_that_one_cta_fills_for_both(stages: int, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((7 * 16, 64), np.int8).astype(np.float16)
    y = np.zeros_like(x)
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    describe = described([[0, 0]], [16, 64])

    def launch(a: Any, b: Any) -> Any:
        return kernels.shared_ring[(1,)](describe(a), b, 7, stages, layout, num_ctas=2)

    run(executor, monkeypatch, launch, x, y)
    assert (x == y).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize(
    ("bases", "left", "right"),
    [
        ([[1, 0]], [[1, 0]], [[0, 0]]),
        ([[0, 1]], [[0, 0]], [[0, 1]]),
        ([[1, 0], [0, 1]], [[1, 0], [0, 0]], [[0, 0], [0, 1]]),
    ],
)
def test_a_product_in_parts(
    bases: Any, left: Any, right: Any, multicast: bool, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (
        random_array(shape, np.int8, seed).astype(np.float16) % 5 for seed, shape in ((0, (256, 128)), (1, (128, 256)))
    )
    c = np.zeros((256, 256), np.float16)
    layout = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], bases)

    def launch(x: Any, y: Any, z: Any) -> Any:
        operands = described(left, [128, 64])(x), described(right, [64, 128])(y), described(bases, [128, 128])(z)
        return kernels.multiplied[(2, 2)](*operands, layout, multicast, num_ctas=1 << len(bases))

    run(executor, monkeypatch, launch, a, b, c)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_kernel_that_starts_early(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(256, np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)

    def launch(a: Any, b: Any, c: Any) -> None:
        for source, target in ((a, b), (b, c)):
            kernels.dependent[(1,)](source, target, line(2), 256, num_ctas=2, launch_pdl=True)

    run(executor, monkeypatch, launch, x, y, z)
    assert (z == x * 4).all()


# What the compiler makes of it.


def ptx(kernel: Any, *arguments: Any, **options: Any) -> str:
    return glueball.compile_only(kernel, *arguments, target="sm_90a", **options).asm["ptx"]


def test_a_reduction_costs_one_read_from_other_ctas_and_one_barrier() -> None:
    """One barrier before the reads, and the one at the end; nothing else waits."""
    text = ptx(kernels.whole_sum, "*fp32", "*fp32", line(4), 4096, num_ctas=4)
    assert ".explicitcluster" in text
    assert ".reqnctapercluster 4" in text
    assert text.count("mapa.shared::cluster") == text.count("ld.shared::cluster") == 1
    assert text.count("st.shared") == 1
    assert "bar.sync" not in text
    assert text.count("barrier.cluster.arrive.aligned") == text.count("barrier.cluster.wait.aligned") == 2


def test_reductions_after_one_another_have_memory_of_their_own() -> None:
    """So the second one's barrier is the one that the first one's memory waits for in the next turn of the loop."""
    text = ptx(kernels.softmax_rows, "*fp32", "*fp32", "i32", line(4), 2048, num_ctas=4)
    assert text.count("ld.shared::cluster") == 2
    assert text.count("barrier.cluster.arrive.aligned") == 3
    assert "bar.sync" not in text


def test_nothing_crosses_where_ctas_have_their_parts() -> None:
    text = ptx(kernels.row_sums, "*fp32", "*fp32", rows(4, 0), 4, 512, num_ctas=4)
    assert "mapa" not in text
    assert text.count("barrier.cluster.arrive.relaxed.aligned") == text.count("barrier.cluster.arrive") == 1


def test_mbarriers_for_others_are_announced() -> None:
    text = ptx(kernels.passed_on, "*i32", "*i32", "i32", 0, line(2), 256, num_ctas=2)
    start = text.index("fence.mbarrier_init.release.cluster")
    assert text.index("barrier.cluster.arrive.relaxed.aligned") > start
    assert text.rindex("barrier.cluster.arrive.aligned") > text.rindex("barrier.cluster.arrive.relaxed.aligned")
    assert "mbarrier.arrive.release.cluster.shared::cluster.b64 _" in text
    assert "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64" in text
    text = ptx(kernels.passed_on, "*i32", "*i32", "i32", None, line(2), 256, num_ctas=2)
    assert "fence.mbarrier_init" not in text
    assert text.rindex("barrier.cluster.arrive.relaxed.aligned") == text.rindex("barrier.cluster.arrive")


def test_arrivals_without_data_wait_for_no_earlier_writes() -> None:
    """Slots that a copy engine fills, and whose data goes to no other CTA, are handed back without a fence."""
    source, y = described([[0, 0]], [64, 64])(np.zeros((256, 64), np.float16)), np.zeros((256, 64), np.float16)
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    text = kernels.shared_ring.warmup(source, y, 4, 2, layout, num_ctas=2, grid=(1,)).asm["ptx"]
    own = [each for each in text.splitlines() if "mbarrier." in each and ".reg .b64 own" not in each]
    assert any("mbarrier.arrive.shared::cluster.b64 _" in each for each in own)
    assert not any("release.cluster.shared::cluster" in each or "acquire.cluster" in each for each in own)


@glueball.jit
def told_of_a_bulk_store(source, target, READ_ONLY: gl.constexpr):
    """A copy that the threads wait for, then tell the first CTA of, which may copy it on."""
    shared = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    told = mbarrier.allocate_mbarrier(two_ctas=True)
    for each in gl.static_range(2):
        mbarrier.init(bars.index(each), count=1)
    mbarrier.init(told, count=1)
    for turn in gl.static_range(2):
        mbarrier.expect(bars.index(turn), source.nbytes_per_cta)
        tma.async_load(source if turn == 0 else target, [0, 0], bars.index(turn), shared)
        mbarrier.wait(bars.index(turn), 0)
        if turn == 0:
            tma.async_store(target, [0, 0], shared)
            tma.store_wait(0, read_only=READ_ONLY)
            mbarrier.arrive(told)
            mbarrier.wait(told, 0)


@pytest.mark.parametrize("read_only", [False, True])
def test_arrivals_tell_of_bulk_stores_that_were_waited_for(read_only: bool) -> None:
    describe, array = described([[1, 0]], [64, 64]), np.zeros((64, 64), np.float16)
    kernel = told_of_a_bulk_store.warmup(describe(array), describe(array.copy()), read_only, num_ctas=2, grid=(1,))
    assert ("mbarrier.arrive.release.cluster.shared::cluster" in kernel.asm["ptx"]) == (not read_only)


def test_loads_for_several_ctas_are_started_by_the_first() -> None:
    describe = described([[0, 0]], [64, 64])
    array = np.zeros((256, 64), np.float16)
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[0, 0]])
    kernel = kernels.copied.warmup(describe(array), describe(array.copy()), 2, True, layout, num_ctas=2, grid=(1,))
    text = kernel.asm["ptx"]
    assert "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster" in text


def test_dependent_grids() -> None:
    text = ptx(kernels.dependent, "*fp32", "*fp32", line(1), 256)
    assert text.index("griddepcontrol.wait") < text.index("griddepcontrol.launch_dependents")


# What is refused.


@glueball.jit
def in_one_cta(x, layout: gl.constexpr, shared: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float32, [256], shared)
    view.store(gl.load(x + gl.arange(0, 256, layout=layout)))


@glueball.jit
def coalesced(x):
    i = gl.arange(0, 256, layout=gl.CoalescedLayout())
    gl.store(x + i, gl.load(x + i))


@glueball.jit
def waits(x):
    cluster.barrier()


@glueball.jit
def sends(x, layout: gl.constexpr, shared: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(gl.float32, [256], shared)
    async_store(view, gl.load(x + gl.arange(0, 256, layout=layout)), bar)


@glueball.jit
def cut(x, layout: gl.constexpr, shared: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float32, [256], shared)
    gl.store(x + gl.arange(0, 128, layout=layout), view.slice(0, 128).load(layout))


SPLIT, WHOLE, ALIKE = (gl.SwizzledSharedLayout(1, 1, 1, [0], bases) for bases in ([[1]], [], [[0]]))
ONE_CTA = "Layout has 1 CTAs per CGA, but the context requires 2 CTAs per CGA"


@pytest.mark.parametrize(
    ("kernel", "arguments", "ctas", "error", "message"),
    [
        (in_one_cta, (line(1), SPLIT), 2, VerificationError, ONE_CTA),
        (in_one_cta, (line(2), WHOLE), 2, VerificationError, ONE_CTA),
        (in_one_cta, (line(2), SPLIT), 1, VerificationError, "Layout has 2 CTAs per CGA, but the context requires 1"),
        (coalesced, (), 2, CompilationError, "a CoalescedLayout does not say which CTA of a cluster holds what"),
        (waits, (), 1, CompilationError, "`cluster.barrier` requires num_ctas > 1"),
        (sends, (line(1), WHOLE), 1, CompilationError, "`async_store` requires num_ctas > 1"),
        (sends, (line(2), ALIKE), 2, CompilationError, "a cga_layout has a zero"),
        (cut, (line(2), SPLIT), 2, CompilationError, "dimension 0 is spread over CTAs"),
    ],
)
def test_what_does_not_fit(kernel: Any, arguments: Any, ctas: int, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        _ = ptx(kernel, "*fp32", *arguments, num_ctas=ctas)


@pytest.mark.parametrize("count", [0, 3, 32])
def test_numbers_of_ctas(count: int) -> None:
    with pytest.raises(OptionError, match=f"num_ctas={count}: must be a power of two up to 16"):
        ptx(waits, "*fp32", num_ctas=count)


def test_targets_without_clusters() -> None:
    with pytest.raises(OptionError, match="num_ctas=2: sm_80 has no clusters of CTAs"):
        glueball.compile_only(kernels.whole_sum, "*fp32", "*fp32", line(2), 4096, num_ctas=2, target="sm_80")
