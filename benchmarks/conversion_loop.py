"""A kernel that does nothing but convert a tile to a layout that is the first one transposed, again and again."""

import glueball
import glueball.language as gl


@glueball.jit
def transpose_repeatedly(x_ptr, y_ptr, times, SIZE: gl.constexpr, first: gl.constexpr, second: gl.constexpr):
    """Loads a square tile, transposes it `times` times, stores it.

    `second` must be `first` with its dimensions exchanged: the conversion then is all that a transposition takes, and
    the result is again in `first`, ready for the next.
    """
    row = gl.arange(0, SIZE, layout=gl.SliceLayout(1, first))
    column = gl.arange(0, SIZE, layout=gl.SliceLayout(0, first))
    place = gl.program_id(0) * SIZE * SIZE + row[:, None] * SIZE + column[None, :]
    value = gl.load(x_ptr + place)
    for _ in range(times):
        value = gl.convert_layout(value, second).permute(1, 0)
    gl.store(y_ptr + place, value)
