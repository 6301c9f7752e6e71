"""What NVIDIA GPUs have from compute capability 10.0 on; so far what they have in common with those of 9.0."""

from glueball.language.nvidia.blackwell import tma
from glueball.language.nvidia.hopper import (
    CachePolicy,
    FractionalEvictionPolicy,
    async_copy,
    async_store,
    cluster,
    fence_async_shared,
    mbarrier,
    mma_v2,
)
from glueball.language.nvidia.names import missing

__all__ = [
    "CachePolicy", "FractionalEvictionPolicy", "async_copy", "async_store", "cluster", "fence_async_shared", "mbarrier",
    "mma_v2", "tma",
]  # fmt: skip

__getattr__ = missing(__name__, __all__)
