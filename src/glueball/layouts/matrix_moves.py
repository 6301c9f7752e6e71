"""8 x 8 matrices of 16 bits, as ldmatrix and stmatrix move them between shared memory and the registers of a warp.

PTX ISA, `ldmatrix` and `stmatrix`: a row of a matrix is 16 bytes of shared memory, whose address lane 8 m + r gives for
row r of matrix m. Lane l holds word l mod 4 of row l div 4 of each matrix, one 32-bit register a matrix; transposed, it
holds elements (2 (l mod 4), l div 4) and (2 (l mod 4) + 1, l div 4). So two bits of the lane, or three, become offsets
within a row, and what they gave to the address now comes from registers and the rest of the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout

MATRIX_LANE_BITS = 5
MOST_MATRIX_BITS = 2
REGISTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Matrices:
    """How the elements of one side fall into matrices, as flat coordinates, the lowest bit first.

    `row` are those within the 16 bytes of a row, `rows` say which row, `word` those within a lane's 32-bit register.
    """

    row: tuple[int, ...]
    rows: tuple[int, ...]
    word: tuple[int, ...]
    transposed: bool


@dataclass(frozen=True, slots=True)
class MatrixAccesses:
    """Registers of each access, in the order in which a lane has them, and the positions that address lanes add."""

    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    matrices: int


def matrices_of(layout: LinearLayout, registers: Sequence[int], element_bytes: int) -> list[Matrices]:
    """The matrices in which a warp can move a tensor whose `registers` are independent of its threads."""
    lanes = layout.flat_bases("lane")
    if len(lanes) != MATRIX_LANE_BITS or element_bytes > REGISTER_BYTES:
        return []
    bits = (REGISTER_BYTES // element_bytes).bit_length() - 1
    word = tuple(registers[:bits])
    if len(word) < bits:
        return []
    inside, outside = (*word, *lanes[:2]), lanes[2:]
    found = [Matrices(inside, outside, word, transposed=False)]
    if element_bytes == 2:
        found.append(Matrices(outside, inside, word, transposed=True))
    return [matrices for matrices in found if f2.rank(matrices.row) == len(matrices.row)]


def matrix_accesses(
    matrices: Matrices, position: f2.Echelon, registers: Sequence[int], scratch_bits: int
) -> MatrixAccesses | None:
    """Divides a thread's registers, given by the positions of their bits, into accesses of up to four matrices.

    None where their rows would not be whole.
    """
    row_mask = (1 << len(matrices.row)) - 1
    word = [position.solve(vector) or 0 for vector in matrices.word]
    rows = [position.solve(vector) or 0 for vector in matrices.rows]
    clear = 0 if matrices.transposed else sum(word)
    rest = f2.independent([column & ~clear for column in f2.independent(registers)], word)
    if any(column & row_mask for column in (*rest, *rows)):
        return None
    if any(column >> scratch_bits for column in (*word, *rows)):
        return None
    chosen = [column for column in rest if not column >> scratch_bits][:MOST_MATRIX_BITS]
    starts = f2.independent(rest, chosen)
    register_of: dict[int, int] = {}
    for register in range(1 << len(registers)):
        register_of.setdefault(f2.apply(registers, register), register)
    inside = [
        f2.apply(chosen, matrix) ^ f2.apply(word, element)
        for matrix in range(1 << len(chosen))
        for element in range(1 << len(word))
    ]
    groups = tuple(
        tuple(register_of[f2.apply(starts, index) ^ offset] for offset in inside) for index in range(1 << len(starts))
    )
    unused = (0,) * (MOST_MATRIX_BITS - len(chosen))
    return MatrixAccesses(groups, (*rows, *chosen, *unused), 1 << len(chosen))
