"""Which bytes of global memory accesses and copies in flight touch, and whether two of them meet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glueball.sim.masks import Array, Mask


@dataclass(frozen=True, slots=True)
class Footprint:
    """Pieces of memory: the bytes from each of `starts` on up to the one before its end."""

    starts: Array
    ends: Array
    low: int = field(init=False)
    high: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", int(self.starts.min(initial=np.iinfo(np.int64).max)))
        object.__setattr__(self, "high", int(self.ends.max(initial=np.iinfo(np.int64).min)))

    def in_order(self) -> Footprint:
        """The same by starts, each piece as far as any before it reaches: what others can be looked up in."""
        if (self.starts[1:] >= self.starts[:-1]).all():
            return Footprint(self.starts, np.maximum.accumulate(self.ends))
        order = np.argsort(self.starts)
        return Footprint(self.starts[order], np.maximum.accumulate(self.ends[order]))

    def meets(self, other: Footprint) -> bool:
        """Whether this one, in order, has bytes in common with another one."""
        if other.low >= self.high or other.high <= self.low:
            return False
        before = np.searchsorted(self.starts, other.ends) - 1
        return bool(((before >= 0) & (self.ends[before] > other.starts)).any())


def selected(values: Array, mask: Mask) -> Array:
    """The values of the threads of a mask, flat."""
    if mask is None:
        return values.reshape(-1)
    shape = np.broadcast_shapes(values.shape, mask.shape)
    return np.asarray(np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)])


def accessed(addresses: Array, width: int) -> Footprint:
    """What accesses of a width touch."""
    return Footprint(addresses, addresses + width)
