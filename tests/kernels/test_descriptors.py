"""Tensor descriptors as values: passed around, chosen, changed between launches, and made by kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import SimulationError
from glueball.language.nvidia import hopper
from glueball.language.nvidia.hopper import mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor
from tests.kernels.bulk_kernels import block_of, described, moves, region
from tests.kernels.harness import EXECUTORS, random_array, run

BLOCK = (16, 32)
LAYOUT = gl.NVMMASharedLayout(64, 16)


@pytest.fixture(autouse=True)
def allocator() -> Iterator[None]:
    """What gives kernels on a GPU global memory of their own."""

    def allocate(size: int, _: int, __: int | None) -> Any:
        return pytest.importorskip("torch").empty(size, dtype=pytest.importorskip("torch").int8, device="cuda")

    glueball.set_allocator(allocate)
    yield
    glueball.set_allocator(None)


@glueball.jit
def load_block(source, where, bar, view):
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, where, bar, view)


@glueball.aggregate
class Mover:
    source: tma.tensor_descriptor
    target: tma.tensor_descriptor
    view: gl.shared_memory_descriptor
    bar: gl.shared_memory_descriptor
    scale: gl.constexpr

    @glueball.constexpr_function
    def __init__(self, source, target, view, bar, scale):
        self.source = source
        self.target = target
        self.view = view
        self.bar = bar
        self.scale = gl.constexpr(scale)

    @glueball.jit
    def move(self, row, column, phase):
        load_block(self.source, [row * self.scale, column], self.bar, self.view)
        mbarrier.wait(self.bar, phase)
        tma.async_store(self.target, [row * self.scale, column], self.view)
        tma.store_wait(0)


@glueball.jit
def by_aggregate(source, target):
    bar = gl.nvidia.hopper.mbarrier.allocate_mbarrier()
    hopper.mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    mover = Mover(source, target, view, bar, source.block_shape[0])
    for i in range(gl.cdiv(source.shape[0], source.block_shape[0])):
        for j in range(gl.cdiv(source.shape[1], source.block_shape[1])):
            mover.move(i, j * source.block_shape[1], (i * gl.cdiv(source.shape[1], source.block_shape[1]) + j) & 1)


@glueball.jit
def by_tuple(descriptors):
    source, target = descriptors
    moves(source, target, (0, 0), (0, 0))


@glueball.jit
def by_choice(first, second, target, n):
    """Descriptors as results of control flow: of an `if`, and carried through a loop."""
    if n > 3:
        chosen, same = first, target
    else:
        chosen, same = second, target
    other = second
    for _ in range(n):
        other, chosen = chosen, other
    moves(chosen, same, (0, 0), (0, 0))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_aggregates_and_helpers(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((40, 72), np.float16)
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda x, y: by_aggregate[(1,)](described(x, BLOCK, 64), described(y, BLOCK, 64)), x, y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_tuples(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array(BLOCK, np.float16)
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda x, y: by_tuple[(1,)]((described(x, BLOCK, 64), described(y, BLOCK, 64))), x, y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_control_flow(executor: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (random_array(BLOCK, np.float16, seed) for seed in (0, 1))
    y = np.zeros_like(first)
    run(
        executor, monkeypatch, lambda *arrays: by_choice[(1,)](*(described(each, BLOCK, 64) for each in arrays), n),
        first, second, y,
    )  # fmt: skip
    chosen, other = (first, second) if n > 3 else (second, second)
    for _ in range(n):
        other, chosen = chosen, other
    np.testing.assert_array_equal(y, chosen)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_fields_changed_between_launches(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch takes base, extents, block and padding as they are then."""
    first, second = (random_array((64, 64), np.float16, seed) for seed in (0, 1))
    outputs = [np.zeros((64, 64), np.float16) for _ in range(5)]

    def launch(first: Any, second: Any, *outputs: Any) -> None:
        source, target = described(first, BLOCK, 64), described(outputs[0], BLOCK, 64)
        moves[(1,)](source, target, (0, 0), (0, 0))
        source.base, target.base = second, outputs[1]
        moves[(1,)](source, target, (0, 0), (0, 0))
        source.block_shape = target.block_shape = [32, 32]
        target.base = outputs[2]
        moves[(1,)](source, target, (0, 0), (0, 0))
        source.block_shape[0] = 8
        target.base = outputs[3]
        moves[(1,)](source, target, (0, 0), (0, 0))
        source.shape[0], source.padding, target.base = 5, "nan", outputs[4]
        moves[(1,)](source, target, (0, 0), (0, 0))

    run(executor, monkeypatch, launch, first, second, *outputs)
    for output, source, height in zip(
        outputs, (first, second, second, second, second), (16, 16, 32, 8, 5), strict=True
    ):
        np.testing.assert_array_equal(output[:height, :32], source[:height, :32])
        assert not output[:, 32:].any()
    assert np.isnan(outputs[4][5:8, :32]).all()
    assert not outputs[4][8:].any()


@glueball.jit
def made(x, y, M, N, stride, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, PADDING: gl.constexpr, layout: gl.constexpr):
    """Each program copies a block by descriptors of its own."""
    source = tma.make_tensor_descriptor(x, [M, N], [stride, 1], [BLOCK_M, BLOCK_N], layout, padding_option=PADDING)
    target = tma.make_tensor_descriptor(
        y, [gl.num_programs(0) * BLOCK_M, BLOCK_N], [BLOCK_N, 1], [BLOCK_M, BLOCK_N], layout
    )
    row = gl.program_id(0) * BLOCK_M
    moves(source, target, (row, 8), (row, 0))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("programs", [1, 3])
def test_made_by_the_kernel(executor: str, padding: str, programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((40, 64), np.float16)[:, :40]
    y = np.zeros((16 * programs, 32), np.float16)
    run(executor, monkeypatch, made[(programs,)], x, y, 40, 40, 64, *BLOCK, padding, LAYOUT)
    fill = np.nan if padding == "nan" else 0
    blocks = [block_of(x, (16 * program, 8), BLOCK, fill) for program in range(programs)]
    np.testing.assert_array_equal(y, np.concatenate(blocks))


@glueball.jit
def made_in_a_loop(x, y, sizes, N: gl.constexpr, COUNT: gl.constexpr, layout: gl.constexpr):
    """Matrices of different heights one after another, each with a descriptor in the same place."""
    view = gl.allocate_shared_memory(gl.float16, [16, N], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    start = 0
    for i in range(COUNT):
        height = gl.load(sizes + i)
        source = tma.make_tensor_descriptor(x + start * N, [height, N], [N, 1], [16, N], layout)
        load_block(source, [0, 0], bar, view)
        mbarrier.wait(bar, i & 1)
        target = tma.make_tensor_descriptor(y + i * 16 * N, [16, N], [N, 1], [16, N], layout)
        tma.async_store(target, [0, 0], view)
        tma.store_wait(0)
        start += height


@pytest.mark.parametrize("executor", EXECUTORS)
def test_made_in_a_loop(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.array([3, 16, 1, 9], np.int32)
    x = random_array((sizes.sum(), 32), np.float16)
    y = np.ones((4, 16, 32), np.float16)
    run(executor, monkeypatch, made_in_a_loop[(1,)], x, y, sizes, 32, 4, LAYOUT)
    start = 0
    for height, block in zip(sizes, y, strict=True):
        np.testing.assert_array_equal(block[:height], x[start : start + height])
        assert not block[height:].any()
        start += height


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32"])
def test_made_of_other_ranks_and_types(executor: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (3, 12, 32)
    x, y = random_array(shape, dtype), np.zeros(shape, dtype)
    layout = gl.NVMMASharedLayout(0, x.itemsize * 8, 3)
    where = (1, 4, 16 // x.itemsize)

    @glueball.jit
    def kernel(x, y, L, M, N, COLUMN: gl.constexpr, layout: gl.constexpr):
        source = tma.make_tensor_descriptor(x, [L, M, N], [M * N, N, 1], [2, 8, 16], layout, "zero")
        target = tma.make_tensor_descriptor(
            base=y, shape=(L, M, N), strides=(M * N, N, 1), block_shape=(2, 8, 16), layout=layout
        )
        moves(source, target, (1, 4, COLUMN), (1, 4, COLUMN))

    run(executor, monkeypatch, kernel[(1,)], x, y, *shape, where[2], layout)
    expected = np.zeros(shape, dtype)
    _, there = region(shape, where, (2, 8, 16))
    expected[there] = x[there]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("executor", ["reference", "sim"])
@pytest.mark.parametrize(
    ("stride", "offset", "message"),
    [(36, 0, "strides must be 16-byte aligned"), (64, 2, "base must be 16-byte aligned")],
)
def test_made_wrongly(executor: str, stride: int, offset: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((40, 64), np.float16).reshape(-1)[offset:]
    with pytest.raises(SimulationError, match=message) as caught:
        run(executor, monkeypatch, made[(1,)], x, np.zeros(BLOCK, np.float16), 32, 32, stride, *BLOCK, "zero", LAYOUT)
    assert caught.value.location is not None
    assert "tma.make_tensor_descriptor(x" in caught.value.location.excerpt()


def test_machine_code_of_a_made_descriptor() -> None:
    """Built in shared memory, copied to its place, and ordered before what reads it; 128 bytes for each and program."""
    x = np.zeros((64, 64), np.float16)
    kernel = glueball.compile_only(made, x, x, 33, 33, 64, *BLOCK, "nan", LAYOUT, target="sm_90a")
    ptx = kernel.asm["ptx"]
    assert ptx.count("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned") == 2
    assert ptx.count("fence.proxy.tensormap::generic.acquire.gpu") == 2
    assert ptx.count("tensormap.replace.tile.global_stride.shared::cta.b1024.b64") == 2
    assert ptx.count("tensormap.replace.tile.fill_mode") == 1
    assert kernel.metadata.global_scratch_size == 2 * 128
    assert kernel.metadata.global_scratch_align == 128


def test_what_a_descriptor_says_of_itself() -> None:
    @glueball.jit
    def kernel(source, M: gl.constexpr):
        gl.static_assert(source.dtype == gl.float16)
        gl.static_assert(source.block_shape[1] == 32)
        gl.static_assert(source.block_type.shape == (16, 32))
        gl.static_assert(source.block_type.element_ty == gl.float16)
        gl.static_assert(source.block_type.nbytes == source.nbytes_per_cta)
        gl.static_assert(source.nbytes_per_cta == 1024)
        gl.static_assert(source.layout == gl.NVMMASharedLayout(64, 16))
        gl.static_assert(source.shape[0].dtype == gl.int32)
        gl.static_assert(source.strides[0].dtype == gl.int64)
        gl.static_assert(source.type.layout.rank == M)
        gl.static_assert(source.type.nbytes_per_cta == source.nbytes_per_cta)

    descriptor = TensorDescriptor(np.zeros((40, 64), np.float16), [40, 40], [64, 1], [16, 32], LAYOUT)
    glueball.compile_only(kernel, descriptor, 2, target="sm_90a")
