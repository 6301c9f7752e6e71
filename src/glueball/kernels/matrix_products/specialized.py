"""The product by warp groups: persistent programs in which one warp copies and one or two groups of four multiply."""

import glueball
import glueball.language as gl
from glueball.kernels.matrix_products.tiles import (
    endings,
    finished,
    flat_offsets,
    gathered,
    publish,
    split_range,
    tile_place,
)
from glueball.language.nvidia.ampere import async_copy
from glueball.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)


@glueball.jit
def extents(a_desc, b_desc, FORM: gl.constexpr):
    """Rows, columns and inner extent of the product."""
    rows = a_desc.shape[2] if FORM.a_turned else a_desc.shape[1]
    columns = b_desc.shape[1] if FORM.b_turned else b_desc.shape[2]
    inner = a_desc.shape[1] if FORM.a_turned else a_desc.shape[2]
    return rows, columns, inner


@glueball.jit
def counts(rows, columns, inner, batches, FORM: gl.constexpr):
    """Tiles along both dimensions, tiles that are not split, pieces of work of all batches, steps along K."""
    tiles_m = gl.cdiv(rows, FORM.block_m)
    tiles_n = gl.cdiv(columns, FORM.block_n)
    tiles = batches * tiles_m * tiles_n
    whole = tiles // gl.num_programs(0) * gl.num_programs(0) if FORM.tail else 0
    return tiles_m, tiles_n, whole, whole + (tiles - whole) * FORM.splits, gl.cdiv(inner, FORM.block_k)


@glueball.jit
def share(item, whole, steps, FORM: gl.constexpr):
    """A piece of work: its tile, which split of it, the first step along K and how many there are."""
    if FORM.splits == 1:
        return item, 0, 0, steps
    rest = gl.maximum(item - whole, 0)
    split = rest % FORM.splits
    first, count = split_range(steps, split, FORM.splits)
    if FORM.tail and item < whole:
        first = 0
        count = steps
    return gl.minimum(item, whole) + rest // FORM.splits, split, first, count


@glueball.jit
def placed(batch, row, column, TURNED: gl.constexpr):
    """Where a block of a matrix starts, in the order of its descriptor."""
    return (batch, column, row) if TURNED else (batch, row, column)


@glueball.jit
def produce_tiles(
    a_desc, b_desc, a_ring, b_ring, full, empty, all_empty, batches, start, stage, phase, FORM: gl.constexpr
):
    """The copying warp's share of a product, from piece of work `start` on; the stage and phase that follow.

    It goes on from tile to tile, so that the first stages of the next tile are on their way while this one is stored.
    In a cluster the first CTA copies `b` to all, once all have emptied the stage.
    """
    height: gl.constexpr = FORM.block_m // FORM.parts
    rows, columns, inner = extents(a_desc, b_desc, FORM)
    tiles_m, tiles_n, whole, items, steps = counts(rows, columns, inner, batches, FORM)
    for item in range(start, items, gl.num_programs(0)):
        tile, _, first, count = share(item, whole, steps, FORM)
        batch, m, n = tile_place(tile, tiles_m, tiles_n, FORM.group)
        row = m * FORM.block_m
        column = n * FORM.block_n
        for k in range(first, first + count):
            mbarrier.wait(empty.index(stage), phase)
            if FORM.ctas > 1:
                mbarrier.wait(all_empty.index(stage), phase)
            loaded = full.index(stage)
            mbarrier.expect(loaded, FORM.parts * a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
            depth = k * FORM.block_k
            for part in gl.static_range(FORM.parts):
                a_place = placed(batch * FORM.a_batched, row + part * height, depth, FORM.a_turned)
                tma.async_load(a_desc, a_place, loaded, a_ring.index(stage * FORM.parts + part))
            b_place = placed(batch * FORM.b_batched, depth, column, FORM.b_turned)
            tma.async_load(b_desc, b_place, loaded, b_ring.index(stage), multicast=FORM.ctas > 1)
            stage += 1
            if stage == FORM.stages:
                stage = 0
                phase = phase ^ 1
    return stage, phase


@glueball.jit
def produce(a_desc, b_desc, a_ring, b_ring, full, empty, all_empty, batches, FORM: gl.constexpr):
    """The copying warp: fills the ring's stages in order, each once the multiplying groups have emptied it."""
    stage = 0
    phase = 1
    start = gl.program_id(0)
    produce_tiles(a_desc, b_desc, a_ring, b_ring, full, empty, all_empty, batches, start, stage, phase, FORM)


@glueball.jit
def operands(a_piece, b_stage, FORM: gl.constexpr):
    """The rows of `a` that a group multiplies, and all of `b`, as M x K and K x N views."""
    height: gl.constexpr = FORM.block_m // FORM.parts
    if FORM.a_turned:
        a = a_piece.reshape([FORM.block_k, height]).permute([1, 0])
    else:
        a = a_piece.reshape([height, FORM.block_k])
    if FORM.b_turned:
        b = b_stage.reshape([FORM.block_n, FORM.block_k]).permute([1, 0])
    else:
        b = b_stage.reshape([FORM.block_k, FORM.block_n])
    return a, b


@glueball.constexpr_function
def sums_layout(form, width, depth):
    """Who holds the sums of a group, or of a piece of its columns; `depth` elements of K an instruction."""
    cga = [[1 << bit, 0] for bit in range(form.ctas.bit_length() - 1)]
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, width, depth], cga)


@glueball.jit
def halves(x):
    """The left and the right half of a tile, each in the same registers as before."""
    return x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute([0, 2, 1]).split()


@glueball.jit
def pieces_of(x, CHUNKS: gl.constexpr):
    """A tile cut into 1, 2 or 4 pieces along its columns."""
    if CHUNKS == 1:
        return (x,)
    elif CHUNKS == 2:
        return halves(x)
    else:
        left, right = halves(x)
        return halves(left) + halves(right)


@glueball.constexpr_function
def piece_count(form):
    """Pieces in which the columns of a tile are finished, which bounds the registers that it takes."""
    return max(form.chunks, form.block_n // 64)


@glueball.constexpr_function
def piece_layout(form):
    """Who holds the sums of a piece."""
    return sums_layout(form, form.block_n // piece_count(form), 16)


@glueball.constexpr_function
def everywhere(form):
    """The bases by which every CTA has all of a line."""
    return [[0]] * (form.ctas.bit_length() - 1)


@glueball.jit
def start_column_scales(kept, pointer, column, columns, FORM: gl.constexpr):
    """Starts to copy the scales of a tile's columns to shared memory, where they wait for the sums."""
    place = column + gl.arange(0, kept.shape[0], layout=gl.BlockedLayout([1], [32], [4], [0], everywhere(FORM)))
    async_copy.async_load(kept, pointer + place, mask=place < columns)
    async_copy.commit_group()


@glueball.jit
def piece_endings(i, column, columns, column_scale, bias, FORM: gl.constexpr):
    """What the columns of piece `i` of a tile end with; their scales are in shared memory where each has one."""
    width: gl.constexpr = FORM.block_n // piece_count(FORM)
    if FORM.columns_scaled:
        column_scale = column_scale.slice(i * width, width)
    return endings(column + i * width, columns, column_scale, bias, width, 1, piece_layout(FORM), FORM)


@glueball.jit
def store_chunk(c, staging, batch, row, column, rows, columns, c_strides, FORM: gl.constexpr):
    """Brings a chunk of a tile from shared memory to global memory.

    By a bulk copy, which runs on while the group goes on; or by the threads, for matrices whose rows no bulk copy can
    write.
    """
    if FORM.store_layout is None:
        fence_async_shared()
        tma.async_store(c, [batch, row, column], staging)
    else:
        height: gl.constexpr = staging.shape[1]
        width: gl.constexpr = staging.shape[2]
        value = staging.reshape([height, width]).load(FORM.store_layout)
        at_row = row + gl.arange(0, height, layout=gl.SliceLayout(1, FORM.store_layout))
        at_column = column + gl.arange(0, width, layout=gl.SliceLayout(0, FORM.store_layout))
        down = batch.to(gl.int64) * c_strides[0] + at_row.to(gl.int64) * c_strides[1]
        across = at_column.to(gl.int64) * c_strides[2]
        gl.store(
            c + down[:, None] + across[None, :], value, mask=(at_row[:, None] < rows) & (at_column[None, :] < columns)
        )


@glueball.jit
def store_tile(
    x, of_rows, c, staging, batch, row, column, rows, columns, c_strides, column_scale, bias, FORM: gl.constexpr
):
    """Finishes the sums of a group, a piece of the columns at a time, and stores them, a chunk at a time.

    What the columns of a piece end with is loaded while the one before is on its way.
    """
    PIECES: gl.constexpr = piece_count(FORM)
    TOGETHER: gl.constexpr = PIECES // FORM.chunks
    width: gl.constexpr = FORM.block_n // PIECES
    view = staging.reshape([staging.shape[1], staging.shape[2]])
    pieces = pieces_of(x, PIECES)
    of_columns = piece_endings(0, column, columns, column_scale, bias, FORM)
    for i in gl.static_range(PIECES):
        piece = gl.convert_layout(pieces[i], piece_layout(FORM), assert_trivial=True)
        piece = finished(piece, of_rows, of_columns, FORM).to(FORM.c_type)
        if i + 1 < PIECES:
            of_columns = piece_endings(i + 1, column, columns, column_scale, bias, FORM)
        if FORM.store_layout is None and i % TOGETHER == 0:
            tma.store_wait(0)
        view.slice(i % TOGETHER * width, width, 1).store(piece)
        if i % TOGETHER == TOGETHER - 1:
            at = column + (i // TOGETHER) * (FORM.block_n // FORM.chunks)
            store_chunk(c, staging, batch, row, at, rows, columns, c_strides, FORM)


@glueball.jit
def release(empty, all_empty, stage, pred, FORM: gl.constexpr):
    """Tells the copying warp that a stage is empty, and that of the cluster's first CTA too."""
    mbarrier.arrive(empty.index(stage), count=1, pred=pred)
    if FORM.ctas > 1:
        mbarrier.arrive(all_empty.index(stage), count=1, pred=pred)


@glueball.jit
def consume_tiles(
    rows, columns, inner, c, a_ring, b_ring, staging, full, empty, all_empty, batches, c_strides, row_scale,
    column_scale, bias, partials, counters, start, stage, phase, PART: gl.constexpr, FORM: gl.constexpr,
):  # fmt: skip
    """A multiplying group's share of a product, from piece of work `start` on; the stage and phase that follow.

    One step's multiplications stay under way while those of the step before are waited for, whose stage then goes back
    to the copying warp.
    """
    height: gl.constexpr = FORM.block_m // FORM.parts
    layout: gl.constexpr = sums_layout(FORM, FORM.block_n, 256 // a_ring.dtype.primitive_bitwidth)
    scales = column_scale
    if FORM.columns_scaled:
        cga: gl.constexpr = everywhere(FORM)
        scales = gl.allocate_shared_memory(gl.float32, [FORM.block_n], gl.SwizzledSharedLayout(1, 1, 1, [0], cga))
    tiles_m, tiles_n, whole, items, steps = counts(rows, columns, inner, batches, FORM)
    for item in range(start, items, gl.num_programs(0)):
        tile, split, _, count = share(item, whole, steps, FORM)
        batch, m, n = tile_place(tile, tiles_m, tiles_n, FORM.group)
        row = m * FORM.block_m + PART * height
        column = n * FORM.block_n
        if FORM.columns_scaled:
            start_column_scales(scales, column_scale, column, columns, FORM)
        acc = warpgroup_mma_init(gl.zeros([height, FORM.block_n], gl.float32, layout))
        last = stage
        for k in range(count):
            mbarrier.wait(full.index(stage), phase)
            a, b = operands(a_ring.index(stage * FORM.parts + PART), b_ring.index(stage), FORM)
            acc = warpgroup_mma(a, b, acc, use_acc=k > 0, is_async=True)
            acc = warpgroup_mma_init(warpgroup_mma_wait(1, deps=(acc,)))
            release(empty, all_empty, last, k > 0, FORM)
            last = stage
            stage += 1
            if stage == FORM.stages:
                stage = 0
                phase = phase ^ 1
        of_rows = endings(row, rows, row_scale, bias, height, 0, piece_layout(FORM), FORM)
        result = warpgroup_mma_wait(0, deps=(acc,))
        release(empty, all_empty, last, True, FORM)
        if FORM.columns_scaled:
            async_copy.wait_group(0)
        if FORM.splits == 1:
            store_tile(
                result, of_rows, c, staging, batch, row, column, rows, columns, c_strides, scales, bias, FORM
            )  # fmt: skip
        else:
            complete = item < whole
            if item >= whole:
                slot = (tile - whole) * FORM.parts + PART
                offsets = flat_offsets(height, FORM.block_n, layout)
                complete = publish(result, partials, counters, slot, split, offsets, FORM.splits)
                if complete:
                    result = gathered(result, partials, slot, offsets, FORM.splits)
            if complete:
                store_tile(
                    result, of_rows, c, staging, batch, row, column, rows, columns, c_strides, scales, bias, FORM
                )  # fmt: skip
    if FORM.store_layout is None:
        tma.store_wait(0)
    return stage, phase


@glueball.jit
def consume(
    a_desc, b_desc, c, a_ring, b_ring, staging, full, empty, all_empty, batches, c_strides, row_scale, column_scale,
    bias, partials, counters, PART: gl.constexpr, FORM: gl.constexpr,
):  # fmt: skip
    """A multiplying group: its share of the rows of every tile that the program works on."""
    rows, columns, inner = extents(a_desc, b_desc, FORM)
    stage = 0
    phase = 0
    consume_tiles(
        rows, columns, inner, c, a_ring, b_ring, staging, full, empty, all_empty, batches, c_strides, row_scale,
        column_scale, bias, partials, counters, gl.program_id(0), stage, phase, PART, FORM,
    )  # fmt: skip


@glueball.jit
def multiply_specialized(
    a_desc, b_desc, c, batches, c_strides, row_scale, column_scale, bias, partials, counters,
    FORM: gl.constexpr,
):  # fmt: skip
    """`c = finish(a @ b)`, batch by batch, tile by tile.

    `a_desc` describes [batch, M, K], or [batch, K, M] where turned, in blocks of the rows of a group; `b_desc`
    [batch, K, N], or [batch, N, K] where turned. `c` is a descriptor of [batch, M, N], or with a store layout a
    pointer; `c_strides` are its three. With several splits the programs of a tile meet in `partials`, float32, as large
    as all split tiles of all splits, and `counters`, int32 zeros, one for each group of each tile.
    """
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [FORM.stages * FORM.parts] + a_desc.block_shape, a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [FORM.stages] + b_desc.block_shape, b_desc.layout)
    piece: gl.constexpr = (1, FORM.block_m // FORM.parts, FORM.block_n // FORM.chunks)
    staging = gl.allocate_shared_memory(FORM.c_type, piece, FORM.c_layout)
    full = mbarrier.allocate_mbarrier(batch=FORM.stages)
    empty = mbarrier.allocate_mbarrier(batch=FORM.stages)
    all_empty = empty
    for i in gl.static_range(FORM.stages):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=FORM.parts)
    if FORM.ctas > 1:
        all_empty = mbarrier.allocate_mbarrier(batch=FORM.stages, two_ctas=True)
        for i in gl.static_range(FORM.stages):
            mbarrier.init(all_empty.index(i), count=FORM.parts)
    before = (a_desc, b_desc, c, a_ring, b_ring)
    after = (full, empty, all_empty, batches, c_strides, row_scale, column_scale, bias, partials, counters)
    copying = (a_desc, b_desc, a_ring, b_ring, full, empty, all_empty, batches)
    if FORM.parts == 1:
        gl.warp_specialize(
            [(consume, before + (staging,) + after + (0, FORM)), (produce, copying + (FORM,))], [1]
        )  # fmt: skip
    else:
        other_staging = gl.allocate_shared_memory(FORM.c_type, piece, FORM.c_layout)
        gl.warp_specialize(
            [
                (consume, before + (staging,) + after + (0, FORM)),
                (consume, before + (other_staging,) + after + (1, FORM)),
                (produce, copying + (FORM,)),
            ],
            [4, 1],
            [232, 40],
        )
