"""Bulk copies of blocks of a tensor, which a unit of its own makes (PTX ISA, `cp.async.bulk.tensor`)."""

from __future__ import annotations

from glueball.language.module_names import missing, removed
from glueball.language.nvidia.bulk_copies import (
    async_atomic_add,
    async_atomic_and,
    async_atomic_max,
    async_atomic_min,
    async_atomic_or,
    async_atomic_xor,
    async_load,
    async_load_im2col,
    async_store,
    store_wait,
)
from glueball.language.nvidia.made_descriptors import make_tensor_descriptor
from glueball.language.nvidia.tensor_descriptors import tensor_descriptor, tensor_descriptor_im2col
from glueball.tile.types import tensor_descriptor_type

tensor_descriptor_im2col_type = tensor_descriptor_type

async_copy_global_to_shared = removed(__name__, "async_copy_global_to_shared", "async_load")
async_copy_global_to_shared_im2col = removed(__name__, "async_copy_global_to_shared_im2col", "async_load_im2col")
async_copy_shared_to_global = removed(__name__, "async_copy_shared_to_global", "async_store")

__all__ = [
    "async_atomic_add", "async_atomic_and", "async_atomic_max", "async_atomic_min", "async_atomic_or",
    "async_atomic_xor", "async_copy_global_to_shared", "async_copy_global_to_shared_im2col",
    "async_copy_shared_to_global", "async_load", "async_load_im2col", "async_store", "make_tensor_descriptor",
    "store_wait",
    "tensor_descriptor", "tensor_descriptor_im2col", "tensor_descriptor_im2col_type", "tensor_descriptor_type",
]  # fmt: skip

__getattr__ = missing(__name__, __all__)
