"""The kernel language: what a kernel author imports as `import glueball.language as gl`.

One Python function per operation; outside of kernels they raise `ValueError`. `glueball.language.names` lists every
name of the language; one that this version lacks raises an error that says so.
"""

from __future__ import annotations

from typing import NoReturn

from glueball.language.arithmetic import PropagateNan, add, maximum, minimum, mul, sub, where
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.core import (
    arange,
    barrier,
    cast,
    full,
    num_ctas,
    num_programs,
    num_warps,
    program_id,
    to_tensor,
)
from glueball.language.debug import static_assert, static_print, static_range
from glueball.language.memory import CachePolicy, load, store
from glueball.language.methods import install
from glueball.language.names import unavailable
from glueball.language.shape import broadcast, convert_layout, expand_dims, permute
from glueball.language.standard import cdiv, zeros
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple  # noqa: A004 - the name that kernel authors write
from glueball.language.values import base_type, base_value, tuple_type
from glueball.layouts import BlockedLayout, DistributedLinearLayout, SliceLayout
from glueball.tile.types import (
    bfloat16,
    block_type,
    distributed_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)

install()

__all__ = [
    # types
    "CachePolicy", "PropagateNan", "base_type", "base_value", "block_type", "constexpr", "distributed_type", "dtype",
    "pointer_type", "tensor", "tuple", "tuple_type",
    # element types
    "bfloat16", "float16", "float32", "float64", "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16",
    "int1", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8", "void",
    # operations
    "add", "arange", "barrier", "broadcast", "cast", "cdiv", "convert_layout", "expand_dims", "full", "load", "maximum",
    "minimum", "mul", "num_ctas", "num_programs", "num_warps", "permute", "program_id", "static_assert",
    "static_print", "static_range", "store", "sub", "to_tensor", "where", "zeros",
    # layouts
    "BlockedLayout", "DistributedLinearLayout", "SliceLayout",
    "_unwrap_if_constexpr",
]  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise unavailable(name)
