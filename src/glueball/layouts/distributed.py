"""Layouts of tensors held in registers: which register of which lane, warp and CTA holds which element."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import HARDWARE, DistributedLayout, ParentedLayout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import cga_bases, clip, fit, joined, joined_vectors, repetitions, unit, without


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
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
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
        return f"B{'_'.join(map(joined, lists))}_{joined_vectors(self.cga_layout)}B"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        self.check()
        extents = [1] * self.rank
        levels = []
        for sizes in (self.size_per_thread, self.threads_per_warp, self.warps_per_cta):
            level = []
            for axis in self.order:
                for _ in range(sizes[axis].bit_length() - 1):
                    level.append(unit(axis, extents[axis], self.rank))
                    extents[axis] *= 2
            levels.append(level)
        register, lane, warp = levels
        tile = (register, lane, warp)
        return fit(tile, extents, shape, self.order, self.cga_layout, keep_zero_registers=False)

    def check(self) -> None:
        """Raise LayoutError unless the order is a permutation and every size a power of two."""
        if sorted(self.order) != list(range(self.rank)):
            raise LayoutError(f"order must be a permutation of 0..{self.rank - 1}, not {list(self.order)}")
        for name in ("size_per_thread", "threads_per_warp", "warps_per_cta"):
            for entry in getattr(self, name):
                log2_exact(entry, f"an entry of {name} {list(getattr(self, name))}")


@dataclass(frozen=True, slots=True)
class SliceLayout(ParentedLayout):
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
        return normalise.vectors((without(basis, self.dim) for basis in self.parent.cga_layout), "cga_layout")

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
        bases = (
            [value >> bits.bit_length() for value, bits in zip(basis, used, strict=True)] for basis in self.block_bases
        )
        return normalise.vectors(bases, "cga_layout")

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
        letters = "".join(f"{letter}{joined_vectors(group)}" for letter, group in zip("RLWB", groups, strict=True))
        return f"DLL{letters}S{joined(self.shape)}DLL"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        groups = dict(zip(HARDWARE, (self.reg_bases, self.lane_bases, self.warp_bases, self.block_bases), strict=True))
        own = LinearLayout.from_bases(groups, self.shape)
        if not own.is_surjective():
            raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements: {self}")
        bases = {name: clip(group, shape) for name, group in groups.items()}
        kept = [
            basis
            for basis, before in zip(bases["register"], self.reg_bases, strict=True)
            if any(basis) or not any(before)
        ]
        bases["register"] = [*kept, *repetitions(list(self.shape), shape, self._order())]
        return LinearLayout.from_bases(bases, shape)

    def _order(self) -> Vector:
        """Dimensions, fastest first: as the registers first move along them, then last to first."""
        first = [next(axis for axis, value in enumerate(basis) if value) for basis in self.reg_bases if any(basis)]
        return tuple(dict.fromkeys([*first, *reversed(range(self.rank))]))


def to_distributed_linear(layout: DistributedLayout, shape: Sequence[int]) -> DistributedLinearLayout:
    """The explicit spelling of a layout for a tensor of `shape`."""
    return DistributedLinearLayout.from_linear(layout.linear(shape))
