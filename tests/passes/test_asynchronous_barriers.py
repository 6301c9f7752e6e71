"""Barriers and proxy fences around asynchronous units: where they stand, how many, and that each is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import SimulationError
from glueball.language.nvidia.hopper import async_copy, fence_async_shared, mbarrier, tma
from glueball.lower import lower
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.compiler import Pipeline
from glueball.runtime.host import run_on_simulator
from glueball.runtime.specialization import specialize
from glueball.targets import TARGETS
from glueball.tile.ir import Operation, Region, TileFunction
from tests.kernels.harness import random_array

TARGET = TARGETS["sm_90a"]
ROWS = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([4, 1], [4, 8], [1, 4], [0, 1])
LINE = gl.BlockedLayout([1], [32], [4], [0])
LAYOUT = gl.NVMMASharedLayout(64, 16)
BLOCK = (16, 32)

SHOWN = {
    "view_store": "store",
    "view_load": "load",
    "mbarrier_init": "init",
    "mbarrier_invalidate": "invalidate",
    "mbarrier_arrive": "arrive",
    "mbarrier_expect": "expect",
    "mbarrier_wait": "wait",
    "mbarrier_copy_arrive": "copy_arrive",
    "bulk_load": "bulk_load",
    "bulk_store": "bulk_store",
    "bulk_wait": "bulk_wait",
    "async_copy": "copy",
    "async_copy_wait": "copy_wait",
    "make_descriptor": "make",
    "proxy_fence": "FENCE",
    "barrier": "BARRIER",
}


class Program(NamedTuple):
    """A kernel and what it is launched with."""

    kernel: Any
    arguments: tuple[Any, ...]
    num_warps: int = 4

    def tile(self) -> TileFunction:
        """After the passes, made anew on every call."""
        compiled = glueball.compile_only(self.kernel, *self.arguments, num_warps=self.num_warps, target=TARGET)
        return Pipeline(compiled.request).tile

    def run(self, function: TileFunction) -> None:
        """On the simulator, in every order that it has."""
        specialized = specialize(self.kernel.rules, self.kernel.bind(self.arguments, {}))
        lowered = lower(function, TARGET)
        for schedule in ("in_order", "late", "random"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("GLUEBALL_SCHEDULE", schedule)
                run_on_simulator(lowered, TARGET, (1, 1, 1), specialized.run_time)


def sequence(function: TileFunction) -> list[str]:
    """The operations that matter here, in order."""
    return [SHOWN[each.opcode] for each in function.body.walk() if each.opcode in SHOWN]


def described(array: Any = None, block: Sequence[int] = BLOCK) -> TensorDescriptor:
    array = random_array((64, 64), np.float16) if array is None else array
    return TensorDescriptor.from_tensor(array, list(block), LAYOUT)


@glueball.jit
def place(layout: gl.constexpr):
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))[:, None]
    return row * 32 + gl.arange(0, 32, layout=gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def load_then_read(source, y, layout: gl.constexpr):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], bar, view)
    mbarrier.wait(bar, 0)
    gl.store(y + place(layout), view.load(layout))
    mbarrier.invalidate(bar)


@glueball.jit
def write_then_store(x, target, FENCES: gl.constexpr, layout: gl.constexpr):
    view = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    view.store(gl.load(x + place(layout)))
    for _ in gl.static_range(FENCES):
        fence_async_shared()
    tma.async_store(target, [0, 0], view)
    tma.store_wait(0)


@glueball.jit
def stores_again_and_again(x, target, count, READ_ONLY: gl.constexpr, layout: gl.constexpr):
    view = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    for i in range(count):
        view.store(gl.load(x + place(layout)))
        tma.async_store(target, [16 * i, 0], view)
        tma.store_wait(0, read_only=READ_ONLY)


@glueball.jit
def loads_again_and_again(source, y, count, layout: gl.constexpr):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(count):
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [16 * i, 0], bar, view)
        mbarrier.wait(bar, i & 1)
        gl.store(y + i * 512 + place(layout), view.load(layout))


@glueball.jit
def loads_that_nobody_reads(source, target, count):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(count):
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [0, 0], bar, view)
        mbarrier.wait(bar, i & 1)


@glueball.jit
def through_one_view(source, target, count):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for i in range(count):
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [16 * i, 0], bar, view)
        mbarrier.wait(bar, i & 1)
        tma.async_store(target, [16 * i, 0], view)
        tma.store_wait(0)


@glueball.jit
def arrivals(y, n):
    first = mbarrier.allocate_mbarrier()
    second = mbarrier.allocate_mbarrier()
    mbarrier.init(first, count=2)
    mbarrier.init(second, count=1)
    mbarrier.arrive(first)
    mbarrier.arrive(first)
    mbarrier.wait(first, 0)
    mbarrier.arrive(second)
    mbarrier.wait(second, 0)


@glueball.jit
def releases_global_memory(y, layout: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    gl.barrier()
    gl.store(y + gl.arange(0, 128, layout=layout), 1.0)
    mbarrier.arrive(bar)
    mbarrier.wait(bar, 0)


@glueball.jit
def copies(x, y, to: gl.constexpr, back: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float16, [16, 32], gl.SwizzledSharedLayout(8, 1, 4, [1, 0]))
    async_copy.async_load(view, x + place(to))
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(y + place(back), view.load(back))


@glueball.jit
def copies_then_stores(x, target, layout: gl.constexpr):
    view = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    async_copy.async_load(view, x + place(layout))
    async_copy.commit_group()
    async_copy.wait_group(0)
    tma.async_store(target, [0, 0], view)
    tma.store_wait(0)


@glueball.jit
def copies_then_arrives(x, y, to: gl.constexpr, back: gl.constexpr):
    view = gl.allocate_shared_memory(gl.float16, [16, 32], gl.SwizzledSharedLayout(8, 1, 4, [1, 0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=128)
    async_copy.async_load(view, x + place(to))
    async_copy.mbarrier_arrive(bar, increment_count=False)
    mbarrier.wait(bar, 0)
    gl.store(y + place(back), view.load(back))


@glueball.jit
def makes(x, target, layout: gl.constexpr):
    source = tma.make_tensor_descriptor(x, [16, 32], [32, 1], [16, 32], layout)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], bar, view)
    mbarrier.wait(bar, 0)
    tma.async_store(target, [0, 0], view)
    tma.store_wait(0)


def tile() -> np.ndarray[Any, Any]:
    return random_array(BLOCK, np.float16)


SEQUENCES: dict[str, tuple[Program, str]] = {
    "loads are waited for by all": (
        Program(load_then_read, (described(), tile(), ROWS)),
        "init BARRIER expect bulk_load wait load BARRIER invalidate",
    ),
    "stores of threads are fenced, then all have come": (
        Program(write_then_store, (tile(), described(), 0, ROWS)),
        "store FENCE BARRIER bulk_store bulk_wait",
    ),
    "a fence of the author's is enough": (
        Program(write_then_store, (tile(), described(), 1, ROWS)),
        "store FENCE BARRIER bulk_store bulk_wait",
    ),
    "bulk stores have read what is written again": (
        Program(stores_again_and_again, (tile(), described(), 3, True, ROWS)),
        "BARRIER store FENCE BARRIER bulk_store bulk_wait",
    ),
    "what is published has been seen by all": (
        Program(stores_again_and_again, (tile(), described(), 3, False, ROWS)),
        "store FENCE BARRIER bulk_store bulk_wait BARRIER",
    ),
    "threads have read what is loaded again": (
        Program(loads_again_and_again, (described(), np.zeros((3, *BLOCK), np.float16), 3, ROWS)),
        "init FENCE BARRIER expect bulk_load wait load",
    ),
    "all have seen a phase before the next one can end": (
        Program(loads_that_nobody_reads, (described(), described(), 3)),
        "init BARRIER expect bulk_load wait",
    ),
    "units know of one another by waits": (
        Program(through_one_view, (described(), described(), 3)),
        "init BARRIER expect bulk_load wait bulk_store bulk_wait",
    ),
    "arrivals need no barrier between them": (
        Program(arrivals, (np.zeros(1, np.int32), 3)),
        "init init BARRIER arrive arrive wait BARRIER arrive wait",
    ),
    "an arrival comes after what all have stored": (
        Program(releases_global_memory, (np.zeros(128, np.float32), LINE)),
        "init BARRIER BARRIER arrive wait",
    ),
    "a thread knows of its own copies": (
        Program(copies, (tile(), tile(), ROWS, ROWS)),
        "copy copy_wait load",
    ),
    "others know of copies after a barrier": (
        Program(copies, (tile(), tile(), ROWS, COLUMNS)),
        "copy copy_wait BARRIER load",
    ),
    "copies are fenced like stores": (
        Program(copies_then_stores, (tile(), described(), ROWS)),
        "copy copy_wait FENCE BARRIER bulk_store bulk_wait",
    ),
    "an mbarrier tells all of copies": (
        Program(copies_then_arrives, (tile(), tile(), ROWS, COLUMNS)),
        "init copy BARRIER copy_arrive wait load",
    ),
    "a made descriptor is there for all": (
        Program(makes, (tile(), described(), LAYOUT)),
        "make BARRIER init FENCE BARRIER expect bulk_load wait bulk_store bulk_wait",
    ),
    "one warp has the same barriers": (
        Program(write_then_store, (tile(), described(), 0, gl.BlockedLayout([1, 4], [4, 8], [1, 1], [1, 0])), 1),
        "store FENCE BARRIER bulk_store bulk_wait",
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_where_they_stand(name: str) -> None:
    program, expected = SEQUENCES[name]
    assert " ".join(sequence(program.tile())) == expected


@pytest.mark.parametrize("name", SEQUENCES)
def test_with_all_of_them_the_simulator_finds_nothing(name: str) -> None:
    program, _ = SEQUENCES[name]
    program.run(program.tile())


def places(function: TileFunction, opcode: str) -> list[tuple[Region, Operation]]:
    """Every operation of a kind, and the region that it stands in."""
    regions = [function.body, *(region for each in function.body.walk() for region in each.regions)]
    return [(region, each) for region in regions for each in region.operations if each.opcode == opcode]


UNSEEN = {
    # The author's own, behind which the pass has put none.
    ("an arrival comes after what all have stored", "barrier", 0),
    # Global memory is always in order on the simulator.
    ("an arrival comes after what all have stored", "barrier", 1),
    ("a made descriptor is there for all", "barrier", 0),
    ("what is published has been seen by all", "barrier", 1),
    # Nobody ends another phase here, but the pass cannot know.
    ("arrivals need no barrier between them", "barrier", 1),
    # Reads are in order with what a unit writes later without a fence, which is there as it is for writes.
    ("threads have read what is loaded again", "proxy_fence", 0),
}
"""What the simulator does not miss in these programs."""


def needed() -> list[Any]:
    """Each barrier and fence that the simulator must miss; one warp's threads need none to be in step."""
    words = {"barrier": "BARRIER", "proxy_fence": "FENCE"}
    return [
        pytest.param(name, opcode, number, id=f"{name}-{opcode}-{number}")
        for name, (program, expected) in SEQUENCES.items()
        for opcode, word in words.items()
        for number in range(expected.split().count(word))
        if program.num_warps > 1 and (name, opcode, number) not in UNSEEN
    ]


@pytest.mark.parametrize(("name", "opcode", "number"), needed())
def test_without_one_the_simulator_finds_something(name: str, opcode: str, number: int) -> None:
    program, _ = SEQUENCES[name]
    function = program.tile()
    region, operation = places(function, opcode)[number]
    region.operations.remove(operation)
    with pytest.raises(SimulationError):
        program.run(function)
