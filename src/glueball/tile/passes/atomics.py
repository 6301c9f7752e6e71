"""Makes the results of atomic operations known to every thread: one holder of each element performs the operation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from glueball.layouts import BlockedLayout
from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.partitions import walk_with_warps
from glueball.tile.passes.gathers import scratch
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.types import distributed_type, dtype

CHANGES = ("atomic_change", "atomic_compare_exchange", "view_atomic")
OPCODES = (*CHANGES, "atomic_load", "atomic_poll")


def expand_atomics(function: TileFunction, target: Target) -> None:
    """Marks results that nobody uses, and hands the others from the threads that have them to those with copies."""
    used = {operand for operation in function.body.walk() for operand in operation.operands}
    sharer = _Sharer(used, target.lanes, dict(walk_with_warps(function)), function.num_ctas)
    rewrite(function, dict.fromkeys(OPCODES, sharer.share))


class _Sharer:
    def __init__(self, used: set[Value], lanes: int, warps: dict[Operation, int], ctas: int) -> None:
        self.used = used
        self.lanes = lanes
        self.warps = warps
        self.ctas = ctas
        self.numbers: Iterator[int] = itertools.count()

    def share(self, operation: Operation, sequel: Sequel) -> Sequence[Value]:
        """The operation itself, and what shares its result; that of a poll always, so that all threads wait for it."""
        sequel.operations.append(operation)
        if operation.result not in self.used and operation.opcode != "atomic_poll":
            if operation.opcode in CHANGES:
                operation.attributes["unused"] = True
            return operation.results
        result = operation.result
        kind = result.type
        if isinstance(kind, distributed_type):
            return [self._share_tile(result, kind, sequel)]
        warps = self.warps[operation]
        if warps == 1 and self.ctas == 1:
            return sequel.add("share_lanes", (result,), [kind], lanes=self.lanes - 1)
        assert isinstance(kind, dtype)
        copies = [[0]] * (self.ctas.bit_length() - 1)
        everywhere = distributed_type(kind, (1,), BlockedLayout([1], [self.lanes], [warps], [0], copies))
        (tile,) = sequel.add("splat", (result,), [everywhere])
        return sequel.add("to_scalar", (self._through_memory(tile, everywhere, sequel),), [kind])

    def _share_tile(self, result: Value, kind: distributed_type, sequel: Sequel) -> Value:
        linear = kind.linear
        free = linear.free_variables()
        if not free["lane"] and not free["warp"] and not free["block"]:
            return result
        plain = all(not basis for bit, basis in enumerate(linear.flat_bases("lane")) if free["lane"] >> bit & 1)
        if free["warp"] or free["block"] or not plain:
            return self._through_memory(result, kind, sequel)
        return sequel.add("share_lanes", (result,), [kind], lanes=free["lane"])[0]

    def _through_memory(self, tile: Value, kind: distributed_type, sequel: Sequel) -> Value:
        name = scratch(sequel, f"atomic_{next(self.numbers)}", kind)
        replicas = kind.linear.free_variables()["block"]
        sequel.add("scratch_write", (tile,), (), allocation=name, replicas=replicas)
        return sequel.add("scratch_read", (), [kind], allocation=name, replicas=replicas)[0]
