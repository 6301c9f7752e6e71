"""Where machine code can be made and read back."""

from __future__ import annotations

import pytest

from glueball.codegen import disassembly
from glueball.errors import CodeGenerationError
from glueball.runtime.machine_code import assembler
from glueball.targets import TARGETS


def _what_is_missing() -> str:
    if not assembler(TARGETS["sm_90a"]):
        return "no assembler for PTX is installed (the `nvidia` extra has one)"
    try:
        disassembly.find_program()
    except CodeGenerationError as error:
        return str(error)
    return ""


needs_disassembler = pytest.mark.skipif(bool(_what_is_missing()), reason=_what_is_missing() or "everything is there")
"""Skips where there is no assembler or no `nvdisasm`; the `test` extra installs both where NVIDIA has them."""
