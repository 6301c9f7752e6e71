"""What NVIDIA GPUs have from compute capability 10.0 on; so far what they have in common with those of 9.0."""

from glueball.language.module_names import later, missing
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

__all__ = [
    "CachePolicy", "FractionalEvictionPolicy", "async_copy", "async_store", "cluster", "fence_async_shared", "mbarrier",
    "mma_v2", "tma",
]  # fmt: skip

NOT_YET = (
    "TensorMemoryLayout", "TensorMemoryScalesLayout", "_TensorMemoryLinearLayout", "add2", "allocate_tensor_memory",
    "clc", "fma2", "get_tmem_reg_layout", "max2", "min2", "mul2", "sub2", "tcgen05_commit", "tcgen05_copy",
    "tcgen05_mma", "tcgen05_mma_barrier_count", "tcgen05_mma_scaled", "tensor_memory_descriptor",
    "tensor_memory_descriptor_type",
)  # fmt: skip

__getattr__ = later(__name__, NOT_YET, missing(__name__, __all__))
