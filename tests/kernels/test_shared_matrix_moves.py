"""Tiles that move to and from views of shared memory by stmatrix and ldmatrix: values, barriers, predicted counts."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import sim
from glueball.errors import SharedMemoryRaceError
from glueball.layouts import f2
from glueball.layouts.memory import access_wavefronts
from glueball.targets import TARGETS
from glueball.tile.shared_moves import matrix_moves, vector_elements
from glueball.tile.shared_views import allocated, tile_ctas, tile_offsets
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.matrices import ELEMENTS, places
from tests.kernels.test_reductions import run_on

TARGET = TARGETS["sm_90a"]
V2 = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
V3 = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
LAYOUTS = [
    V2, V3, gl.DotOperandLayout(0, V2, 2), gl.DotOperandLayout(1, V2, 2), gl.DotOperandLayout(0, V2, 4),
    gl.DotOperandLayout(1, V2, 4), gl.DotOperandLayout(0, V2, 1), gl.DotOperandLayout(0, V3, 2), ROWS,
]  # fmt: skip
SHARED = [
    *((np.float16, *shared) for shared in ((128, False), (64, False), (32, False), (0, False), (64, True), (32, True))),
    (np.float32, 128, False), (np.float32, 64, True), (np.int8, 128, False), (np.int8, 32, True),
]  # fmt: skip


@glueball.jit
def there_and_back(
    x, y, M: gl.constexpr, N: gl.constexpr, shared: gl.constexpr, first: gl.constexpr, then: gl.constexpr
):
    view = gl.allocate_shared_memory(x.dtype.element_ty, [M, N], shared)
    view.store(gl.load(x + places(M, N, first)))
    gl.store(y + places(M, N, then), view.load(then))


def predicted(layout, kind, *, store):
    """Instructions and wavefronts of a warp, and whether they move matrices."""
    linear, size = layout.linear(kind.shape), kind.element_ty.itemsize
    moves = matrix_moves(linear, kind, TARGET, store=store)
    if moves is not None:
        return len(moves.groups), moves.wavefronts, True
    offsets = tile_offsets(linear, kind)
    vector = vector_elements(offsets, tile_ctas(linear, kind), kind)
    count = (1 << f2.rank(offsets.flat_bases("register"))) // vector
    return count, access_wavefronts(offsets, 8 * size, vector, store=store), False


def shared_layout(swizzle, transposed, dtype):
    return gl.NVMMASharedLayout(swizzle, 8 * np.dtype(dtype).itemsize, 2, transposed)


def signature(dtype):
    return f"*{ELEMENTS[dtype].name}:16"


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("dtype", "swizzle", "transposed"), SHARED)
def test_values(dtype, swizzle, transposed, executor, monkeypatch):
    shared, x = shared_layout(swizzle, transposed, dtype), random_array((64, 128), dtype)
    for first in LAYOUTS:
        for then in (ROWS, first):
            y = np.zeros_like(x)
            run_on(executor, monkeypatch, "sm_90a", there_and_back, x, y, 64, 128, shared, first, then)
            np.testing.assert_array_equal(y, x, f"{first} {then}")


@pytest.mark.parametrize(("dtype", "swizzle", "transposed"), SHARED)
def test_counts_are_those_of_the_simulator(dtype, swizzle, transposed):
    shared, x = shared_layout(swizzle, transposed, dtype), random_array((64, 128), dtype)
    kind = allocated(ELEMENTS[dtype], (64, 128), shared)
    by_matrices = 0
    for layout in LAYOUTS:
        kernel = glueball.compile_only(
            there_and_back, signature(dtype), signature(dtype), 64, 128, shared, layout, layout, target="sm_90a"
        )
        report = sim.run(kernel.thread, TARGET, (1, 1, 1), [x, np.zeros_like(x)])
        counts = [(report.shared_stores, report.matrix_stores), (report.shared_loads, report.matrix_loads)]
        for store, (vectors, matrices) in zip((True, False), counts, strict=True):
            instructions, wavefronts, moves = predicted(layout, kind, store=store)
            found, other = (matrices, vectors) if moves else (vectors, matrices)
            warps = 4 if not store else 4 >> layout.linear((64, 128)).free_variables()["warp"].bit_count()
            assert (found.requests, found.wavefronts) == (instructions * warps, wavefronts * warps)
            assert other.requests == 0
            by_matrices += moves
    assert by_matrices > 0 or dtype != np.float16


@pytest.mark.parametrize("executor", EXECUTORS)
def test_random_layouts(executor, monkeypatch):
    """Any linear map in registers, any order of the elements in shared memory."""
    random = np.random.default_rng(17)
    for index in range(6 if executor == "gpu" else 12):
        dtype = [np.float16, np.int8, np.float32][index % 3]
        bits = [1 << bit for bit in random.permutation(11)] if index % 2 else [1 << bit for bit in range(11)]
        shared = gl.SharedLinearLayout([list(divmod(bit, 64)) for bit in bits])
        first, then = (random_layouts.any_layout(random, 32, 4, (32, 64)) for _ in range(2))
        x = random_array((32, 64), dtype, index)
        y = np.zeros_like(x)
        run_on(executor, monkeypatch, "sm_90a", there_and_back, x, y, 32, 64, shared, first, then)
        np.testing.assert_array_equal(y, x, f"{shared} {first} {then}")


@glueball.jit
def read_at_once(x, y, shared: gl.constexpr, layout: gl.constexpr):
    """What a thread has stored it reads again, in the layout that it has stored."""
    view = gl.allocate_shared_memory(x.dtype.element_ty, [64, 64], shared)
    view.store(gl.load(x + places(64, 64, layout)))
    gl.store(y + places(64, 64, layout), view.load(layout))


def test_matrices_need_a_barrier_where_vectors_need_none():
    """Each lane reads its own elements, but of matrices through the addresses of other lanes."""
    for layout, swizzle, count in [(V2, 128, 1), (ROWS, 0, 0)]:
        shared = shared_layout(swizzle, False, np.float16)
        kernel = glueball.compile_only(read_at_once, "*fp16:16", "*fp16:16", shared, layout, target="sm_80")
        assert kernel.asm["tile"].count("\n  barrier") == count
    x = random_array((64, 64), np.float16)
    shared = shared_layout(128, False, np.float16)
    kernel = glueball.compile_only(read_at_once, "*fp16:16", "*fp16:16", shared, V2, target="sm_80")
    assert "load_matrix" in kernel.asm["thread"] and "store_matrix" not in kernel.asm["thread"]
    without = kernel.thread
    barrier = next(each for each in without.body.instructions if each.record.name == "barrier")
    without.body.instructions.remove(barrier)
    with pytest.raises(SharedMemoryRaceError):
        sim.run(without, TARGETS["sm_80"], (1, 1, 1), [x, np.zeros_like(x)])


def test_stores_by_matrices_need_the_instruction():
    shared = shared_layout(128, False, np.float16)
    arguments = ("*fp16:16", "*fp16:16", 64, 64, shared, V3, ROWS)
    texts = {
        name: glueball.compile_only(there_and_back, *arguments, target=name).asm["ptx"] for name in ("sm_80", "sm_90a")
    }
    assert "stmatrix" not in texts["sm_80"] and texts["sm_80"].count("st.shared.b32") == 16
    assert texts["sm_90a"].count("stmatrix.sync.aligned.m8n8.x4") == 4 and "st.shared" not in texts["sm_90a"]
