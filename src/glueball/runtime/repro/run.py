"""Makes the launch of this bundle again: `python run.py [--executor gpu|sim|reference]`.

The bundle is this file, `kernel.py` (the kernel with what it uses, and the launch), `manifest.json` (arrays, outcome,
versions) and `memory/` (the arrays' bytes). It needs glueball and NumPy, and torch to run on a GPU. The exit status is
0 where the outcome is the recorded one, 1 where it is another.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from glueball.tile.types import DTYPES

ALIGNMENT = 256
TORCH_NAMES = {
    "int1": "bool",
    "float8e4nv": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "float8e4b8": "float8_e4m3fnuz",
    "float8e5b16": "float8_e5m2fnuz",
}


class Memory:
    """The memory of all arrays, on the host or on a GPU."""

    def __init__(self, folder: Path, manifest: dict[str, Any], executor: str) -> None:
        self.arrays = manifest["arrays"]
        self.on_gpu = executor == "gpu"
        self.buffers = [self._place(described, folder) for described in manifest["memory"]]

    def _place(self, described: dict[str, Any], folder: Path) -> Any:
        """The bytes of one piece of memory, as far behind a multiple of 256 as they were, and where they start."""
        size, behind = described["bytes"], described["alignment"]
        if "file" in described:
            data = np.frombuffer((folder / described["file"]).read_bytes(), np.uint8)
        else:
            data = self._filled(size, described["seed"], DTYPES[described["dtype"]].numpy)
        if self.on_gpu:
            import torch

            buffer = torch.zeros(size + 2 * ALIGNMENT, dtype=torch.uint8, device="cuda")
            start = (behind - buffer.data_ptr()) % ALIGNMENT
            buffer[start : start + size] = torch.from_numpy(data.copy()).cuda()
        else:
            buffer = np.zeros(size + 2 * ALIGNMENT, np.uint8)
            start = (behind - buffer.ctypes.data) % ALIGNMENT
            buffer[start : start + size] = data
        return buffer, start

    @staticmethod
    def _filled(size: int, seed: int, dtype: Any) -> Any:
        """Made-up numbers instead of data that was too large to keep."""
        count = -(-size // dtype.itemsize)
        random = np.random.default_rng(seed)
        numbers = random.integers(0, 2, count) if dtype.kind in "biu" else random.standard_normal(count)
        return numbers.astype(dtype).view(np.uint8)[:size]

    def array(self, number: int) -> Any:
        """An array of the launch."""
        described = self.arrays[number]
        buffer, start = self.buffers[described["memory"]]
        start += described["offset"]
        shape, strides = described["shape"], described["strides"]
        if self.on_gpu:
            import torch

            dtype = getattr(torch, TORCH_NAMES.get(described["dtype"], described["dtype"]))
            tensor = torch.empty(0, dtype=dtype, device="cuda")
            return tensor.set_(buffer.untyped_storage(), start // dtype.itemsize, shape, strides)
        dtype = DTYPES[described["dtype"]].numpy
        scaled = [stride * dtype.itemsize for stride in strides]
        array = np.ndarray(shape, dtype, buffer, start, scaled)
        array.flags.writeable = described["writeable"]
        return array

    def digests(self) -> list[str]:
        """The SHA-256 of each piece of memory as it is now."""
        hosts = [(buffer.cpu().numpy() if self.on_gpu else buffer, start) for buffer, start in self.buffers]
        sizes = [buffer.size - 2 * ALIGNMENT for buffer, _ in hosts]
        return [
            hashlib.sha256(buffer[start : start + size].tobytes()).hexdigest()
            for (buffer, start), size in zip(hosts, sizes, strict=True)
        ]


def make_launch(memory: Memory) -> dict[str, Any]:
    """What came of the launch: the error's type and message, or the memory's hashes."""
    kernel: Any = importlib.import_module("kernel")
    try:
        kernel.launch(memory.array)
        if memory.on_gpu:
            import torch

            torch.cuda.synchronize()
    except Exception as error:
        message = str(getattr(error, "error_message", error))
        print(f"{type(error).__name__}: {error}\n")
        return {"error": type(error).__name__, "message": message}
    return {"error": None, "memory": memory.digests()}


def compare(recorded: dict[str, Any], found: dict[str, Any]) -> tuple[bool, str]:
    """Whether two outcomes are the same, and what to say of it."""
    wanted, got = recorded["error"], found["error"]
    if wanted != got:
        return False, f"recorded: {wanted or 'no error'}; now: {got or 'no error'}"
    if wanted is not None:
        same = recorded["message"] == found["message"]
        return True, f"reproduced: {wanted}" + ("" if same else f"; the recorded message was\n{recorded['message']}")
    changed = [
        number
        for number, (one, other) in enumerate(zip(recorded["memory"], found["memory"], strict=True))
        if one is not None and one != other
    ]
    if changed:
        return False, f"no error, as recorded, but other results in memory {', '.join(map(str, changed))}"
    return True, "reproduced: no error, and the same results bit by bit"


def main() -> int:
    """Makes the launch and compares; the exit status."""
    folder = Path(__file__).resolve().parent
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description="Makes the launch of this bundle again.")
    parser.add_argument("--executor", choices=["gpu", "sim", "reference"], default=manifest["executor"])
    executor = parser.parse_args().executor
    os.environ["GLUEBALL_EXECUTOR"] = executor
    if executor != "gpu":
        os.environ["GLUEBALL_TARGET"] = manifest["target"]
    sys.path.insert(0, str(folder))
    same, text = compare(manifest["outcome"], make_launch(Memory(folder, manifest, executor)))
    print(text)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
