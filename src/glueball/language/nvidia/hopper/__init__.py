"""What NVIDIA GPUs have from compute capability 9.0 on."""

from glueball.language.module_names import missing
from glueball.language.nvidia.ampere import CachePolicy, FractionalEvictionPolicy, async_copy
from glueball.language.nvidia.cluster_stores import async_store
from glueball.language.nvidia.hopper import cluster, mbarrier, tma
from glueball.language.nvidia.matrix import mma_v2
from glueball.language.nvidia.proxies import fence_async_shared
from glueball.language.nvidia.warpgroup import (
    warpgroup_mma,
    warpgroup_mma_accumulator,
    warpgroup_mma_accumulator_type,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

__all__ = [
    "CachePolicy", "FractionalEvictionPolicy", "async_copy", "async_store", "cluster", "fence_async_shared", "mbarrier",
    "mma_v2", "tma", "warpgroup_mma", "warpgroup_mma_accumulator", "warpgroup_mma_accumulator_type",
    "warpgroup_mma_init", "warpgroup_mma_wait",
]  # fmt: skip

__getattr__ = missing(__name__, __all__)
