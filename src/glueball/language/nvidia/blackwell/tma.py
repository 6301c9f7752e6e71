"""Bulk copies of blocks of a tensor, which a unit of its own makes (PTX ISA, `cp.async.bulk.tensor`)."""

from __future__ import annotations

from glueball.language.module_names import later, missing
from glueball.language.nvidia.hopper.tma import (
    async_atomic_add,
    async_atomic_and,
    async_atomic_max,
    async_atomic_min,
    async_atomic_or,
    async_atomic_xor,
    async_copy_global_to_shared,
    async_copy_shared_to_global,
    async_load,
    async_load_im2col,
    async_store,
    make_tensor_descriptor,
    store_wait,
    tensor_descriptor,
    tensor_descriptor_type,
)

__all__ = [
    "async_atomic_add", "async_atomic_and", "async_atomic_max", "async_atomic_min", "async_atomic_or",
    "async_atomic_xor", "async_copy_global_to_shared", "async_copy_shared_to_global", "async_load",
    "async_load_im2col", "async_store", "make_tensor_descriptor", "store_wait", "tensor_descriptor",
    "tensor_descriptor_type",
]  # fmt: skip

__getattr__ = later(__name__, ("async_gather", "async_scatter"), missing(__name__, __all__))
