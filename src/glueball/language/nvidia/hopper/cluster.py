"""What the CTAs of a cluster do together (PTX ISA, `barrier.cluster`)."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require, require_cluster
from glueball.language.module_names import missing


@builtin
def barrier(relaxed: Any = False, *, _builder: KernelBuilder = HIDDEN) -> None:
    """All threads of all CTAs of the cluster wait for one another; `relaxed` without ordering their accesses.

    In a partition those of the same partition of all CTAs do.
    Errors: `ValueError` in a kernel of one CTA a cluster.
    """
    require(_builder, "cluster", "cluster.barrier", "sm_90")
    require_cluster(_builder, "cluster.barrier")
    _builder.create("cluster_barrier", attributes={"relaxed": bool(_unwrap_if_constexpr(relaxed))})


__all__ = ["barrier"]

__getattr__ = missing(__name__, __all__)
