"""Operands and attributes with which the records of asynchronous work on NVIDIA targets are compiled."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from glueball.thread.nvidia.bulk_tensor import REDUCTIONS

Case = tuple[tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A priority in the second-level cache."""

    primary: str = "evict_first"
    fraction: float = 0.5
    secondary: str = "evict_unchanged"


WORD = {"allocation": "buffer", "offset": 8}
PLACES = {"allocation": "buffer", "offset": 1024, "barrier_allocation": "buffer", "barrier_offset": 16, "box": 512}
POLICIES = (None, Policy(), Policy("evict_last", 1.0, "evict_first"))


def _loads() -> list[Case]:
    cases: list[Case] = []
    for rank, policy in itertools.product(range(1, 6), POLICIES):
        for im2col in (False, True) if rank >= 3 else (False,):
            places = ("i32",) * (rank + (rank - 2 if im2col else 0))
            attributes = {**PLACES, "rank": rank, "im2col": im2col, "cache_policy": policy}
            cases.append((("i64", "i32", "i32", "i1", *places), attributes))
            cases.append((("i64", "i32", "i32", "i1", *places, "i32"), {**attributes, "multicast": True}))
    return cases


def _stores() -> list[Case]:
    return [
        (
            ("i64", "i32", "i1", *(("i32",) * rank)),
            {"allocation": "buffer", "offset": 128, "rank": rank, "reduction": reduction, "cache_policy": policy},
        )
        for rank, reduction, policy in itertools.product(range(1, 6), (None, *REDUCTIONS), POLICIES)
    ]


def _remote(operands: tuple[str, ...], *, store: bool) -> list[Case]:
    """Accesses of 4, 8 and 16 bytes in another CTA, with and without a mask."""
    cases: list[Case] = []
    for kind, count, masked in itertools.product(("i32", "bf16", "f32"), (1, 2, 4), (False, True)):
        if kind == "bf16" and count == 1:
            continue
        places = {**PLACES, "remote": True, "masked": masked, "type": kind, "count": count}
        mask = ("i1",) if masked else ()
        values = (kind,) * count if store else ()
        cases.append(((*operands, *mask, *values), places if store else {**places, "replaced": False}))
    return cases


CLUSTERS: dict[str, list[Case]] = {
    "cta_rank": [((), {})],
    "cluster_barrier": [
        *(((), {"relaxed": relaxed}) for relaxed in (False, True)),
        *((("i32", "i32"), {**WORD, "relaxed": False, "threads": 128, "ctas": ctas}) for ctas in (2, 16)),
    ],
    "fence_mbarrier_init": [(("i1",), {})],
    "remote_load": _remote(("i32", "i32"), store=False),
    "store_async": _remote(("i32", "i32", "i32"), store=True),
    "grid_dependency_wait": [((), {})],
    "grid_launch_dependents": [((), {})],
}

ASYNCHRONOUS: dict[str, list[Case]] = {
    "elect": [((), {})],
    "mbarrier_init": [(("i32", "i1"), {**WORD, "count": count}) for count in (1, 2, (1 << 20) - 1)],
    "mbarrier_invalidate": [(("i32", "i1"), WORD)],
    "mbarrier_arrive": [(("i32", "i1"), {**WORD, "count": count}) for count in (1, 3)],
    "mbarrier_expect": [(("i32", "i1"), {**WORD, "bytes": 4096})],
    "mbarrier_wait": [(("i32", "i32", "i1"), WORD)] * 2,
    "mbarrier_copy_arrive": [(("i32",), {**WORD, "increment": increment}) for increment in (False, True)],
    "bulk_tensor_load": _loads(),
    "bulk_tensor_store": _stores(),
    "bulk_commit_group": [((), {})],
    "bulk_wait_group": [((), {"pending": pending, "read_only": only}) for pending in (0, 2) for only in (False, True)],
    "fence_proxy_async": [((), {"cluster": cluster}) for cluster in (False, True)],
    **CLUSTERS,
}
