"""The steps of `gemm_steps`: how each is launched, and what it should cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from glueball.kernels import gemm_steps
from glueball.kernels.ladder import Launch, strides_of
from glueball.language import NVMMASharedLayout
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.host_functions import cdiv

ITEM_BYTES = 2
CYCLES_A_SECOND = 1.35e9
"""The clock that an H200 keeps while its matrix units work on random numbers."""
MULTIPROCESSORS = 132
SHARED_RATE = 128
"""Bytes a cycle that a multiprocessor's shared memory gives."""
CACHE_RATE = 60
"""Bytes a cycle that a multiprocessor gets of the second-level cache."""
PLAIN_PRODUCTS = 128
"""Multiply-adds a cycle of a multiprocessor without matrix units."""
WARP_PRODUCTS = 1024
"""16-bit multiply-adds a cycle by matrix instructions of single warps."""
GROUP_PRODUCTS = 2048
"""16-bit multiply-adds a cycle by those of warp groups."""
LATENCY = 900
"""Cycles from a load of global memory to its use."""
START = 1000
"""Cycles from the end of one program to the start of the next on a multiprocessor that holds one."""
STORE = 1000
"""Cycles that a tile of 128 x 256 sums takes to shared memory, and from there on its way."""
DEPTH = 4096
"""The K for which rates are predicted."""


@dataclass(frozen=True, slots=True)
class Step:
    """One version: its name, its idea, its kernel in `gemm_steps`, the tile (M, N, K), the warps that multiply.

    `operands` is "pointers" or "descriptors"; `keywords` are the kernel's further compile-time parameters;
    `persistent`: a program a multiprocessor; `c_rows`: rows of the result that one bulk copy stores, 0 for the tile's.
    `products` are multiply-adds a cycle, `resident` programs that a multiprocessor holds; `overlapped`: copies and
    products of a program run at the same time; `exposed` are the cycles of a tile beside its steps that nothing hides.
    """

    name: str
    idea: str
    kernel: str
    block: tuple[int, int, int]
    warps: int
    operands: str
    keywords: dict[str, int]
    persistent: bool
    products: int
    resident: int
    overlapped: bool
    exposed: int = 0
    c_rows: int = 0


STEPS: tuple[Step, ...] = (
    Step("v0", "plain loads, multiply-adds", "multiply_naive", (64, 64, 16), 4, "pointers", {}, False,
         PLAIN_PRODUCTS, 4, False),
    Step("v1", "tiles through shared memory", "multiply_shared", (64, 64, 32), 4, "pointers", {}, False,
         PLAIN_PRODUCTS, 4, False),
    Step("v2", "matrix instructions", "multiply_matrix_units", (128, 128, 64), 8, "pointers", {}, False,
         WARP_PRODUCTS, 2, False),
    Step("v3", "copies ahead of the products", "multiply_copied", (128, 128, 64), 8, "pointers", {"STAGES": 3}, False,
         WARP_PRODUCTS, 2, True),
    Step("v4", "warp groups", "multiply_warp_group", (128, 256, 64), 8, "pointers", {}, False,
         GROUP_PRODUCTS, 1, False, START + STORE),
    Step("v5", "bulk copies", "multiply_bulk", (128, 256, 64), 8, "descriptors", {"WARPS": 8}, False,
         GROUP_PRODUCTS, 1, False, START + STORE),
    Step("v6", "a ring of stages", "multiply_pipelined", (128, 256, 64), 8, "descriptors", {"STAGES": 4, "WARPS": 8},
         False, GROUP_PRODUCTS, 1, True, START + LATENCY + STORE),
    Step("v7", "persistent programs", "multiply_persistent", (128, 256, 64), 8, "descriptors",
         {"GROUP": 8, "STAGES": 3, "WARPS": 8}, True, GROUP_PRODUCTS, 1, True, STORE),
    Step("v8", "a copying warp", "multiply_specialized", (128, 256, 64), 4, "descriptors", {"GROUP": 8, "STAGES": 3},
         True, GROUP_PRODUCTS, 1, True, STORE // 2, 64),
)  # fmt: skip


def launch(
    step: Step, a: Any, b: Any, c: Any, *, programs: int = MULTIPROCESSORS, module: ModuleType = gemm_steps,
    describe: Callable[[Any, list[int]], Any] | None = None, **changes: int,
) -> Launch:  # fmt: skip
    """The launch of a step on matrices of 16-bit floats.

    `programs` are those of a persistent step. `module` has the kernels, and `describe(matrix, block)` makes descriptors
    for them, where they are not glueball's own. `changes` replace the step's keywords.
    """
    height, width, depth = step.block
    (rows, inner), columns = a.shape, b.shape[1]
    tiles = cdiv(rows, height), cdiv(columns, width)
    keywords = {**step.keywords, **changes, "num_warps": step.warps}
    if step.operands == "pointers":
        strides = (strides_of(matrix)[0] for matrix in (a, b, c))
        arguments: tuple[Any, ...] = (a, b, c, rows, columns, inner, *strides)
        keywords = {"BM": height, "BN": width, "BK": depth, **keywords}
    else:
        make = describe or described
        arguments = make(a, [height, depth]), make(b, [depth, width]), make(c, [step.c_rows or height, width])
    grid = (min(programs, tiles[0] * tiles[1]),) if step.persistent else tiles
    moved = ITEM_BYTES * (rows * inner + inner * columns + rows * columns)
    return Launch(getattr(module, step.kernel), grid, arguments, keywords, moved)


def described(matrix: Any, block: list[int]) -> TensorDescriptor:
    """The descriptor of a matrix of 16-bit floats."""
    layout = NVMMASharedLayout(swizzle_byte_width=min(128, ITEM_BYTES * block[1]), element_bitwidth=16, rank=2)
    return TensorDescriptor.from_tensor(matrix, block, layout)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step of K asks of a multiprocessor: cycles of each resource, and what all of it comes to.

    `products`: of the units that multiply; `shared`: of shared memory for their operands; `cache`: of the bytes from
    the second-level cache; `rate`: the predicted TFLOP/s of an H200 at K = 4096; `bound`: what takes longest.
    """

    products: float
    shared: float
    cache: float
    rate: float
    bound: str


def cost(step: Step) -> Cost:
    """The cost of one step along K of a tile, and the rate of a whole tile."""
    height, width, depth = step.block
    amount = height * width * depth
    products = amount / step.products
    cache = (height + width) * depth * ITEM_BYTES / CACHE_RATE
    shared = shared_bytes(step) / SHARED_RATE
    parts = {"products": products, "shared memory": shared, "second-level cache": cache}
    if step.name == "v0":
        del parts["second-level cache"]
    busiest = max(parts, key=lambda name: parts[name])
    if step.overlapped:
        cycles = parts[busiest]
    else:
        alone = LATENCY + sum(parts.values())
        cycles = max(parts[busiest], alone / step.resident)
        busiest = "waiting for copies" if alone / step.resident > parts[busiest] else busiest
    steps = DEPTH // depth
    rate = 2 * amount * steps / (cycles * steps + step.exposed) * MULTIPROCESSORS * CYCLES_A_SECOND / 1e12
    return Cost(products, shared, cache, rate, busiest)


def shared_bytes(step: Step) -> float:
    """Bytes that a step along K moves out of shared memory, or of the first-level cache in v0."""
    height, width, depth = step.block
    if step.products == PLAIN_PRODUCTS:
        # Squares of 4 x 4: eight operands for sixteen products, and lanes of a warp share half of them.
        return height * width * depth * ITEM_BYTES * (1 / 4 + 1 / 4) * (0.25 if step.name == "v1" else 1)
    if step.products == WARP_PRODUCTS:
        # A warp's eighth of the tile needs a quarter of the rows and half of the columns.
        return 8 * (height / 4 + width / 2) * depth * ITEM_BYTES
    return (height + 2 * width) * depth * ITEM_BYTES  # each group of 64 rows reads all columns
