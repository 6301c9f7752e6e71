"""Products of many pairs of matrices in one launch: persistent programs that go on from pair to pair."""

import glueball
import glueball.language as gl
from glueball.kernels.matrix_products.specialized import consume_tiles, produce_tiles
from glueball.language.nvidia.hopper import mbarrier, tma


@glueball.jit
def first_tile(before, rows, columns, FORM: gl.constexpr):
    """The first tile of a product that this program works on, and how many tiles there are up to the end of it.

    `before` are those of the products before it; tiles are dealt out to programs in turn over all products.
    """
    programs = gl.num_programs(0)
    start = (gl.program_id(0) - before % programs + programs) % programs
    return start, before + gl.cdiv(rows, FORM.block_m) * gl.cdiv(columns, FORM.block_n)


@glueball.jit
def described(
    base, fields, rows, columns, FIELD: gl.constexpr, TURNED: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr
):
    """A descriptor of a matrix: field FIELD of the table's row is its distance from `base`, its pitch 3 fields on."""
    pitch = gl.load(fields + FIELD + 3)
    far = columns if TURNED else rows
    near = rows if TURNED else columns
    start = base + gl.load(fields + FIELD)
    return tma.make_tensor_descriptor(start, [1, far, near], [far * pitch, pitch, 1], BLOCK, LAYOUT)


@glueball.jit
def sizes(fields):
    """Rows, columns and inner extent of a product."""
    return gl.load(fields + 6).to(gl.int32), gl.load(fields + 7).to(gl.int32), gl.load(fields + 8).to(gl.int32)


@glueball.jit
def loads_done(full, stage, phase, FORM: gl.constexpr):
    """Waits until all stages are full: the descriptors of the loads that filled them may then be made anew."""
    for i in gl.static_range(FORM.stages):
        mbarrier.wait(full.index(i), gl.where(i < stage, phase ^ 1, phase))


@glueball.jit
def produce_groups(
    table, count, a, b, a_ring, b_ring, full, empty, A: gl.constexpr, B: gl.constexpr, FORM: gl.constexpr
):
    """The copying warp."""
    stage = 0
    phase = 1
    before = 0
    for index in range(count):
        fields = table + index * 9
        rows, columns, inner = sizes(fields)
        start, end = first_tile(before, rows, columns, FORM)
        if start < end - before:
            loads_done(full, stage, phase, FORM)
            a_desc = described(a, fields, rows, inner, 0, FORM.a_turned, A[0], A[1])
            b_desc = described(b, fields, inner, columns, 1, FORM.b_turned, B[0], B[1])
            stage, phase = produce_tiles(
                a_desc, b_desc, a_ring, b_ring, full, empty, empty, 1, start, stage, phase, FORM
            )  # fmt: skip
        before = end


@glueball.jit
def consume_groups(
    table, count, c, a_ring, b_ring, staging, full, empty, PART: gl.constexpr, C: gl.constexpr, FORM: gl.constexpr
):
    """A multiplying group."""
    stage = 0
    phase = 0
    before = 0
    for index in range(count):
        fields = table + index * 9
        rows, columns, inner = sizes(fields)
        start, end = first_tile(before, rows, columns, FORM)
        if start < end - before:
            c_desc = described(c, fields, rows, columns, 2, False, C[0], C[1])
            stage, phase = consume_tiles(
                rows, columns, inner, c_desc, a_ring, b_ring, staging, full, empty, empty, 1, (0, 0, 0), None, None,
                None, None, None, start, stage, phase, PART, FORM,
            )  # fmt: skip
        before = end


@glueball.jit
def multiply_grouped(table, count, a, b, c, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, FORM: gl.constexpr):
    """A product for each of `count` rows of `table`, of 9 int64.

    These are the distances of its matrices from `a`, `b` and `c`, their pitches, all in elements, and M, N, K. A, B and
    C are the block [1, ...] that a copy moves and its layout, the same for all products.
    """
    a_ring = gl.allocate_shared_memory(a.dtype.element_ty, (FORM.stages * FORM.parts,) + A[0], A[1])
    b_ring = gl.allocate_shared_memory(b.dtype.element_ty, (FORM.stages,) + B[0], B[1])
    staging = gl.allocate_shared_memory(FORM.c_type, C[0], C[1])
    full = mbarrier.allocate_mbarrier(batch=FORM.stages)
    empty = mbarrier.allocate_mbarrier(batch=FORM.stages)
    for i in gl.static_range(FORM.stages):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=FORM.parts)
    rings = (a_ring, b_ring)
    barriers = (full, empty)
    if FORM.parts == 1:
        gl.warp_specialize(
            [
                (consume_groups, (table, count, c) + rings + (staging,) + barriers + (0, C, FORM)),
                (produce_groups, (table, count, a, b) + rings + barriers + (A, B, FORM)),
            ],
            [1],
        )
    else:
        other_staging = gl.allocate_shared_memory(FORM.c_type, C[0], C[1])
        gl.warp_specialize(
            [
                (consume_groups, (table, count, c) + rings + (staging,) + barriers + (0, C, FORM)),
                (consume_groups, (table, count, c) + rings + (other_staging,) + barriers + (1, C, FORM)),
                (produce_groups, (table, count, a, b) + rings + barriers + (A, B, FORM)),
            ],
            [4, 1],
            [232, 40],
        )
