"""Stores into the shared memory of other CTAs that an mbarrier there counts (PTX ISA, `st.async`)."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require, require_cluster
from glueball.language.nvidia.words import word_argument
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor


@builtin
def async_store(dst: Any, value: Any, mbarrier: Any, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Starts to store a tile into a view whose parts lie in several CTAs, each with an mbarrier that counts the bytes.

    Errors: `ValueError` for what is no view, no tile or no mbarrier, for other shapes or element types, and in a kernel
    of one CTA a cluster; `LayoutError` where view or mbarrier are in several CTAs alike, and where a thread has less
    than 4 bytes that lie side by side in the view.
    """
    require(_builder, "cluster", "async_store", "sm_90")
    if not isinstance(dst, shared_memory_descriptor):
        raise ValueError(f"expected 'dst' to be a view of shared memory, but got {_unwrap_if_constexpr(dst)!r}")
    if not isinstance(value, tensor):
        raise ValueError(f"expected 'value' to be a tile, but got {_unwrap_if_constexpr(value)!r}")
    word = word_argument(mbarrier, "mbarrier")
    if tuple(value.extents) != dst.type.shape:
        raise ValueError(f"expected dst shape to match value shape but got {list(dst.type.shape)} and {value.extents}")
    if value.dtype != dst.dtype:
        raise ValueError(f"expected dst dtype to match value dtype but got {dst.dtype} and {value.dtype}")
    require_cluster(_builder, "async_store")
    _builder.create("async_store", [dst.handle, value.handle, word.handle])
