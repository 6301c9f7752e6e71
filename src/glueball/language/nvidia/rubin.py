"""What NVIDIA GPUs have from compute capability 10.7 on; so far what they have in common with those of 9.0."""

from glueball.language.module_names import later, missing
from glueball.language.nvidia import blackwell
from glueball.language.nvidia.blackwell import (
    CachePolicy,
    FractionalEvictionPolicy,
    async_copy,
    async_store,
    cluster,
    fence_async_shared,
    mbarrier,
    mma_v2,
    tma,
)

__all__ = [
    "CachePolicy", "FractionalEvictionPolicy", "async_copy", "async_store", "cluster", "fence_async_shared", "mbarrier",
    "mma_v2", "tma",
]  # fmt: skip

NOT_YET = (*blackwell.NOT_YET, "add4", "fma4", "mul4", "sub4")

__getattr__ = later(__name__, NOT_YET, missing(__name__, __all__))
