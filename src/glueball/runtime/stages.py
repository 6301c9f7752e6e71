"""The stages of a compiled kernel as texts and binaries, made when asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glueball.errors import CodeGenerationError
from glueball.runtime.machine_code import assemble, assembler

if TYPE_CHECKING:
    from glueball.runtime.kernel import CompiledKernel


def _tile(kernel: CompiledKernel) -> str:
    from glueball.tile.printer import print_function

    return print_function(kernel.tile)


def _thread(kernel: CompiledKernel) -> str:
    from glueball.thread.printer import print_function

    return print_function(kernel.thread)


def _assembly(kernel: CompiledKernel) -> str:
    code = vars(kernel).get("machine_code")
    return str(kernel.generated.assembly if code is None else code.assembly)


def _sass(kernel: CompiledKernel) -> str:
    from glueball.codegen.disassembly import sass

    return sass(kernel.machine_code.binary)


_COMMON: dict[str, Callable[[CompiledKernel], str | bytes]] = {
    "source": lambda kernel: kernel.request.function.src,
    "tile": _tile,
    "thread": _thread,
    "llir": lambda kernel: kernel.generated.llir,
}
_STAGES: dict[str, dict[str, Callable[[CompiledKernel], str | bytes]]] = {
    "nvidia": {**_COMMON, "ptx": _assembly, "cubin": lambda kernel: kernel.machine_code.binary, "sass": _sass},
    "amd": {
        **_COMMON,
        "amdgcn": _assembly,
        "hsaco": lambda kernel: assemble(_assembly(kernel), kernel.request.target).data,
    },
}
_UNLISTED = ("sass", "hsaco")


class Stages(Mapping[str, Any]):
    """`source`, `tile`, `thread`, `llir`, then `ptx` and `cubin` or `amdgcn`: text, or the bytes of a binary.

    Listed is what can be made here; `sass` and `hsaco` can be asked for all the same. `KeyError` for another name;
    `CodeGenerationError` for a stage whose tool is missing.
    """

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel
        self._makers = _STAGES[kernel.request.target.family]
        self._made: dict[str, str | bytes] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._makers:
                raise KeyError(f"{self._kernel!r} has no stage {name!r}; it has {', '.join(self._makers)}")
            self._made[name] = self._makers[name](self._kernel)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return any(name == listed for listed in self)

    def __iter__(self) -> Iterator[str]:
        for name in self._makers:
            if name not in _UNLISTED and (name != "cubin" or assembler(self._kernel.request.target)):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def write(self, folder: Path) -> None:
        """Writes every stage that can be made into a folder, a file of its name each; `kernel.json` says of what."""
        folder.mkdir(parents=True, exist_ok=True)
        described = self._kernel.request.described() | {"hash": self._kernel.hash}
        (folder / "kernel.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        for name in self._makers:
            with contextlib.suppress(CodeGenerationError):
                stage = self[name]
                (folder / f"kernel.{name}").write_bytes(stage if isinstance(stage, bytes) else stage.encode())
