"""What `device_print` prints: lines for the C library on a GPU and for the simulator, arrays on the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball.location import SourceLocation

UNDEFINED = "--"
"""Stands for a value that was never loaded, as NumPy's masked arrays show one."""


@dataclass(frozen=True, slots=True)
class PrintFormat:
    """One call of `device_print` for one of its values.

    `kind` is `signed`, `unsigned`, `float` or `pointer`, empty where nothing but the prefix is printed; `bits` its
    width, `shape` that of the tile, `operand` the value's number where there are several. `element` is the type that
    the author printed, narrow floats being widened before.
    """

    prefix: str
    kind: str = ""
    bits: int = 32
    shape: tuple[int, ...] = ()
    operand: int | None = None
    hex: bool = False
    element: str = ""

    @property
    def conversion(self) -> str:
        """The C library's conversion for the value."""
        long = "ll" if self.bits == 64 else ""
        if self.kind == "float":
            return "%a" if self.hex else "%f"
        if self.kind == "pointer":
            return "%p"
        if self.hex:
            return f"0x%0{max(2, self.bits // 4)}{long}x"
        return f"%{long}{'i' if self.kind == 'signed' else 'u'}"

    @property
    def c_format(self) -> str:
        """The whole format: three numbers of the program, the coordinates, then the value."""
        if not self.kind:
            return f"pid (%u, %u, %u) {self._escaped(self.prefix)}\n"
        coordinates = ", ".join(f"%{len(str(extent - 1))}u" for extent in self.shape)
        return f"pid (%u, %u, %u) idx ({coordinates}){self._escaped(self._label)}{self.conversion}\n"

    @property
    def _label(self) -> str:
        ending = "" if self.prefix.endswith(": ") else ": "
        number = "" if self.operand is None else f"(operand {self.operand}) "
        return f"{' ' + self.prefix if self.prefix else ''}{ending}{number}"

    @staticmethod
    def _escaped(text: str) -> str:
        return text.replace("%", "%%")

    def line(self, program: Sequence[int], index: Sequence[int], value: Any) -> str:
        """The line as Python prints it, without its end; `None` stands for a value that was never loaded."""
        place = ", ".join(str(int(each)) for each in program)
        if not self.kind:
            return f"pid ({place}) {self.prefix}"
        widths = [len(str(extent - 1)) for extent in self.shape]
        coordinates = ", ".join(f"{int(each):{width}}" for each, width in zip(index, widths, strict=True))
        return f"pid ({place}) idx ({coordinates}){self._label}{self._value(value)}"

    def block(self, program: Sequence[int], location: SourceLocation, layout: object, values: Any) -> str:
        """A whole tile as NumPy shows it, `np.set_printoptions` included, below a line that says whose and where.

        `values` is an array, masked where nothing was loaded; `layout` that of the tile, `None` for a scalar.
        """
        place = f"pid ({', '.join(map(str, program))}) {location.file}:{location.line}"
        if not self.kind:
            return f"{place} {self.prefix}"
        head = f"{place}{self._label}{self.element}"
        formatter: Any = {"all": self._value} if self.hex or self.kind == "pointer" else None
        if not self.shape:
            shown = values[()]
            text = UNDEFINED if shown is np.ma.masked else str(shown) if formatter is None else self._value(shown)
            return f"{head} {text}"
        if formatter is None:
            return f"{head}{list(self.shape)} in {layout}\n{values}"
        filled = np.ma.getdata(values).astype(object)
        filled[np.ma.getmaskarray(values)] = None
        text = np.array2string(filled, formatter=formatter)
        return f"{head}{list(self.shape)} in {layout}\n{text}"

    def _value(self, value: Any) -> str:
        if value is None:
            return UNDEFINED
        if self.kind == "float":
            return float(value).hex() if self.hex else f"{float(value):f}"
        number = int(value)
        if self.kind == "pointer":
            return f"0x{number % (1 << 64):x}"
        if self.hex:
            return f"0x{number % (1 << self.bits):0{max(2, self.bits // 4)}x}"
        return str(number if self.kind == "signed" else number % (1 << self.bits))
