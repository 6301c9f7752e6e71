"""What the instructions' `issue` functions see: one partition of a group of blocks, its memory and its barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import RemoteMemoryError
from glueball.sim.asynchronous import Arrival, Copies
from glueball.sim.bulk import BulkCopies
from glueball.sim.counters import count_global, count_shared
from glueball.sim.masks import NOBODY, Array, Mask
from glueball.sim.matrix_moves import load_matrix, store_matrix
from glueball.sim.mbarriers import Barriers
from glueball.sim.partitions import Join, start_workers
from glueball.sim.remote import receiving, remote_load, store_async
from glueball.sim.shared import SharedMemory
from glueball.sim.tensor_maps import make_tensor_map
from glueball.sim.threads import Threads
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.cluster import Attendance
    from glueball.sim.group import BlockGroup
    from glueball.sim.warpgroup import Products


class Machine(Threads):
    """One partition of a group of blocks; `shared` is the group's memory as this partition's threads reach it."""

    def __init__(self, group: BlockGroup, partition: int, first_warp: int, warps: int) -> None:
        super().__init__(group, partition, first_warp, warps)
        self.memory = self.launch.memory
        self.shared = SharedMemory(self, group)
        self.copies = Copies(self)
        self.bulk = BulkCopies(self)
        self.products: Products = self.launch.sanitizer.products(self)
        self.barriers = Barriers(self, group, self.shared)

    # Memory

    def global_load(self, attributes: Attributes, address: Any, *rest: Any) -> Any:
        """A vector load; `rest` is the mask, if masked, and the replacements, if replaced."""
        mask, replacements = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, replacements)
        values = self.memory.load(self, attributes, address, predicate)
        return _replaced(values, mask, replacements)

    def global_store(self, attributes: Attributes, address: Any, *rest: Any) -> None:
        """A vector store; `rest` is the mask, if masked, and the values."""
        mask, values = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.memory.store(self, attributes, address, predicate, values)

    def shared_load(self, attributes: Attributes, offset: Any, *rest: Any) -> Any:
        """A vector load from an allocation; leaves the poison of the bytes in `poison`."""
        mask, replacements = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            self.poison = (None,) * attributes["count"]
            return self._nothing(attributes, replacements)
        values, self.poison = self.shared.load(attributes, offset, predicate)
        return _replaced(values, mask, replacements)

    def shared_store(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """A vector store to an allocation; `poison` is that of the values, empty for none."""
        mask, values = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.shared.store(attributes, offset, predicate, values, self.poison or (None,) * len(values))
        self.poison = ()

    def load_matrix(self, attributes: Attributes, offset: Any) -> Any:
        """Matrices from an allocation; leaves the poison of the elements in `poison`."""
        values, self.poison = load_matrix(self.shared, attributes, offset, self.whole_warps(None))
        return values[0] if len(values) == 1 else values

    def store_matrix(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """Matrices to an allocation; `poison` is that of the values, empty for none."""
        mask, values = _split(attributes, rest)
        predicate = self.whole_warps(mask)
        if predicate is not NOBODY:
            poison = self.poison or (None,) * len(values)
            store_matrix(self.shared, attributes, offset, predicate, values, poison)
        self.poison = ()

    def atomic(self, attributes: Attributes, address: Any, *rest: Any) -> Any:
        """Changes memory element by element, in the order of blocks, warps and lanes; what was there, if asked for."""
        mask, operands = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, ())
        return self.memory.change(self, attributes, address, predicate, operands)

    def shared_add(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """Adds to integers of an allocation, lane by lane; additions of one instruction never race."""
        mask, (value,) = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.shared.add(attributes, offset, predicate, np.asarray(value))

    def shared_atomic(self, attributes: Attributes, offset: Any, *rest: Any) -> Any:
        """Changes elements of an allocation, in the order of warps and lanes; what was there, if asked for."""
        mask, (value,) = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, ())
        return self.shared.change(attributes, offset, predicate, np.asarray(value))

    def _nothing(self, attributes: Attributes, replacements: Sequence[Any]) -> Any:
        zero = np.zeros((), NUMPY[attributes["type"]])
        values = tuple(replacements) or (zero,) * attributes["count"]
        return values[0] if len(values) == 1 else values

    def copy_async(self, attributes: Attributes, source: Any, offset: Any, *mask: Any) -> None:
        """Starts a copy from global to shared memory, of zeros where `mask` does not hold."""
        self.copies.issue(attributes, source, offset, mask[0] if mask else None)

    def complete_copy(self, pending: Arrival) -> None:
        """A copy is complete for some of its threads."""
        self.copies.complete(pending)

    def commit_group(self) -> None:
        """The open copies become a group."""
        self.copies.commit()

    def wait_group(self, pending: int) -> None:
        """Waits until at most `pending` groups are in flight."""
        self.copies.wait(pending)

    def arrives_early(self) -> bool:
        """Whether the schedule lets an asynchronous copy arrive at once."""
        return self.launch.random is not None and bool(self.launch.random.integers(2))

    def count_global(self, addresses: Array, predicate: Mask, width: int) -> None:
        """Counts an access of the current instruction."""
        counts = count_global(addresses, predicate, width, self.ctas, self.warps)
        self.launch.report.instructions[self.at].counts.add(counts)

    def count_shared(self, offsets: Array, predicate: Mask, width: int, new_request: bool) -> None:
        """Counts an access of the current instruction to shared memory, or only its wavefronts.

        A copy's request is its global one, and one request may go to several CTAs.
        """
        load = self.instructions[self.at].record.name == "shared_load"
        counts = count_shared(offsets, predicate, width, self.function.target.shared_banks, self.ctas, load=load)
        if not new_request:
            counts.requests = 0
        self.launch.report.instructions[self.at].counts.add(counts)

    # Clusters

    def cta_rank(self) -> Any:
        """Number of the block in its cluster."""
        return np.int32(self.group.rank)

    def cluster_barrier(self, relaxed: bool) -> Attendance:
        """All threads of the partition, in every CTA of the cluster, arrive and wait."""
        cluster = self.group.cluster
        if cluster is None:
            raise RemoteMemoryError(f"{self.name} is no part of a cluster", self.location, cta=None)
        self.whole_blocks("a cluster barrier")
        return cluster.meet(self, relaxed)

    def fence_mbarrier_init(self, predicate: Any) -> None:
        """Other CTAs may use the mbarriers there are once a cluster barrier tells them."""
        if self.predicate(predicate) is not NOBODY:
            self.group.words.fence()

    def barriers_of(self, group: BlockGroup) -> Barriers:
        """What these threads do to mbarriers of a CTA."""
        return self.barriers if group is self.group else Barriers(self, group, SharedMemory(self, group))

    def remote_load(self, attributes: Attributes, offset: Any, rank: Any, *rest: Any) -> Any:
        """A vector load from the memory of the CTA of a rank; leaves the poison of the bytes in `poison`."""
        mask, replacements = _split(attributes, rest)
        if self.predicate(mask) is NOBODY:
            self.poison = (None,) * attributes["count"]
            return self._nothing(attributes, replacements)
        values, self.poison = remote_load(self, attributes, offset, rank, mask)
        return _replaced(values, mask, replacements)

    def store_async(self, attributes: Attributes, offset: Any, rank: Any, barrier: Any, *rest: Any) -> None:
        """Sends elements to the memory of the CTA of a rank, whose mbarrier counts the bytes."""
        mask, values = _split(attributes, rest)
        store_async(self, attributes, offset, rank, barrier, mask, values)

    # Products of warp groups

    def warpgroup_mma(self, attributes: Attributes, *operands: Any) -> Any:
        """Starts a product; `poison` is that of the operands, empty for none, then that of the accumulators."""
        return self.products.start(attributes, operands, self.poison or (None,) * len(operands))

    def warpgroup_wait(self, pending: int, *values: Any) -> Any:
        """Ends all products but the latest `pending` ones; `poison` is that of the values, before and after."""
        waited = self.products.wait(pending, values, self.poison or (None,) * len(values))
        return waited[0] if len(waited) == 1 else waited

    # Bulk copies

    def bulk_load(self, attributes: Attributes, descriptor: Any, offset: Any, barrier: Any, *rest: Any) -> None:
        """Starts copies of boxes to shared memory; `rest` is the predicate, coordinates, offsets, and who receives."""
        predicate = self.predicate(rest[0])
        if predicate is NOBODY:
            return
        targets, places = [(self.group, self.shared)], rest[1:]
        if attributes.get("multicast"):
            targets = [(group, SharedMemory(self, group)) for group in receiving(self, places[-1], predicate)]
            places = places[:-1]
        self.bulk.load(attributes, descriptor, offset, barrier, predicate, places, targets)

    def bulk_store(self, attributes: Attributes, descriptor: Any, offset: Any, *rest: Any) -> None:
        """Starts copies of boxes to global memory; `rest` is the predicate and the coordinates."""
        predicate = self.predicate(rest[0])
        if predicate is not NOBODY:
            self.bulk.store(attributes, descriptor, offset, predicate, rest[1:])

    def make_tensor_map(self, attributes: Attributes, *operands: Any) -> Any:
        """The handle of a new tensor map."""
        return make_tensor_map(self, attributes, *operands)

    def bulk_commit_group(self) -> None:
        """The active threads' bulk copies to global memory since the last time become a group."""
        self.bulk.commit()

    def bulk_wait_group(self, pending: int, read_only: bool) -> None:
        """Waits until at most `pending` groups are in flight, or until only they have yet to read shared memory."""
        self.bulk.wait(pending, read_only)

    def fence_proxy_async(self, _cluster: bool) -> None:
        """What the active threads stored is ordered before what the asynchronous proxy does after it."""
        everyone = self.active is None or bool(self.active.all())
        threads = None if everyone else self.threads_in_block(self.active)
        if threads is not None and threads.shape[0] > 1:
            self.group.expand()
        self.group.shadow.fence(self.agent, threads)

    # Threads together

    def barrier(self, attributes: Attributes) -> None:
        """All threads of the partition, in each active block, arrive: what they did is ordered before what they do."""
        threads = attributes.get("threads", self.group.threads_at_work)
        if threads != self.warps * self.lanes:
            self.deadlock(f"a barrier of {threads} threads waits in a partition of {self.warps * self.lanes} threads")
        ctas = self.whole_blocks("a barrier")
        if ctas is not None:
            self.group.expand()
        self.group.clocks.barrier(self.agent, ctas)

    def fork(self, attributes: Attributes, workers: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> Join:
        """Starts the workers of a `partitions` instruction, each a function and its captures."""
        return start_workers(self, attributes, workers)

    def join(self, workers: Join) -> None:
        """All workers have ended: what they did is ordered before what follows."""
        workers.finish()


def _split(attributes: Attributes, rest: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Mask (`None` if not masked) and the operands after it."""
    return (rest[0], rest[1:]) if attributes.get("masked") else (None, rest)


def _replaced(values: Sequence[Any], mask: Any, replacements: Sequence[Any]) -> Any:
    if replacements and not np.all(mask):
        values = [np.where(mask, value, other) for value, other in zip(values, replacements, strict=True)]
    return values[0] if len(values) == 1 else tuple(values)
