"""What NVIDIA GPUs have from compute capability 8.0 on."""

from glueball.language.cache_policies import CachePolicy, FractionalEvictionPolicy
from glueball.language.module_names import missing
from glueball.language.nvidia.ampere import async_copy, mbarrier
from glueball.language.nvidia.matrix import mma_v2

__all__ = ["CachePolicy", "FractionalEvictionPolicy", "async_copy", "mbarrier", "mma_v2"]

__getattr__ = missing(__name__, __all__)
