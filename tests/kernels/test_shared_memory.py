"""Shared memory as kernels allocate it: accesses in every layout, views of views, placement, faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import OutOfBoundsError, UninitializedReadError
from tests.kernels.harness import EXECUTORS, random_array, run

ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
WIDE = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
LINE = gl.BlockedLayout([1], [32], [4], [0])
DENSE = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [0])

LAYOUTS = {
    "dense": DENSE,
    "transposed": gl.SwizzledSharedLayout(1, 1, 1, [0, 1]),
    "swizzled": gl.SwizzledSharedLayout(8, 1, 8, [1, 0]),
    "periodic": gl.SwizzledSharedLayout(4, 2, 4, [1, 0]),
    "mma": gl.NVMMASharedLayout(64, 16),
    "mma-transposed": gl.NVMMASharedLayout(64, 16, transposed=True),
    "mma-plain": gl.NVMMASharedLayout(0, 16),
    "padded": gl.PaddedSharedLayout.with_identity_for([[32, 8]], [32, 64], [1, 0]),
    "twice-padded": gl.PaddedSharedLayout.with_identity_for([[16, 4], [128, 8]], [32, 64], [0, 1]),
    "linear": gl.SharedLinearLayout([[1 << i, 0] for i in range(5)] + [[0, 1 << i] for i in range(6)]),
    "mixed": gl.SharedLinearLayout(
        [[0, 1], [0, 2], [1, 0], [2, 4], [4, 8], [0, 4], [8, 0], [0, 8], [0, 16], [16, 0], [0, 32]]
    ),
}


@glueball.jit
def offsets(M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    row = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    return row * N + gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def store_and_load(x, y, M: gl.constexpr, N: gl.constexpr, shared: gl.constexpr, to: gl.constexpr, back: gl.constexpr):
    view = gl.allocate_shared_memory(x.dtype.element_ty, [M, N], shared)
    view.store(gl.load(x + offsets(M, N, to)))
    gl.store(y + offsets(M, N, back), view.load(back))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_store_and_load_in_every_layout(executor: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((32, 64), np.float16)
    y = np.zeros_like(x)
    run(executor, monkeypatch, store_and_load[(1,)], x, y, 32, 64, LAYOUTS[name], ROWS, COLUMNS)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "int32", "float32", "int64", "float64"])
def test_store_and_load_of_every_width(executor: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((16, 32), dtype)
    y = np.zeros_like(x)
    shared = gl.SwizzledSharedLayout(2, 1, 4, [1, 0])
    run(executor, monkeypatch, store_and_load[(1,)], x, y, 16, 32, shared, COLUMNS, ROWS)
    np.testing.assert_array_equal(x, y)


def test_vectors_are_as_wide_as_registers_and_layout_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four float16 a thread are one access of 8 bytes: one request for each 32 lanes of them."""
    x = random_array((32, 64), np.float16)
    kernel = run("sim", monkeypatch, store_and_load[(1,)], x, x.copy(), 32, 64, LAYOUTS["swizzled"], WIDE, WIDE)
    assert kernel.report.shared_stores.requests == kernel.report.shared_loads.requests == 32 * 64 // 4 // 32
    assert kernel.report.shared_loads.wavefronts == kernel.report.shared_loads.ideal_wavefronts


@glueball.jit
def follow(view, STEPS: gl.constexpr, COUNT: gl.constexpr):
    """The view that a list of steps leads to."""
    current = view
    for i in gl.static_range(COUNT):
        step: gl.constexpr = STEPS[i]
        name: gl.constexpr = step[0]
        if name == "slice":
            current = current.slice(step[1], step[2], step[3])
        elif name == "index":
            current = current.index(step[1])
        elif name == "permute":
            current = current.permute(step[1])
        else:
            current = current.reshape(step[1])
    return current


@glueball.jit
def read_view(
    x, y, B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, shared: gl.constexpr, STEPS: gl.constexpr,
    COUNT: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    view = gl.allocate_shared_memory(x.dtype.element_ty, [B, M, N], shared)
    for b in gl.static_range(B):
        view.index(b).store(gl.load(x + b * M * N + offsets(M, N, ROWS)))
    found = follow(view, STEPS, COUNT)
    P: gl.constexpr = found.shape[0]
    Q: gl.constexpr = found.shape[1]
    gl.store(y + offsets(P, Q, layout), found.load(layout))


@glueball.jit
def write_view(
    x, y, B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, shared: gl.constexpr, STEPS: gl.constexpr,
    COUNT: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    view = gl.allocate_shared_memory(x.dtype.element_ty, [B, M, N], shared)
    for b in gl.static_range(B):
        view.index(b).store(gl.zeros([M, N], x.dtype.element_ty, ROWS))
    found = follow(view, STEPS, COUNT)
    P: gl.constexpr = found.shape[0]
    Q: gl.constexpr = found.shape[1]
    found.store(gl.load(x + offsets(P, Q, layout)))
    for b in gl.static_range(B):
        gl.store(y + b * M * N + offsets(M, N, COLUMNS), view.index(b).load(COLUMNS))


def _random_steps(generator: np.random.Generator, shape: tuple[int, ...], whole: bool) -> list[tuple[Any, ...]]:
    """Steps from several buffers to a view of two dimensions; slices of columns, which every swizzle admits."""
    steps: list[tuple[Any, ...]] = []
    count, rows, columns = shape
    if generator.integers(2):
        start = int(generator.integers(count))
        length = int(generator.integers(1, count - start + 1))
        steps.append(("slice", start, length, 0))
        count = length
    sliced = bool(generator.integers(2)) and not whole
    if sliced and generator.integers(2):
        length = columns >> int(generator.integers(1, 3))
        steps.append(("slice", length * int(generator.integers(columns // length)), length, 2))
        columns = length
    steps.append(("index", int(generator.integers(count))))
    extents = [rows, columns]
    for _ in range(int(generator.integers(1, 4))):
        kind = str(generator.choice(["slice", "permute", "reshape"]))
        if kind == "permute":
            extents.reverse()
            steps.append(("permute", (1, 0)))
        elif kind == "reshape" and not sliced:
            extents = [extents[0] * 2, extents[1] // 2]
            steps.append(("reshape", tuple(extents)))
        elif kind == "slice" and sliced:
            length = max(8, extents[0] // 2)
            steps.append(("slice", length * int(generator.integers(extents[0] // length)), length, 0))
            extents[0] = length
    return steps


def _followed(array: np.ndarray, steps: list[tuple[Any, ...]]) -> np.ndarray:
    """The same view of a NumPy array."""
    for name, *arguments in steps:
        if name == "slice":
            start, length, dim = arguments
            array = array[(slice(None),) * dim + (slice(start, start + length),)]
        elif name == "index":
            array = array[arguments[0]]
        elif name == "permute":
            array = array.transpose(arguments[0])
        else:
            array = array.reshape(arguments[0])
    return array


VIEWED = {
    "dense": gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
    "swizzled": gl.SwizzledSharedLayout(8, 1, 8, [1, 0]),
    "mma": gl.NVMMASharedLayout(128, 16),
    "padded": gl.PaddedSharedLayout.with_identity_for([[64, 8]], [32, 64], [1, 0]),
}


def _view_case(name: str, seed: int) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    generator = np.random.default_rng([seed, *name.encode()])
    whole = bool(generator.integers(2)) and name != "padded"
    steps = _random_steps(generator, (3, 32, 64), whole)
    if name == "padded":
        steps = [step for step in steps if step[0] != "reshape"]
    return random_array((3, 32, 64), np.float16, seed), steps


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", VIEWED)
def test_a_view_of_views_reads_what_numpy_reads(
    executor: str, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, steps = _view_case(name, seed)
    try:
        expected = np.ascontiguousarray(_followed(x, steps))
        y = np.zeros_like(expected)
        run(executor, monkeypatch, read_view[(1,)], x, y, 3, 32, 64, VIEWED[name], tuple(steps), len(steps), COLUMNS)
    except glueball.errors.CompilationError as error:
        assert "swizzling pattern" in str(error)
        return
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", VIEWED)
def test_a_view_of_views_writes_where_numpy_writes(
    executor: str, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, steps = _view_case(name, seed)
    expected = np.zeros((3, 32, 64), np.float16)
    target = _followed(expected, [step for step in steps if step[0] != "reshape"])
    steps = [step for step in steps if step[0] != "reshape"]
    x = random_array(target.shape, np.float16, seed)
    target[...] = x
    y = np.zeros_like(expected)
    try:
        run(executor, monkeypatch, write_view[(1,)], x, y, 3, 32, 64, VIEWED[name], tuple(steps), len(steps), ROWS)
    except glueball.errors.CompilationError as error:
        assert "swizzling pattern" in str(error)
        return
    np.testing.assert_array_equal(y, expected)


@glueball.jit
def ring(x, y, n, N: gl.constexpr, COUNT: gl.constexpr, shared: gl.constexpr):
    """A row goes through the buffers in turn and comes out one turn later."""
    view = gl.allocate_shared_memory(gl.float32, [COUNT, N], shared)
    line = gl.arange(0, N, layout=LINE)
    view.index(0).store(gl.load(x + line))
    for i in range(1, n):
        view.index(i % COUNT).store(gl.load(x + i * N + line))
        gl.store(y + (i - 1) * N + line, view.index((i - 1) % COUNT).load(LINE))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("shared", [PLAIN, gl.PaddedSharedLayout.with_identity_for([[32, 4]], [128], [0])])
def test_buffers_by_a_runtime_index(executor: str, shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((7, 128), np.float32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, ring[(1,)], x, y, 7, 128, 3, shared)
    np.testing.assert_array_equal(y[:-1], x[:-1])


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_an_index_out_of_range_is_found(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @glueball.jit
    def beyond(y, i):
        view = gl.allocate_shared_memory(gl.float32, [3, 128], PLAIN)
        view.index(i).store(gl.zeros([128], gl.float32, LINE))

    with pytest.raises(OutOfBoundsError):
        run(executor, monkeypatch, beyond[(1,)], np.zeros(1, np.float32), 3)


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_what_was_never_written_is_not_read(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @glueball.jit
    def unwritten(y):
        view = gl.allocate_shared_memory(gl.float32, [256], PLAIN)
        view.slice(0, 128).store(gl.zeros([128], gl.float32, LINE))
        gl.store(y + gl.arange(0, 128, LINE), view.slice(128, 128).load(LINE))

    with pytest.raises(UninitializedReadError, match="never written") as caught:
        run(executor, monkeypatch, unwritten[(1,)], np.zeros(128, np.float32))
    if executor == "sim":
        assert "shared memory `view`" in str(caught.value)


@glueball.jit
def swap_in_a_loop(x, y, n, N: gl.constexpr):
    """The two views change places in every turn."""
    line = gl.arange(0, N, layout=LINE)
    first = gl.allocate_shared_memory(gl.int32, [N], PLAIN, gl.load(x + line))
    second = gl.allocate_shared_memory(gl.int32, [N], PLAIN, gl.load(x + N + line))
    for _ in range(n):
        first, second = second, first
    gl.store(y + line, first.load(LINE))
    gl.store(y + N + line, second.load(LINE))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("n", [2, 3])
def test_views_carried_by_a_loop(executor: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((2, 128), np.int32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, swap_in_a_loop[(1,)], x, y, n, 128)
    np.testing.assert_array_equal(y, x[::-1] if n % 2 else x)


@glueball.jit
def pick(flag, views):
    if flag > 0:
        return views[0]
    return views[1]


@glueball.jit
def choose_a_view(x, y, flag, N: gl.constexpr):
    line = gl.arange(0, N, layout=LINE)
    views = (
        gl.allocate_shared_memory(gl.int32, [N], PLAIN, gl.load(x + line)),
        gl.allocate_shared_memory(gl.int32, [N], PLAIN, gl.load(x + N + line)),
    )
    chosen = pick(flag, views)
    half = views[0].slice(0, N // 2)
    if flag > 1:
        half = views[0].slice(N // 2, N // 2)
    gl.store(y + line, chosen.load(LINE))
    short = gl.arange(0, N // 2, layout=LINE)
    gl.store(y + N + short, half.load(LINE))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("flag", [0, 4, 2])
def test_views_through_calls_tuples_and_branches(executor: str, flag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((2, 256), np.int32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, choose_a_view[(1,)], x, y, flag, 256)
    np.testing.assert_array_equal(y[0], x[0] if flag > 0 else x[1])
    np.testing.assert_array_equal(y[1, :128], x[0, 128:] if flag > 1 else x[0, :128])


@glueball.jit
def look_up(table, index, y, M: gl.constexpr, N: gl.constexpr, AXIS: gl.constexpr, shared: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float32, [M, N], shared, gl.load(table + offsets(M, N, ROWS)))
    gl.store(y + offsets(M, N, COLUMNS), view.gather(gl.load(index + offsets(M, N, COLUMNS)), AXIS))


@glueball.jit
def deal_out(x, index, y, M: gl.constexpr, N: gl.constexpr, AXIS: gl.constexpr, shared: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float32, [M, N], shared)
    view.scatter(gl.load(x + offsets(M, N, COLUMNS)), gl.load(index + offsets(M, N, COLUMNS)), AXIS)
    gl.store(y + offsets(M, N, ROWS), view.load(ROWS))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["dense", "swizzled", "padded"])
def test_gather_and_scatter(executor: str, name: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(axis)
    x = random_array((32, 64), np.float32)
    counted = np.indices(x.shape)[axis].astype(np.int32)
    index = np.ascontiguousarray(generator.permuted(counted, axis=axis))
    y, z = np.zeros_like(x), np.zeros_like(x)
    run(executor, monkeypatch, look_up[(1,)], x, index, y, 32, 64, axis, LAYOUTS[name])
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, axis))
    run(executor, monkeypatch, deal_out[(1,)], x, index, z, 32, 64, axis, LAYOUTS[name])
    expected = np.zeros_like(x)
    np.put_along_axis(expected, index, x, axis)
    np.testing.assert_array_equal(z, expected)


@glueball.jit
def other_types(x, y, z):
    line = gl.arange(0, 256, layout=LINE)
    view = gl.allocate_shared_memory(gl.int32, [2, 256], PLAIN)
    view.index(1).store(gl.load(x + line))
    again = view.index(1).reinterpret(gl.int16, [2, 256])
    part = view.index(1).slice(128, 128).reinterpret(gl.int64, [64], PLAIN)
    gl.store(y + line, again.index(0).load(LINE))
    gl.store(y + 256 + line, again.index(1).load(LINE))
    gl.store(z + gl.arange(0, 64, layout=LINE), part.load(LINE))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_reinterpreted_bytes(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((256,), np.int32)
    y, z = np.zeros(512, np.int16), np.zeros(64, np.int64)
    run(executor, monkeypatch, other_types[(1,)], x, y, z)
    np.testing.assert_array_equal(y, x.view(np.int16))
    np.testing.assert_array_equal(z, x[128:].view(np.int64))


@glueball.jit
def one_after_the_other(x, y, ALIVE: gl.constexpr):
    first = gl.allocate_shared_memory(gl.float32, [32, 32], DENSE, gl.load(x + offsets(32, 32, ROWS)))
    a = first.load(COLUMNS)
    second = gl.allocate_shared_memory(gl.float32, [32, 32], DENSE, gl.load(x + 1024 + offsets(32, 32, ROWS)))
    gl.store(y + offsets(32, 32, COLUMNS), a + second.load(COLUMNS))
    if ALIVE:
        first._keep_alive()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("alive", [False, True])
def test_dead_buffers_share_space(executor: str, alive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((2, 32, 32), np.float32)
    y = np.zeros((32, 32), np.float32)
    kernel = run(executor, monkeypatch, one_after_the_other[(1,)], x, y, alive)
    np.testing.assert_array_equal(y, x[0] + x[1])
    assert kernel.metadata.shared == (8192 if alive else 4096)


def test_a_padded_buffer_takes_no_padding_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = gl.PaddedSharedLayout.with_identity_for([[32, 4]], [64, 32], [1, 0])
    x = random_array((64, 32), np.float32)
    kernel = run("sim", monkeypatch, store_and_load[(1,)], x, x.copy(), 64, 32, shared, ROWS, ROWS)
    assert kernel.metadata.shared == 9200


@glueball.jit
def describe(y, shared: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float16, [3, 64, 32], shared)
    gl.static_assert(view.dtype == gl.float16)
    gl.static_assert(view.shape == [3, 64, 32])
    gl.static_assert(view.rank == 3)
    gl.static_assert(view.numel == 6144)
    gl.static_assert(view.nbytes_per_cta == 12288)
    gl.static_assert(view.layout == shared)
    gl.static_assert(view.type == gl.allocate_shared_memory(gl.float16, [3, 64, 32], shared).type)
    gl.static_assert(view.type != gl.allocate_shared_memory(gl.int16, [3, 64, 32], shared).type)
    gl.static_assert(view.slice(1, 2).shape == [2, 64, 32])
    gl.static_assert(view.index(0).slice(0, 16, 1).type.alloc_shape == [64, 32])
    gl.static_assert(view.index(2).permute([1, 0]).shape == [32, 64])


def test_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    run("reference", monkeypatch, describe[(1,)], np.zeros(1, np.float32), gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))


@glueball.jit
def layouts_of_views(y):
    mma: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    view = gl.allocate_shared_memory(gl.float16, [64, 64], mma)
    gl.static_assert(view.permute([1, 0]).layout == gl.NVMMASharedLayout(128, 16, transposed=True))
    gl.static_assert(view.reshape([8, 8, 64]).layout == gl.NVMMASharedLayout(128, 16, 3))
    flat: gl.constexpr = view.reshape([4096]).layout
    bases: gl.constexpr = [[1], [2], [4], [8], [16], [32], [72], [144], [288], [512], [1024], [2048]]
    gl.static_assert(flat == gl.SharedLinearLayout(bases, [], 1024))
    gl.static_assert(gl.to_linear_layout(mma, [64, 64]).alignment == 1024)
    gl.static_assert(gl.to_linear_layout(flat, [1]) == flat)


def test_layouts_of_views(monkeypatch: pytest.MonkeyPatch) -> None:
    run("reference", monkeypatch, layouts_of_views[(1,)], np.zeros(1, np.float32))


@glueball.jit
def count_conflicts(
    y, M: gl.constexpr, N: gl.constexpr, dtype: gl.constexpr, held: gl.constexpr, shared: gl.constexpr, n: gl.constexpr
):
    tile = gl.zeros([M, N], dtype, held)
    view = gl.allocate_shared_memory(dtype, [M, N], shared)
    gl.static_assert(gl.bank_conflicts(tile.type, view.type) == n)


LONG_ROWS = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
LONG_COLUMNS = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


@pytest.mark.parametrize(
    ("shape", "dtype", "held", "shared", "count"),
    [
        ((32, 32), gl.float32, LONG_ROWS, DENSE, 0),
        ((32, 32), gl.float32, LONG_COLUMNS, DENSE, 31),
        ((32, 32), gl.float32, LONG_COLUMNS, gl.SwizzledSharedLayout(1, 1, 32, [1, 0]), 0),
        ((32, 32), gl.float32, COLUMNS, DENSE, 7),
        ((32, 32), gl.float16, LONG_COLUMNS, DENSE, 15),
        ((32, 64), gl.float16, LONG_COLUMNS, gl.SwizzledSharedLayout(8, 1, 8, [1, 0]), 3),
        ((32, 32), gl.float64, LONG_COLUMNS, DENSE, 15),
    ],
)
def test_bank_conflicts(
    shape: tuple[int, int], dtype: Any, held: Any, shared: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("reference", monkeypatch, count_conflicts[(1,)], np.zeros(1, np.float32), *shape, dtype, held, shared, count)


def _allocation(*arguments: Any) -> Callable[[], Any]:
    """A wrong allocation."""
    element, shape, layout = arguments

    @glueball.jit
    def wrong(y, E: gl.constexpr, S: gl.constexpr, L: gl.constexpr):
        gl.allocate_shared_memory(E, S, L)

    return lambda: wrong[(1,)](np.zeros(1, np.float32), element, shape, layout)


@pytest.mark.parametrize(
    ("arguments", "cause", "message"),
    [
        ((gl.int1, (32, 32), DENSE), RuntimeError, "must be a multiple of 8"),
        ((3, (32, 32), DENSE), ValueError, "expected 'element_ty' to be a dtype"),
        ((gl.int32, (32, 1.5), DENSE), ValueError, "all elements of 'shape' must be integers"),
        ((gl.int32, (32, 32), ROWS), ValueError, "expected 'layout' to be a SharedLayout"),
        ((gl.int32, (2, 3, 32, 32), DENSE), RuntimeError, "rank must be equal to or one less than the shape size"),
        ((gl.int32, (24, 32), DENSE), RuntimeError, "shape must have power-of-2 and non-zero dimensions"),
        ((gl.int32, (32, 32), LAYOUTS["padded"]), RuntimeError, "Mismatch in expected shape for dimension"),
    ],
)
def test_errors_of_allocations(arguments: tuple[Any, ...], cause: type[Exception], message: str) -> None:
    with pytest.raises(glueball.errors.CompilationError, match=message) as caught:
        _allocation(*arguments)()
    assert isinstance(caught.value.__cause__, cause)


@glueball.jit
def change(x, index, chosen, y, old, M: gl.constexpr, N: gl.constexpr, AXIS: gl.constexpr, NAME: gl.constexpr):
    view = gl.allocate_shared_memory(x.dtype.element_ty, [M, N], gl.SwizzledSharedLayout(2, 1, 4, [1, 0]))
    view.store(gl.load(x + offsets(M, N, ROWS)))
    place = offsets(M, N, COLUMNS)
    values, indices, mask = gl.load(x + place), gl.load(index + place), gl.load(chosen + place) != 0
    if NAME == "add":
        before = view.atomic_scatter_add(values, indices, AXIS, mask)
    elif NAME == "max":
        before = view.atomic_scatter_max(values, indices, AXIS, mask)
    elif NAME == "min":
        before = view.atomic_scatter_min(values, indices, AXIS, mask)
    elif NAME == "and":
        before = view.atomic_scatter_and(values, indices, AXIS, mask)
    elif NAME == "or":
        before = view.atomic_scatter_or(values, indices, AXIS, mask)
    elif NAME == "xor":
        before = view.atomic_scatter_xor(values, indices, AXIS, mask)
    else:
        before = view.atomic_scatter_xchg(values, indices, AXIS, mask)
    gl.store(old + place, before, mask=mask)
    gl.store(y + offsets(M, N, ROWS), view.load(ROWS))


UFUNCS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("add", "int32"), ("add", "float32"), ("max", "int32"), ("min", "uint32"), ("max", "uint64"), ("and", "int64"),
        ("or", "uint32"), ("xor", "int32"), ("xchg", "float32"),
    ],
)  # fmt: skip
def test_atomic_changes(executor: str, name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several changes of one element where the operation is commutative; the old value is one that was there."""
    if executor == "gpu" and dtype.startswith("uint") and dtype != "uint8":
        pytest.skip("torch has no arithmetic on wide unsigned integers")
    generator = np.random.default_rng(7)
    x = random_array((16, 32), dtype)
    if dtype == "float32":
        x = x.round()
    counted = np.indices(x.shape)[0].astype(np.int32)
    index = counted[::-1].copy() if name == "xchg" else generator.integers(0, 16, x.shape, np.int32)
    chosen = generator.integers(0, 2, x.shape, np.int32)
    y, old = np.zeros_like(x), np.zeros_like(x)
    run(executor, monkeypatch, change[(1,)], x, index, chosen, y, old, 16, 32, 0, name)
    expected, where = x.copy(), chosen != 0
    place = (index[where], np.indices(x.shape)[1][where])
    if name == "xchg":
        expected[place] = x[where]
        np.testing.assert_array_equal(old[where], x[place])
    else:
        UFUNCS[name].at(expected, place, x[where])
    np.testing.assert_array_equal(y, expected)


BUFFERS = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])


def _misuse(body: Any) -> Any:
    """A wrong use of a view of [64, 64] float16 in a swizzled layout, or of three of them."""

    @glueball.jit
    def misuse(y, n):
        view = gl.allocate_shared_memory(gl.float16, [64, 64], BUFFERS)
        several = gl.allocate_shared_memory(gl.float16, [3, 64, 64], BUFFERS)
        body(view, several, n)

    return misuse


@glueball.jit
def loads_in_no_layout(view, several, n):
    view.load(3)


@glueball.jit
def loads_in_another_rank(view, several, n):
    view.load(LINE)


@glueball.jit
def loads_several(view, several, n):
    several.load(ROWS)


@glueball.jit
def stores_a_number(view, several, n):
    view.store(1.0)


@glueball.jit
def stores_another_shape(view, several, n):
    view.store(gl.zeros([32, 64], gl.float16, ROWS))


@glueball.jit
def stores_another_type(view, several, n):
    view.store(gl.zeros([64, 64], gl.float32, ROWS))


@glueball.jit
def slices_at_run_time(view, several, n):
    view.slice(n, 8)


@glueball.jit
def slices_too_far(view, several, n):
    view.slice(64, 8)


@glueball.jit
def slices_off_the_grid(view, several, n):
    view.slice(8, 16)


@glueball.jit
def slices_through_the_swizzle(view, several, n):
    view.slice(0, 4)


@glueball.jit
def slices_no_dimension(view, several, n):
    view.slice(0, 8, 2)


@glueball.jit
def indexes_one(view, several, n):
    view.index(0)


@glueball.jit
def indexes_by_a_float(view, several, n):
    several.index(1.5)


@glueball.jit
def indexes_by_a_wide_integer(view, several, n):
    several.index(n.to(gl.int64))


@glueball.jit
def indexes_too_far(view, several, n):
    several.index(3)


@glueball.jit
def permutes_too_few(view, several, n):
    view.permute([0])


@glueball.jit
def reshapes_to_more(view, several, n):
    view.reshape([64, 128])


@glueball.jit
def reshapes_a_slice(view, several, n):
    view.slice(0, 32, 1).reshape([2048])


@glueball.jit
def reinterprets_as_more(view, several, n):
    view.reinterpret(gl.float32)


@glueball.jit
def gathers_along_no_axis(view, several, n):
    view.gather(gl.zeros([64, 64], gl.int32, ROWS), -1)


@glueball.jit
def gathers_by_floats(view, several, n):
    view.gather(gl.zeros([64, 64], gl.float32, ROWS), 0)


@glueball.jit
def gathers_in_another_rank(view, several, n):
    view.gather(gl.zeros([64], gl.int32, LINE), 0)


@glueball.jit
def scatters_another_type(view, several, n):
    view.scatter(gl.zeros([64, 64], gl.int32, ROWS), gl.zeros([64, 64], gl.int32, ROWS), 0)


@glueball.jit
def adds_halves(view, several, n):
    view.atomic_scatter_and(gl.zeros([64, 64], gl.float16, ROWS), gl.zeros([64, 64], gl.int32, ROWS), 0)


@glueball.jit
def subscripts(view, several, n):
    several[0].load(ROWS)


@glueball.jit
def misspells(view, several, n):
    view.lod(ROWS)


@glueball.jit
def initial_value_of_another_type(view, several, n):
    gl.allocate_shared_memory(gl.int32, [64, 64], BUFFERS, gl.zeros([64, 64], gl.float32, ROWS))


@glueball.jit
def counts_conflicts_of_values(view, several, n):
    gl.bank_conflicts(view, view)


@glueball.jit
def counts_conflicts_of_a_slice(view, several, n):
    tile = gl.zeros([64, 32], gl.float16, ROWS)
    gl.bank_conflicts(tile.type, view.slice(0, 32, 1).type)


@glueball.jit
def is_no_layout(view, several, n):
    gl.to_linear_layout(3, [4])


@pytest.mark.parametrize(
    ("body", "cause", "message"),
    [
        (loads_in_no_layout, ValueError, "expected 'layout' to be a distributed layout"),
        (loads_in_another_rank, AssertionError, "rank mismatch"),
        (loads_several, ValueError, r"take .index\(i\) first"),
        (stores_a_number, ValueError, "expected 'value' to be a tensor"),
        (stores_another_shape, ValueError, r"source shape \[32, 64\] and destination shape \[64, 64\]"),
        (stores_another_type, ValueError, "source dtype fp32 and destination dtype fp16"),
        (slices_at_run_time, ValueError, "expected 'start' to be an int"),
        (slices_too_far, ValueError, "may not exceed the source shape"),
        (slices_off_the_grid, ValueError, "may not touch the tile"),
        (slices_through_the_swizzle, ValueError, "splitting along the swizzling pattern"),
        (slices_no_dimension, ValueError, "out of bounds"),
        (indexes_one, RuntimeError, "rank must be equal to or one less than the shape size"),
        (indexes_by_a_float, ValueError, "expected 'index' to be an int32 scalar"),
        (indexes_by_a_wide_integer, ValueError, "expected 'index' to be an int32 scalar"),
        (indexes_too_far, ValueError, "index 3 is out of range for 3 buffers"),
        (permutes_too_few, ValueError, r"source rank \(2\) and order length \(1\) must match"),
        (reshapes_to_more, ValueError, "total elements mismatch"),
        (reshapes_a_slice, ValueError, "NYI: memdesc_reshape of memdesc_subslice"),
        (reinterprets_as_more, ValueError, "exceeds the source view"),
        (gathers_along_no_axis, ValueError, "axis -1 is out of bounds"),
        (gathers_by_floats, ValueError, "integer dtype"),
        (gathers_in_another_rank, ValueError, "rank must match"),
        (scatters_another_type, ValueError, "values dtype int32 and descriptor dtype fp16 must match"),
        (adds_halves, ValueError, "atomic_scatter_and does not support dtype fp16"),
        (subscripts, AttributeError, "not subscriptable"),
        (misspells, AttributeError, "no attribute 'lod'; did you mean `load`"),
        (initial_value_of_another_type, ValueError, "source dtype fp32 and destination dtype int32"),
        (counts_conflicts_of_values, TypeError, "needs the type of a tile"),
        (counts_conflicts_of_a_slice, ValueError, "does not count slices"),
        (is_no_layout, ValueError, "Expected a DistributedLayout, SharedLayout"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_errors_of_views(body: Any, cause: type[Exception], message: str) -> None:
    with pytest.raises(glueball.errors.CompilationError, match=message) as caught:
        _misuse(body)[(1,)](np.zeros(1, np.float32), 5)
    in_body = caught.value.__cause__
    assert in_body is not None and isinstance(in_body.__cause__, cause)
    assert caught.value.location is not None and caught.value.location.function == body.__name__


@glueball.jit
def partly_loaded(x, y, n):
    line = gl.arange(0, 128, LINE)
    view = gl.allocate_shared_memory(gl.float32, [128], PLAIN, gl.load(x + line, mask=line < n))
    gl.store(y + line, view.load(LINE))


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_undefined_values_stay_undefined_in_memory(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((128,), np.float32), np.zeros(128, np.float32)
    run(executor, monkeypatch, partly_loaded[(1,)], x, y, 128)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(UninitializedReadError, match="masked"):
        run(executor, monkeypatch, partly_loaded[(1,)], x, y, 100)


@glueball.jit
def decided_by_the_mask(x, y, counts, n, L: gl.constexpr):
    line = gl.arange(0, 128, L)
    inside = line < n
    value = gl.load(x + line, mask=inside)
    before = gl.atomic_add(counts + line, 1, mask=inside)
    gl.store(y + line, value, mask=inside & (value > before))
    gl.store(y + line, -1.0, mask=~(inside | (value > before) | (line >= n)) | (line == 127))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_condition_may_decide_whatever_the_other_is(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, counts = random_array((128,), np.float32), np.zeros(128, np.float32), np.zeros(128, np.int32)
    run(executor, monkeypatch, decided_by_the_mask[(1,)], x, y, counts, 100, LINE)
    expected = np.where((np.arange(128) < 100) & (x > 0), x, 0)
    expected[127] = -1
    np.testing.assert_array_equal(y, expected)
    assert counts.tolist() == [1] * 100 + [0] * 28


@pytest.mark.parametrize(("target", "lanes"), [("gfx950", 64), ("gfx1250", 32)])
def test_what_was_not_loaded_is_some_value_for_llvm(target: str, lanes: int) -> None:
    x, counts, layout = np.zeros(128, np.float32), np.zeros(128, np.int32), gl.BlockedLayout([1], [lanes], [4], [0])
    compiled = glueball.compile_only(decided_by_the_mask, x, x, counts, 100, layout, target=target)
    assert compiled.asm["llir"].count("freeze") == 2


CUBE = gl.BlockedLayout([1, 1, 2], [2, 4, 4], [2, 2, 1], [2, 1, 0])


@glueball.jit
def cube_places(A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, layout: gl.constexpr):
    rows: gl.constexpr = gl.SliceLayout(2, layout)
    first = gl.arange(0, A, gl.SliceLayout(1, rows))[:, None] * (B * C)
    plane = first + gl.arange(0, B, gl.SliceLayout(0, rows))[None, :] * C
    return plane[:, :, None] + gl.arange(0, C, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]


@glueball.jit
def turn_cube(x, y, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, shared: gl.constexpr, layout: gl.constexpr):
    view = gl.allocate_shared_memory(x.dtype.element_ty, [A, B, C], shared)
    view.store(gl.load(x + cube_places(A, B, C, layout)))
    turned = view.permute([2, 0, 1]).slice(C // 2, C // 2, 0)
    gl.store(y + cube_places(C // 2, A, B, layout), turned.load(layout))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "shared",
    [
        gl.SwizzledSharedLayout(4, 1, 4, [2, 1, 0]),
        gl.NVMMASharedLayout(0, 16, rank=3),
        gl.PaddedSharedLayout.with_identity_for([[32, 2]], [4, 8, 16], [2, 1, 0]),
    ],
)
def test_three_dimensions(executor: str, shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((4, 8, 16), np.float16)
    y = np.zeros((8, 4, 8), np.float16)
    run(executor, monkeypatch, turn_cube[(1,)], x, y, 4, 8, 16, shared, CUBE)
    np.testing.assert_array_equal(y, x.transpose(2, 0, 1)[8:])


@glueball.jit
def padded_bytes(x, y):
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 8, fp4_padded=True)
    view = gl.allocate_shared_memory(gl.uint8, [2, 16, 64], shared)
    view.index(1).store(gl.load(x + offsets(16, 64, ROWS)))
    gl.store(y + offsets(16, 64, COLUMNS), view.index(1).load(COLUMNS))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_layout_with_gaps(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((16, 64), np.uint8), np.zeros((16, 64), np.uint8)
    kernel = run(executor, monkeypatch, padded_bytes[(1,)], x, y)
    np.testing.assert_array_equal(x, y)
    assert kernel.metadata.shared == 2 * 16 * 64 * 2
