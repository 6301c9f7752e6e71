"""Constants and names as LLVM text spells them."""

from __future__ import annotations

from typing import Any

import numpy as np

from glueball.thread.conversion import NUMPY

_NARROW_PREFIX = {"f16": "H", "bf16": "R"}


def literal(kind: str, constant: Any) -> str:
    """A constant of a register type: integers signed, floats by their exact bits, NaN payloads and infinities kept."""
    if kind == "i1":
        return "true" if constant else "false"
    if kind[0] == "i":
        return str(int(constant))
    dtype = NUMPY[kind]
    with np.errstate(over="ignore"):
        value = np.asarray(constant).astype(dtype)
        if kind in _NARROW_PREFIX:
            return f"0x{_NARROW_PREFIX[kind]}{int(value.view(np.uint16)):04X}"
        return f"0x{int(value.astype(np.float64).view(np.uint64)):016X}"


def symbol_of(name: str) -> str:
    """A name as assemblers take it: what is no ASCII letter, digit, `_` or `$` becomes `$` and its code point."""
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "_$") else f"${ord(letter):x}" for letter in name
    )


def quoted(text: str) -> str:
    """A quoted string, with every byte escaped that LLVM's lexer does not take as it is."""
    plain = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())
    return f'"{plain}"'
