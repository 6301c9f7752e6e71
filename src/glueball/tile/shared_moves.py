"""How a warp moves a tile to or from a view of shared memory: vector by vector, or by matrices."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_

from glueball.layouts import LinearLayout, f2
from glueball.layouts.matrix_moves import ROW_BYTES, MatrixMoves, moves_by_matrices
from glueball.layouts.memory import access_wavefronts
from glueball.targets import Target
from glueball.tile.shared_views import (
    ACCESS_BYTES,
    Descriptor,
    dropped_offsets,
    leaves_cta,
    paddings,
    tile_ctas,
    tile_offsets,
)


def vector_elements(offsets: LinearLayout, ctas: LinearLayout, kind: Descriptor) -> int:
    """The most elements side by side, a power of two, that every thread has in registers, up to 16 bytes.

    `offsets` and `ctas` are those of a tile in a view: elements of one access lie in the memory of one CTA.
    """
    limit = min(
        [ACCESS_BYTES // kind.element_ty.itemsize, *(value for pair in paddings(kind.layout) for value in pair)]
    )
    above = offsets.shape[0]
    pairs = zip(offsets.flat_bases("register"), ctas.flat_bases("register"), strict=True)
    registers = f2.Echelon(offset + above * cta for offset, cta in pairs)
    others = reduce(or_, (basis for name in ("lane", "warp", "block") for basis in offsets.flat_bases(name)), 0)
    vector = 1
    while 2 * vector <= limit and vector in registers and not others & vector:
        vector *= 2
    return vector


@lru_cache(maxsize=256)
def matrix_moves(linear: LinearLayout, kind: Descriptor, target: Target, *, store: bool) -> MatrixMoves | None:
    """How a tile moves by ldmatrix or stmatrix; None where vectors take as few instructions, or fewer wavefronts."""
    if not target.supports("store_matrix" if store else "load_matrix") or paddings(kind.layout):
        return None
    offsets, size = tile_offsets(linear, kind), kind.element_ty.itemsize
    if leaves_cta(linear, kind) or any(offsets.flat_bases("block")):
        return None
    free = offsets.free_variables()
    if (store and free["lane"]) or dropped_offsets(kind) & (ROW_BYTES // size - 1):
        return None
    vector, banks = vector_elements(offsets, tile_ctas(linear, kind), kind), target.shared_banks
    vectors = 1 << f2.rank(offsets.flat_bases("register")) >> (vector.bit_length() - 1)
    wavefronts = access_wavefronts(offsets, 8 * size, vector, banks=banks, store=store)
    found = [
        moves
        for moves in moves_by_matrices(offsets, size, banks)
        if len(moves.groups) < vectors and moves.wavefronts <= wavefronts
    ]
    return min(found, key=lambda moves: (moves.wavefronts, len(moves.groups)), default=None)
