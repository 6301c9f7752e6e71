"""What gfx950 brought beside what gfx942 has: asynchronous copies and scaled products. None of it is there yet."""

from glueball.language.amd import cdna3
from glueball.language.module_names import later, missing

NOT_YET = (
    *cdna3.NOT_YET, "async_copy", "compute_efficient_padded_shared_layout", "get_mfma_scale_layout",
    "load_shared_fp4_repacked", "mfma_scaled", "scaled_downcast",
)  # fmt: skip

__getattr__ = later(__name__, NOT_YET, missing(__name__, NOT_YET))
