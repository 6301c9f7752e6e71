"""What a row of the table of tile operations is, and the values that its `reference` computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glueball.errors import UninitializedReadError, VerificationError
from glueball.location import SourceLocation
from glueball.tensor_map import TensorMap
from glueball.tile.ir import Operation, Region
from glueball.tile.shared_arena import SharedArena
from glueball.tile.types import TileType, pointer_type

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operation does besides computing its results; that of its regions is not counted."""

    reads_global: bool = False
    writes_global: bool = False
    reads_shared: bool = False
    writes_shared: bool = False
    synchronises: bool = False


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class TileArray:
    """A whole tile (or, with no dimensions, a scalar): elements, and which of them are poison; None where none is.

    Pointers are int64 addresses. A poisoned element may be moved and computed with, but not stored nor decided upon.
    """

    values: Array
    poison: NDArray[np.bool_] | None = None


class Memory(Protocol):
    """Global memory as the kernel's arguments make it up."""

    def load(self, access: Access, addresses: Array, element: np.dtype[Any]) -> Array:
        """The elements at byte addresses."""

    def store(self, access: Access, addresses: Array, values: Array) -> None:
        """Write elements at byte addresses; the last one wins where addresses are equal."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who accesses memory, for reports: `load` or `store`, where, and in which program."""

    opcode: str
    location: SourceLocation
    program: tuple[int, int, int]


class Machine(Protocol):
    """One program instance, as the references see it. `shared` maps an allocation to the tile last stored there."""

    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared: dict[str, TileArray]

    @property
    def memory(self) -> Memory:
        """Global memory."""

    @property
    def arena(self) -> SharedArena:
        """The shared memory that views look at."""

    @property
    def tensor_maps(self) -> list[TensorMap]:
        """The tensors that descriptors stand for, by their numbers; a kernel may add some."""

    def run(self, region: Region, arguments: Sequence[TileArray] = ()) -> list[TileArray]:
        """Run a region; the operands of the `yield` that ends it."""

    def run_partitions(self, regions: Sequence[Region]) -> list[TileArray]:
        """Runs regions side by side; what the first one yields."""

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Lets other partitions run until a condition holds; False where none can make it hold."""


Check = Callable[[Operation], None]
Reference = Callable[[Machine, Operation, Sequence[TileArray]], Sequence[TileArray]]


@dataclass(frozen=True, slots=True)
class OperationDefinition:
    """One tile operation.

    `check` raises `VerificationError` with the rule of operand and result types that an operation breaks; `reference`
    is what the operation does to whole arrays, threads ignored. A `pure` operation gives the same results for the same
    operands and does nothing else: it may be dropped, moved and merged. `regions` is how many it has, None for any.
    """

    name: str
    meaning: str
    check: Check
    reference: Reference
    effects: Effects = NO_EFFECTS
    pure: bool = True
    attributes: frozenset[str] = frozenset()
    optional_attributes: frozenset[str] = frozenset()
    regions: int | None = 0
    terminator: bool = False


def fault(operation: Operation, rule: str) -> VerificationError:
    """The error for an operation that breaks a rule, at its location."""
    return VerificationError(f"`{operation.opcode}` {rule}", operation.location)


def initialized(
    machine: Machine, operation: Operation, array: TileArray, role: str, where: Array | None = None
) -> Array:
    """The values, once none of them (of those `where` is true) is poison; `UninitializedReadError` otherwise."""
    if array.poison is None:
        return array.values
    bad = array.poison if where is None else array.poison & where
    if bad.any():
        index = tuple(int(coordinate) for coordinate in np.argwhere(bad)[0])
        element = f"element {list(index)} of " if index else ""
        raise UninitializedReadError(
            f"{element}the {role} of `{operation.opcode}` was never written: it comes from a masked-off load without "
            f"`other` (program {machine.program})",
            operation.location,
            index=index,
            program=machine.program,
        )
    return array.values


def numpy_type(value_type: TileType) -> np.dtype[Any]:
    """The NumPy type that the reference holds elements of a type in."""
    element = value_type.scalar
    return np.dtype(np.int64) if isinstance(element, pointer_type) else element.numpy
