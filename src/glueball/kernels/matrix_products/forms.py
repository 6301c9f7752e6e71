"""How a product is computed, and what its kernel is compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to compute a product.

    `kind` is "specialized" (warp groups and bulk copies), "direct" (plain loads, matrix instructions of warps) or
    "vector" (one row). `block` is the tile's (M, N, K), `group` the tiles that go down before one goes across, `splits`
    the programs that share a tile, `stages`, `parts` and `chunks` as of `Form`. `programs` are those
    of a persistent kernel, 0 for as many as the machine holds at a time.

    `swapped`: the transposed product is computed, whose columns are few where the rows are. `tail`: only those tiles
    are split that would leave programs idle in the end. `ctas`: 1, or 2 that work on a tile together, each on half of
    the rows, and get the operand of the columns in one copy.
    """

    kind: str
    block: tuple[int, int, int]
    group: int = 8
    splits: int = 1
    stages: int = 4
    parts: int = 2
    chunks: int = 1
    programs: int = 0
    swapped: bool = False
    tail: bool = False
    ctas: int = 1


class Form(NamedTuple):
    """The compile-time side of a product.

    `block_m` x `block_n` is a tile of the product, `block_k` the step along K. Tiles go down `group` rows of tiles
    before they go a column on; each is the sum of `splits` parts of K that different programs work on, or where `tail`
    only those are that the programs cannot share evenly.

    `a_turned`: the rows of `a` are its last dimension in memory; likewise the inner dimension for `b`.
    `a_batched` and `b_batched` are 0 where the only matrix serves all batches, else 1.

    Of warp groups: `stages` of the ring, `parts` groups that multiply, `chunks` in which each stores its columns, and
    `ctas` of a cluster, each of which has an equal share of the rows of every part.
    `c_type` and `c_layout`: element type and layout of shared memory for a piece of the result. `store_layout`: None
    where bulk copies store it, else how threads do.

    `a_layout`, `b_layout` (tiles as they are loaded), `a_shared`, `b_shared`, `sum_layout`: of the kernels that load.

    `rows_scaled` and `columns_scaled`: whether each row and column has a scale of its own, if there are any;
    `bias_axis` 0 for a bias of rows, 1 for one of columns; `activation` "", "relu", "gelu" or "silu".
    """

    block_m: int
    block_n: int
    block_k: int
    group: int = 8
    splits: int = 1
    a_turned: bool = False
    b_turned: bool = False
    a_batched: int = 1
    b_batched: int = 1
    stages: int = 4
    parts: int = 2
    chunks: int = 1
    c_type: Any = None
    c_layout: Any = None
    store_layout: Any = None
    a_layout: Any = None
    b_layout: Any = None
    a_shared: Any = None
    b_shared: Any = None
    sum_layout: Any = None
    rows_scaled: bool = False
    columns_scaled: bool = False
    bias_axis: int = 1
    activation: str = ""
    tail: bool = False
    ctas: int = 1
