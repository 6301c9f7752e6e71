"""Tiles of bases, and how a tile is fitted to a shape: clipped where it is larger, repeated where it is smaller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from glueball.layouts import normalise
from glueball.layouts.linear import LinearLayout
from glueball.layouts.normalise import Vector, require


def unit(axis: int, value: int, rank: int) -> Vector:
    """The basis of `rank` coordinates that is `value` along one axis and zero elsewhere."""
    return tuple(value if index == axis else 0 for index in range(rank))


def steps(axis: int, start: int, stop: int, rank: int) -> list[Vector]:
    """The bases start, 2 start, 4 start, ... below `stop` along one axis."""
    return list(doublings(axis, start, stop, rank))


def doublings(axis: int, start: int, stop: int, rank: int) -> Iterator[Vector]:
    """As `steps`, one at a time."""
    while start < stop:
        yield unit(axis, start, rank)
        start *= 2


def clip(bases: Iterable[Vector], shape: Sequence[int]) -> list[Vector]:
    """Bases whose coordinates wrap at the shape; powers of two outside become zero."""
    return [tuple(value % extent for value, extent in zip(basis, shape, strict=True)) for basis in bases]


def repetitions(extents: Sequence[int], shape: Sequence[int], order: Sequence[int]) -> list[Vector]:
    """The bases that repeat a tile of `extents` over a larger shape, along the dimensions in `order`."""
    return [basis for axis in order for basis in doublings(axis, extents[axis], shape[axis], len(shape))]


def without(values: Vector, axis: int) -> Vector:
    """The entries but that of one axis."""
    return values[:axis] + values[axis + 1 :]


def pick(values: Sequence[int], order: Sequence[int]) -> list[int]:
    """The entries in another order."""
    return [values[axis] for axis in order]


def cga_bases(cga_layout: Iterable[Iterable[int]] | None, rank: int, what: str = "cga_layout") -> tuple[Vector, ...]:
    """A `cga_layout` argument as a tuple of bases, each checked to have `rank` coordinates."""
    bases = normalise.vectors(() if cga_layout is None else cga_layout, what)
    for basis in bases:
        require(len(basis) == rank, f"{what} basis rank mismatch: {list(basis)} must have {rank} coordinates")
    return bases


def cta_counts(cga_layout: Sequence[Vector], rank: int) -> tuple[int, ...]:
    """Into how many CTA tiles a `cga_layout` splits each dimension."""
    return tuple(
        2 * max(values, default=0) or 1 for values in (zip(*cga_layout, strict=True) if cga_layout else ((),) * rank)
    )


def shape_per_cta(shape: Sequence[int], cga_layout: Sequence[Vector]) -> tuple[int, ...]:
    """The part of a tensor that one CTA holds; at least one element in each dimension."""
    counts = cta_counts(cga_layout, len(shape))
    return tuple(max(1, extent // count) for extent, count in zip(shape, counts, strict=True))


def divided_by_ctas(shape: Vector, cga_layout: Sequence[Vector]) -> Vector:
    """As `shape_per_cta`; raises LayoutError (also an AssertionError) where the CTAs do not divide the shape."""
    for extent, count in zip(shape, cta_counts(cga_layout, len(shape)), strict=True):
        require(
            extent % count == 0, f"shape {list(shape)} is not divisible by CGA layout {list(map(list, cga_layout))}"
        )
    return shape_per_cta(shape, cga_layout)


def block_bases(shape: Sequence[int], cga_layout: Sequence[Vector]) -> list[Vector]:
    """The bases of the CTA bits for a tensor of `shape`."""
    tile = shape_per_cta(shape, cga_layout)
    return clip([tuple(v * t for v, t in zip(basis, tile, strict=True)) for basis in cga_layout], shape)


def fit(
    levels: tuple[Sequence[Vector], Sequence[Vector], Sequence[Vector]],
    extents: Sequence[int],
    shape: Sequence[int],
    order: Sequence[int],
    cga_layout: Sequence[Vector],
    *,
    keep_zero_registers: bool = True,
) -> LinearLayout:
    """The map of a CTA tile, given as its register, lane and warp bases and its extents, for a tensor of `shape`.

    Where the tensor is larger, more register bases follow, in `order`; where it is smaller, bases outside become
    zero, and registers that do so are dropped unless they are to be kept.
    """
    cta_shape = shape_per_cta(shape, cga_layout)
    register, lane, warp = (clip(level, cta_shape) for level in levels)
    if not keep_zero_registers:
        register = [basis for basis in register if any(basis)]
    register += repetitions(extents, cta_shape, order)
    bases = {"register": register, "lane": lane, "warp": warp, "block": block_bases(shape, cga_layout)}
    return LinearLayout.from_bases(bases, shape)


def joined(values: Iterable[int]) -> str:
    """Integers in a mangled name."""
    return "_".join(map(str, values))


def joined_vectors(bases: Iterable[Vector]) -> str:
    """Bases in a mangled name."""
    return "~".join(map(joined, bases))
