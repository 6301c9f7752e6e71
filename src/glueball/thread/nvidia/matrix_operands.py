"""How the matrix units read an operand out of shared memory (PTX ISA, `wgmma` matrix descriptors).

An operand is a matrix of rows (of the result; its columns for the second operand) by K. `k_major` says that neighbours
along K lie side by side in memory, otherwise neighbours along the rows do. Lines of `swizzle` bytes, eight of them to a
group, have their 16-byte pieces exchanged by the address bits above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball.tensor_map import swizzled

SWIZZLE_CODES = {128: 1, 64: 2, 32: 3}
ADDRESS_UNIT = 16
GROUP = 8
"""Lines after which the swizzle repeats."""


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """Where the elements are: `stride` bytes from a group of eight lines to the next one.

    `leading` bytes from one piece of `swizzle` bytes along the rows to the next one; for what is not `k_major` only.
    """

    swizzle: int
    stride: int
    leading: int
    k_major: bool

    def bits(self) -> int:
        """The descriptor of an operand at address 0."""
        leading, stride = self.leading // ADDRESS_UNIT, self.stride // ADDRESS_UNIT
        return SWIZZLE_CODES[self.swizzle] << 62 | stride << 32 | leading << 16

    def addresses(self, start: Any, rows: int, inner: int, itemsize: int) -> NDArray[np.int64]:
        """Byte addresses of the elements, `[..., row, k]`, of operands that start at byte addresses `start`."""
        row, k = np.arange(rows, dtype=np.int64)[:, None], np.arange(inner, dtype=np.int64)[None, :]
        line, along = (row, k) if self.k_major else (k, row)
        place = along * itemsize
        offset = (
            line // GROUP * self.stride
            + line % GROUP * self.swizzle
            + place // self.swizzle * self.leading
            + place % self.swizzle
        )
        return np.asarray(swizzled(np.asarray(start, np.int64)[..., None, None] + offset, self.swizzle))
