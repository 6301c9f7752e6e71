"""Random pairs of layouts, and kernels that convert many of them: what tests and benchmarks of conversions share.

A tensor of any rank is written here as the row of its elements: the map of a layout stays what it is, and one kernel
can take pairs of any shape. Each conversion stands on a line of its own, so that counters can be told apart by line.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glueball.frontend import build
from glueball.layouts import BlockedLayout, DistributedLinearLayout, LinearLayout, SharedRoundTrip, SliceLayout, f2
from glueball.lower import lower
from glueball.sim import Report, run
from glueball.targets import Target
from glueball.tile.ir import ArgumentFacts, TileFunction
from glueball.tile.passes import run_passes
from glueball.tile.types import DTYPES, pointer_type

WIDTHS = (8, 16, 32, 64)
MOST_ELEMENT_BITS = 12
MOST_REGISTER_BITS = 6
HEADER_LINES = 8
LINES_PER_PAIR = 4


@dataclass(frozen=True, slots=True)
class Pair:
    """Two maps onto one row of elements, for the same lanes and warps, and an element width in bits."""

    source: LinearLayout
    destination: LinearLayout
    width: int

    @property
    def elements(self) -> int:
        """Number of elements of the tensor."""
        return self.source.elements

    @property
    def lanes(self) -> int:
        """Lanes in a warp."""
        return self.source.size("lane")

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.source.size("warp")


def random_pairs(
    seed: int, count: int, lanes: Sequence[int] = (32, 64), batch: int = 1, largest: int = MOST_ELEMENT_BITS
) -> list[Pair]:
    """`count` pairs; `batch` at a time have the same lanes and warps (1 to 8), so that one kernel can convert them.

    Tensors have up to `2^largest` elements and threads up to 64 registers. Half of the pairs are related: the second
    layout is the first with its bits moved, as conversions in programs are.
    """
    generator = np.random.default_rng(seed)
    pairs: list[Pair] = []
    while len(pairs) < count:
        lane_bits = int(generator.choice(lanes)).bit_length() - 1
        warp_bits = int(generator.integers(0, 4))
        together = min(batch, count - len(pairs))
        pairs += [_random_pair(generator, lane_bits, warp_bits, largest) for _ in range(together)]
    return pairs


def _random_pair(generator: np.random.Generator, lane_bits: int, warp_bits: int, largest: int) -> Pair:
    rank = int(generator.integers(1, 4))
    most = min(largest, lane_bits + warp_bits + MOST_REGISTER_BITS)
    shape = tuple(_parts(generator, int(generator.integers(1, most + 1, 2).max()), rank))
    width = int(generator.choice(WIDTHS))
    source, destination = (_random_map(generator, shape, lane_bits, warp_bits) for _ in range(2))
    if generator.random() < 0.5:
        destination = _rearranged(generator, source)
    return Pair(source.flatten_outputs(), destination.flatten_outputs(), width)


def _parts(generator: np.random.Generator, bits: int, rank: int) -> list[int]:
    """Powers of two whose product is 2^bits."""
    sizes = [1] * rank
    for axis in generator.integers(0, rank, bits):
        sizes[axis] *= 2
    return sizes


def _blocked(generator: np.random.Generator, rank: int, lane_bits: int, warp_bits: int) -> BlockedLayout:
    sizes = [_parts(generator, bits, rank) for bits in (int(generator.integers(0, 5)), lane_bits, warp_bits)]
    return BlockedLayout(*sizes, [int(axis) for axis in generator.permutation(rank)])


def _random_map(generator: np.random.Generator, shape: tuple[int, ...], lane_bits: int, warp_bits: int) -> LinearLayout:
    kind = generator.integers(0, 3)
    if kind == 0:
        return _blocked(generator, len(shape), lane_bits, warp_bits).linear(shape)
    if kind == 1:
        parent = _blocked(generator, len(shape) + 1, lane_bits, warp_bits)
        return SliceLayout(int(generator.integers(0, len(shape) + 1)), parent).linear(shape)
    return _linear(generator, shape, lane_bits, warp_bits)


def _linear(generator: np.random.Generator, shape: tuple[int, ...], lane_bits: int, warp_bits: int) -> LinearLayout:
    """Any map onto the shape, dense ones and ones that replicate in the oddest places included."""
    bits = sum(extent.bit_length() - 1 for extent in shape)
    columns = [1 << bit for bit in range(bits)]
    if bits > 1:
        for _ in range(int(generator.integers(0, 7))):
            one, two = generator.choice(bits, 2, replace=False)
            columns[one] ^= columns[two]
    missing = max(0, lane_bits + warp_bits - bits)
    copies = missing + int(generator.integers(0, 2))
    columns += [int(generator.choice([0, generator.integers(0, 1 << bits)])) for _ in range(copies)]
    columns = [columns[index] for index in generator.permutation(len(columns))]
    assert f2.rank(columns) == bits
    warps, rest = columns[:warp_bits], columns[warp_bits:]
    return LinearLayout.from_flat_bases(
        {"register": rest[lane_bits:], "lane": rest[:lane_bits], "warp": warps, "block": ()}, shape
    )


def _rearranged(generator: np.random.Generator, layout: LinearLayout) -> LinearLayout:
    """The map with some of its index bits exchanged, mostly within threads and warps."""
    names = ("register", "lane", "warp")
    columns = [list(layout.flat_bases(name)) for name in names]
    places = [(group, bit) for group, column in enumerate(columns) for bit in range(len(column))]
    movable = places if generator.random() < 0.3 else [place for place in places if place[0] < 2]
    for _ in range(int(generator.integers(0, 6))):
        one, two = (movable[index] for index in generator.integers(0, len(movable), 2))
        first, second = columns[one[0]][one[1]], columns[two[0]][two[1]]
        columns[one[0]][one[1]], columns[two[0]][two[1]] = second, first
    bases = dict(zip(names, map(tuple, columns), strict=True))
    return LinearLayout.from_flat_bases({**bases, "block": ()}, layout.shape)


@dataclass(frozen=True, slots=True)
class Batch:
    """Pairs that one kernel converts, and where their data lies: `starts[i]` in the arrays of the pair's width.

    Every register of every thread is stored, copies included: the destination's map with a further coordinate that
    tells the holders of an element apart is one to one. `copies[i]` is how many there are.
    """

    pairs: tuple[Pair, ...]
    starts: tuple[int, ...]
    stored: tuple[int, ...]
    copies: tuple[int, ...]
    layouts: tuple[tuple[DistributedLinearLayout, DistributedLinearLayout], ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Batch:
        """Lays out the data of some pairs of equal lanes and warps."""
        read, written = dict.fromkeys(WIDTHS, 0), dict.fromkeys(WIDTHS, 0)
        starts, stored, copies, layouts = [], [], [], []
        for pair in pairs:
            wide = _told_apart(pair.destination)
            starts.append(read[pair.width])
            stored.append(written[pair.width])
            copies.append(wide.shape[1])
            read[pair.width] += pair.elements
            written[pair.width] += wide.elements
            layouts.append((_explicit(pair.source), _explicit(wide)))
        return cls(tuple(pairs), tuple(starts), tuple(stored), tuple(copies), tuple(layouts))

    def arrays(self, seed: int) -> tuple[list[Any], list[Any]]:
        """Random sources and zeroed destinations, one of each per width, as NumPy arrays."""
        generator = np.random.default_rng(seed)
        sources, destinations = [], []
        for width in WIDTHS:
            sizes = [
                (pair.elements, pair.elements * copies)
                for pair, copies in zip(self.pairs, self.copies, strict=True)
                if pair.width == width
            ]
            kind = np.dtype(f"i{width // 8}")
            limits = np.iinfo(kind)
            size = sum(one for one, _ in sizes) or 1
            sources.append(generator.integers(limits.min, limits.max, size, kind, endpoint=True))
            destinations.append(np.zeros(sum(two for _, two in sizes) or 1, kind))
        return sources, destinations

    def misplaced(self, sources: Sequence[Any], destinations: Sequence[Any]) -> list[int]:
        """The pairs some register of which does not hold the element that it should."""
        wrong = []
        for index, (pair, copies) in enumerate(zip(self.pairs, self.copies, strict=True)):
            place = WIDTHS.index(pair.width)
            start, stored = self.starts[index], self.stored[index]
            expected = np.repeat(sources[place][start : start + pair.elements], copies)
            if not np.array_equal(expected, destinations[place][stored : stored + pair.elements * copies]):
                wrong.append(index)
        return wrong

    def kernel(self, path: Path) -> Any:
        """The kernel that converts all pairs, written to a Python file and imported from there."""
        path.write_text("\n".join([*self._source(), ""]))
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module.convert_all

    def line_of(self, index: int) -> int:
        """The line of the kernel's file on which a pair is converted."""
        return HEADER_LINES + 2 * len(self.pairs) + LINES_PER_PAIR * index + 2

    def _source(self) -> Iterator[str]:
        yield '"""Conversions, each on a line of its own."""'
        yield "import glueball"
        yield "import glueball.language as gl"
        yield "from glueball.layouts import DistributedLinearLayout"
        for index, (source, wide) in enumerate(self.layouts):
            yield f"SOURCE_{index} = gl.constexpr({source!r})"
            yield f"WIDE_{index} = gl.constexpr({wide!r})"
        yield ""
        yield "@glueball.jit"
        yield f"def convert_all({', '.join(f'x{width}, y{width}' for width in WIDTHS)}):"
        yield '    """Loads, converts and stores the elements of every pair."""'
        for index, (pair, copies) in enumerate(zip(self.pairs, self.copies, strict=True)):
            source, wide, size, width = f"SOURCE_{index}", f"WIDE_{index}", pair.elements, pair.width
            yield f"    value = gl.load(x{width} + {self.starts[index]} + gl.arange(0, {size}, layout={source}))"
            yield f"    value = gl.convert_layout(value, gl.SliceLayout(1, {wide}))"
            yield (
                f"    place = gl.arange(0, {size}, layout=gl.SliceLayout(1, {wide}))[:, None] * {copies} + "
                f"gl.arange(0, {copies}, layout=gl.SliceLayout(0, {wide}))[None, :]"
            )
            yield (
                f"    gl.store(y{width} + {self.stored[index]} + place, value[:, None].broadcast_to({size}, {copies}))"
            )


def batches(pairs: Sequence[Pair]) -> Iterator[Batch]:
    """The pairs in kernels, as many in each as follow one another with the same lanes and warps."""
    for _, group in itertools.groupby(pairs, key=lambda pair: (pair.lanes, pair.warps)):
        yield Batch.of(list(group))


def simulate(batch: Batch, target: Target, path: Path, seed: int = 0) -> tuple[TileFunction, Report, list[int]]:
    """Compiles a batch for a target, which need not be one of the known ones, and runs it on the simulator.

    Gives the kernel after the tile passes, the counts, and the pairs that came out wrong. `path` is where the kernel's
    source goes.
    """
    pointers = {width: pointer_type(DTYPES[f"int{width}"]) for width in WIDTHS}
    types = {f"{name}{width}": pointers[width] for width in WIDTHS for name in "xy"}
    facts = {name: ArgumentFacts(16) for name in types}
    warps = batch.pairs[0].warps
    function = build(batch.kernel(path), types, facts, num_warps=warps, target=target, name="convert_all")
    run_passes(function, target)
    sources, destinations = batch.arrays(seed)
    report = run(
        lower(function, target),
        target,
        (1,),
        [array for pair in zip(sources, destinations, strict=True) for array in pair],
    )
    return function, report, batch.misplaced(sources, destinations)


def planned_wavefronts(function: TileFunction) -> dict[int, tuple[int, int]]:
    """By line of the kernel's file, the shared wavefronts that all warps write and read in, as the plans say."""
    found = {}
    for operation in function.body.walk():
        plan = operation.attributes.get("plan")
        if operation.opcode == "shared_store" and operation.attributes.get("round", 0) == 0:
            assert isinstance(plan, SharedRoundTrip)
            writing = function.num_warps >> plan.write.idle_warps.bit_count()
            found[operation.location.line] = (
                plan.wavefronts_write * writing,
                plan.wavefronts_read * function.num_warps,
            )
    return found


def counted_wavefronts(report: Report) -> dict[int, tuple[int, int]]:
    """The same as the simulator has counted them."""
    found: dict[int, tuple[int, int]] = {}
    for entry in report.instructions:
        write, read = found.get(entry.location.line, (0, 0))
        if entry.name in ("shared_store", "store_matrix"):
            found[entry.location.line] = (write + entry.counts.wavefronts, read)
        elif entry.name in ("shared_load", "load_matrix"):
            found[entry.location.line] = (write, read + entry.counts.wavefronts)
    return found


def _explicit(layout: LinearLayout) -> DistributedLinearLayout:
    return DistributedLinearLayout.from_linear(layout)


def _told_apart(layout: LinearLayout) -> LinearLayout:
    """The map onto one dimension more that says which holder of an element it is; one to one."""
    free = layout.free_variables()
    copies = 1 << sum(mask.bit_count() for mask in free.values())
    bases, number = {}, 1
    for name in layout.inputs:
        vectors = []
        for bit, basis in enumerate(layout.flat_bases(name)):
            told = 0
            if free[name] >> bit & 1:
                told, number = number, number * 2
            vectors.append([basis, told])
        bases[name] = vectors
    return LinearLayout.from_bases(bases, (layout.elements, copies))
