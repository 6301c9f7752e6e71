"""Launches, on matrices of exact numbers, of the cluster kernels into which faults are planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import glueball.language as gl
from glueball.kernels.cluster_rows import ClusterRowPlan, launch_rms_norm_split, launch_softmax_split
from glueball.kernels.ladder import Launch
from glueball.nvidia.hopper import TensorDescriptor
from tests.kernels import cluster_kernels as kernels
from tests.sim.faulty_kernels import DEEP, numbers

CTAS = 2
ROWS, COLUMNS = (gl.BlockedLayout([1, 2], [1, 32], [2, 2], [1, 0], bases) for bases in ([[1, 0]], [[0, 1]]))
LINE = gl.BlockedLayout([2], [32], [4], [0], [[1]])
SPLIT = gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]])
ALIKE = [[0, 0]]


def launched(kernel: Any, *arguments: Any) -> Launch:
    """One program of two CTAs."""
    return Launch(kernel, (1,), arguments, {"num_ctas": CTAS}, 0)


def described(array: Any, block: list[int], bases: list[list[int]]) -> TensorDescriptor:
    """A descriptor whose blocks are spread over CTAs by some bases."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16, cga_layout=bases)
    return TensorDescriptor.from_tensor(array, block, layout)


def tiles() -> tuple[Any, Any]:
    """What a program copies tile by tile, and where."""
    return numbers((16 * DEEP, 64), np.float16), numbers((16 * DEEP, 64), np.float16, 1)


def copied() -> Launch:
    """Tiles that one copy brings to both CTAs."""
    x, y = tiles()
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], ALIKE)
    block = [16, 64]
    return launched(kernels.copied, described(x, block, ALIKE), described(y, block, ALIKE), DEEP, True, layout)


def ring() -> Launch:
    """A ring that one CTA fills for both."""
    x, y = tiles()
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    return launched(kernels.shared_ring, described(x, [16, 64], ALIKE), y, DEEP, 2, layout)


def partitions() -> Launch:
    """Loading warps, and others that meet at cluster barriers."""
    x, y = tiles()
    layout = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], ALIKE)
    return launched(kernels.in_partitions, described(x, [16, 64], ALIKE), y, DEEP, True, layout)


def product() -> Launch:
    """Each CTA multiplies its rows by the columns that one copy brings to both."""
    a, b, c = (numbers(shape, np.float16, seed) for seed, shape in enumerate([(128, 192), (192, 64), (128, 64)]))
    rows, layout = [[1, 0]], gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], [[1, 0]])
    operands = described(a, [128, 64], rows), described(b, [64, 64], ALIKE), described(c, [128, 64], rows)
    return launched(kernels.multiplied, *operands, layout, True)


def row_plan() -> ClusterRowPlan:
    """One cluster has all the rows, through a ring of two."""
    return ClusterRowPlan(CTAS, 4, 2, DEEP)


def softmax() -> Launch:
    return launch_softmax_split(numbers((DEEP, 512), np.float32), numbers((DEEP, 512), np.float32, 1), row_plan())


def norm() -> Launch:
    x, weight, y = numbers((DEEP, 512), np.float32), numbers((512,), np.float32, 1), numbers((DEEP, 512), np.float32)
    return launch_rms_norm_split(x, weight, y, numbers((DEEP,), np.float32), 1e-5, row_plan())


def vector(size: int, dtype: Any = np.int32) -> Any:
    return numbers((size,), dtype)


CLUSTER_KERNELS: dict[str, Callable[[], Launch]] = {
    "softmax": softmax,
    "norm": norm,
    "copied": copied,
    "product": product,
    "ring": ring,
    "partitions": partitions,
    "arrivals": lambda: launched(kernels.passed_on, vector(256), vector(256), DEEP, 0, LINE, 256),
    "pair": lambda: launched(kernels.shared_barrier, vector(256), vector(256), LINE, 256),
    "sent": lambda: launched(kernels.sent, vector(256, np.float32), vector(256, np.float32), LINE, SPLIT, LINE, 256),
    "sum": lambda: launched(kernels.whole_sum, vector(2048, np.float32), vector(1, np.float32), LINE, 2048),
    "conversions": lambda: launched(
        kernels.converted_in_turns, vector(2048), vector(2048), 2, ROWS, COLUMNS, 32, 64
    ),
}  # fmt: skip
