"""A shared-memory layout that a writer and a reader, each with its own layout, access without bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.banks import SharedMemory, tile_access
from glueball.layouts.base import DistributedLayout
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import VECTOR_BYTES, bytes_of
from glueball.layouts.shared import SharedLinearLayout
from glueball.layouts.swizzle import Side, Vectors, as_served, common_vector, extra_vector, swizzle


def conflict_free_shared_layout(
    writer: DistributedLayout,
    reader: DistributedLayout,
    shape: Sequence[int],
    element_bits: int,
    *,
    memory: SharedMemory | None = None,
) -> SharedLinearLayout:
    """The layout of a tensor of `shape` in shared memory that takes the fewest wavefronts to write and to read.

    Both sides access it at the widest vectors that they share, and without bank conflicts wherever some linear layout
    permits that. Raises LayoutError where the two layouts differ in lanes, warps or CTAs, or split the tensor over the
    CTAs in different ways.
    """
    memory = SharedMemory(lanes=reader.lanes) if memory is None else memory
    source, target = writer.linear(shape), reader.linear(shape)
    for name in ("lane", "warp", "block"):
        if source.bits(name) != target.bits(name):
            raise LayoutError(f"the writer has {source.size(name)} {name}s and the reader {target.size(name)}")
    if source.flat_bases("block") != target.flat_bases("block"):
        raise LayoutError("the writer and the reader hold different parts of the tensor in a CTA")
    extents = tuple(shape)
    element_bytes = bytes_of(element_bits)
    candidates = []
    for offsets in _candidates(source, target, element_bytes, memory):
        tile = LinearLayout.from_flat_bases({"offset": offsets, "block": source.flat_bases("block")}, extents)
        layout = SharedLinearLayout.from_linear(tile, max(VECTOR_BYTES, element_bytes))
        write = tile_access(writer, layout, extents, element_bits, memory=memory, store=True)
        read = tile_access(reader, layout, extents, element_bits, memory=memory)
        candidates.append((write.wavefronts + read.wavefronts, write.instructions + read.instructions, layout))
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def _candidates(
    source: LinearLayout, target: LinearLayout, element_bytes: int, memory: SharedMemory
) -> Iterator[tuple[int, ...]]:
    """Bases of the offset bits of possible tiles: with the vectors that both sides share, or with those of one."""
    held = [
        [*layout.flat_bases("register"), *layout.flat_bases("lane"), *layout.flat_bases("warp")]
        for layout in (source, target)
    ]
    generators = f2.independent(held[0])
    if f2.reduced(held[1]) != f2.reduced(generators):
        raise LayoutError("the writer and the reader hold different parts of the tensor in a CTA")
    if not generators:
        raise LayoutError("a tensor of one element per CTA has no layout of this kind")
    yield tuple(generators)
    writer, reader = _side(source, memory, store=True), _side(target, memory, store=False)
    for sides in ((writer, served) for served in as_served(reader, memory.banks)):
        common = common_vector(*sides, element_bytes)
        found = [swizzle(*sides, Vectors(common, ()), generators, element_bytes, memory.banks)]
        for owner, other in (sides, sides[::-1]):
            extra = extra_vector(owner, other, common, element_bytes)
            found += [
                swizzle(owner, other, Vectors(common, extra[:count]), generators, element_bytes, memory.banks)
                for count in range(1, len(extra) + 1)
            ]
        yield from (offsets for offsets in found if offsets is not None)


def _side(layout: LinearLayout, memory: SharedMemory, *, store: bool) -> Side:
    """One side as the construction sees it: the lanes that are served together come first."""
    together = memory.phases(VECTOR_BYTES, store=store)[0]
    table = layout.table("lane")
    lanes = tuple(int(table[lane]) for lane in f2.independent([*together, *range(memory.lanes)]))
    registers = tuple(f2.independent(layout.flat_bases("register")))
    return Side(registers, lanes, (*lanes, *layout.flat_bases("warp")))
