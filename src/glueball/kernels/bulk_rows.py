"""Long rows in shared memory: softmax, RMS norm and layer norm of rows that a bulk copy brings, and rows by index.

A row is a line of `columns` elements; its descriptor has the block [1, BLOCK] or [1, BLOCK / LINE, LINE]. Program p of
P takes the rows p, p + P, and so on, through a ring of STAGES rows. Arithmetic is in float32 whatever the element type.
"""

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import mbarrier, tma

LEAST: gl.constexpr = gl.constexpr(-3.4028234663852886e38)
"""The least float32: where a running maximum starts, so that a slot that saw no element rescales without a NaN."""


@glueball.jit
def start_row(desc, ring, loaded, i, count, first, step, POLICY: gl.constexpr):
    """Starts to load the program's `i`-th row into its slot of the ring, if there is one."""
    if i < count:
        slot = i % ring.shape[0]
        mbarrier.expect(loaded.index(slot), desc.nbytes_per_cta)
        if len(desc.block_shape) == 3:
            start = (first + i * step, 0, 0)
        else:
            start = (first + i * step, 0)
        tma.async_load(desc, start, loaded.index(slot), ring.index(slot), cache_policy=POLICY)


@glueball.jit
def begin(desc, rows, STAGES: gl.constexpr, POLICY: gl.constexpr):
    """The ring and its mbarriers, the program's first row, the step to its next and how many it has; loads started."""
    ring = gl.allocate_shared_memory(desc.dtype, [STAGES] + desc.block_shape, desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(rows - first, step)
    for i in range(STAGES):
        start_row(desc, ring, loaded, i, count, first, step, POLICY)
    return ring, loaded, first, step, count


@glueball.jit
def softmax_held(
    x_desc, y_ptr, rows, columns, y_stride,
    STAGES: gl.constexpr, WHOLE: gl.constexpr, layout: gl.constexpr, POLICY: gl.constexpr = None,
):  # fmt: skip
    """Softmax of rows that a program holds in registers one at a time; their slots are filled again meanwhile.

    WHOLE says that a row fills its block.
    """
    BLOCK: gl.constexpr = x_desc.nbytes_per_cta // x_desc.dtype.itemsize
    ring, loaded, first, step, count = begin(x_desc, rows, STAGES, POLICY)
    column = gl.arange(0, BLOCK, layout=layout)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x = ring.index(stage).reshape([BLOCK]).load(layout).to(gl.float32)
        start_row(x_desc, ring, loaded, i + STAGES, count, first, step, POLICY)
        if WHOLE:
            inside = None
        else:
            inside = column < columns
            x = gl.where(inside, x, float("-inf"))
        power = gl.exp(x - gl.max(x, axis=0))
        y = (power * (1.0 / gl.sum(power, axis=0))).to(y_ptr.dtype.element_ty)
        y_row = y_ptr + (first + i * step).to(gl.int64) * y_stride
        gl.store(y_row + column, y, mask=inside)


@glueball.jit
def piece(row, n, PARTS: gl.constexpr, PIECE: gl.constexpr, layout: gl.constexpr):
    """The `n`-th PARTS x PIECE elements of a row in shared memory, as float32."""
    BLOCK: gl.constexpr = row.numel
    pieces = row.reshape([BLOCK // PIECE, PIECE])
    return pieces.slice(n * PARTS, PARTS, 0).load(layout).to(gl.float32)


@glueball.jit
def softmax_reread(
    x_desc, y_ptr, rows, columns, y_stride, STAGES: gl.constexpr, WHOLE: gl.constexpr,
    PARTS: gl.constexpr, PIECE: gl.constexpr, layout: gl.constexpr, POLICY: gl.constexpr = None,
):  # fmt: skip
    """Softmax of rows that are read from shared memory twice, PARTS pieces of PIECE columns at a time.

    Every slot of a piece has a running maximum and sum, which meet at the end of the first pass. Few registers are
    alive at once, so that several programs are resident, or rows longer than the registers have room for.
    """
    STEPS: gl.constexpr = x_desc.nbytes_per_cta // x_desc.dtype.itemsize // (PARTS * PIECE)
    ring, loaded, first, step, count = begin(x_desc, rows, STAGES, POLICY)
    slots: gl.constexpr = gl.SliceLayout(0, layout)
    part = gl.arange(0, PARTS, layout=gl.SliceLayout(1, layout))
    place = part[:, None] * PIECE + gl.arange(0, PIECE, layout=slots)[None, :]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        greatest = gl.full([PIECE], LEAST, gl.float32, slots)
        total = gl.zeros([PIECE], gl.float32, slots)
        for n in gl.static_range(STEPS):
            x = piece(ring.index(stage), n, PARTS, PIECE, layout)
            if not WHOLE:
                x = gl.where(n * PARTS * PIECE + place < columns, x, float("-inf"))
            raised = gl.maximum(greatest, gl.max(x, axis=0))
            total = total * gl.exp(greatest - raised) + gl.sum(gl.exp(x - raised[None, :]), axis=0)
            greatest = raised
        row_greatest = gl.max(greatest, axis=0)
        scale = 1.0 / gl.sum(total * gl.exp(greatest - row_greatest), axis=0)
        y_row = y_ptr + (first + i * step).to(gl.int64) * y_stride
        for again in gl.static_range(STEPS):
            column = again * PARTS * PIECE + place
            if WHOLE:
                inside = None
            else:
                inside = column < columns
            x = piece(ring.index(stage), again, PARTS, PIECE, layout)
            y = (gl.exp(x - row_greatest) * scale).to(y_ptr.dtype.element_ty)
            gl.store(y_row + column, y, mask=inside)
        start_row(x_desc, ring, loaded, i + STAGES, count, first, step, POLICY)


@glueball.jit
def norm_reread(
    x_desc, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, columns, y_stride, epsilon,
    CENTRED: gl.constexpr, WHOLE: gl.constexpr, PARTS: gl.constexpr, PIECE: gl.constexpr, layout: gl.constexpr,
    POLICY: gl.constexpr = None,
):  # fmt: skip
    """RMS norm of one row a program, read from shared memory twice, or where CENTRED layer norm, three times.

    Also stores the mean and one over the deviation.
    """
    STEPS: gl.constexpr = x_desc.nbytes_per_cta // x_desc.dtype.itemsize // (PARTS * PIECE)
    row = gl.program_id(0)
    held = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, x_desc.nbytes_per_cta)
    if len(x_desc.block_shape) == 3:
        tma.async_load(x_desc, (row, 0, 0), loaded, held, cache_policy=POLICY)
    else:
        tma.async_load(x_desc, (row, 0), loaded, held, cache_policy=POLICY)
    slots: gl.constexpr = gl.SliceLayout(0, layout)
    part = gl.arange(0, PARTS, layout=gl.SliceLayout(1, layout))
    place = part[:, None] * PIECE + gl.arange(0, PIECE, layout=slots)[None, :]
    mbarrier.wait(loaded, 0)
    mean = 0.0
    if CENTRED:
        total = gl.zeros([PIECE], gl.float32, slots)
        for n in gl.static_range(STEPS):
            total += gl.sum(piece(held, n, PARTS, PIECE, layout), axis=0)
        mean = gl.sum(total, axis=0) / columns
        gl.store(mean_ptr + row, mean)
    squares = gl.zeros([PIECE], gl.float32, slots)
    for again in gl.static_range(STEPS):
        x = piece(held, again, PARTS, PIECE, layout)
        if CENTRED:
            x = x - mean
            if not WHOLE:
                x = gl.where(again * PARTS * PIECE + place < columns, x, 0.0)
        squares += gl.sum(x * x, axis=0)
    scale = gl.rsqrt(gl.sum(squares, axis=0) / columns + epsilon)
    gl.store(scale_ptr + row, scale)
    y_row = y_ptr + row.to(gl.int64) * y_stride
    for last in gl.static_range(STEPS):
        column = last * PARTS * PIECE + place
        if WHOLE:
            inside = None
        else:
            inside = column < columns
        y = (piece(held, last, PARTS, PIECE, layout) - mean) * scale
        if weight_ptr is not None:
            y = y * gl.load(weight_ptr + column, mask=inside).to(gl.float32)
        if bias_ptr is not None:
            y = y + gl.load(bias_ptr + column, mask=inside).to(gl.float32)
        gl.store(y_row + column, y.to(y_ptr.dtype.element_ty), mask=inside)
    mbarrier.invalidate(loaded)


@glueball.jit
def start_rows_by_index(table_desc, index_ptr, ring, loaded, i, first, step, rows, entries, POLICY: gl.constexpr):
    """Starts to load the rows of the program's `i`-th slot: those that consecutive indices name."""
    ROWS: gl.constexpr = ring.shape[1]
    slot = i % ring.shape[0]
    mbarrier.expect(loaded.index(slot), ROWS * table_desc.nbytes_per_cta)
    for each in gl.static_range(ROWS):
        place = (first + i * step) * ROWS + each
        index = gl.load(index_ptr + place, mask=place < rows, other=0).to(gl.int64)
        # A row before the first one is outside of the table: a load from there brings zeros.
        row = gl.where((index >= 0) & (index < entries), index, -1).to(gl.int32)
        target = ring.index(slot).slice(each, 1, 0)
        tma.async_load(table_desc, [row, 0, 0], loaded.index(slot), target, cache_policy=POLICY)


@glueball.jit
def embedding_boxes(
    table_desc, index_ptr, out_desc, rows, entries, STAGES: gl.constexpr, STORES: gl.constexpr = 1,
    POLICY: gl.constexpr = None,
):  # fmt: skip
    """`out[i] = table[index[i]]`, row by row through shared memory; zeros where an index names no row.

    A slot has as many rows as the block of `out_desc`, [ROWS, BLOCK / LINE, LINE]; that of the table has one.
    """
    ROWS: gl.constexpr = out_desc.block_shape[0]
    ring = gl.allocate_shared_memory(table_desc.dtype, [STAGES] + out_desc.block_shape, out_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(gl.cdiv(rows, ROWS) - first, step)
    for i in range(gl.minimum(count, STAGES - STORES)):
        start_rows_by_index(table_desc, index_ptr, ring, loaded, i, first, step, rows, entries, POLICY)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        tma.async_store(out_desc, [(first + i * step) * ROWS, 0, 0], ring.index(stage))
        if i + STAGES - STORES < count:
            tma.store_wait(STORES)
            ahead = i + STAGES - STORES
            start_rows_by_index(table_desc, index_ptr, ring, loaded, ahead, first, step, rows, entries, POLICY)
    tma.store_wait(0)
