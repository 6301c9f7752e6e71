"""What `explain` predicts of asynchronous copies, rings and views is what the simulator counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.explain import CostModel, Report, Traffic, explain, render
from glueball.explain.occupancy import occupancy
from glueball.explain.report import AccessCost, BarrierCost, BulkCost, WaitCost
from glueball.kernels.add_ladder import ADD_RUNGS, AddPlan, AddRung, rung_named
from glueball.kernels.addition import add_bulk
from glueball.kernels.bulk_row_plans import BulkNormPlan, BulkRowPlan
from glueball.kernels.cluster_rows import ClusterRowPlan, launch_softmax_split
from glueball.kernels.copies import CopyPlan, TurnPlan, launch_copy
from glueball.kernels.gathers import GatherPlan
from glueball.kernels.ladder import Launch
from glueball.kernels.rows import launch_norm, launch_softmax
from glueball.kernels.scatter import launch_embedding
from glueball.language.nvidia.ampere import async_copy
from glueball.language.nvidia.hopper import mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
from glueball.targets import TARGETS
from tests.explain.differential import check
from tests.kernels.library import BFLOAT16
from tests.sim.asynchronous_kernels import aligned


def few(launch: Launch, programs: int = 2) -> Launch:
    return Launch(launch.kernel, (programs,), launch.arguments, launch.keywords, launch.bytes)


@pytest.mark.parametrize("shape", [(64, 256), (70, 203)], ids=str)
@pytest.mark.parametrize("rung", [rung for rung in ADD_RUNGS if rung.name != "plain"], ids=lambda rung: rung.name)
def test_every_rung_of_the_addition_is_predicted(
    rung: AddRung, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if rung.name in ("bulk", "ring", "partitions"):
        shape = (shape[0], -(-shape[1] // 4) * 4)
    x, y, out = (aligned((shape[0], 256), np.float32)[:, : shape[1]] for _ in range(3))
    plan = AddPlan(8, 64, 4, rung.plan.stages, 1 if rung.plan.programs else 0)
    launch = rung.launch(x, y, out, plan)
    report = check(few(launch, 3) if rung.plan.programs else launch, monkeypatch)
    elements = shape[0] * shape[1]
    assert report.total is not None and report.total.useful_bytes == 12 * elements
    assert not any(note for row in report.rows if isinstance(row, AccessCost | BulkCost) for note in row.notes)


COPIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], type, CopyPlan | TurnPlan | None]] = {
    "matrix": ((64, 256), (0, 1), np.float32, None),
    "ragged": ((50, 200), (0, 1), np.float32, CopyPlan(1024)),
    "cube": ((5, 7, 24), (0, 1, 2), np.int16, CopyPlan(512)),
    "opposite": ((64, 96), (1, 0), np.float32, TurnPlan(128, 128, 4)),
    "opposite halves": ((72, 104), (1, 0), np.int16, None),
    "opposite bytes": ((128, 144), (1, 0), np.int8, None),
}


@pytest.mark.parametrize("case", COPIES.values(), ids=COPIES)
def test_copies_are_predicted(case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    shape, order, dtype, plan = case
    x, y = aligned(shape, dtype), aligned([shape[axis] for axis in order], dtype).transpose(np.argsort(order))
    report = check(launch_copy(x, y, plan), monkeypatch)
    assert all(row.once is None or row.once.wavefronts == row.once.least for row in report.views)


def test_rows_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (1024, 1000):
        x, y = aligned((9, columns), BFLOAT16), aligned((9, columns), BFLOAT16)
        for plan in (BulkRowPlan(4, 2, 1), BulkRowPlan(4, 1, 1, 2)):
            check(few(launch_softmax(x, y, plan)), monkeypatch)
        weight, scale = aligned((columns,), BFLOAT16), np.empty(9, np.float32)
        check(launch_norm(x, weight, None, y, None, scale, 1e-5, BulkNormPlan(4, 2)), monkeypatch)


@pytest.mark.parametrize("ctas", [2, 4])
def test_rows_that_clusters_share_are_predicted(ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((5, 4096), BFLOAT16), aligned((5, 4096), BFLOAT16)
    report = check(launch_softmax_split(x, y, ClusterRowPlan(ctas, 4, 2, 2)), monkeypatch)
    assert report.bulk_loads is not None and report.bulk_loads.useful_bytes == x.nbytes


def waits(report: Report, what: str) -> int:
    """How often one program comes to waits for something."""
    return sum(row.executions or 0 for row in report.rows if isinstance(row, WaitCost) and what in row.what)


def test_what_ctas_of_a_cluster_do_together_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((4, 4096), BFLOAT16), aligned((4, 4096), BFLOAT16)
    launch = launch_softmax_split(x, y, ClusterRowPlan(2, 4, 2, 2))
    report = check(launch, monkeypatch)
    counted, warps = launch.run().report, 2 * 2 * report.num_warps
    sent = [row for row in report.views if row.kind == "async_store"]
    assert len(sent) == 2
    assert sum(row.grid.requests for row in sent) == counted.remote_stores.requests > 0
    assert waits(report, "barrier of the cluster") * warps == counted.issued("cluster_barrier") > 0
    text = render(report)
    assert "- send to maxima: fp32 [2, 8], 4 bytes a lane" in text
    assert "shared stores" in text and "shared loads" in text


def test_waits_fences_and_barriers_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, out = (aligned((70, 256), np.float32) for _ in range(3))
    launch = few(rung_named("ring").launch(x, y, out, AddPlan(8, 64, 4, 3, 1)), 1)
    report = check(launch, monkeypatch)
    counted = launch.run().report
    kinds = {"mbarrier_wait": "an mbarrier", "bulk_wait_group": "bulk stores", "fence_proxy_async": "proxy fence"}
    for name, what in kinds.items():
        assert waits(report, what) * report.num_warps == counted.issued(name) > 0
    barriers = sum(row.executions or 0 for row in report.rows if isinstance(row, BarrierCost))
    assert barriers * report.num_warps == counted.barriers


def test_bytes_in_flight_and_rings() -> None:
    x = aligned((2048, 256), np.float32)
    tile = 32 * 256 * 4
    for stages in (2, 3):
        launch = rung_named("ring").launch(x, x, x, AddPlan(32, 256, 8, stages, 1))
        report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=(4,))
        rings = [(ring.name, ring.stages, ring.stage_bytes) for ring in report.rings]
        assert rings == [("x_ring", stages, tile), ("y_ring", stages, tile)]
        assert report.in_flight == 2 * (stages - 1) * tile
        launch = rung_named("partitions").launch(x, x, x, AddPlan(32, 256, 8, stages, 1))
        report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=(4,))
        assert report.in_flight == 2 * stages * tile
        launch = rung_named("triple").launch(x, x, x, AddPlan(8, 256, 4, stages, 1))
        report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=(4,))
        assert report.in_flight == 2 * stages * 8 * 256 * 4
    launch = launch_copy(x, np.empty_like(x), CopyPlan(8192))
    report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=(4,))
    assert report.in_flight == 8192 and report.rings[0].stages == 1


@pytest.mark.parametrize(
    ("target", "warps", "shared", "registers", "expected"),
    [
        ("sm_90a", 8, 196632, 74, (8, 1, 3)), ("sm_90a", 4, 232448, 32, (16, 1, 16)),
        ("sm_90a", 4, 0, 168, (16, 32, 3)),
        ("sm_90a", 1, 57000, 32, (32, 4, 32)), ("sm_120a", 4, 0, 32, (12, 24, 16)), ("sm_80", 32, 1000, 64, (2, 32, 1)),
    ],
)  # fmt: skip
def test_occupancy(target: str, warps: int, shared: int, registers: int, expected: tuple[int, int, int]) -> None:
    found = occupancy(TARGETS[target], warps, shared, registers)
    assert found is not None
    assert (found.by_threads, found.by_shared_memory, found.by_registers) == expected
    assert found.programs == min(expected)
    assert occupancy(TARGETS["gfx942"], 4, 0, 32) is None


def test_occupancy_by_the_registers_of_the_assembler() -> None:
    x = aligned((64, 256), np.float32)
    launch = rung_named("bulk").launch(x, x, x)
    arguments = (launch.kernel, launch.arguments, launch.keywords)
    fewer = explain(*arguments, target="sm_90a").occupancy
    more = explain(*arguments, target="sm_90a", registers=128).occupancy
    assert fewer is not None and more is not None and more.by_registers == 2 < fewer.by_registers


def test_places_that_are_loaded_are_not_counted_and_said() -> None:
    table, out, index = aligned((9, 512), BFLOAT16), aligned((5, 512), BFLOAT16), np.zeros(5, np.int64)
    launch = launch_embedding(table, index, out, GatherPlan(1))
    report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=launch.grid)
    loads = [row for row in report.bulk_copies if row.kind == "bulk_load"]
    (store,) = (row for row in report.bulk_copies if row.kind == "bulk_store")
    assert all(row.grid is None and "where the blocks lie" in row.notes[0] for row in loads)
    assert report.bulk_loads is None
    assert store.grid is not None and store.grid.useful_bytes == 5 * 1024


FOUR = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
TALL = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


@glueball.jit
def through_shared(x_ptr, y_ptr, shared: gl.constexpr, first: gl.constexpr, second: gl.constexpr):
    buffer = gl.allocate_shared_memory(gl.float32, [32, 32], shared)
    row = gl.arange(0, 32, layout=gl.SliceLayout(1, first))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, first))
    buffer.store(gl.load(x_ptr + row[:, None] * 32 + column[None, :]))
    value = buffer.load(second)
    row = gl.arange(0, 32, layout=gl.SliceLayout(1, second))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, second))
    gl.store(y_ptr + row[:, None] * 32 + column[None, :], value)


SHARED = {
    "rows": gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
    "swizzled": gl.SwizzledSharedLayout(4, 1, 8, [1, 0]),
    "swizzled by 128 bytes": gl.NVMMASharedLayout(128, 32, 2),
    "padded": gl.PaddedSharedLayout.with_identity_for([[32, 4]], [32, 32], [1, 0]),
}


@pytest.mark.parametrize("layouts", [(FOUR, TALL), (TALL, FOUR), (TALL, TALL)], ids=["rows", "columns", "both"])
@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_bank_conflicts_of_views(shared: Any, layouts: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    keywords = {"shared": shared, "first": layouts[0], "second": layouts[1], "num_warps": 4}
    report = check(Launch(through_shared, (3,), (x, y), keywords, 0), monkeypatch)
    store, load = report.views
    assert (store.kind, load.kind) == ("view_store", "view_load") and store.allocation == load.allocation == "buffer"
    if shared is SHARED["rows"] and layouts == (FOUR, TALL):
        assert load.once is not None and load.once.conflicts == 32


@glueball.jit
def copied_by_turns(x_ptr, y_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr):
    ring = gl.allocate_shared_memory(gl.float32, [2, BLOCK], shared)
    place = gl.arange(0, BLOCK, layout=layout)
    turn = 0
    start = 0
    while start < n:
        async_copy.async_load(ring.index(turn % 2), x_ptr + start + place, mask=start + place < n)
        async_copy.commit_group()
        async_copy.wait_group(0)
        gl.store(y_ptr + start + place, ring.index(turn % 2).load(layout), mask=start + place < n)
        start += BLOCK
        turn += 1


@pytest.mark.parametrize("n", [512, 500, 154])
def test_while_loops_and_masks_that_cut_tiles(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((n,), np.float32), aligned((n,), np.float32)
    x[...] = np.arange(n)
    keywords = {
        "BLOCK": 256, "layout": gl.BlockedLayout([2], [32], [4], [0]), "shared": gl.SwizzledSharedLayout(1, 1, 1, [0]),
    }  # fmt: skip
    report = check(Launch(copied_by_turns, (1,), (x, y, n), keywords, 0), monkeypatch)
    np.testing.assert_array_equal(x, y)
    assert report.copies is not None and report.copies.useful_bytes == 4 * n
    assert report.in_flight == 1024


@glueball.jit
def pixels(x_desc, y_ptr, layout: gl.constexpr):
    buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, x_desc.nbytes_per_cta)
    tma.async_load_im2col(x_desc, [0, -1, -1, 0], [gl.program_id(0).to(gl.int16), 1], loaded, buffer)
    mbarrier.wait(loaded, 0)
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, 8, layout=gl.SliceLayout(0, layout))
    gl.store(y_ptr + gl.program_id(0) * 128 + row[:, None] * 8 + column[None, :], buffer.load(layout))


def test_pixels_under_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((2, 4, 6, 8), np.float32), np.zeros((3, 16, 8), np.float32)
    desc = TensorDescriptorIm2Col(
        x, [2, 4, 6, 8], [192, 48, 8, 1], [16, 8], gl.NVMMASharedLayout(32, 32, 2), "zero", False, [1, 1, 1, 1],
        [-1, -1], [-1, -1],
    )  # fmt: skip
    layout = gl.BlockedLayout([1, 4], [16, 2], [4, 1], [1, 0])
    check(Launch(pixels, (3,), (desc, y), {"layout": layout}, 0), monkeypatch)


@glueball.jit
def predicated(x_desc, y_ptr, layout: gl.constexpr):
    buffer = gl.allocate_shared_memory(x_desc.dtype, [2, *x_desc.block_shape], x_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    chosen = gl.program_id(0) % 3 == 1
    mbarrier.expect(loaded, x_desc.nbytes_per_cta, pred=chosen)
    tma.async_load(x_desc, [gl.program_id(0) * 4, -4], loaded, buffer.index(1), pred=chosen)
    if chosen:
        mbarrier.wait(loaded, 0)
        row = gl.arange(0, 8, layout=gl.SliceLayout(1, layout))
        column = gl.arange(0, 32, layout=gl.SliceLayout(0, layout))
        gl.store(y_ptr + row[:, None] * 32 + column[None, :], buffer.index(1).load(layout))


def test_predicates_and_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((13, 24), np.float32), np.zeros((8, 32), np.float32)
    desc = TensorDescriptor.from_tensor(x, [8, 32], gl.NVMMASharedLayout(0, 32, 2))
    layout = gl.BlockedLayout([1, 4], [4, 8], [2, 2], [1, 0])
    report = check(Launch(predicated, (5,), (desc, y), {"layout": layout}, 0), monkeypatch)
    (load,) = report.bulk_copies
    assert load.grid is not None and load.grid.requests == 2
    assert load.program == Traffic(0, 0, 0)


def test_bulk_stores_write_rows_to_the_end_of_16_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, pitch in ((29, 32), (30, 36), (3, 4)):
        x, out = (aligned((11, pitch), np.float32) for _ in range(2))
        shared = gl.NVMMASharedLayout(0, 32, 2)
        tensors = [TensorDescriptor(each, [11, columns], [pitch, 1], [8, 32], shared) for each in (x, x, out)]
        layout = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
        report = check(Launch(add_bulk, (2,), (*tensors, 1), {"layout": layout}, 0), monkeypatch)
        written = -(-columns // 4) * 4
        assert report.bulk_stores is not None and report.bulk_loads is not None
        assert report.bulk_stores.useful_bytes == 4 * (10 * written + columns)
        assert report.bulk_loads.useful_bytes == 2 * 4 * 11 * columns


def test_the_text_tells_of_copies_waits_and_bytes_in_flight() -> None:
    x = aligned((2048, 256), np.float32)
    launch = rung_named("ring").launch(x, x, x)
    text = render(explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a", grid=launch.grid))
    lines = [line.strip() for line in text.splitlines()]
    assert any(line.startswith("- bulk load x_desc: fp32 [32, 256], 32,768 bytes") for line in lines)
    assert "1 message of [32, 256], no swizzle" in lines
    assert "- wait for an mbarrier, once a program" in lines
    assert any(line.startswith("- load from x_ring: fp32 [32, 256], 16 bytes a lane") for line in lines)
    assert "buffers of asynchronous loads: x_ring 3 x 32,768 bytes, y_ring 3 x 32,768 bytes" in lines
    assert "bulk loads  128 messages, 131,072 sectors in all, efficiency 100 %" in lines
    assert "programs of a multiprocessor: 1 (by threads 8, shared memory 1, registers 4)" in lines


def test_the_cost_model_counts_asynchronous_copies() -> None:
    x = aligned((2048, 256), np.float32)
    costs = []
    for columns in (256, 200):
        launch = rung_named("bulk").launch(*(x[:, :columns] for _ in range(3)))
        names = dict(zip(launch.kernel.arg_names, launch.arguments, strict=False))
        costs.append(CostModel("sm_90a").for_kernel(launch.kernel)(grid=launch.grid, **names, **launch.keywords))
    assert costs[0] > costs[1] > 0
