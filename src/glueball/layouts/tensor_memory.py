"""Layouts of tensors in the tensor memory of NVIDIA's Blackwell: 128 rows (lanes) of 32-bit columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import Layout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import block_bases, cga_bases, clip, joined, joined_vectors, shape_per_cta, steps, unit

ROWS = 128
HALF_ROW = 4


@dataclass(frozen=True, slots=True)
class TensorMemoryLayout(Layout):
    """Blocks of `block` = (M, N) elements, one after another along the columns: M first, then N.

    The map is from (row, column, block); columns are counted in elements. A block of 128 rows fills them all; one of 64
    takes the lower 16 rows of every 32, and the next block the upper ones. With two CTAs a block of 64 rows has the
    second half of its columns in rows 64 to 127. An element takes `col_stride` element slots; `fp4_padded` leaves every
    second one unused.

    Raises LayoutError (also an AssertionError) where `block` is no pair, M is not 64 or 128, N is no power of two of at
    most 512, or `col_stride` is no power of two.
    """

    block: Vector
    col_stride: int
    cga_layout: tuple[Vector, ...] = ()
    two_ctas: bool = False
    fp4_padded: bool = False

    def __init__(
        self,
        block: Iterable[int],
        col_stride: int,
        cga_layout: Iterable[Iterable[int]] = (),
        two_ctas: bool = False,
        fp4_padded: bool = False,
    ) -> None:
        object.__setattr__(self, "block", normalise.integers(block, "block"))
        object.__setattr__(self, "col_stride", normalise.integer(col_stride, "col_stride"))
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        object.__setattr__(self, "two_ctas", bool(normalise.unwrap(two_ctas)))
        object.__setattr__(self, "fp4_padded", bool(normalise.unwrap(fp4_padded)))
        require(len(self.block) == 2, f"block must be (M, N), not {list(self.block)}")
        for name, value in (("N of block", self.block[1]), ("col_stride", self.col_stride)):
            require(value > 0 and value & (value - 1) == 0, f"{name} must be a power of two, not {value}")
        require(self.block[0] in (64, ROWS), f"M of block must be 64 or 128, not {self.block[0]}")
        require(self.block[1] <= 512, f"N of block must be at most 512, not {self.block[1]}")

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return 2

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        flags = ("_2CTA" if self.two_ctas else "") + ("_FP4" if self.fp4_padded else "")
        rows, columns = self.block
        return f"TL{rows}x{columns}C{self.col_stride}{flags}_{joined_vectors(self.cga_layout)}_TL"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        tile = shape_per_cta(shape, self.cga_layout)
        block = (self.block[0], min(self.block[1], tile[1]))
        if tile[0] < block[0]:
            raise LayoutError(f"a tensor of {list(tile)} has fewer rows than one block of {block[0]}: {self}")
        row = steps(0, 1, block[0], 2)
        columns = block[1]
        blocks_down, blocks_across = steps(0, block[0], tile[0], 2), steps(1, block[1], tile[1], 2)
        if block[0] < ROWS:
            if self.two_ctas:
                columns = max(1, columns // 2)
                row.append(unit(1, columns, 2) if block[1] > 1 else (0, 0))
            else:
                following = blocks_down or blocks_across
                row.insert(HALF_ROW, following.pop(0) if following else (0, 0))
        slots = log2_exact(self.col_stride, "col_stride") + self.fp4_padded
        column = [(0, 0)] * slots + steps(1, 1, columns, 2) + blocks_down + blocks_across
        bases = {"row": row, "column": column, "block": block_bases(shape, self.cga_layout)}
        return LinearLayout.from_bases(bases, shape)


@dataclass(frozen=True, slots=True)
class TensorMemoryScalesLayout(Layout):
    """Scale bytes of a block-scaled product, shape [rows, groups along K], four groups of a row in one column.

    The map is from (row, column, block); columns are counted in bytes. Every quarter of the 128 rows holds a copy; row
    l holds the scales of rows l, l + 32, ... of the operand. `block_rep_order` says whether tiles of 128 x 4 scales
    follow one another along the operand's rows first, "mnThenK", or along K, "kThenMn".

    Raises LayoutError (also an AssertionError) for another order.
    """

    cga_layout: tuple[Vector, ...] = ()
    block_rep_order: str = "mnThenK"

    def __init__(self, cga_layout: Iterable[Iterable[int]] = (), block_rep_order: str = "mnThenK") -> None:
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        object.__setattr__(self, "block_rep_order", normalise.unwrap(block_rep_order))
        require(
            self.block_rep_order in ("mnThenK", "kThenMn"),
            f"block_rep_order must be 'mnThenK' or 'kThenMn', not {self.block_rep_order!r}",
        )

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return 2

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return f"TLS{self.block_rep_order}_{joined_vectors(self.cga_layout)}_TLS"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        tile = shape_per_cta(shape, self.cga_layout)
        row = [*clip(steps(0, 1, 32, 2), tile), (0, 0), (0, 0)]
        column = clip([(0, 1), (0, 2), (32, 0)], tile) + steps(0, 64, min(ROWS, tile[0]), 2)
        down, across = steps(0, ROWS, tile[0], 2), steps(1, 4, tile[1], 2)
        column += down + across if self.block_rep_order == "mnThenK" else across + down
        bases = {"row": row, "column": column, "block": block_bases(shape, self.cga_layout)}
        return LinearLayout.from_bases(bases, shape)


@dataclass(frozen=True, slots=True)
class TensorMemoryLinearLayout(Layout):
    """A layout of tensor memory given by its bases: the coordinates that each row and each column bit adds (by XOR).

    Raises LayoutError (also an AssertionError) where a basis has another rank than `shape`.
    """

    rows: tuple[Vector, ...]
    cols: tuple[Vector, ...]
    shape: Vector

    def __init__(self, rows: Iterable[Iterable[int]], cols: Iterable[Iterable[int]], shape: Iterable[int]) -> None:
        object.__setattr__(self, "shape", normalise.integers(shape, "shape"))
        object.__setattr__(self, "rows", cga_bases(rows, self.rank, "rows"))
        object.__setattr__(self, "cols", cga_bases(cols, self.rank, "cols"))

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.shape)

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """None: one CTA's tensor."""
        return ()

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return f"TLL{joined_vectors(self.rows)}_{joined_vectors(self.cols)}_{joined(self.shape)}TLL"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        if shape != self.shape:
            raise LayoutError(f"this layout is one of a tensor of {list(self.shape)}, not of {list(shape)}: {self}")
        return LinearLayout.from_bases({"row": self.rows, "column": self.cols, "block": []}, shape)
