"""Transposes a matrix: loads in a layout that suits its rows, converts, stores in a layout that suits its columns.

python examples/transpose.py
glueball explain examples/transpose.py:transpose
"""

import numpy as np

import glueball
import glueball.language as gl

TILE = 32


@glueball.jit
def transpose(
    x_ptr, y_ptr, rows, columns, by_rows: gl.constexpr, by_columns: gl.constexpr, TILE: gl.constexpr
):  # fmt: skip
    first_row = gl.program_id(0) * TILE
    first_column = gl.program_id(1) * TILE

    row = first_row + gl.arange(0, TILE, layout=gl.SliceLayout(1, by_rows))
    column = first_column + gl.arange(0, TILE, layout=gl.SliceLayout(0, by_rows))
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tile = gl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside)

    tile = gl.convert_layout(tile, by_columns)

    row = first_row + gl.arange(0, TILE, layout=gl.SliceLayout(1, by_columns))
    column = first_column + gl.arange(0, TILE, layout=gl.SliceLayout(0, by_columns))
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    gl.store(y_ptr + column[None, :] * rows + row[:, None], tile, mask=inside)


def main() -> None:
    rows, columns = 300, 400
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = np.empty((columns, rows), np.float32)

    # Neighbouring lanes along a row of x, and along a row of y, which is a column of the tile.
    by_rows = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    by_columns = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    grid = (glueball.cdiv(rows, TILE), glueball.cdiv(columns, TILE))
    kernel = transpose[grid](x, y, rows, columns, by_rows, by_columns, TILE, num_warps=4)

    assert np.array_equal(y, x.T)
    report = kernel.report
    print(f"{rows} x {columns} transposed, equal to NumPy's")
    print(f"sectors a request: {report.global_loads.sectors_per_request:.2f} to load, "
          f"{report.global_stores.sectors_per_request:.2f} to store")  # fmt: skip


if __name__ == "__main__":
    main()
