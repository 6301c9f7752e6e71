"""Compile time from launch to machine code, warm process, empty cache: glueball beside Gluon.

    CUDA_CACHE_DISABLE=1 python benchmarks/compile.py

Each sample compiles a fresh copy of the kernel module, whose source differs by a comment, after one warm-up compile.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["CUDA_CACHE_DISABLE"] = "1"
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
os.environ["GLUEBALL_CACHE_DIR"] = tempfile.mkdtemp()

import peer
import torch
from report import interleaved, print_rows, row, write

from glueball.kernels import copy
from glueball.kernels.ladder import RUNGS, Rung, tensors

NAMES = ("b4", "f-converted")
counter = iter(range(1_000_000))


def fresh(ours: bool) -> ModuleType:
    """A new copy of the kernel module that no cache has seen."""
    source = inspect.getsource(copy) + f"\n# {next(counter)} {time.time_ns()}\n"
    source = source.replace("def copy_1d(", f"def copy_1d(  # {time.time_ns()}\n   ")
    source = source.replace("def copy_converting(", f"def copy_converting(  # {time.time_ns()}\n   ")
    if not ours:
        return peer.translated(source, f"peer_{next(counter)}")
    path = Path(tempfile.mkdtemp()) / f"ours_{next(counter)}.py"
    path.write_text(source)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def sample(rung: Rung, ours: bool, source: Any, destination: Any) -> float:
    """Milliseconds of the first launch of a fresh kernel, device work finished."""
    launch = rung.launch(source, destination, 32)
    kernel = getattr(fresh(ours), launch.kernel.__name__)
    keywords = launch.keywords if ours else peer.peer_keywords(launch.keywords)
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernel[launch.grid](*launch.arguments, **keywords)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Measures both rungs and writes the result file."""
    rows = []
    have_peer = peer.peer_module() is not None
    for rung in RUNGS:
        if rung.name not in NAMES:
            continue
        source, destination = tensors(rung.view, lambda shape: torch.randn(shape, device="cuda"), 512, 512)
        sides = {"glueball": partial(sample, rung, True, source, destination)}
        if have_peer:
            sides["gluon"] = partial(sample, rung, False, source, destination)
        for side in sides.values():
            side()
        rows.append(row(f"compile-{rung.name}", "ms", interleaved(sides, 7), higher_is_better=False))
        print_rows(rows[-1:])
    print(f"written: {write('compile.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
