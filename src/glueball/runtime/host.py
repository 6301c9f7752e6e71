"""The two executors that need no device: the simulator, and the tile-level reference."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.drivers.arrays import DeviceArray
from glueball.runtime.grid import Grid
from glueball.runtime.host_copies import byte_reach, on_host
from glueball.runtime.specialization import Argument, scalar_value
from glueball.tensor_map import MappedArray
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
    """Runs a kernel lane by lane, blocks in the order that the knobs ask for; what the simulator counted."""
    with on_host(arguments) as there:
        given = [_simulator_argument(argument) for argument in there]
        if function.global_scratch_bytes:
            given.append(0)  # the simulator needs no memory for what stands there
        report = _simulated(function, target, grid, given)
    if not report.checked:
        _say_unchecked()
    return report


def _simulated(function: Function, target: Target, grid: Grid, given: Sequence[Any]) -> Report:
    """What the simulator counted; a bar shows how far it is where that takes long."""
    from glueball import sim

    options: dict[str, Any] = {
        "schedule": knobs.SCHEDULE.read(),
        "seed": knobs.SEED.read(),
        "sanitize": knobs.SANITIZE.read(),
    }
    seconds = estimate_seconds(function, target, grid)
    if seconds <= TOLD_SECONDS:
        return sim.run(function, target, grid, given, **options)
    print(f"glueball: simulating {function.name} on grid {grid} will take about {seconds:.0f} s", file=sys.stderr)
    with _progress_bar(function.name) as progress:
        return sim.run(function, target, grid, given, progress=progress, **options)


@functools.cache
def _say_unchecked() -> None:
    """Says on standard error, once a process, that launches without a fault have not been checked."""
    print(
        f"glueball: {knobs.SANITIZE.variable}=0: the simulator checks bounds, alignment and deadlocks only; races, "
        f"undefined values, overflows and missing waits go unseen",
        file=sys.stderr,
    )


def run_on_reference(function: TileFunction, grid: Grid, arguments: Sequence[Argument]) -> None:
    """Runs a kernel tile by tile on NumPy arrays."""
    from glueball.tile import reference

    with on_host(arguments) as there:
        reference.run(function, grid, [_reference_argument(argument) for argument in there])


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
    lanes = math.prod(grid) * function.num_ctas * function.num_warps * target.lanes
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
    host = HostArray(
        address=array.pointer,
        shape=array.shape,
        strides=array.strides,
        itemsize=element.itemsize,
        writeable=array.writeable,
        keepalive=array,
        allocation=allocation_address(argument.value),
    )
    return host if argument.tensor_map is None else MappedArray(host, argument.tensor_map)


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

    if argument.tensor_map is not None:
        return MappedArray(array_over(argument.array), argument.tensor_map)
    return argument.value if isinstance(argument.value, numpy.ndarray) else array_over(argument.array)


def array_over(array: DeviceArray, keepalive: object = None) -> Any:
    """A NumPy array over host memory that another framework owns; valid while the owner, or `keepalive`, lives."""
    import numpy

    element = DTYPES[array.dtype].numpy
    if 0 in array.shape:
        return numpy.empty(array.shape, element)
    strides = tuple(stride * element.itemsize for stride in array.strides)
    low, high = byte_reach(array)
    memory = (ctypes.c_char * (high - low)).from_address(array.pointer + low)
    memory.keepalive = keepalive  # type: ignore[attr-defined] # lives as long as the memory is used
    found = numpy.ndarray(array.shape, element, buffer=memoryview(memory), offset=-low, strides=strides)
    found.flags.writeable = array.writeable
    return found
