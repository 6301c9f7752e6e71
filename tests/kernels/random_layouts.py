"""Random layouts of two-dimensional tiles: blocked ones, ones that replicate, and linear maps of any kind."""

from __future__ import annotations

import math

import numpy as np

from glueball.layouts import BlockedLayout, DistributedLayout, DistributedLinearLayout, LinearLayout, f2


def blocked(random: np.random.Generator, lanes: int, warps: int) -> BlockedLayout:
    """Any blocked layout of rank 2."""
    order = [0, 1] if random.integers(2) else [1, 0]
    return BlockedLayout(
        [1 << int(random.integers(3)) for _ in range(2)], _split(random, lanes), _split(random, warps), order
    )


def _split(random: np.random.Generator, total: int) -> list[int]:
    first = 1 << int(random.integers(total.bit_length()))
    return [first, total // first]


def linear(random: np.random.Generator, lanes: int, warps: int, shape: tuple[int, ...]) -> DistributedLinearLayout:
    """Any map whatsoever: bits that move along both dimensions, copies in registers, lanes and warps."""
    size = math.prod(shape)
    counts = {"register": int(random.integers(1, 4)), "lane": lanes.bit_length() - 1, "warp": warps.bit_length() - 1}
    bases = {name: [int(random.integers(size)) for _ in range(count)] for name, count in counts.items()}
    span = f2.Echelon([basis for column in bases.values() for basis in column])
    bases["register"] += [1 << bit for bit in range(size.bit_length() - 1) if span.add(1 << bit)]
    return DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases({**bases, "block": ()}, shape))


def units(random: np.random.Generator, lanes: int, warps: int, shape: tuple[int, ...]) -> DistributedLinearLayout:
    """Every bit moves along one dimension by a power of two, in any order; some only replicate."""
    bits = [1 << bit for bit in random.permutation(math.prod(shape).bit_length() - 1)]
    counts = {"lane": lanes.bit_length() - 1, "warp": warps.bit_length() - 1}
    bases: dict[str, list[int]] = {}
    for name, count in counts.items():
        bases[name] = [bits.pop() if bits and random.integers(4) else 0 for _ in range(count)]
    bases = {"register": bits, **bases, "block": []}
    return DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, shape))


def any_layout(random: np.random.Generator, lanes: int, warps: int, shape: tuple[int, int]) -> DistributedLayout:
    """One of the kinds above."""
    kind = int(random.integers(3))
    if kind == 0:
        return blocked(random, lanes, warps)
    return (linear if kind == 1 else units)(random, lanes, warps, shape)
