"""How faults of accesses to shared memory are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glueball.errors import (
    BarrierMemoryError,
    OverwriteInFlightError,
    ProxyFenceError,
    ReadBeforeWaitError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
    WaitCountError,
)
from glueball.location import SourceLocation

if TYPE_CHECKING:
    from glueball.sim.shared import SharedMemory

OUTSTANDING_WRITES = "Buffer being accessed has outstanding writes"
OUTSTANDING_READS = "Buffer being accessed has outstanding reads"
PENDING_COPY = "Accessing buffer with pending access. Pending access type: "
MISSING_FENCE = "Async shared-memory access is missing fence_async_shared"
BARRIER_MEMORY = "Shared memory reused before barrier invalidation"

OPERATIONS = {
    "copy_async": ("asynchronous copy", "async_copy_global_to_shared"),
    "bulk_tensor_load": ("bulk copy", "async_copy_global_to_shared"),
    "bulk_tensor_store": ("bulk copy", "async_copy_shared_to_global"),
    "warpgroup_mma": ("matrix product", "warpgroup_mma operand read"),
}
"""How asynchronous instructions are called, and what an access to their memory is called that comes too early."""

Told = tuple[type[SimulationError], str, SourceLocation | None]


def access_fault(shared: SharedMemory, kind: str, verb: str, byte: int, other: int, partition: int) -> Told:
    """Class, text and other line of a fault of a kind that the shadow found.

    `other` is an instruction, -1 for none, and `partition` who did it, among all of the cluster.
    """
    machine, group = shared.machine, shared.group
    instruction = group.launch.instructions[other] if other >= 0 else None
    line = instruction.location if instruction else None
    place = f"{verb} at arena byte {byte}"
    if instruction is None or line is None:
        return UninitializedReadError, f"{place}, never written", None
    what, pending = OPERATIONS.get(instruction.record.name, ("operation", instruction.record.name))
    match kind:
        case "in flight" | "source":
            early = f"{place} before the {what} started at {line} was waited for"
            if missed := group.missed_wait(other):
                return WaitCountError, f"{early}: {missed[0]}. {PENDING_COPY}{pending}", line
            error = ReadBeforeWaitError if verb == "read" else OverwriteInFlightError
            return error, f"{early}. {PENDING_COPY}{pending}", line
        case "loaded":
            error = ReadBeforeWaitError if verb == "read" else OverwriteInFlightError
            early = f"{place} with no wait for the mbarrier of the {what} started at {line}"
            return error, f"{early}. {OUTSTANDING_WRITES}", line
        case "unfenced":
            text = f"{place} by the asynchronous proxy, and stored at {line} with no fence between. {MISSING_FENCE}"
            return ProxyFenceError, text, line
        case "barrier":
            text = f"{place}, a live mbarrier since {line}: invalidate it after the last wait. {BARRIER_MEMORY}"
            return BarrierMemoryError, text, line
        case _ if partition != machine.agent:
            reason = OUTSTANDING_WRITES if kind == "written" else OUTSTANDING_READS
            near = partition // group.launch.partitions == machine.group.rank
            between = "no arrival and wait" if near else "no cluster barrier, and no arrival and wait,"
            text = f"{place}, which {group.agent_name(partition)} has {kind} at {line} with {between} between. {reason}"
            return SharedMemoryRaceError, text, line
        case _:
            text = f"{place}, which another thread has {kind} at {line} with no barrier between"
            return SharedMemoryRaceError, text, line
