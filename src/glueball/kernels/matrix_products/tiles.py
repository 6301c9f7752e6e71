"""What the product kernels share: which tile comes next, parts of sums, and what happens to a finished tile."""

import glueball
import glueball.language as gl

REGISTERS_OF_SUMS: gl.constexpr = gl.constexpr(64)
"""Registers of a thread for sums of other splits that are on their way."""


@glueball.jit
def tile_place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Batch, row and column of a tile, in tiles.

    Tiles go down GROUP rows before they go one column on, so that those under way at a time form a block, whose rows of
    `a` and columns of `b` stay in the second-level cache.
    """
    batch = tile // (tiles_m * tiles_n)
    rest = tile % (tiles_m * tiles_n)
    first = rest // (GROUP * tiles_n) * GROUP
    within = rest % (GROUP * tiles_n)
    height = gl.minimum(tiles_m - first, GROUP)
    return batch, first + within % height, within // height


@glueball.jit
def split_range(steps, split, SPLITS: gl.constexpr):
    """The first step along K of a split, and how many it has; all splits of a tile have some where steps >= SPLITS."""
    first = steps * split // SPLITS
    return first, steps * (split + 1) // SPLITS - first


@glueball.jit
def publish(part, partials, counters, slot, split, offsets, SPLITS: gl.constexpr):
    """Writes one split's sum of a tile to global memory; whether all splits have done so by now.

    Of the splits of slot number `slot` exactly one is told True, and it sets the counter back for the next launch.
    """
    gl.store(partials + (slot.to(gl.int64) * SPLITS + split) * part.numel + offsets, part)
    gl.barrier()
    arrived = gl.atomic_add(counters + slot, 1, sem="acq_rel")
    is_last = arrived == SPLITS - 1
    if is_last:
        gl.store(counters + slot, 0)
    return is_last


@glueball.jit
def gathered(part, partials, slot, offsets, SPLITS: gl.constexpr):
    """The sum of what all splits of a slot have written, in their order; of the shape and layout of `part`.

    Of small tiles several are on their way at a time.
    """
    TOGETHER: gl.constexpr = REGISTERS_OF_SUMS * 32 * gl.num_warps() // part.numel
    place = partials + slot.to(gl.int64) * SPLITS * part.numel + offsets
    total = gl.zeros_like(part)
    if TOGETHER <= 1:
        for split in range(SPLITS):
            total += gl.load(place + split * part.numel, cache_modifier=".cg")
    else:
        for first in gl.static_range(0, SPLITS, TOGETHER):
            sums = ()
            for split in gl.static_range(first, min(first + TOGETHER, SPLITS)):
                sums = sums + (gl.load(place + split * part.numel, cache_modifier=".cg"),)
            for each in gl.static_range(len(sums)):
                total += sums[each]
    return total


@glueball.jit
def flat_offsets(HEIGHT: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr):
    """The number of each element of a tile, row by row."""
    row = gl.arange(0, HEIGHT, layout=gl.SliceLayout(1, layout))
    return row[:, None] * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def factors(pointer, first, count, SIZE: gl.constexpr, EACH: gl.constexpr, layout: gl.constexpr):
    """Numbers of a row or column of a tile as float32: one for each where EACH, else the same one for all."""
    if EACH:
        index = first + gl.arange(0, SIZE, layout=layout)
        value = gl.load(pointer + index, mask=index < count, other=0).to(gl.float32)
    else:
        value = gl.full([SIZE], gl.load(pointer).to(gl.float32), gl.float32, layout)
    return value


@glueball.jit
def error_function(x):
    """The error function to 2e-7, which is below the rounding of 16-bit results, in 6 multiply-adds and an exponential.

    Formula 7.1.26 of Abramowitz and Stegun; the exact function takes several times the registers.
    """
    size = gl.abs(x)
    t = gl.fdiv(1.0, 1.0 + 0.3275911 * size, approx=True)
    polynomial = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    value = 1.0 - polynomial * gl.exp(-size * size)
    return gl.where(x < 0, -value, value)


@glueball.jit
def activated(x, ACTIVATION: gl.constexpr):
    """An activation function of a tile of float32; "" is none."""
    if ACTIVATION == "relu":
        x = gl.maximum(x, 0.0)
    if ACTIVATION == "gelu":
        x = 0.5 * x * (1.0 + error_function(x * 0.7071067811865476))
    if ACTIVATION == "silu":
        x = gl.fdiv(x, 1.0 + gl.exp(-x), approx=True)
    return x


@glueball.jit
def endings(
    first, count, scale, bias, SIZE: gl.constexpr, AXIS: gl.constexpr, layout: gl.constexpr, FORM: gl.constexpr
):
    """What each row (AXIS 0) or column (1) of a tile is multiplied by, and what is added to it; None where nothing is.

    The first is number `first` of `count`. Their scales may wait in shared memory.
    """
    along: gl.constexpr = gl.SliceLayout(1 - AXIS, layout)
    factor = None
    added = None
    if isinstance(scale, gl.shared_memory_descriptor):
        factor = scale.load(along)
    elif scale is not None:
        factor = factors(scale, first, count, SIZE, (FORM.rows_scaled, FORM.columns_scaled)[AXIS], along)
    if bias is not None and FORM.bias_axis == AXIS:
        added = factors(bias, first, count, SIZE, True, along)
    return factor, added


@glueball.jit
def finished(x, of_rows, of_columns, FORM: gl.constexpr):
    """A tile of sums, scaled, with the bias added, activated."""
    if of_rows[0] is not None:
        x = x * of_rows[0][:, None]
    if of_columns[0] is not None:
        x = x * of_columns[0][None, :]
    if of_rows[1] is not None:
        x = x + of_rows[1][:, None]
    if of_columns[1] is not None:
        x = x + of_columns[1][None, :]
    return activated(x, FORM.activation)
