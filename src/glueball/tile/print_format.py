"""The lines that `device_print` prints, for the C library on a GPU and for Python elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PrintFormat:
    """One call of `device_print` for one of its values.

    `kind` is `signed`, `unsigned`, `float` or `pointer`, empty where nothing but the prefix is printed; `bits` its
    width, `shape` that of the tile, `operand` the value's number where there are several.
    """

    prefix: str
    kind: str = ""
    bits: int = 32
    shape: tuple[int, ...] = ()
    operand: int | None = None
    hex: bool = False

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
        """The line as Python prints it, without its end."""
        place = ", ".join(str(int(each)) for each in program)
        if not self.kind:
            return f"pid ({place}) {self.prefix}"
        widths = [len(str(extent - 1)) for extent in self.shape]
        coordinates = ", ".join(f"{int(each):{width}}" for each, width in zip(index, widths, strict=True))
        return f"pid ({place}) idx ({coordinates}){self._label}{self._value(value)}"

    def _value(self, value: Any) -> str:
        if self.kind == "float":
            return float(value).hex() if self.hex else f"{float(value):f}"
        number = int(value)
        if self.kind == "pointer":
            return f"0x{number % (1 << 64):x}"
        if self.hex:
            return f"0x{number % (1 << self.bits):0{max(2, self.bits // 4)}x}"
        return str(number if self.kind == "signed" else number % (1 << self.bits))
