"""A launch on the simulator: arguments become regions, blocks contexts, counts a report."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from glueball.errors import OutOfResources, TargetError
from glueball.sim.counters import Report
from glueball.sim.machine import Launch, Machine
from glueball.sim.memory import GlobalMemory, HostArray, Region
from glueball.sim.scheduler import SCHEDULES, Context, Pause, run_contexts
from glueball.sim.translate import Translation, as_argument, translate
from glueball.targets import Target
from glueball.thread.ir import BITS, Function, Instruction
from glueball.thread.memory import access_bytes
from glueball.thread.nvidia.matrix_moves import ROW_BYTES

CONTEXT_THREADS = 1 << 16
CONTEXT_SHARED_BYTES = 1 << 22
CONTEXTS_TO_INTERLEAVE = 8


def run(
    function: Function,
    target: Target,
    grid: Sequence[int],
    arguments: Sequence[Any],
    *,
    schedule: str = "in_order",
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> Report:
    """Runs a kernel for a grid of blocks; its stores go straight to the caller's storage.

    `arguments` are one per parameter: a NumPy array or `HostArray` for a pointer, a number for anything else.
    `schedule` is `in_order`, `random` (from `seed`: other contexts at every pause, asynchronous copies early or not)
    or `late`. `progress` is told now and then which share of the blocks has run.
    Raises a `SimulationError` for the first fault found.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"unknown schedule {schedule!r}; the schedules are {', '.join(SCHEDULES)}")
    translation = translate(function)
    _check_resources(function, target, translation)
    memory, registers = _bind(function, arguments)
    x, y, z = (*grid, 1, 1)[:3]
    random = np.random.default_rng(seed)
    launch = Launch(
        function=function,
        instructions=translation.instructions,
        region_counts=[0] * len(translation.regions),
        grid=(x, y, z),
        memory=memory,
        report=Report.of(translation.instructions),
        shared_bytes=_shared_bytes(function),
        granule=_granule(translation),
        random=random if schedule == "random" else None,
    )
    with np.errstate(all="ignore"):
        run_contexts(_contexts(launch, translation, registers, x * y * z, schedule), schedule, random, progress)
    for count, region in zip(launch.region_counts, translation.regions, strict=True):
        for index in region:
            launch.report.instructions[index].issued += count
    return launch.report


def _waits_for_others(instructions: Sequence[Instruction]) -> bool:
    """Whether a loop goes on until memory changes, so that blocks must be able to overtake one another."""
    loops = [instruction for instruction in instructions if instruction.record.name == "while"]
    return any(
        inner.record.name in ("atomic", "atomic_load")
        for loop in loops
        for region in loop.regions
        for inner in region.walk()
    )


def _contexts(
    launch: Launch, translation: Translation, registers: Sequence[Any], ctas: int, schedule: str
) -> list[Context]:
    """The blocks in groups; more and smaller groups where their order matters."""
    threads = launch.function.num_warps * launch.function.target.lanes
    size = max(1, min(CONTEXT_THREADS // threads, CONTEXT_SHARED_BYTES // max(1, launch.shared_bytes)))
    if schedule != "in_order":
        size = max(1, min(size, -(-ctas // CONTEXTS_TO_INTERLEAVE)))
    if _waits_for_others(launch.instructions):
        size = 1

    def context(first: int) -> Context:
        count = min(size, ctas - first)

        def start() -> Generator[Pause, None, None]:
            return translation.run(Machine(launch, first, count), *registers)

        return Context(f"blocks {first} to {first + count - 1}", start)

    return [context(first) for first in range(0, ctas, size)]


def _bind(function: Function, arguments: Sequence[Any]) -> tuple[GlobalMemory, list[Any]]:
    """The regions of the pointer arguments and the registers of all arguments."""
    if len(arguments) != len(function.parameters):
        raise TypeError(f"`{function.name}` takes {len(function.parameters)} arguments, {len(arguments)} were given")
    regions, registers = [], []
    for index, (parameter, argument) in enumerate(zip(function.parameters, arguments, strict=True)):
        if parameter.pointee is None:
            registers.append(as_argument(parameter.value.type, argument))
            continue
        host = HostArray.of(argument) if isinstance(argument, np.ndarray) else argument
        if not isinstance(host, HostArray):
            raise TypeError(f"`{parameter.name}` is a pointer: an array is needed, not {type(argument).__name__}")
        region = Region.of(parameter.name, index, host)
        regions.append(region)
        registers.append(np.int64(region.base))
    return GlobalMemory(regions), registers


def _check_resources(function: Function, target: Target, translation: Translation) -> None:
    if target.lanes != function.target.lanes:
        raise TargetError(
            f"`{function.name}` was compiled for {function.target.name} with {function.target.lanes} lanes in a warp; "
            f"{target.name} has {target.lanes}"
        )
    threads = function.num_warps * target.lanes
    if threads > target.threads_per_block:
        raise OutOfResources(threads, target.threads_per_block, "threads per block")
    if _shared_bytes(function) > target.shared_bytes:
        raise OutOfResources(_shared_bytes(function), target.shared_bytes, "shared memory")
    for instruction in translation.instructions:
        if not instruction.record.available_on(target):
            raise TargetError(f"{target.name} has no `{instruction.record.name}` ({instruction.location})")


def _shared_bytes(function: Function) -> int:
    ends = (allocation.offset + allocation.bytes for allocation in function.allocations.values())
    return max(function.shared_bytes, *ends, 0)


def _granule(translation: Translation) -> int:
    """The narrowest piece of shared memory that an instruction touches or that can be poison on its own."""
    shared = (
        instruction
        for instruction in translation.instructions
        if any(effect.space == "shared" for effect in instruction.record.effects)
    )
    return min((_shared_width(instruction, translation.shared_poison) for instruction in shared), default=16)


def _shared_width(instruction: Instruction, by_element: bool) -> int:
    attributes = instruction.attributes
    if instruction.record.name == "copy_async":
        return int(attributes["bytes"])
    if "matrices" in attributes:
        return BITS[attributes["type"]] // 8 if by_element else ROW_BYTES
    return BITS[attributes["type"]] // 8 if by_element else access_bytes(attributes)
