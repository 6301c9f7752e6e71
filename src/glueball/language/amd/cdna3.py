"""What gfx942 brought: buffer accesses, matrix products, products by a scale. None of it is there yet."""

from glueball.language.module_names import later, missing

NOT_YET = (
    "buffer_atomic_add", "buffer_atomic_and", "buffer_atomic_max", "buffer_atomic_min", "buffer_atomic_or",
    "buffer_atomic_xchg", "buffer_atomic_xor", "buffer_load", "buffer_store", "get_scaled_upcast_fp4_scale_layout",
    "mfma", "scaled_upcast",
)  # fmt: skip

__getattr__ = later(__name__, NOT_YET, missing(__name__, NOT_YET))
