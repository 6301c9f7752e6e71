"""Machine code back to text: SASS and the line table of a cubin, by `nvdisasm`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from glueball.codegen.debug import path_of
from glueball.errors import CodeGenerationError

_LINE = re.compile(r'//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*\S)\s*;")


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One SASS instruction: byte address in its function, text, and the author's `(file, line)` where known."""

    address: int
    text: str
    line: tuple[str, int] | None


def sass(cubin: bytes) -> str:
    """SASS text of a cubin with source lines. Errors: `CodeGenerationError` where `nvdisasm` is missing or refuses."""
    return _disassemble(cubin)


def line_table(cubin: bytes) -> list[MachineInstruction]:
    """Instructions of a cubin in order with their source lines; no lines where the cubin has none."""
    instructions: list[MachineInstruction] = []
    line: tuple[str, int] | None = None
    for text in _disassemble(cubin).splitlines():
        if place := _LINE.search(text):
            line = (path_of(place["file"]), int(place["line"]))
        elif found := _INSTRUCTION.match(text):
            instructions.append(MachineInstruction(int(found["address"], 16), found["text"], line))
    return instructions


def _disassemble(cubin: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(find_program()), "--print-code", "--print-line-info", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CodeGenerationError(f"nvdisasm refused the cubin: {done.stderr.strip()}")
    return done.stdout


def find_program() -> Path:
    """`nvdisasm` of NVIDIA's wheel, else the one on PATH: the wheel's is as new as the wheel's assembler."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    for name in ("nvdisasm", "nvdisasm.exe"):
        if (wheel / name).is_file():
            return wheel / name
    if found := shutil.which("nvdisasm"):
        return Path(found)
    raise CodeGenerationError(
        "machine code cannot be disassembled: nvdisasm is missing; install the `nvidia` extra "
        "(pip install 'glueball[nvidia]')"
    )
