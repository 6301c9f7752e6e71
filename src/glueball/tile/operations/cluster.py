"""What the CTAs of a cluster do together, and kernels of a stream that overlap.

To a reference a cluster is one program on whole tiles, and kernels run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.mbarriers import check_word, word_of
from glueball.tile.operations.rules import expect_counts
from glueball.tile.operations.shared_memory import view_type
from glueball.tile.types import distributed_type


def _check_bare(operation: Operation) -> None:
    expect_counts(operation, 0, 0)


def _check_store(operation: Operation) -> None:
    expect_counts(operation, 3, 0)
    kind, tile = view_type(operation, operation.operands[0]), operation.operands[1].type
    if not isinstance(tile, distributed_type) or (tile.shape, tile.element_ty) != (kind.shape, kind.element_ty):
        raise fault(operation, f"stores a tile of the view's shape and type, {kind}, not {tile}")
    check_word(operation, 2)


def _store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """The bytes that come are there where it stands; each CTA gets as many."""
    view, value, word = operands
    kind = view_type(operation, operation.operands[0])
    machine.arena.store(operation, view.values, value.values, value.poison)
    word_of(machine, operation, word).receive(kind.linear.size("offset") * kind.element_ty.itemsize)
    return []


def _nothing(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return []


CLUSTER_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "cluster_barrier",
        "All threads of all CTAs wait for one another; unless `relaxed` they see each other's writes.",
        _check_bare,
        _nothing,
        effects=Effects(synchronises=True),
        pure=False,
        attributes=frozenset({"relaxed"}),
    ),
    OperationDefinition(
        "mbarrier_init_fence",
        "Other CTAs may use the mbarriers initialised so far, once they know of it.",
        _check_bare,
        _nothing,
        pure=False,
    ),
    OperationDefinition(
        "async_store",
        "Starts to write a tile to a view in several CTAs, each of which has an mbarrier that counts the bytes.",
        _check_store,
        _store,
        effects=Effects(writes_shared=True),
        pure=False,
    ),
    OperationDefinition(
        "grid_wait",
        "Waits until the kernels before this one have ended.",
        _check_bare,
        _nothing,
        effects=Effects(synchronises=True),
        pure=False,
    ),
    OperationDefinition(
        "grid_launch_dependents",
        "Lets the next kernel start.",
        _check_bare,
        _nothing,
        effects=Effects(synchronises=True),
        pure=False,
    ),
)
