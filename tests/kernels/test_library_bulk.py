"""Kernels of the library that copy asynchronously: addition, copies, long rows, and rows by index."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
from glueball import kernels
from glueball.codegen.disassembly import line_table
from glueball.kernels import boxes
from glueball.kernels.add_ladder import ADD_RUNGS, AddPlan, AddRung, rung_named
from glueball.kernels.bulk_row_plans import BulkNormPlan, BulkRowPlan, plan_norm, plan_softmax
from glueball.kernels.cluster_rows import plan_split
from glueball.kernels.copies import CopyPlan, TurnPlan, copy_array, launch_copy
from glueball.kernels.elementwise import launch_add
from glueball.kernels.gathers import GatherPlan
from glueball.kernels.ladder import Launch
from glueball.kernels.rows import launch_norm, launch_softmax
from glueball.kernels.scan import launch_cumsum
from glueball.kernels.scatter import launch_embedding
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.library import (
    BFLOAT16,
    assert_within,
    call,
    check_softmax_of_extremes,
    exact_softmax,
    normal,
    normalised,
    wide,
)
from tests.kernels.machine_code import needs_disassembler
from tests.sim.asynchronous_kernels import aligned

executors = pytest.mark.parametrize("executor", EXECUTORS)
rungs = pytest.mark.parametrize("rung", ADD_RUNGS, ids=lambda rung: rung.name)


def padded(shape: tuple[int, ...], dtype: Any, pitch: int, seed: int = 0) -> np.ndarray:
    """Random elements whose rows start `pitch` elements apart, at addresses that are multiples of 16."""
    array = aligned((*shape[:-1], pitch), dtype)
    array[...] = random_array(array.shape, dtype, seed)
    return array[..., : shape[-1]]


def small(rung: AddRung) -> AddPlan:
    """A plan of small tiles."""
    return AddPlan(8, 64, 4, rung.plan.stages, 1 if rung.plan.programs else 0)


BULK_RUNGS = ("bulk", "ring", "partitions")

# Addition


@executors
@rungs
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int32], ids=lambda kind: np.dtype(kind).name)
def test_every_rung_adds(dtype, rung, executor, monkeypatch):
    for shape, pitch in [((37, 208), 208), ((1, 64), 64), ((200, 96), 112), ((64, 256), 256)]:
        x, y, out = (padded(shape, dtype, pitch, seed) for seed in range(3))
        run(executor, monkeypatch, lambda *given: rung.launch(*given, small(rung)).run(), x, y, out)
        np.testing.assert_array_equal(out, x + y)


@executors
@rungs
def test_rungs_with_their_own_plans_and_rows_that_end_anywhere(rung, executor, monkeypatch):
    columns = 204 if rung.name in BULK_RUNGS else 203
    x, y, whole = (padded((70, 256), np.float32, 256, seed) for seed in range(3))
    before, (x, y, out) = np.array(whole), (array[:, :columns] for array in (x, y, whole))
    run(executor, monkeypatch, lambda *given: rung.launch(*given).run(), x, y, out)
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_array_equal(whole[:, columns:], before[:, columns:])


@executors
def test_addition_by_a_plan(executor, monkeypatch):
    plan = AddPlan(8, 64, 4, 3, 1)
    for shape in [(40, 64), (3, 512), (2, 4, 64)]:
        x, y = normal(shape), normal(shape, seed=1)
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.add, x, y, plan=plan), x + y)


def test_large_arrays_are_added_by_the_ring_and_others_by_plain_loads():
    large = np.empty((4096, 2048), np.float32)
    assert launch_add(large, large, large).kernel is rung_named("ring").kernel
    assert launch_add(large[:, :-1], large[:, :-1], large[:, 1:]).kernel is not rung_named("ring").kernel
    assert launch_add(large[:64], large[:64], large[:64]).kernel is not rung_named("ring").kernel
    assert launch_add(large.astype(np.float64), large.astype(np.float64), large.astype(np.float64)).kernel.__name__ == (
        "add_kernel"
    )
    with pytest.raises(ValueError, match="bulk copies do not add these: of x, strides"):
        kernels.add(np.zeros((5, 33), np.float32), np.zeros((5, 33), np.float32), AddPlan(8, 64, 4, 3, 1))
    x, y, out = (aligned((5, 36), np.float32)[:, :33] for _ in range(3))
    with pytest.raises(ValueError, match="of out, rows that are written are multiples of 16 bytes, not 132"):
        rung_named("ring").launch(x, y, out)
    with pytest.raises(ValueError, match="a ring adds matrices"):
        kernels.add(np.zeros((5, 3, 2), np.float32), np.zeros((5, 3, 2), np.float32), AddPlan(8, 64, 4, 3, 1))


# Copies

BOXES, TURNED, PLAIN = "copy_box", "turn_boxes", "copy_strided"
ROW_MAJOR, SWAPPED = None, (0, 2, 1)
COPIES = {
    "line": ((4096,), (4096,), None, None, BOXES),
    "short line": ((48,), (48,), None, None, BOXES),
    "odd line": ((41,), (41,), None, None, PLAIN),
    "single": ((), (), None, None, PLAIN),
    "matrix": ((64, 256), (64, 256), None, None, BOXES),
    "odd rows": ((100, 300), (100, 300), None, None, BOXES),
    "rows apart": ((100, 300), (100, 304), None, None, BOXES),
    "five dimensions": ((3, 4, 5, 6, 24), (3, 4, 5, 6, 32), None, None, BOXES),
    "six that are two": ((5, 6, 7, 4, 3, 8), (5, 6, 7, 4, 3, 8), None, None, BOXES),
    "both transposed": ((40, 64), (40, 64), (1, 0), (1, 0), BOXES),
    "outer exchanged": ((6, 5, 32), (6, 5, 32), (1, 0, 2), None, BOXES),
    "opposite": ((64, 96), (64, 96), None, (1, 0), TURNED),
    "opposite, ragged": ((44, 100), (44, 100), None, (1, 0), TURNED),
    "opposite stack": ((3, 48, 80), (3, 48, 80), None, SWAPPED, TURNED),
    "opposite, unaligned": ((41, 100), (41, 100), None, (1, 0), PLAIN),
    "rows of no multiple of 16": ((30, 10), (30, 11), None, None, PLAIN),
    "six dimensions apart": ((3, 2, 3, 2, 3, 8), (4, 3, 4, 3, 4, 12), None, None, PLAIN),
}
"""Extents, those of the storage of the source, orders of dimensions of source and destination, and the kernel."""


def stored(shape, storage, order, dtype, seed):
    """A view with these extents whose dimensions lie in memory in an order, outermost first."""
    order = tuple(range(len(shape))) if order is None else order
    extents = tuple(storage[axis] for axis in order)
    array = aligned(extents, dtype)
    array[...] = random_array(extents, dtype, seed)
    return array.transpose(np.argsort(order))[(*(slice(0, extent) for extent in shape), ...)]


@executors
@pytest.mark.parametrize("case", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int8], ids=lambda kind: np.dtype(kind).name)
def test_copies_of_any_rank_and_stride(dtype, case, executor, monkeypatch):
    shape, storage, source_order, destination_order, kernel = case
    x, y = stored(shape, storage, source_order, dtype, 0), stored(shape, shape, destination_order, dtype, 1)
    if dtype is np.float32:
        assert launch_copy(x, y).kernel.__name__ == kernel
    run(executor, monkeypatch, copy_array, x, y)
    np.testing.assert_array_equal(x, y)


@executors
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.bool_], ids=lambda kind: np.dtype(kind).name)
def test_copies_of_other_element_types(dtype, executor, monkeypatch):
    for shape, order in [((30, 64), None), ((30, 64), (1, 0)), ((5, 7, 9), (2, 0, 1))]:
        x, y = stored(shape, shape, order, dtype, 0), stored(shape, shape, order, dtype, 1)
        run(executor, monkeypatch, copy_array, x, y)
        np.testing.assert_array_equal(x, y)


@executors
def test_copies_to_new_arrays_and_of_none(executor, monkeypatch):
    x = random_array((3, 5, 40), np.float32)
    y = call(executor, monkeypatch, copy_array, x.transpose(2, 0, 1))
    np.testing.assert_array_equal(y, x.transpose(2, 0, 1))
    assert y.flags.c_contiguous
    assert call(executor, monkeypatch, copy_array, np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_copies_of_reversed_and_repeated_elements(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x = random_array((20, 64), np.float32)
    for view in (x[::-1], x[:, ::-1], x[:, ::2], np.broadcast_to(x[0], (20, 64))):
        assert launch_copy(view, np.empty(view.shape, np.float32)).kernel.__name__ == PLAIN
        np.testing.assert_array_equal(copy_array(view), view)
    with pytest.raises(ValueError, match="share memory"):
        copy_array(x[0], np.broadcast_to(x[0, :1], (64,)))
    with pytest.raises(ValueError, match="must agree"):
        copy_array(x, x[0])


COPY_PLANS = [CopyPlan(), CopyPlan(4096), CopyPlan(1024, "evict_first", "evict_first")]
TURN_PLANS = [TurnPlan(), TurnPlan(128, 512, 8), TurnPlan(512, 128, 4, 3, "evict_first", "evict_last")]


@executors
@pytest.mark.parametrize("plan", [*COPY_PLANS, *TURN_PLANS], ids=str)
def test_every_plan_copies_the_same(plan, executor, monkeypatch):
    x, y = aligned((70, 512), np.float32), aligned((70, 512), np.float32)
    x[...] = random_array(x.shape, np.float32)
    if isinstance(plan, TurnPlan):
        x, y = x[:68], aligned((512, 68), np.float32).T
    run(executor, monkeypatch, lambda *given: copy_array(*given, plan=plan), x, y)
    np.testing.assert_array_equal(x, y)


def test_plans_that_are_not_possible():
    x, y = aligned((40, 64), np.float32), aligned((64, 40), np.float32).T
    with pytest.raises(ValueError, match="transposed, or not"):
        copy_array(x, y, CopyPlan())
    with pytest.raises(ValueError, match="transposed, or not"):
        copy_array(x, x.copy(), TurnPlan())
    with pytest.raises(ValueError, match="strides are positive multiples of 16 bytes"):
        copy_array(x[:, :33], aligned((40, 33), np.float32), CopyPlan())


@pytest.mark.parametrize("columns", [1024, 4096, 32768, 131072])
def test_what_no_cache_could_hold_is_loaded_with_a_high_priority(columns, tmp_path, monkeypatch):
    """Arrays without contents: nothing runs."""
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))

    def launches(rows: int) -> tuple[Launch, ...]:
        x, y, scale = (np.empty(shape, BFLOAT16) for shape in ((rows, columns), (rows, columns), rows))
        wide = np.empty((columns, rows), BFLOAT16).T
        norm = launch_norm(x, None, None, y, None, scale, 1e-5)
        return launch_copy(x, y), launch_copy(x, wide), launch_softmax(x, y), norm, launch_cumsum(x, y)

    for elements, wanted in ((1 << 27, True), (1 << 22, False)):
        for launch in launches(elements // columns):
            kernel = glueball.compile_only(launch.kernel, *launch.arguments, target="sm_90a", **launch.keywords)
            assert (".L2::evict_last." in kernel.asm["ptx"]) == wanted, launch.kernel.__name__


@executors
@pytest.mark.parametrize("columns", [1024, 4096, 32768, 65536])
def test_priorities_change_no_result(columns, executor, monkeypatch):
    x, weight = normal((5, columns), BFLOAT16), normal(columns, BFLOAT16)

    def results():
        found = [call(executor, monkeypatch, each, x) for each in (copy_array, kernels.softmax, kernels.cumsum)]
        found += call(executor, monkeypatch, kernels.rms_norm, x, weight)
        found += call(executor, monkeypatch, kernels.layer_norm, x)
        return [each.tobytes() for each in found]

    without = results()
    monkeypatch.setattr(boxes, "STREAMED_BYTES", 1)
    assert results() == without


def test_targets_without_priorities_load_without(monkeypatch):
    monkeypatch.setattr(boxes, "STREAMED_BYTES", 1)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, weight = normal((5, 4096), BFLOAT16), normal(4096, BFLOAT16)
    for target in ("sm_80", "gfx942", "gfx1250"):
        monkeypatch.setenv("GLUEBALL_TARGET", target)
        np.testing.assert_array_equal(copy_array(x), x)
        assert_within(kernels.softmax(x), exact_softmax(x), 1e-5)
        assert_within(kernels.rms_norm(x, weight)[0], normalised(x, centred=False)[0] * wide(weight), 2e-6)
        assert kernels.cumsum(x).shape == x.shape


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.int8], ids=lambda kind: np.dtype(kind).name)
def test_transposed_boxes_meet_no_bank_conflicts(dtype, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, y = aligned((128, 256), dtype), aligned((256, 128), dtype).T
    report = launch_copy(x, y).run().report
    moves = (report.shared_loads, report.shared_stores, report.matrix_loads, report.matrix_stores)
    assert sum(counts.requests for counts in moves) > 0
    assert all(counts.wavefronts == counts.ideal_wavefronts for counts in moves)


# Rows


ROW_SHAPES = [((5, 1024), BFLOAT16), ((7, 1000), BFLOAT16), ((3, 24), np.float32), ((140, 520), np.float32)]
HELD, REREAD = BulkRowPlan(4, 2, 1), BulkRowPlan(4, 1, 1, 2)
row_plans = pytest.mark.parametrize("plan", [HELD, REREAD, BulkRowPlan(2, 3, 2, 4, 96, "evict_first")], ids=str)


@executors
@row_plans
def test_softmax_of_rows_that_bulk_copies_bring(plan, executor, monkeypatch):
    for shape, dtype in ROW_SHAPES:
        x = normal(shape, dtype)
        assert_within(call(executor, monkeypatch, kernels.softmax, x, plan=plan), exact_softmax(x), 1e-5)


@executors
@row_plans
def test_softmax_of_large_and_infinite_elements(plan, executor, monkeypatch):
    check_softmax_of_extremes(executor, monkeypatch, 704, plan)


@executors
def test_norms_of_rows_that_bulk_copies_bring(executor, monkeypatch):
    plan = BulkNormPlan(4, 2)
    for shape, dtype in ROW_SHAPES:
        x, weight, bias = normal(shape, dtype), normal(shape[1], dtype, 1), normal(shape[1], dtype, 2)
        y, scale = call(executor, monkeypatch, kernels.rms_norm, x, weight, plan=plan)
        expected, _, exact_scale = normalised(x, centred=False)
        assert_within(y, expected * wide(weight), 2e-6)
        assert_within(scale[:, None], exact_scale, 2e-6)
        y, _, scale = call(executor, monkeypatch, kernels.layer_norm, x, weight, bias, plan=plan)
        expected, _, exact_scale = normalised(x, centred=True)
        assert_within(y, expected * wide(weight) + wide(bias), 5e-6)
        assert_within(scale[:, None], exact_scale, 2e-6)
    y, _ = call(executor, monkeypatch, kernels.rms_norm, x, plan=plan)
    assert_within(y, normalised(x, centred=False)[0], 2e-6)


@executors
def test_rows_apart_in_memory(executor, monkeypatch):
    x = padded((6, 300), np.float32, 512)[::2]
    for plan in (HELD, REREAD):
        assert_within(call(executor, monkeypatch, kernels.softmax, x, plan=plan), exact_softmax(x), 1e-5)


def test_long_rows_have_a_bulk_plan_and_others_none():
    assert plan_softmax(aligned((2, 16384), BFLOAT16)) is None
    assert plan_softmax(aligned((2, 1024), BFLOAT16)) is None
    assert plan_softmax(aligned((2, 4096), BFLOAT16)) == BulkRowPlan(4, 1, 0)
    assert plan_softmax(aligned((2, 32768), BFLOAT16)) == BulkRowPlan(8, 1, 6)
    assert plan_softmax(aligned((2, 32768), BFLOAT16)[:, 1:]) is None
    assert plan_softmax(aligned((2, 65536), BFLOAT16)).parts > 0
    assert plan_softmax(aligned((2, 131072), BFLOAT16)) is None
    assert plan_norm(aligned((2, 32768), BFLOAT16)) == BulkNormPlan(16, 2)
    assert plan_norm(aligned((2, 65536), BFLOAT16)) is None
    assert plan_split(aligned((2, 32768), BFLOAT16), norm=False).ctas == 2
    assert plan_split(aligned((2, 32768), BFLOAT16), norm=True) is None
    assert plan_split(aligned((2, 131072), BFLOAT16), norm=True).ctas == 8
    with pytest.raises(ValueError, match="a plan for a norm"):
        kernels.softmax(aligned((3, 64), np.float32), plan=BulkNormPlan(4, 2))
    with pytest.raises(ValueError, match="a plan for softmax"):
        kernels.rms_norm(aligned((3, 64), np.float32), plan=HELD)
    with pytest.raises(ValueError, match="do not bring these rows: the address"):
        kernels.softmax(aligned((3, 64), np.float32)[:, 1:], plan=HELD)
    with pytest.raises(ValueError, match="do not fit into shared memory"):
        kernels.softmax(aligned((3, 65536), np.float32), plan=HELD)


# Rows by index


@executors
@pytest.mark.parametrize("plan", [GatherPlan(1, 3, 1, 1), GatherPlan(2), GatherPlan(4, 4, 2, 1, "evict_last")], ids=str)
@pytest.mark.parametrize("columns", [64, 320, 512])
def test_rows_by_index(columns, plan, executor, monkeypatch):
    table = normal((50, columns), BFLOAT16)
    index = np.random.default_rng(1).integers(-3, 55, (3, 13))
    found = call(executor, monkeypatch, kernels.embedding, table, index, plan=plan)
    inside = (index >= 0) & (index < 50)
    expected = np.where(inside[..., None], wide(table)[np.clip(index, 0, 49)], 0)
    np.testing.assert_array_equal(wide(found), expected)


def test_rows_are_gathered_by_loads_or_as_a_plan_says():
    index = np.zeros(5, np.int64)
    table, out = aligned((9, 2048), BFLOAT16), aligned((5, 2048), BFLOAT16)
    assert launch_embedding(table, index, out).kernel.__name__ == "embedding_kernel"
    assert launch_embedding(table, index, out, GatherPlan(4)).kernel.__name__ == "embedding_boxes"
    with pytest.raises(ValueError, match="lines of at least 128 bytes"):
        kernels.embedding(aligned((9, 72), BFLOAT16), index, GatherPlan(2))


# Schedules


def launches() -> dict[str, Callable[[], tuple[Launch, np.ndarray]]]:
    """One launch of every kernel, with the array that it fills."""

    def adding(rung: AddRung) -> Callable[[], tuple[Launch, np.ndarray]]:
        def make() -> tuple[Launch, np.ndarray]:
            x, y, out = (padded((70, 100), np.float32, 112, seed) for seed in range(3))
            return rung.launch(x, y, out, AddPlan(8, 64, 4, rung.plan.stages, 1 if rung.plan.programs else 0)), out

        return make

    def few(launch: Launch, out: np.ndarray) -> tuple[Launch, np.ndarray]:
        """With so few programs that each goes round its ring several times."""
        return Launch(launch.kernel, (2,), launch.arguments, launch.keywords, launch.bytes), out

    def copying(plan: CopyPlan | TurnPlan) -> Callable[[], tuple[Launch, np.ndarray]]:
        def make() -> tuple[Launch, np.ndarray]:
            x, y = padded((68, 256), np.float32, 256), aligned((68, 256), np.float32)
            y = aligned((256, 68), np.float32).T if isinstance(plan, TurnPlan) else y
            return launch_copy(x, y, plan), y

        return make

    def rows(plan: BulkRowPlan) -> Callable[[], tuple[Launch, np.ndarray]]:
        def make() -> tuple[Launch, np.ndarray]:
            x, y = padded((9, 1000), BFLOAT16, 1000), aligned((9, 1000), BFLOAT16)
            return few(launch_softmax(x, y, plan), y)

        return make

    def norm() -> tuple[Launch, np.ndarray]:
        x, y, weight = padded((9, 1024), BFLOAT16, 1024), aligned((9, 1024), BFLOAT16), normal(1024, BFLOAT16)
        scale = np.empty(9, np.float32)
        return launch_norm(x, weight, None, y, None, scale, 1e-5, BulkNormPlan(4, 2)), y

    def gather() -> tuple[Launch, np.ndarray]:
        table, out = padded((20, 512), BFLOAT16, 512), aligned((33, 512), BFLOAT16)
        index = np.random.default_rng(0).integers(-2, 22, 33)
        return few(launch_embedding(table, index, out, GatherPlan(2, 4, 2)), out)

    return {
        **{rung.name: adding(rung) for rung in ADD_RUNGS},
        "boxes": copying(CopyPlan(4096)),
        "turned": copying(TurnPlan(128, 128, 4)),
        "softmax, held": rows(HELD),
        "softmax, read again": rows(REREAD),
        "norm": norm,
        "rows by index": gather,
    }


LAUNCHES = launches()


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_schedule_gives_the_same_bits_and_no_report(name, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    found = []
    for schedule, seed in [("in_order", 0), ("late", 0), *(("random", seed) for seed in range(8))]:
        monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
        monkeypatch.setenv("GLUEBALL_SEED", str(seed))
        launch, out = LAUNCHES[name]()
        launch.run()
        found.append(np.array(out).tobytes())
    assert len(set(found)) == 1


@pytest.mark.deep
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_hundred_random_schedules(name, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    found = set()
    monkeypatch.setenv("GLUEBALL_SCHEDULE", "random")
    for seed in range(100):
        monkeypatch.setenv("GLUEBALL_SEED", str(seed))
        launch, out = LAUNCHES[name]()
        launch.run()
        found.add(np.array(out).tobytes())
    assert len(found) == 1


# Machine code

BULK = re.compile(r"UTMA(LDG|STG)\b")
LOCAL = re.compile(r"\b(LDL|STL)\b")


@needs_disassembler
@pytest.mark.parametrize("name", LAUNCHES)
def test_bulk_copies_are_sent_by_one_lane_and_nothing_spills(name, tmp_path, monkeypatch):
    """In machine code the instruction is the warp's as a whole: where all warps send, it has no predicate left."""
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    launch, _ = LAUNCHES[name]()
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target="sm_90a", **launch.keywords)
    texts = [instruction.text for instruction in line_table(kernel.asm["cubin"])]
    assert kernel.n_spills == 0 and not any(LOCAL.search(text) for text in texts)
    copies = [text for text in texts if BULK.search(text)]
    assert bool(copies) == (name not in ("plain", "copied", "double", "triple"))
    sent = [line.strip() for line in kernel.asm["ptx"].splitlines() if re.search(r"cp\.async\.bulk\.tensor", line)]
    assert bool(sent) == bool(copies) and all(re.search(r"@%p\d+ cp\.async", line) for line in sent)
    assert ("elect.sync" in kernel.asm["ptx"]) == bool(copies)


@needs_disassembler
@pytest.mark.parametrize("name", ["copied", "double", "triple"])
def test_copies_of_threads_are_wide_and_need_no_barrier(name, tmp_path, monkeypatch):
    """Every thread reads back only what it has copied itself."""
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    x = aligned((64, 256), np.float32)
    launch = rung_named(name).launch(x, x, x)
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target="sm_90a", **launch.keywords)
    texts = [instruction.text for instruction in line_table(kernel.asm["cubin"])]
    copies = [text for text in texts if "LDGSTS" in text]
    assert copies and all(".128" in text for text in copies)
    assert not any(re.search(r"\bBAR\.", text) for text in texts)


@needs_disassembler
def test_a_copy_of_boxes_touches_no_element(tmp_path, monkeypatch):
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    launch, _ = LAUNCHES["boxes"]()
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target="sm_90a", **launch.keywords)
    texts = [instruction.text for instruction in line_table(kernel.asm["cubin"])]
    assert not any(re.search(r"\b(LDG|STG|LDS|STS)\b", text) for text in texts)


def test_narrow_floats_go_by_bulk_copies_too():
    for name in ("bfloat16", "float8_e4m3fn"):
        x, y = (aligned((9, 64), getattr(ml_dtypes, name)) for _ in range(2))
        assert launch_copy(x, y).kernel.__name__ == BOXES
