"""A launch on the simulator: arguments become regions, blocks contexts, counts a report."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glueball.errors import OutOfResources, TargetError
from glueball.sim.cluster import Cluster
from glueball.sim.counters import Report
from glueball.sim.divergence import waits_differ_between_blocks
from glueball.sim.group import BlockGroup
from glueball.sim.launch import Launch
from glueball.sim.memory import GlobalMemory, HostArray, Region
from glueball.sim.sanitizer import CHECKED, UNCHECKED
from glueball.sim.scheduler import Context, Scheduler, Wait
from glueball.sim.translate import Translation, as_argument, translate
from glueball.targets import Target
from glueball.tensor_map import MappedArray, TensorMap
from glueball.thread.control import PARTITIONS, launched_warps
from glueball.thread.diagnostics import WHERE_DEFINED
from glueball.thread.ir import BITS, Effect, Function, Instruction, Parameter
from glueball.thread.memory import access_bytes
from glueball.thread.nvidia.bulk_tensor import GRANULE
from glueball.thread.nvidia.matrix_moves import ROW_BYTES
from glueball.thread.nvidia.mbarrier import WORD_BYTES
from glueball.thread.nvidia.tensor_maps import MAKE_TENSOR_MAP

CONTEXT_THREADS = 1 << 16
CONTEXT_SHARED_BYTES = 1 << 22
CONTEXTS_TO_INTERLEAVE = 8
ASYNCHRONOUS_PROXY = "async"
SHARED_ATOMIC = ("shared_add", "shared_atomic")


def run(
    function: Function,
    target: Target,
    grid: Sequence[int],
    arguments: Sequence[Any],
    *,
    schedule: str = "in_order",
    seed: int = 0,
    sanitize: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> Report:
    """Runs a kernel for a grid of blocks; its stores go straight to the caller's storage.

    `arguments` are one per parameter: a NumPy array or `HostArray` for a pointer, a `MappedArray` of one for a
    descriptor, a number for anything else. `schedule` is `in_order`, `random` (from `seed`: other contexts at every
    pause, asynchronous work early or not) or `late`. `sanitize` asks for all checks, which kernels whose results depend
    on what is undefined have anyway. `progress` is told now and then which share of the blocks has run. Raises a
    `SimulationError` for the first fault found.
    """
    random = np.random.default_rng(seed)
    scheduler = Scheduler(schedule, random)
    sanitize |= any(instruction.record is WHERE_DEFINED for instruction in function.body.walk())
    sanitizer = CHECKED if sanitize else UNCHECKED
    translation = translate(function, sanitizer.poison)
    _check_resources(function, target, translation)
    memory, registers, tensor_maps = _bind(function, arguments)
    x, y, z = (*grid, 1, 1)[:3]
    x *= function.num_ctas
    launch = Launch(
        function=function,
        instructions=translation.instructions,
        region_counts=[0] * len(translation.regions),
        grid=(x, y, z),
        memory=memory,
        report=Report.of(translation.instructions, checked=sanitize),
        scheduler=scheduler,
        shared_bytes=_shared_bytes(function),
        granule=_granule(translation),
        warps=launched_warps(function),
        partitions=_partitions(translation.instructions),
        proxies=any(effect.proxy == ASYNCHRONOUS_PROXY for effect in _shared_effects(translation.instructions)),
        random=random if schedule == "random" else None,
        sanitizer=sanitizer,
        atomic=np.array([instruction.record.name in SHARED_ATOMIC for instruction in translation.instructions], bool),
        tensor_maps=tensor_maps,
    )
    with np.errstate(all="ignore"):
        scheduler.run(_contexts(launch, translation, registers, x * y * z, schedule), progress)
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
    threads = launch.warps * launch.function.target.lanes
    size = max(1, min(CONTEXT_THREADS // threads, CONTEXT_SHARED_BYTES // max(1, launch.shared_bytes)))
    if schedule != "in_order":
        size = max(1, min(size, -(-ctas // CONTEXTS_TO_INTERLEAVE)))
    apart = launch.partitions > 1 and waits_differ_between_blocks(launch.function)
    makes_maps = any(instruction.record is MAKE_TENSOR_MAP for instruction in launch.instructions)
    together = launch.function.num_ctas
    if apart or makes_maps or together > 1 or _waits_for_others(launch.instructions):
        size = 1
    clusters: dict[int, Cluster] = {}

    def make_group(first: int, count: int) -> BlockGroup:
        if together == 1:
            return BlockGroup(launch, first, count)
        number, rank = divmod(first, together)
        if number not in clusters:
            clusters[number] = Cluster(launch, first - rank)
        found = clusters[number].groups[rank]
        return found

    def context(first: int) -> Context:
        count = min(size, ctas - first)

        def start() -> Generator[Wait, None, None]:
            group = make_group(first, count)
            with group.main.naming():
                yield from translation.run(group.main, *registers)
            group.finish()

        return Context(f"blocks {first} to {first + count - 1}", start)

    return [context(first) for first in range(0, ctas, size)]


def _bind(function: Function, arguments: Sequence[Any]) -> tuple[GlobalMemory, list[Any], list[TensorMap]]:
    """The regions of the pointer and descriptor arguments, the registers of all arguments, and the tensor maps."""
    if len(arguments) != len(function.parameters):
        raise TypeError(f"`{function.name}` takes {len(function.parameters)} arguments, {len(arguments)} were given")
    regions: list[Region] = []
    registers: list[Any] = []
    tensor_maps: list[TensorMap] = []
    for index, (parameter, argument) in enumerate(zip(function.parameters, arguments, strict=True)):
        if parameter.descriptor is not None:
            given = _mapped(parameter, argument)
            regions.append(Region.of(parameter.name, index, _host(parameter, given.array)))
            registers.append(np.int64(len(tensor_maps)))
            tensor_maps.append(replace(given.map, base=regions[-1].base))
            continue
        if parameter.pointee is None:
            registers.append(as_argument(parameter.value.type, argument))
            continue
        region = Region.of(parameter.name, index, _host(parameter, argument))
        regions.append(region)
        registers.append(np.int64(region.base))
    return GlobalMemory(regions), registers, tensor_maps


def _host(parameter: Parameter, argument: Any) -> HostArray:
    host = HostArray.of(argument) if isinstance(argument, np.ndarray) else argument
    if not isinstance(host, HostArray):
        raise TypeError(f"`{parameter.name}` is a pointer: an array is needed, not {type(argument).__name__}")
    return host


def _mapped(parameter: Parameter, argument: Any) -> MappedArray:
    if not isinstance(argument, MappedArray):
        raise TypeError(f"`{parameter.name}` is a descriptor: a `MappedArray` is needed, not {type(argument).__name__}")
    if argument.map.type != parameter.descriptor:
        raise TypeError(f"`{parameter.name}` is a {parameter.descriptor}, and a {argument.map.type} was given")
    return argument


def _partitions(instructions: Sequence[Instruction]) -> int:
    """The most partitions that run at once."""
    counts = [len(instruction.regions) for instruction in instructions if instruction.record is PARTITIONS]
    return max([1, *counts])


def _shared_effects(instructions: Sequence[Instruction]) -> list[Effect]:
    return [effect for each in instructions for effect in each.record.effects if effect.space == "shared"]


def _check_resources(function: Function, target: Target, translation: Translation) -> None:
    if target.lanes != function.target.lanes:
        raise TargetError(
            f"`{function.name}` was compiled for {function.target.name} with {function.target.lanes} lanes in a warp; "
            f"{target.name} has {target.lanes}"
        )
    threads = launched_warps(function) * target.lanes
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
    if instruction.record.name.startswith("mbarrier"):
        return WORD_BYTES
    if instruction.record.name.startswith("bulk_tensor"):
        return GRANULE
    if "item_bytes" in attributes:
        return int(attributes["item_bytes"]) if by_element else ROW_BYTES
    if "matrices" in attributes:
        return BITS[attributes["type"]] // 8 if by_element else ROW_BYTES
    return BITS[attributes["type"]] // 8 if by_element else access_bytes(attributes)
