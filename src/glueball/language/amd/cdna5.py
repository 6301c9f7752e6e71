"""What gfx1250 brought: copies by a unit of its own, mbarriers, clusters, matrix products. A layout is there so far."""

from glueball.language.module_names import later, missing
from glueball.layouts import PartitionedSharedLayout

__all__ = ["PartitionedSharedLayout"]

NOT_YET = (
    "async_copy", "buffer_load", "buffer_store", "cluster", "get_scaled_upcast_fp4_scale_layout",
    "get_wmma_scale_layout", "load_shared_fp4_repacked", "make_partitioned_dot_layouts", "mbarrier", "scaled_downcast",
    "scaled_upcast", "tdm", "wmma", "wmma_scaled",
)  # fmt: skip

__getattr__ = later(__name__, NOT_YET, missing(__name__, (*__all__, *NOT_YET)))
