"""The two executors that need no device: the simulator, and the tile-level reference."""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glueball.drivers.arrays import DeviceArray
from glueball.runtime.grid import Grid
from glueball.runtime.specialization import Argument, scalar_value
from glueball.tile.types import DTYPES

if TYPE_CHECKING:
    from glueball.sim import Report
    from glueball.targets import Target
    from glueball.thread.ir import Function, Region
    from glueball.tile.ir import TileFunction

LANE_INSTRUCTIONS_PER_SECOND = 1e8
"""What the simulator does on one core of a small machine, for estimates."""

TOLD_SECONDS = 10.0


def run_on_simulator(function: Function, target: Target, grid: Grid, arguments: Sequence[Argument]) -> Report:
    """Runs a kernel lane by lane; what the simulator counted."""
    from glueball import sim

    given = [_simulator_argument(argument) for argument in arguments]
    seconds = estimate_seconds(function, target, grid)
    if seconds <= TOLD_SECONDS:
        return sim.run(function, target, grid, given)
    print(f"glueball: simulating {function.name} on grid {grid} will take about {seconds:.0f} s", file=sys.stderr)
    with _progress_bar(function.name) as progress:
        return sim.run(function, target, grid, given, progress=progress)


def run_on_reference(function: TileFunction, grid: Grid, arguments: Sequence[Argument]) -> None:
    """Runs a kernel tile by tile on NumPy arrays."""
    from glueball.tile import reference

    reference.run(function, grid, [_reference_argument(argument) for argument in arguments])


@contextlib.contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[float], None]]:
    """A bar on standard error that takes the share that is done, where `rich` is installed."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda share: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"simulating {name}", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def estimate_seconds(function: Function, target: Target, grid: Grid) -> float:
    """About how long a simulation takes, loops whose trip count is not constant counted once."""
    lanes = math.prod(grid) * function.num_warps * target.lanes
    return lanes * _executed(function.body) / LANE_INSTRUCTIONS_PER_SECOND


def _executed(region: Region) -> int:
    total = 0
    for instruction in region.instructions:
        trips = 1
        if instruction.record.name == "for":
            lower, upper, step = (operand.constant for operand in instruction.operands[:3])
            if None not in (lower, upper, step):
                trips = len(range(lower, upper, step))
        total += 1 + trips * sum(map(_executed, instruction.regions))
    return total


def _simulator_argument(argument: Argument) -> Any:
    if argument.array is None:
        return scalar_value(argument)
    from glueball.sim import HostArray

    array, element = argument.array, DTYPES[argument.array.dtype]
    return HostArray(
        address=array.pointer,
        shape=array.shape,
        strides=array.strides,
        itemsize=element.itemsize,
        writeable=_is_writeable(argument.value),
        keepalive=array,
        allocation=allocation_address(argument.value),
    )


def _is_writeable(value: Any) -> bool:
    return bool(getattr(getattr(value, "flags", None), "writeable", True))


def allocation_address(value: Any) -> int | None:
    """Where the storage starts that a NumPy array or torch tensor is a view of."""
    if hasattr(value, "untyped_storage"):
        return int(value.untyped_storage().data_ptr())
    root = value
    while getattr(root, "base", None) is not None and hasattr(root.base, "__array_interface__"):
        root = root.base
    owns = getattr(getattr(root, "flags", None), "owndata", False)
    return int(root.__array_interface__["data"][0]) if owns else None


def _reference_argument(argument: Argument) -> Any:
    if argument.array is None:
        return scalar_value(argument)
    import numpy

    return argument.value if isinstance(argument.value, numpy.ndarray) else _array_over(argument.array)


def _array_over(array: DeviceArray) -> Any:
    """A NumPy array over host memory that another framework owns; valid while the owner lives."""
    import numpy

    element = DTYPES[array.dtype].numpy
    if 0 in array.shape:
        return numpy.empty(array.shape, element)
    strides = tuple(stride * element.itemsize for stride in array.strides)
    ends = [(extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + element.itemsize
    memory = (ctypes.c_char * (high - low)).from_address(array.pointer + low)
    return numpy.ndarray(array.shape, element, buffer=memoryview(memory), offset=-low, strides=strides)
