"""Shared-memory layouts whose addresses are not linear: with padding between intervals, and cut into partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import SharedLayout
from glueball.layouts.linear import IndexArray, LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import block_bases, cga_bases, joined, joined_vectors, repetitions, shape_per_cta, unit

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class PaddedSharedLayout(SharedLayout):
    """Elements in the order of `offset_bases`, with unused elements after every so many.

    After each whole `interval` elements, `padding` elements are left out, for every pair of the two. The element with
    offset o lies at `address(o)`. `linear` gives the map of the offsets o, without padding.

    Raises LayoutError (also an AssertionError) where there is no pair, an interval occurs twice or is no power of
    two, a padding is none, or a basis has another rank than `shape`.
    """

    interval_padding_pairs: tuple[Vector, ...]
    offset_bases: tuple[Vector, ...]
    cga_layout: tuple[Vector, ...] = ()
    shape: Vector = ()

    def __init__(
        self,
        interval_padding_pairs: Iterable[Iterable[int]],
        offset_bases: Iterable[Iterable[int]],
        cga_layout: Iterable[Iterable[int]],
        shape: Iterable[int],
    ) -> None:
        pairs = normalise.vectors(interval_padding_pairs, "interval_padding_pairs")
        object.__setattr__(self, "interval_padding_pairs", pairs)
        object.__setattr__(self, "shape", normalise.integers(shape, "shape"))
        object.__setattr__(self, "offset_bases", cga_bases(offset_bases, self.rank, "offset_bases"))
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        require(bool(pairs), "PaddedSharedLayout interval_padding_pairs must have at least one interval-padding pair")
        require(all(len(pair) == 2 for pair in pairs), "every interval-padding pair must have two entries")
        for value in (value for pair in pairs for value in pair):
            require(
                value > 0 and value & (value - 1) == 0,
                f"PaddedSharedLayout intervals and paddings must all be power of two, not {value}",
            )
        intervals = [interval for interval, _ in pairs]
        require(
            len(set(intervals)) == len(intervals), f"PaddedSharedLayout interval values must be unique: {intervals}"
        )

    @classmethod
    def with_identity_for(
        cls,
        interval_padding_pairs: Iterable[Iterable[int]],
        shape: Iterable[int],
        order: Iterable[int],
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> PaddedSharedLayout:
        """Padding over a dense tensor of `shape`, its dimensions in `order`, the fastest first.

        Raises LayoutError (also an AssertionError) where `order` has another length than `shape`, and LayoutError for
        an extent that is no power of two.
        """
        extents, walk = normalise.integers(shape, "shape"), normalise.integers(order, "order")
        require(len(extents) == len(walk), f"order {list(walk)} must have as many entries as shape {list(extents)}")
        for axis, extent in enumerate(extents):
            log2_exact(extent, f"extent of dimension {axis} of {list(extents)}")
        if sorted(walk) != list(range(len(extents))):
            raise LayoutError(f"order must be a permutation of 0..{len(extents) - 1}, not {list(walk)}")
        cga = cga_bases(cga_layout, len(extents))
        bases = repetitions([1] * len(extents), shape_per_cta(extents, cga), walk)
        return cls(interval_padding_pairs, bases, cga, extents)

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.shape)

    @property
    def alignment(self) -> int:
        """Bytes of which the address of a tensor of this layout must be a multiple."""
        return ALIGNMENT

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        vectors = (self.interval_padding_pairs, self.offset_bases, self.cga_layout)
        return f"PaddedShared_{'_'.join(map(joined_vectors, vectors))}_{joined(self.shape)}_PaddedShared"

    def address(self, offset: int | IndexArray) -> int | IndexArray:
        """Where the element with an offset lies, in elements from the start, padding included."""
        return offset + sum((offset // interval * padding for interval, padding in self.interval_padding_pairs), 0)

    def allocated_elements(self) -> int:
        """Elements that one CTA's part takes, padding included; there is none after the last one."""
        return int(self.address((1 << len(self.offset_bases)) - 1)) + 1

    def format_tensor_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError: rows with padding between them have no such picture."""
        raise LayoutError("PaddedSharedLayout cannot be visualized")

    def format_hardware_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError: rows with padding between them have no such picture."""
        raise LayoutError("PaddedSharedLayout cannot be visualized")

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        for axis, (extent, expected) in enumerate(zip(shape, self.shape, strict=True)):
            if extent != expected:
                raise LayoutError(f"Mismatch in expected shape for dimension {axis}: {expected}, not {extent}: {self}")
        bases = {"offset": self.offset_bases, "block": block_bases(shape, self.cga_layout)}
        return LinearLayout.from_bases(bases, shape)


@dataclass(frozen=True, slots=True)
class PartitionedSharedLayout(SharedLayout):
    """A tensor cut along one dimension into pieces that are dealt out to partitions of shared memory in turn.

    There are `num_partitions * num_groups` pieces; piece i lies in partition `i % num_partitions`, as its piece
    `i // num_partitions`, and `partition_layout` places the elements of a piece. The map of `linear` is from (offset,
    partition, block); offsets count within a partition.

    Raises LayoutError (also an AssertionError) for counts that are no powers of two, a negative dimension, or an
    inner layout that is not one of shared memory.
    """

    num_partitions: int
    num_groups: int
    partition_dim: int
    partition_layout: SharedLayout

    def __init__(
        self, num_partitions: int, num_groups: int, partition_dim: int, partition_layout: SharedLayout
    ) -> None:
        inner = normalise.unwrap(partition_layout)
        counts = {"num_partitions": num_partitions, "num_groups": num_groups, "partition_dim": partition_dim}
        for name, value in counts.items():
            object.__setattr__(self, name, normalise.integer(value, name))
        object.__setattr__(self, "partition_layout", inner)
        for name in ("num_partitions", "num_groups"):
            value = getattr(self, name)
            require(value > 0 and value & (value - 1) == 0, f"{name} must be a power of two, not {value}")
        require(self.partition_dim >= 0, f"partition_dim must be non-negative, not {self.partition_dim}")
        require(isinstance(inner, SharedLayout), f"partition_layout must be a SharedLayout, not {inner!r}")

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return self.partition_layout.rank

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """That of the layout of the pieces."""
        return self.partition_layout.cga_layout

    @property
    def alignment(self) -> int:
        """Bytes of which the address of a tensor of this layout must be a multiple."""
        return self.partition_layout.alignment

    @property
    def pieces(self) -> int:
        """Number of pieces of the tensor."""
        return self.num_partitions * self.num_groups

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        fields = joined((self.num_partitions, self.num_groups, self.partition_dim))
        return f"Partitioned_{fields}_{self.partition_layout.mangle()}_Partitioned"

    def format_tensor_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError: several memories have no such picture."""
        raise LayoutError("PartitionedSharedLayout cannot be visualized")

    def format_hardware_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError: several memories have no such picture."""
        raise LayoutError("PartitionedSharedLayout cannot be visualized")

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        axis = self.partition_dim
        if axis >= self.rank:
            raise LayoutError(f"partition_dim {axis} must be less than the rank {self.rank}: {self}")
        if shape[axis] < self.pieces:
            raise LayoutError(f"dimension {axis} of {list(shape)} cannot be cut into {self.pieces} pieces: {self}")
        piece = shape[axis] // self.pieces
        inner = self.partition_layout.linear((*shape[:axis], piece, *shape[axis + 1 :])).bases
        groups = [unit(axis, piece * self.num_partitions << bit, self.rank) for bit in range(_bits(self.num_groups))]
        partitions = [unit(axis, piece << bit, self.rank) for bit in range(_bits(self.num_partitions))]
        offset = [*map(tuple, inner["offset"]), *groups]
        bases = {"offset": offset, "partition": partitions, "block": [*map(tuple, inner["block"])]}
        return LinearLayout.from_bases(bases, shape)


def _bits(count: int) -> int:
    return count.bit_length() - 1
