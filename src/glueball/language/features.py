"""Refuses an operation that the target, or the launch, does not have, by name."""

from __future__ import annotations

from glueball.errors import TargetError
from glueball.language.builder import KernelBuilder


def require(builder: KernelBuilder, feature: str, operation: str, since: str) -> None:
    """`TargetError` where the target lacks a feature; `since` says which targets have it."""
    if not builder.target.supports(feature):
        raise TargetError(f"`{operation}` needs {since}, and the kernel is compiled for {builder.target.name}")


def require_cluster(builder: KernelBuilder, operation: str) -> None:
    """`ValueError` in a kernel of one CTA a cluster."""
    if builder.num_ctas == 1:
        raise ValueError(f"`{operation}` requires num_ctas > 1: a cluster of at least two CTAs")
