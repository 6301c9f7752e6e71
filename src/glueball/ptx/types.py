"""Types of PTX: what the bits of a register stand for. Registers themselves are arrays of unsigned integers.

PTX ISA, sections "Fundamental Types", "Packed Data Types" and "Alternate Floating-Point Data Formats".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball import numerics

Array = NDArray[Any]


class Uninterpreted(ValueError):
    """Assembly that is not interpreted; the message says which part of it, and why."""


@dataclass(frozen=True, slots=True)
class RegisterType:
    """A type: bits of its register, NumPy's type of an element, elements in the register."""

    name: str
    bits: int
    element: np.dtype[Any]
    count: int = 1

    @property
    def is_float(self) -> bool:
        """Whether its elements are floats that NumPy knows."""
        return self.element.kind not in "iub"

    def values(self, bits: Array) -> Array:
        """The elements of registers; those of packed types along a new last axis."""
        bits = np.asarray(bits)
        if self.count == 1:
            return bits.view(self.element)
        return np.ascontiguousarray(bits[..., None]).view(self.element)

    def pack(self, values: Array) -> Array:
        """The registers that hold elements: what `values` takes."""
        values = np.asarray(values)
        if self.count == 1:
            return values.astype(self.element, copy=False).view(register(self.bits))
        packed: Array = np.ascontiguousarray(values.astype(self.element, copy=False)).view(register(self.bits))
        return packed[..., 0]


def register(bits: int) -> np.dtype[Any]:
    """NumPy's type of a register; a predicate has one bit."""
    return np.dtype(np.bool_) if bits == 1 else np.dtype(f"u{bits // 8}")


def _types() -> Mapping[str, RegisterType]:
    found = [RegisterType("pred", 1, np.dtype(np.bool_))]
    for bits in (8, 16, 32, 64):
        found += [
            RegisterType(f"{kind}{bits}", bits, np.dtype(f"{kind[0].replace('s', 'i')}{bits // 8}")) for kind in "us"
        ]
        found.append(RegisterType(f"b{bits}", bits, register(bits)))
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    found += [
        RegisterType("f16", 16, half),
        RegisterType("bf16", 16, numerics.BFLOAT16),
        RegisterType("f32", 32, single),
        RegisterType("tf32", 32, single),
        RegisterType("f64", 64, np.dtype(np.float64)),
        RegisterType("f16x2", 32, half, 2),
        RegisterType("bf16x2", 32, numerics.BFLOAT16, 2),
        RegisterType("f32x2", 64, single, 2),
        RegisterType("u16x2", 32, np.dtype(np.uint16), 2),
        RegisterType("s16x2", 32, np.dtype(np.int16), 2),
        RegisterType("e2m1x2", 8, np.dtype(np.uint8)),
    ]
    found += [
        RegisterType(name, 16, np.dtype(np.uint8), 2) for name in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2")
    ]
    return {kind.name: kind for kind in found}


TYPES = _types()
"""Every type by the name that opcodes spell."""
