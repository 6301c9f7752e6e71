"""Layouts of tensors in shared memory: at which offset, in elements, of which CTA an element lies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import SharedLayout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import (
    block_bases,
    cga_bases,
    divided_by_ctas,
    joined,
    joined_vectors,
    repetitions,
    shape_per_cta,
    steps,
)

SWIZZLES = (128, 64, 32)
LINE_BYTES = 128
CHUNK_BYTES = 16
SWIZZLED_ROWS = 8
BOX_EXTENT = 256


@dataclass(frozen=True, slots=True)
class SwizzledSharedLayout(SharedLayout):
    """Dense rows whose columns are XORed, in groups of `vec`, with a phase that the row number gives.

    With `c = order[0]` the fastest dimension and `r = order[1]` the next one, element (r, c) lies in its row at column
    `c ^ (vec * (r // per_phase % max_phase))`, wrapped into the row. All ones mean no swizzle. Raises LayoutError from
    `linear` where `order` is no permutation or a parameter is not positive.
    """

    vec: int
    per_phase: int
    max_phase: int
    order: Vector
    cga_layout: tuple[Vector, ...] = ()

    def __init__(
        self,
        vec: int,
        per_phase: int,
        max_phase: int,
        order: Iterable[int],
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> None:
        for name, value in (("vec", vec), ("per_phase", per_phase), ("max_phase", max_phase)):
            object.__setattr__(self, name, normalise.integer(value, name))
        object.__setattr__(self, "order", normalise.integers(order, "order"))
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.order)

    @property
    def alignment(self) -> int:
        """Bytes of which the address of a tensor of this layout must be a multiple."""
        return CHUNK_BYTES

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        fields = joined((self.vec, self.per_phase, self.max_phase, *self.order))
        return f"SSS_{fields}_{joined_vectors(self.cga_layout)}_SSS"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        if sorted(self.order) != list(range(self.rank)):
            raise LayoutError(f"order must be a permutation of 0..{self.rank - 1}, not {list(self.order)}")
        if min(self.vec, self.per_phase, self.max_phase) < 1:
            raise LayoutError(f"vec, per_phase and max_phase must be positive: {self}")
        tile = shape_per_cta(shape, self.cga_layout)
        bases = [list(basis) for basis in repetitions([1] * self.rank, tile, self.order)]
        for basis in bases if self.rank > 1 else ():
            column, row = self.order[:2]
            if basis[row]:
                basis[column] = self.vec * (basis[row] // self.per_phase % self.max_phase) % tile[column]
        return LinearLayout.from_bases({"offset": bases, "block": block_bases(shape, self.cga_layout)}, shape)


@dataclass(frozen=True, slots=True)
class NVMMASharedLayout(SharedLayout):
    """The order in which NVIDIA's bulk copies and matrix units read a tile.

    The contiguous dimension (the last one, or the first one if `transposed`) is cut into chunks of
    `swizzle_byte_width` bytes; all rows of a chunk precede the next chunk. In every group of eight rows of 128 bytes
    the 16-byte columns are XORed with the row number. `fp4_padded` leaves the upper 8 bytes of every 16 unused.

    Raises LayoutError (also an AssertionError) for a width or a combination of fields that does not exist; `linear`
    raises it for a tensor narrower than one chunk or of fewer than eight rows.
    """

    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: tuple[Vector, ...] = ()

    def __init__(
        self,
        swizzle_byte_width: int,
        element_bitwidth: int,
        rank: int = 2,
        transposed: bool = False,
        fp4_padded: bool = False,
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> None:
        object.__setattr__(self, "swizzle_byte_width", normalise.integer(swizzle_byte_width, "swizzle_byte_width"))
        object.__setattr__(self, "element_bitwidth", normalise.integer(element_bitwidth, "element_bitwidth"))
        object.__setattr__(self, "rank", normalise.integer(rank, "rank"))
        object.__setattr__(self, "transposed", bool(normalise.unwrap(transposed)))
        object.__setattr__(self, "fp4_padded", bool(normalise.unwrap(fp4_padded)))
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        require(
            self.swizzle_byte_width in (0, *SWIZZLES),
            f"swizzle_byte_width must be 0, 32, 64 or 128, not {self.swizzle_byte_width}",
        )
        require(
            self.element_bitwidth in (8, 16, 32, 64),
            f"element_bitwidth must be 8, 16, 32 or 64, not {self.element_bitwidth}",
        )
        if self.fp4_padded:
            require(
                self.swizzle_byte_width == LINE_BYTES and self.element_bitwidth == 8,
                "fp4_padded needs a swizzle_byte_width of 128 and an element_bitwidth of 8",
            )

    @staticmethod
    def get_default_for(
        block_shape: Any,
        dtype: Any,
        transposed: bool = False,
        fp4_padded: bool = False,
        cga_layout: Iterable[Iterable[int]] | None = None,
    ) -> NVMMASharedLayout:
        """The widest swizzle that divides a row of one CTA's part of a tensor; none for fewer than eight rows.

        `dtype` is anything with `primitive_bitwidth`. Raises LayoutError where a `cga_layout` does not divide the
        shape, or a row is too short for `fp4_padded`.
        """
        shape = normalise.integers(block_shape, "block_shape")
        element_bits = normalise.integer(normalise.unwrap(dtype).primitive_bitwidth, "element width")
        cga = cga_bases(cga_layout, len(shape))
        tile = divided_by_ctas(shape, cga)
        if normalise.unwrap(transposed):
            tile = tile[1:] + tile[:1]
        row_bytes = tile[-1] * element_bits // 8 * (2 if normalise.unwrap(fp4_padded) else 1)
        swizzle = next((width for width in SWIZZLES if row_bytes >= width and row_bytes % width == 0), 0)
        if len(shape) < 2 or math.prod(tile[:-1]) < SWIZZLED_ROWS:
            swizzle = 0
        return NVMMASharedLayout(swizzle, element_bits, len(shape), transposed, fp4_padded, cga)

    @property
    def alignment(self) -> int:
        """Bytes of which the address of a tensor of this layout must be a multiple."""
        return max(LINE_BYTES, SWIZZLED_ROWS * self.swizzle_byte_width)

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        fields = (self.swizzle_byte_width, self.element_bitwidth, self.rank, self.transposed, self.fp4_padded)
        return f"NVMMA_{'_'.join(map(str, fields))}_{joined_vectors(self.cga_layout)}_NVMMA"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        tile = shape_per_cta(shape, self.cga_layout)
        bases = self._swizzled(tile) if self.swizzle_byte_width else self._plain(tile)
        return LinearLayout.from_bases({"offset": bases, "block": block_bases(shape, self.cga_layout)}, shape)

    def _plain(self, tile: tuple[int, ...]) -> list[Vector]:
        """Dense boxes of at most 256 elements in every dimension, one after another."""
        if self.transposed and self.rank > 2:
            raise LayoutError(f"a transposed layout of rank {self.rank} needs a swizzle: {self}")
        box = tuple(min(extent, BOX_EXTENT) for extent in tile)
        order = [*reversed(range(self.rank))]
        inside = order[::-1] if self.transposed else order
        return repetitions([1] * self.rank, box, inside) + repetitions(box, tile, order)

    def _swizzled(self, tile: tuple[int, ...]) -> list[Vector]:
        """Boxes one chunk wide, in which rows are swizzled, one after another."""
        if self.rank < 2:
            raise LayoutError(f"a tensor of rank {self.rank} cannot be swizzled: {self}")
        contiguous = 0 if self.transposed else self.rank - 1
        chunk = self.swizzle_byte_width * 8 // self.element_bitwidth // (2 if self.fp4_padded else 1)
        if tile[contiguous] < chunk:
            raise LayoutError(
                f"invalid block shape for TMA operation: a row of {list(tile)} is shorter than the {chunk} elements "
                f"of one chunk: {self}"
            )
        box = tuple(chunk if axis == contiguous else min(extent, BOX_EXTENT) for axis, extent in enumerate(tile))
        rows = self._row_bases(box)
        if (min(math.prod(box[:-1]), tile[-1]) if self.transposed else math.prod(tile[:-1])) < SWIZZLED_ROWS:
            raise LayoutError(f"Illegal shared layout: {list(tile)} has fewer than {SWIZZLED_ROWS} rows: {self}")
        # Rows that share a line of 128 bytes share a phase; a phase moves columns by 16 bytes.
        group = CHUNK_BYTES * 8 // self.element_bitwidth // (2 if self.fp4_padded else 1)
        per_phase, phases = LINE_BYTES // self.swizzle_byte_width, self.swizzle_byte_width // CHUNK_BYTES
        swizzled = []
        for bit, basis in enumerate(rows):
            column = group * ((1 << bit) // per_phase % phases)
            swizzled.append(tuple(column if axis == contiguous else value for axis, value in enumerate(basis)))
        columns = steps(contiguous, 1, chunk, self.rank)
        if self.fp4_padded:
            columns.insert(3, (0,) * self.rank)
        return columns + swizzled + repetitions(box, tile, range(self.rank))

    def _row_bases(self, box: tuple[int, ...]) -> list[Vector]:
        """The bases of the row number of a box, lowest first: all dimensions but the contiguous one, last fastest."""
        outer = range(1, self.rank) if self.transposed else range(self.rank - 1)
        rows = [basis for axis in reversed(outer) for basis in steps(axis, 1, box[axis], self.rank)]
        # A transposed tile of three or more dimensions has the row number of its outer ones turned as in a transpose.
        turn = log2_exact(math.prod(box[1:-1]), "extent") if self.transposed else 0
        return rows[turn:] + rows[:turn]


@dataclass(frozen=True, slots=True)
class SharedLinearLayout(SharedLayout):
    """A layout given by its bases: the coordinates that each offset bit, and each CTA bit, adds (by XOR).

    Raises LayoutError (also an AssertionError) where there are no bases, their ranks differ, or the alignment, in
    bytes, is no power of two.
    """

    offset_bases: tuple[Vector, ...]
    block_bases: tuple[Vector, ...] = ()
    alignment: int = CHUNK_BYTES

    def __init__(
        self,
        offset_bases: Iterable[Iterable[int]],
        block_bases: Iterable[Iterable[int]] = (),
        alignment: int = CHUNK_BYTES,
    ) -> None:
        object.__setattr__(self, "offset_bases", normalise.vectors(offset_bases, "offset_bases"))
        object.__setattr__(self, "block_bases", normalise.vectors(block_bases, "block_bases"))
        object.__setattr__(self, "alignment", normalise.integer(alignment, "alignment"))
        require(bool(self.offset_bases), "SharedLinearLayout offset_bases must not be empty")
        require(self.rank > 0, "SharedLinearLayout bases must have at least one coordinate")
        for basis in (*self.offset_bases, *self.block_bases):
            require(len(basis) == self.rank, f"basis {list(basis)} must have {self.rank} coordinates")
        require(
            self.alignment > 0 and self.alignment & (self.alignment - 1) == 0,
            f"SharedLinearLayout alignment must be a positive power of two, not {self.alignment}",
        )

    @classmethod
    def from_linear(cls, layout: LinearLayout, alignment: int = CHUNK_BYTES) -> SharedLinearLayout:
        """The layout that has a given map, over offset and block."""
        return cls(layout.bases["offset"], layout.bases.get("block", []), alignment)

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.offset_bases[0])

    @property
    def shape(self) -> Vector:
        """The shape of the tensor that the bases describe."""
        columns = zip(*self.offset_bases, *self.block_bases, strict=True)
        return normalise.integers((1 << max(column).bit_length() for column in columns), "shape")

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """The block bases in units of one CTA's tile."""
        used = [max(column).bit_length() for column in zip(*self.offset_bases, strict=True)]
        bases = ([value >> bits for value, bits in zip(basis, used, strict=True)] for basis in self.block_bases)
        return normalise.vectors(bases, "cga_layout")

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        bases = f"{joined_vectors(self.offset_bases)}_{joined_vectors(self.block_bases)}"
        return f"SharedLinear_{bases}_{self.alignment}_SharedLinear"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        if shape != self.shape:
            raise LayoutError(f"this layout is one of a tensor of {list(self.shape)}, not of {list(shape)}: {self}")
        return LinearLayout.from_bases({"offset": self.offset_bases, "block": self.block_bases}, shape)
