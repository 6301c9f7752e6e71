"""What `explain` predicts is what the simulator counts and what the thread IR does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.explain import ArrayDescription, Report, Traffic, explain
from glueball.explain.costs import ROWS
from glueball.kernels.ladder import RUNGS, Rung, tensors
from glueball.layouts import RegisterPermutation, SharedRoundTrip
from glueball.targets import TARGETS
from glueball.thread.memory import access_bytes
from glueball.tile.operations import TILE_OPERATIONS
from tests.kernels.cluster_kernels import converted


def covered_by_whole_tiles(rung: Rung, lanes: int) -> tuple[int, int]:
    """Rows and columns of tensors that the rung's tiles cover without remainder."""
    tiny = tensors(rung.view, lambda shape: np.zeros(shape, np.float32), 1, 1)
    keywords = rung.launch(*tiny, lanes).keywords
    rows, columns = max(16, keywords["XBLOCK"]), max(16, keywords.get("YBLOCK", 1))
    return (columns, rows) if rung.view.endswith("transposed") else (rows, columns)


def check(
    kernel: glueball.JITFunction, grid: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], target: str
) -> Report:
    """Predicts, runs on the simulator, and compares every access; gives the prediction."""
    report = explain(kernel, arguments, keywords, target=target, grid=grid)
    compiled = kernel[grid](*arguments, **keywords)
    assert compiled.report is not None
    counted = compiled.report.by_location()
    for row in report.accesses:
        entries = [entry for entry in counted[row.location] if entry.name == f"global_{row.kind}"]
        counts = [entry.counts for entry in entries]
        found = Traffic(
            sum(count.requests for count in counts),
            sum(count.sectors for count in counts),
            sum(count.useful_bytes for count in counts),
        )
        assert row.grid == found, f"{row.kind} at {row.location}"
        assert {access_bytes(entry.instruction.attributes) for entry in entries} == {row.vector_bytes}
    for conversion in report.conversions:
        if isinstance(conversion.plan, SharedRoundTrip):
            programs = np.prod(grid)
            counted = compiled.report
            writes = counted.shared_stores.wavefronts + counted.matrix_stores.wavefronts
            reads = counted.shared_loads.wavefronts + counted.matrix_loads.wavefronts
            assert conversion.grid is not None
            assert writes == conversion.grid.write.wavefronts == conversion.program.write.wavefronts * programs
            assert reads == conversion.grid.read.wavefronts == conversion.program.read.wavefronts * programs
    assert report.shared_bytes == compiled.shared_bytes
    return report


@pytest.mark.parametrize("target", ["sm_90a", "gfx950", "gfx1250"])
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_every_rung_is_predicted(rung: Rung, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", target)
    size = covered_by_whole_tiles(rung, TARGETS[target].lanes)
    source, destination = tensors(rung.view, lambda shape: np.zeros(shape, np.float32), *size)
    source[...] = np.arange(source.size, dtype=np.float32).reshape(source.shape)
    launch = rung.launch(source, destination, TARGETS[target].lanes)
    report = check(launch.kernel, launch.grid, launch.arguments, launch.keywords, target)
    assert np.array_equal(source, destination)
    assert len(report.accesses) == 2
    if rung.name != "a" and target == "sm_90a":  # 64 lanes are more than some tiles have work for
        assert report.total is not None and report.total.useful_bytes == launch.bytes


@pytest.mark.parametrize("size", [(37, 75), (300, 203)], ids=str)
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_masks_that_cut_tiles(rung: Rung, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    source, destination = tensors(rung.view, lambda shape: np.zeros(shape, np.float32), *size)
    source[...] = np.arange(source.size, dtype=np.float32).reshape(source.shape)
    launch = rung.launch(source, destination, 32)
    report = check(launch.kernel, launch.grid, launch.arguments, launch.keywords, "sm_90a")
    assert np.array_equal(source, destination)
    assert not any(row.notes for row in report.accesses)


@pytest.mark.parametrize(
    ("size_per_thread", "sectors_per_request", "efficiency", "vector_bytes"),
    [(1, 4, 1.0, 4), (2, 8, 1.0, 8), (4, 16, 1.0, 16), (8, 32, 0.5, 16), (16, 32, 0.5, 16)],
)
def test_published_counts(size_per_thread: int, sectors_per_request: int, efficiency: float, vector_bytes: int) -> None:
    """The hardware's counters for 2^24 elements on an H200: sectors a request, and half of each unused from 8 on."""
    (rung,) = (rung for rung in RUNGS if rung.name == f"b{size_per_thread}")
    array = ArrayDescription(gl.float32, (1 << 24,))
    keywords = {"XBLOCK": 2048, "layout": gl.BlockedLayout([size_per_thread], [32], [4], [0]), "num_warps": 4}
    kernel = rung.launch(np.zeros(2048, np.float32), np.zeros(2048, np.float32), 32).kernel
    report = explain(kernel, (array, array, array.size), keywords, target="sm_90a", grid=array.size // 2048)
    for traffic in (report.loads, report.stores):
        assert traffic is not None
        assert traffic.sectors_per_request == sectors_per_request
        assert traffic.sectors == 2097152 / efficiency
        assert traffic.efficiency == efficiency
    assert [row.vector_bytes for row in report.accesses] == [vector_bytes] * 2


@glueball.jit
def gather_rows(x_ptr, y_ptr, pitch, BLOCK: gl.constexpr, layout: gl.constexpr):
    row = gl.program_id(0)
    offsets = gl.arange(0, BLOCK, layout=layout)
    value = gl.load(x_ptr + row * pitch + offsets)
    gl.store(y_ptr + row * BLOCK + offsets, value)


FOUR = gl.BlockedLayout([4], [32], [4], [0])
ONE = gl.BlockedLayout([1], [32], [4], [0])


@pytest.mark.parametrize("pitch", [1000, 1001, 1004, 1008, 1024])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.float64])
def test_rows_that_start_anywhere_in_a_sector(pitch: int, dtype: Any) -> None:
    x, y = np.zeros(40 * pitch, dtype), np.zeros((37, 512), dtype)
    check(gather_rows, (37,), (x, y, pitch), {"BLOCK": 512, "layout": FOUR}, "sm_90a")


@pytest.mark.parametrize("shift", [1, 2, 4, 8])
def test_views_that_start_inside_an_allocation(shift: int) -> None:
    x, y = np.zeros(4096 + shift, np.float32)[shift:], np.zeros(4096, np.float32)
    report = check(gather_rows, (4,), (x, y, 1024), {"BLOCK": 1024, "layout": FOUR}, "sm_90a")
    assert report.accesses[0].vector_bytes == (16 if shift % 4 == 0 else 4)


@glueball.jit(do_not_specialize=["n"])
def copy_unspecialized(x_ptr, y_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y_ptr + offsets, gl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def test_a_bound_of_unknown_divisibility_splits_vectors() -> None:
    x, y = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    report = check(copy_unspecialized, (4,), (x, y, 4096), {"BLOCK": 1024, "layout": FOUR}, "sm_90a")
    assert [row.vector_bytes for row in report.accesses] == [4, 4]


@glueball.jit
def copy_in_turns(x_ptr, y_ptr, n, STEP: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.arange(0, BLOCK, layout=layout)
    for start in range(gl.program_id(0) * 3, n, STEP):
        value = gl.load(x_ptr + start + offsets)
        gl.store(y_ptr + start + offsets, value)


@pytest.mark.parametrize("step", [128, 129, 132])
def test_loops_count_every_turn(step: int) -> None:
    x, y = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    keywords = {"STEP": step, "BLOCK": 128, "layout": ONE}
    report = check(copy_in_turns, (2,), (x, y, 2000), keywords, "sm_90a")
    turns = len(range(0, 2000, step))
    assert report.accesses[0].program.requests == 4 * turns


@glueball.jit
def copy_on_some(x_ptr, y_ptr, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    value = gl.load(x_ptr + offsets)
    if gl.program_id(0) % 3 == 1:
        gl.store(y_ptr + offsets, value)


def test_branches_count_the_programs_that_take_them() -> None:
    x, y = np.zeros(1280, np.float32), np.zeros(1280, np.float32)
    report = check(copy_on_some, (10,), (x, y), {"BLOCK": 128, "layout": ONE}, "sm_90a")
    assert report.stores.requests == 4 * 3
    assert report.accesses[1].program == Traffic(0, 0, 0)


@glueball.jit
def gather(x_ptr, index_ptr, y_ptr, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.arange(0, BLOCK, layout=layout)
    index = gl.load(index_ptr + offsets)
    gl.store(y_ptr + offsets, gl.load(x_ptr + index))


@glueball.jit
def rows_modulo(x, y, rows, columns, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr):
    row = gl.program_id(0) * HEIGHT + gl.arange(0, HEIGHT, layout=gl.SliceLayout(1, layout))
    column = gl.program_id(1) * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
    place = (row % rows)[:, None] * columns + (column % columns)[None, :]
    gl.store(y + place, gl.load(x + place))


@pytest.mark.parametrize(("rows", "columns", "vector_bytes"), [(64, 128, 16), (96, 192, 16), (64, 131, 4)])
def test_indices_modulo_an_extent(rows: int, columns: int, vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = np.zeros_like(x)
    layout = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    grid, arguments = (rows // 32, columns // 64), (x, y, rows, columns, 32, 64, layout)
    report = check(rows_modulo, grid, arguments, {}, "sm_90a")
    assert {row.vector_bytes for row in report.accesses} == {vector_bytes}
    assert report.total is not None


def test_tiles_that_wrap_around_are_not_followed() -> None:
    x, y = np.zeros((64, 100), np.float32), np.zeros((64, 100), np.float32)
    layout = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    report = explain(rows_modulo, (x, y, 64, 100, 32, 64, layout), {}, target="sm_90a", grid=(2, 2))
    assert report.total is None


def test_what_cannot_be_followed_is_said() -> None:
    arrays = [ArrayDescription(element, (128,)) for element in (gl.float32, gl.int32, gl.float32)]
    report = explain(gather, arrays, {"BLOCK": 128, "layout": ONE}, target="sm_90a", grid=2)
    index, value, result = report.accesses
    assert index.grid is not None and result.grid is not None
    assert value.grid is None and value.once is None and "no linear function" in value.notes[0]
    assert report.loads is None and report.stores is not None


def test_a_stride_that_is_not_known_is_said() -> None:
    array = ArrayDescription(gl.float32, (128, 128))
    pitch = glueball.ArgumentSpec(gl.int32, 16)
    (rung,) = (rung for rung in RUNGS if rung.name == "c")
    kernel = rung.launch(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32), 32).kernel
    layout = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    keywords = {"layout": layout, "XBLOCK": 32, "YBLOCK": 128, "num_warps": 4}
    report = explain(kernel, (array, array, 128, 128, pitch, 1, 128, 1), keywords, target="sm_90a")
    load, store = report.accesses
    assert load.vector_bytes == store.vector_bytes == 16
    assert load.strides == (None, 1) and load.program is None
    assert "stride along dimension 0 is not known" in load.notes[0]
    assert store.strides == (128, 1) and store.program is not None and store.notes == ()


@glueball.jit
def copied_as_bytes(x_ptr, y_ptr, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.arange(0, BLOCK, layout=layout)
    x, y = x_ptr.to(gl.pointer_type(gl.int8)), y_ptr.to(gl.pointer_type(gl.int8))
    gl.store(y + offsets, gl.load(x + offsets))


@glueball.jit
def with_large_literals(y_ptr, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.arange(0, BLOCK, layout=layout)
    gl.store(y_ptr + offsets, (offsets.to(gl.uint64) << 63) + 0xFFFFFFFFFFFFFFFF)


def test_literals_of_more_bits_than_are_followed() -> None:
    y = np.zeros(512, np.uint64)
    check(with_large_literals, (1,), (y,), {"BLOCK": 512, "layout": FOUR}, "sm_90a")
    assert y[0] == (1 << 64) - 1 and y[1] == (1 << 63) - 1


def test_pointers_to_another_type() -> None:
    x, y = np.zeros(512, np.float32), np.zeros(512, np.float32)
    report = check(copied_as_bytes, (1,), (x, y), {"BLOCK": 512, "layout": FOUR}, "sm_90a")
    assert [(row.argument, row.vector_bytes) for row in report.accesses] == [("x_ptr", 4), ("y_ptr", 4)]


@glueball.jit
def convert_twice(x_ptr, y_ptr, first: gl.constexpr, second: gl.constexpr, third: gl.constexpr, BLOCK: gl.constexpr):
    value = gl.load(x_ptr + gl.arange(0, BLOCK, layout=first))
    value = gl.convert_layout(value, second)
    value = gl.convert_layout(value, third)
    gl.store(y_ptr + gl.arange(0, BLOCK, layout=third), value)


def test_conversions_have_their_plan_and_line() -> None:
    x, y = np.zeros(512, np.float32), np.zeros(512, np.float32)
    lanes, warps = [[4], [8], [16], [32], [64]], [[128], [256]]
    swapped = gl.DistributedLinearLayout([[2], [1]], lanes, warps, [], [512])
    keywords = {"first": FOUR, "second": swapped, "third": ONE, "BLOCK": 512}
    report = check(convert_twice, (1,), (x, y), keywords, "sm_90a")
    free, moving = report.conversions
    assert isinstance(free.plan, RegisterPermutation) and (free.source, free.destination) == (FOUR, swapped)
    assert not moving.plan.is_trivial and (moving.source, moving.destination) == (swapped, ONE)
    assert moving.location.line == free.location.line + 1
    assert report.at(moving.location.line)[0] is moving


@pytest.mark.parametrize(
    ("dtype", "registers"), [(np.float32, 4), (np.float16, 2), (np.float64, 8), (np.int8, 1)], ids=str
)
def test_registers_of_a_copy_are_those_of_its_tile(dtype: Any, registers: int) -> None:
    x = np.zeros(512, dtype)
    report = explain(gather_rows, (x, x, 512), {"BLOCK": 512, "layout": FOUR}, target="sm_90a")
    assert report.registers == registers


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "words"),
    [
        ((), {}, TypeError, "missing"),
        ((1, 2, 3), {"BLOCK": 512, "layout": FOUR, "num_wraps": 4}, glueball.errors.UnknownOptionError, "num_wraps"),
        ((1, 2, 3), {"BLOCK": 512, "layout": FOUR}, glueball.errors.CompilationError, r"gl\.load"),
    ],
)
def test_errors_are_those_of_a_launch(
    arguments: tuple[Any, ...], keywords: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        explain(gather_rows, arguments, keywords, target="sm_90a")


def test_an_unknown_target_is_an_error() -> None:
    with pytest.raises(glueball.errors.TargetError, match="sm_1"):
        explain(gather_rows, (), {}, target="sm_1")


def test_conversions_in_every_cta_of_a_cluster_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    x, y = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    rows = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1], cga_layout=[[1, 0]])
    report = check(converted, (1,), (x, y, rows, columns, 64, 64), {"num_warps": 4, "num_ctas": 2}, "sm_90a")
    (conversion,) = report.conversions
    assert (conversion.grid.write.wavefronts, conversion.grid.read.wavefronts) == (128, 128)


WITHOUT_ROWS = {
    "mbarrier_init", "mbarrier_invalidate", "mbarrier_arrive", "mbarrier_expect", "make_descriptor", "warpgroup_mma",
}  # fmt: skip
"""Operations on words of mbarriers and descriptors, and matrix units, which read shared memory by themselves."""


def test_operations_that_access_memory_have_rows() -> None:
    accessing = set()
    for name, definition in TILE_OPERATIONS.items():
        effects = definition.effects
        if effects.reads_global or effects.writes_global or effects.reads_shared or effects.writes_shared:
            accessing.add(name)
    assert accessing - ROWS == WITHOUT_ROWS
