"""Inline assembly of NVIDIA GPUs (PTX) on whole NumPy arrays.

`Interpretation` is assembly as a function of arrays, by a table of the instructions that work on registers. What
touches memory, other lanes, barriers or special registers is not in the table, and is refused by name.
"""

from __future__ import annotations

from glueball.ptx.elements import Interpretation, Word
from glueball.ptx.types import Uninterpreted

__all__ = ["Interpretation", "Uninterpreted", "Word"]
