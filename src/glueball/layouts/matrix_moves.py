"""8 x 8 matrices of 16 bits, as ldmatrix and stmatrix move them between shared memory and the registers of a warp.

PTX ISA, `ldmatrix` and `stmatrix`: a row of a matrix is 16 bytes of shared memory, whose address lane 8 m + r gives for
row r of matrix m. Lane l holds word l mod 4 of row l div 4 of each matrix, one 32-bit register a matrix; transposed, it
holds elements (2 (l mod 4), l div 4) and (2 (l mod 4) + 1, l div 4). So two bits of the lane, or three, become offsets
within a row, and what they gave to the address now comes from registers and the rest of the lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import wavefronts

MATRIX_LANE_BITS = 5
MOST_MATRIX_BITS = 2
REGISTER_BYTES = 4
ROW_BYTES = 16
ROWS = 8


@dataclass(frozen=True, slots=True)
class Matrices:
    """How the elements of one side fall into matrices, as flat coordinates, the lowest bit first.

    `row` are those within the 16 bytes of a row, `rows` say which row, `word` those within a lane's 32-bit register,
    `together` those of further registers that preferably go in one access.
    """

    row: tuple[int, ...]
    rows: tuple[int, ...]
    word: tuple[int, ...]
    transposed: bool
    together: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixAccesses:
    """Registers of each access, in the order in which a lane has them, and the positions that address lanes add."""

    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    matrices: int


def word_bits(element_bytes: int) -> int:
    """Index bits of the elements that share a 32-bit register."""
    return (REGISTER_BYTES // element_bytes).bit_length() - 1


def matrices_of(layout: LinearLayout, registers: Sequence[int], element_bytes: int) -> list[Matrices]:
    """The matrices in which a warp can move a tensor whose `registers` are independent of its threads.

    The first registers share a 32-bit word.
    """
    lanes = layout.flat_bases("lane")
    if len(lanes) != MATRIX_LANE_BITS or element_bytes > REGISTER_BYTES:
        return []
    bits = word_bits(element_bytes)
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
    together = [position.solve(vector) or 0 for vector in matrices.together]
    rest = f2.independent([column & ~clear for column in (*together, *f2.independent(registers))], word)
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


@dataclass(frozen=True, slots=True)
class MatrixMoves:
    """How a warp moves a tile of which the places in shared memory are given, in elements.

    `groups` are the registers of each access, in the order in which a lane has them, `lanes` the places that the bits
    of the lane that gives an address add. `wavefronts` are those of all accesses of a warp.
    """

    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    matrices: int
    transposed: bool
    wavefronts: int

    @property
    def address_bits(self) -> int:
        """Bits of the lanes whose addresses are used."""
        return (ROWS * self.matrices).bit_length() - 1

    def within_lanes(self, places: LinearLayout) -> tuple[int, ...]:
        """The bases of the places that one lane's addresses reach, besides those of its own bits: whole rows."""
        row = (1 << bit for bit in range((len(self.groups[0]) // self.matrices * 4 - 1).bit_length()))
        starts = (f2.apply(places.flat_bases("register"), group[0]) for group in self.groups)
        return tuple(f2.independent((*row, *starts)))


def moves_by_matrices(places: LinearLayout, element_bytes: int, banks: int) -> Iterator[MatrixMoves]:
    """The ways to move a tile, of which `places` maps (register, lane, warp) to elements of shared memory."""
    row = tuple(1 << bit for bit in range((ROW_BYTES // element_bytes).bit_length() - 1))
    registers = places.flat_bases("register")
    if element_bytes > REGISTER_BYTES or any(place & sum(row) for place in places.flat_bases("warp")):
        return
    size = (places.elements - 1).bit_length()
    everywhere = f2.Echelon(1 << bit for bit in range(size))
    for matrices in _fitting(places, registers, row, element_bytes):
        found = matrix_accesses(matrices, everywhere, registers, size)
        if found is None:
            continue
        lanes = np.array([f2.apply(found.lanes, lane) for lane in range(1 << MATRIX_LANE_BITS)]) * element_bytes
        lanes[ROWS * found.matrices :] = -1
        total = wavefronts(lanes, ROW_BYTES, banks) * len(found.groups)
        yield MatrixMoves(found.groups, found.lanes, found.matrices, matrices.transposed, total)


def _fitting(
    places: LinearLayout, registers: Sequence[int], row: tuple[int, ...], element_bytes: int
) -> Iterator[Matrices]:
    """The matrices whose rows lie in shared memory as they stand."""
    held = f2.Echelon(registers)
    inside = [unit for unit in row[: word_bits(element_bytes)] if unit in held]
    across = [register for register in registers if not register & sum(row)]
    for first, transposed in ((inside, False), (across, True)):
        for matrices in matrices_of(places, f2.independent((*first, *registers)), element_bytes):
            if matrices.transposed == transposed and matrices.row == row:
                yield matrices
