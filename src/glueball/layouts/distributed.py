"""Layouts of tensors held in registers: which register of which lane, warp and CTA holds which element."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from glueball.errors import LayoutError
from glueball.layouts import display, normalise
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require

HARDWARE = ("register", "lane", "warp", "block")


@dataclass(frozen=True, slots=True)
class LayoutType:
    """The type of a layout that is passed as a compile-time value: equal exactly where the layouts are equal."""

    value: DistributedLayout

    def mangle(self) -> str:
        """Text for a specialised function's name."""
        return self.value.mangle()


class DistributedLayout(ABC):
    """Base of the layouts of tensors in registers.

    Layouts are immutable values. They compare and hash by their fields, whichever containers they were written with.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of tensor dimensions."""

    @property
    @abstractmethod
    def cga_layout(self) -> tuple[Vector, ...]:
        """For each bit of the CTA rank, the tile coordinates that it selects, in units of one CTA's tile."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""

    @property
    @abstractmethod
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""

    @abstractmethod
    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""

    @abstractmethod
    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        """The map for a shape whose rank and extents have been checked."""

    @property
    def ctas(self) -> int:
        """Number of CTAs that share a tensor of this layout."""
        return 1 << len(self.cga_layout)

    @property
    def type(self) -> LayoutType:
        """The layout's type as a compile-time value."""
        return LayoutType(self)

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map (register, lane, warp, block) -> coordinates for a tensor of `shape`.

        Raises LayoutError where the layout is malformed, the rank differs, an extent is no power of two, or some
        element would be held nowhere.
        """
        return _cached_map(self, tuple(shape))

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """The tensor as text, each element with its holders `T<thread>:<register>`."""
        return display.tensor_view(self.linear(normalise.integers(shape, "shape")))

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """The hardware as text: warp by warp, one line per register with the elements that the lanes hold."""
        return display.hardware_view(self.linear(normalise.integers(shape, "shape")))


@lru_cache(maxsize=4096)
def _cached_map(layout: DistributedLayout, shape: tuple[int, ...]) -> LinearLayout:
    if len(shape) != layout.rank:
        raise LayoutError(f"a tensor of shape {list(shape)} has rank {len(shape)}, its layout {layout.rank}: {layout}")
    for axis, extent in enumerate(shape):
        log2_exact(extent, f"extent of dimension {axis} of {list(shape)}")
    result = layout._map(shape)
    if not result.is_surjective():
        raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements: {layout}\n{result}")
    return result


@dataclass(frozen=True, slots=True)
class BlockedLayout(DistributedLayout):
    """Every thread holds a small contiguous block; lanes, then warps, tile the tensor with such blocks.

    All lists have one entry per dimension, each a power of two. `order` lists the dimensions fastest first.
    Where the tensor is larger than the tile, threads hold more registers, in `order`; where it is smaller, lanes and
    warps replicate and registers are dropped.

    Raises LayoutError (also an AssertionError) where the lists differ in length. Other mistakes are reported by
    `linear`.
    """

    size_per_thread: Vector
    threads_per_warp: Vector
    warps_per_cta: Vector
    order: Vector
    cga_layout: tuple[Vector, ...] = ()

    def __init__(
        self,
        size_per_thread: Iterable[int],
        threads_per_warp: Iterable[int],
        warps_per_cta: Iterable[int],
        order: Iterable[int],
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> None:
        lists = {
            "size_per_thread": size_per_thread,
            "threads_per_warp": threads_per_warp,
            "warps_per_cta": warps_per_cta,
            "order": order,
        }
        for name, values in lists.items():
            object.__setattr__(self, name, normalise.integers(values, name))
        _set_cga_layout(self, cga_layout)
        for name in lists:
            entries = getattr(self, name)
            require(len(entries) == self.rank, f"{name} {list(entries)} must have {self.rank} entries")

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.order)

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return math.prod(self.threads_per_warp)

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return math.prod(self.warps_per_cta)

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        lists = (self.size_per_thread, self.threads_per_warp, self.warps_per_cta, self.order)
        return f"B{'_'.join(map(_join, lists))}_{_join_vectors(self.cga_layout)}B"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        self._check()
        cta_shape = _shape_per_cta(shape, self.cga_layout)
        extents = [1] * self.rank
        levels = []
        for sizes in (self.size_per_thread, self.threads_per_warp, self.warps_per_cta):
            level = []
            for axis in self.order:
                for _ in range(sizes[axis].bit_length() - 1):
                    level.append(_unit(axis, extents[axis], self.rank))
                    extents[axis] *= 2
            levels.append(_clip(level, cta_shape))
        register, lane, warp = levels
        register = [*filter(any, register), *_repetitions(extents, cta_shape, self.order)]
        bases = {"register": register, "lane": lane, "warp": warp, "block": self._blocks(shape, cta_shape)}
        return LinearLayout.from_bases(bases, shape)

    def _blocks(self, shape: tuple[int, ...], cta_shape: tuple[int, ...]) -> list[Vector]:
        scaled = [
            tuple(value * extent for value, extent in zip(basis, cta_shape, strict=True)) for basis in self.cga_layout
        ]
        return _clip(scaled, shape)

    def _check(self) -> None:
        if sorted(self.order) != list(range(self.rank)):
            raise LayoutError(f"order must be a permutation of 0..{self.rank - 1}, not {list(self.order)}")
        for name in ("size_per_thread", "threads_per_warp", "warps_per_cta"):
            for entry in getattr(self, name):
                log2_exact(entry, f"an entry of {name} {list(getattr(self, name))}")


@dataclass(frozen=True, slots=True)
class SliceLayout(DistributedLayout):
    """The layout of a tensor of which dimension `dim` of a parent's tensor was removed.

    Lanes, warps and CTAs that moved only along `dim` hold copies. Raises LayoutError from `linear` where `dim` is not
    a dimension of the parent.
    """

    dim: int
    parent: DistributedLayout

    def __init__(self, dim: int, parent: DistributedLayout) -> None:
        parent = normalise.unwrap(parent)
        if not isinstance(parent, DistributedLayout):
            raise LayoutError(f"the parent of a SliceLayout must be a distributed layout, not {parent!r}")
        object.__setattr__(self, "dim", normalise.integer(dim, "dim"))
        object.__setattr__(self, "parent", parent)

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return self.parent.rank - 1

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """The parent's, without the column of `dim`."""
        return tuple(_without(basis, self.dim) for basis in self.parent.cga_layout)

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return self.parent.lanes

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return self.parent.warps

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return f"SL{self.dim}_{self.parent.mangle()}SL"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        if not 0 <= self.dim < self.parent.rank:
            raise LayoutError(f"slice dim {self.dim} must be less than the parent rank {self.parent.rank}: {self}")
        parent = self.parent.linear((*shape[: self.dim], 1, *shape[self.dim :]))
        # An extent of 1 takes no bits of the flat index, so the parent's bases serve as they are.
        bases = {name: parent.flat_bases(name) for name in HARDWARE}
        bases["register"] = tuple(filter(None, bases["register"]))
        return LinearLayout.from_flat_bases(bases, shape)


@dataclass(frozen=True, slots=True)
class DistributedLinearLayout(DistributedLayout):
    """A layout given by its bases: the coordinates that each register, lane, warp and CTA bit adds (by XOR).

    Every basis has one coordinate per entry of `shape`. A tensor larger than `shape` takes more registers; on a
    smaller one, bases that fall outside become zero, and register bases that become zero are dropped.

    Raises LayoutError (also an AssertionError) where a basis has another rank than `shape`. Other mistakes are
    reported by `linear`.
    """

    reg_bases: tuple[Vector, ...]
    lane_bases: tuple[Vector, ...]
    warp_bases: tuple[Vector, ...]
    block_bases: tuple[Vector, ...]
    shape: Vector

    def __init__(
        self,
        reg_bases: Iterable[Iterable[int]],
        lane_bases: Iterable[Iterable[int]],
        warp_bases: Iterable[Iterable[int]],
        block_bases: Iterable[Iterable[int]],
        shape: Iterable[int],
    ) -> None:
        lists = {
            "reg_bases": reg_bases,
            "lane_bases": lane_bases,
            "warp_bases": warp_bases,
            "block_bases": block_bases,
        }
        object.__setattr__(self, "shape", normalise.integers(shape, "shape"))
        for name, values in lists.items():
            bases = normalise.vectors(values, name)
            for basis in bases:
                require(len(basis) == self.rank, f"basis {list(basis)} of {name} must have {self.rank} coordinates")
            object.__setattr__(self, name, bases)

    @classmethod
    def from_linear(cls, layout: LinearLayout) -> DistributedLinearLayout:
        """The layout that has a given map, which must be over register, lane, warp and block, for its shape."""
        register, lane, warp, block = (layout.bases.get(name, []) for name in HARDWARE)
        return cls(register, lane, warp, block, layout.shape)

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.shape)

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """The block bases in units of one CTA's tile."""
        used = [0] * self.rank
        for basis in (*self.reg_bases, *self.lane_bases, *self.warp_bases):
            used = [before | value for before, value in zip(used, basis, strict=True)]
        return tuple(
            tuple(value >> bits.bit_length() for value, bits in zip(basis, used, strict=True))
            for basis in self.block_bases
        )

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return 1 << len(self.lane_bases)

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return 1 << len(self.warp_bases)

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        groups = (self.reg_bases, self.lane_bases, self.warp_bases, self.block_bases)
        letters = "".join(f"{letter}{_join_vectors(group)}" for letter, group in zip("RLWB", groups, strict=True))
        return f"DLL{letters}S{_join(self.shape)}DLL"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        groups = dict(zip(HARDWARE, (self.reg_bases, self.lane_bases, self.warp_bases, self.block_bases), strict=True))
        own = LinearLayout.from_bases(groups, self.shape)
        if not own.is_surjective():
            raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements: {self}")
        bases = {name: _clip(group, shape) for name, group in groups.items()}
        kept = [
            basis
            for basis, before in zip(bases["register"], self.reg_bases, strict=True)
            if any(basis) or not any(before)
        ]
        bases["register"] = [*kept, *_repetitions(list(self.shape), shape, self._order())]
        return LinearLayout.from_bases(bases, shape)

    def _order(self) -> Vector:
        """Dimensions, fastest first: as the registers first move along them, then last to first."""
        first = [next(axis for axis, value in enumerate(basis) if value) for basis in self.reg_bases if any(basis)]
        return tuple(dict.fromkeys([*first, *reversed(range(self.rank))]))


def to_distributed_linear(layout: DistributedLayout, shape: Sequence[int]) -> DistributedLinearLayout:
    """The explicit spelling of a layout for a tensor of `shape`."""
    return DistributedLinearLayout.from_linear(layout.linear(shape))


def expand_dims_layout(layout: DistributedLayout, axis: int, shape: Sequence[int]) -> DistributedLayout:
    """The layout after a dimension of extent 1 is inserted at `axis` of a tensor of `shape`.

    That is P for SliceLayout(axis, P), and for every other layout one of which it is the slice along `axis`. Raises
    LayoutError where there is none: where registers of a thread hold copies, which no slice has.
    """
    if not 0 <= axis <= layout.rank:
        raise LayoutError(f"cannot insert a dimension at {axis} into a tensor of rank {layout.rank}")
    if isinstance(layout, SliceLayout) and layout.dim == axis:
        return layout.parent
    source = layout.linear(shape)
    extents = (*shape[:axis], 1, *shape[axis:])
    bases = {name: source.flat_bases(name) for name in HARDWARE}
    parent = DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, extents))
    if SliceLayout(axis, parent).linear(shape) != source:
        raise LayoutError(
            f"expand_dims needs a SliceLayout along dimension {axis}; this is not the map of one: {layout}"
        )
    return parent


def permute_layout(layout: DistributedLayout, order: Sequence[int], shape: Sequence[int]) -> DistributedLayout:
    """The layout after dimensions are permuted: dimension i of the result is dimension `order[i]` of the operand.

    A BlockedLayout stays one; any other becomes a DistributedLinearLayout for `shape`, the operand's.
    """
    if sorted(order) != list(range(layout.rank)):
        raise LayoutError(f"{list(order)} is not a permutation of the {layout.rank} dimensions")
    if isinstance(layout, BlockedLayout):
        return BlockedLayout(
            _pick(layout.size_per_thread, order),
            _pick(layout.threads_per_warp, order),
            _pick(layout.warps_per_cta, order),
            [list(order).index(axis) for axis in layout.order],
            [_pick(basis, order) for basis in layout.cga_layout],
        )
    bases = layout.linear(shape).bases
    register, lane, warp, block = ([_pick(basis, order) for basis in bases[name]] for name in HARDWARE)
    return DistributedLinearLayout(register, lane, warp, block, _pick(shape, order))


def _set_cga_layout(layout: BlockedLayout, cga_layout: Iterable[Iterable[int]] | None) -> None:
    bases = normalise.vectors(() if cga_layout is None else cga_layout, "cga_layout")
    for basis in bases:
        require(len(basis) == layout.rank, f"basis {list(basis)} of cga_layout must have {layout.rank} coordinates")
    object.__setattr__(layout, "cga_layout", bases)


def _shape_per_cta(shape: tuple[int, ...], cga_layout: tuple[Vector, ...]) -> tuple[int, ...]:
    counts = [2 * max(values) if any(values) else 1 for values in zip(*cga_layout, strict=True)] or [1] * len(shape)
    return tuple(max(1, extent // count) for extent, count in zip(shape, counts, strict=True))


def _clip(bases: Iterable[Vector], shape: Sequence[int]) -> list[Vector]:
    """Zero the coordinates that fall outside the shape."""
    return [
        tuple(value if value < extent else 0 for value, extent in zip(basis, shape, strict=True)) for basis in bases
    ]


def _repetitions(extents: list[int], shape: Sequence[int], order: Sequence[int]) -> Iterator[Vector]:
    """Register bases that repeat a tile of `extents` over a larger shape."""
    for axis in order:
        extent = extents[axis]
        while extent < shape[axis]:
            yield _unit(axis, extent, len(shape))
            extent *= 2


def _unit(axis: int, value: int, rank: int) -> Vector:
    return tuple(value if index == axis else 0 for index in range(rank))


def _without(values: Vector, axis: int) -> Vector:
    return values[:axis] + values[axis + 1 :]


def _pick(values: Sequence[int], order: Sequence[int]) -> list[int]:
    return [values[axis] for axis in order]


def _join(values: Iterable[int]) -> str:
    return "_".join(map(str, values))


def _join_vectors(bases: Iterable[Vector]) -> str:
    return "~".join(map(_join, bases))
