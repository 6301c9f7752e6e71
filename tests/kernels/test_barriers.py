"""Every barrier that the compiler inserts is needed: without any one of them the simulator reports a race."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import sim
from glueball.errors import SharedMemoryRaceError
from glueball.kernels.ladder import RUNGS, Launch, tensors
from glueball.lower import lower
from glueball.runtime.compiler import Pipeline
from glueball.sim.scheduler import SCHEDULES
from glueball.targets import TARGETS
from glueball.thread.ir import Function
from glueball.tile.ir import Region, TileFunction
from tests.kernels.harness import random_array

TARGET = TARGETS["sm_90a"]
ROWS = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


@glueball.jit
def place(layout: gl.constexpr, EXTENT: gl.constexpr):
    row = gl.arange(0, EXTENT, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, EXTENT, layout=gl.SliceLayout(0, layout))[None, :]
    return EXTENT * row + column


@glueball.jit
def there_and_back(x, y, rows: gl.constexpr, columns: gl.constexpr, EXTENT: gl.constexpr):
    tile = gl.program_id(0) * EXTENT * EXTENT
    value = gl.load(x + tile + place(rows, EXTENT))
    turned = gl.convert_layout(value, columns)
    back = gl.convert_layout(turned + 1.0, rows)
    gl.store(y + tile + place(rows, EXTENT), back - 1.0)


@glueball.jit
def tile_after_tile(x, y, n, rows: gl.constexpr, columns: gl.constexpr, EXTENT: gl.constexpr):
    for i in range(n):
        tile = (gl.program_id(0) * n + i) * EXTENT * EXTENT
        value = gl.load(x + tile + place(rows, EXTENT))
        turned = gl.convert_layout(value, columns)
        gl.store(y + tile + place(columns, EXTENT), turned)


@glueball.jit
def branch_then_conversion(x, y, n, rows: gl.constexpr, columns: gl.constexpr, EXTENT: gl.constexpr):
    tile = gl.program_id(0) * EXTENT * EXTENT
    value = gl.load(x + tile + place(rows, EXTENT))
    if gl.program_id(0) < n:
        value = gl.convert_layout(gl.convert_layout(value, columns) + 1.0, rows) - 1.0
    gl.store(y + tile + place(columns, EXTENT), gl.convert_layout(value, columns))


def _tensors(programs: int) -> tuple[np.ndarray, np.ndarray]:
    shape = (programs * 32 * 32,)
    return random_array(shape, np.int8).astype(np.float32), np.zeros(shape, np.float32)


def rung_f() -> Launch:
    (rung,) = (rung for rung in RUNGS if rung.name == "f-converted")
    source, destination = tensors("opposite", lambda shape: random_array(shape, np.float32), 300, 200)
    destination[...] = 0
    return rung.launch(source, destination, TARGET.lanes)


def two_conversions() -> Launch:
    return Launch(there_and_back, (3,), (*_tensors(3), ROWS, COLUMNS, 32), {}, 0)


def loop() -> Launch:
    return Launch(tile_after_tile, (3,), (*_tensors(6), 2, ROWS, COLUMNS, 32), {}, 0)


def branch() -> Launch:
    return Launch(branch_then_conversion, (3,), (*_tensors(3), 2, ROWS, COLUMNS, 32), {}, 0)


def tile_function(launch: Launch) -> TileFunction:
    """The kernel after the tile passes, made anew on every call."""
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target=TARGET, **launch.keywords)
    return Pipeline(kernel.request).tile


def without_barrier(function: TileFunction, number: int) -> Function:
    """The thread IR of a kernel whose barrier of that number is deleted."""
    (region, operation) = barriers(function)[number]
    region.operations.remove(operation)
    return lower(function, TARGET)


def barriers(function: TileFunction) -> list[tuple[Region, Any]]:
    """Every barrier and the region that it stands in."""
    regions = [function.body, *(region for each in function.body.walk() for region in each.regions)]
    return [(region, each) for region in regions for each in region.operations if each.opcode == "barrier"]


def run(function: Function, launch: Launch, schedule: str, seed: int = 0) -> None:
    grid = (*launch.grid, 1, 1)[:3]
    names = [parameter.name for parameter in function.parameters]
    bound = launch.kernel.bind(launch.arguments, launch.keywords)
    sim.run(function, TARGET, grid, [bound[name] for name in names], schedule=schedule, seed=seed)


KERNELS: list[tuple[Callable[[], Launch], int]] = [(rung_f, 1), (two_conversions, 3), (loop, 2), (branch, 5)]
CASES = [
    pytest.param(make, number, id=f"{make.__name__}-{number}") for make, count in KERNELS for number in range(count)
]


@pytest.mark.parametrize(("make", "count"), KERNELS)
def test_number_of_barriers(make: Callable[[], Launch], count: int) -> None:
    assert len(barriers(tile_function(make()))) == count


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("make", "number"), CASES)
def test_a_missing_barrier_is_a_race(make: Callable[[], Launch], number: int, schedule: str) -> None:
    launch = make()
    function = tile_function(launch)
    accesses = {
        (each.location.file, each.location.line)
        for each in function.body.walk()
        if each.opcode in ("shared_load", "shared_store")
    }
    _, barrier = barriers(function)[number]
    with pytest.raises(SharedMemoryRaceError, match="with no barrier between") as caught:
        run(without_barrier(function, number), launch, schedule)
    error = caught.value
    here, other = error.location, error.details["other"]
    assert here is not None
    assert {(here.file, here.line), (other.file, other.line)} <= accesses
    assert (here.file, here.line) == (barrier.location.file, barrier.location.line)
    assert f"{other.file}:{other.line}" in error.error_message
    assert here.excerpt() in str(error)


def test_the_two_lines_of_a_race_differ_where_the_accesses_do() -> None:
    """The second barrier of `there_and_back` keeps the second conversion's store behind the first one's load."""
    launch = two_conversions()
    with pytest.raises(SharedMemoryRaceError, match="which another thread has read at") as caught:
        run(without_barrier(tile_function(launch), 1), launch, "in_order")
    assert caught.value.location is not None
    texts = [caught.value.location.text().strip(), caught.value.details["other"].text().strip()]
    assert texts == [
        "back = gl.convert_layout(turned + 1.0, rows)",
        "turned = gl.convert_layout(value, columns)",
    ]


@pytest.mark.parametrize("make", [make for make, _ in KERNELS])
def test_with_all_barriers_no_schedule_finds_a_race(make: Callable[[], Launch]) -> None:
    launch = make()
    function = lower(tile_function(launch), TARGET)
    source, destination = launch.arguments[:2]
    for seed in range(20):
        destination[...] = 0
        run(function, launch, "random", seed)
        np.testing.assert_array_equal(destination, source)
