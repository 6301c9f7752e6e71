"""Host time of one launch of an empty kernel of three tensor descriptors, glueball beside Gluon.

    python benchmarks/descriptor_launch.py

`held` passes the same descriptors each time, `moved` gives one of them another base before every launch, `fresh` makes
all three anew, as programs do that describe their tensors where they launch. As `launch.py` measures.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import peer
import torch
from launch import Side, measure
from report import print_rows, write

import glueball
import glueball.language as gl
from glueball.nvidia.hopper import TensorDescriptor

SOURCE = """import glueball


@glueball.jit
def empty(a, b, c):
    pass
"""
BLOCK = [64, 64]


@glueball.jit
def empty(a, b, c):
    pass


def sides(kernel: Any, describe: Callable[[torch.Tensor], Any]) -> dict[str, Side]:
    """The ways of launching a kernel with descriptors that a function makes."""
    tensors = [torch.zeros(256, 256, device="cuda", dtype=torch.float16) for _ in range(4)]
    held = tuple(describe(tensor) for tensor in tensors[:3])

    def moved(base: torch.Tensor) -> None:
        held[0].base = base
        kernel[(1,)](*held)

    def fresh() -> None:
        kernel[(1,)](*map(describe, tensors[:3]))

    return {
        "held": Side(kernel, [held]),
        "moved": Side(moved, [(tensors[0],), (tensors[3],)], is_bound=True),
        "fresh": Side(fresh, [()], is_bound=True),
    }


def main() -> None:
    """Measures every row and writes the result file."""
    layout = gl.NVMMASharedLayout(128, 16)
    found = {"glueball": sides(empty, lambda tensor: TensorDescriptor.from_tensor(tensor, BLOCK, layout))}
    if peer.peer_module() is not None:
        theirs = importlib.import_module("triton.experimental.gluon.nvidia.hopper").TensorDescriptor
        language = importlib.import_module("triton.experimental.gluon.language")
        other = language.NVMMASharedLayout(128, 16)
        kernel = peer.translated(SOURCE, "gluon_empty_descriptors").empty
        found["gluon"] = sides(kernel, lambda tensor: theirs.from_tensor(tensor, BLOCK, other))
    rows = measure(
        {
            f"{way}-3-descriptors": {side: ways[way] for side, ways in found.items()}
            for way in ("held", "moved", "fresh")
        }
    )
    print_rows(rows)
    print(f"written: {write('descriptor_launch.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
