"""The kernel language: what a kernel author imports as `import glueball.language as gl`.

One Python function per operation; outside of kernels they raise `ValueError`. `glueball.language.names` lists every
name of the language; one that this version lacks raises an error that says so.
"""

from __future__ import annotations

from typing import NoReturn

from glueball.language import _core, _layouts, amd, extra, nvidia, target_info
from glueball.language.aggregate import aggregate_replace
from glueball.language.arithmetic import PropagateNan, add, maximum, minimum, mul, sub, where
from glueball.language.assembly import inline_asm, inline_asm_elementwise
from glueball.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_poll,
    atomic_store,
    atomic_xchg,
    atomic_xor,
)
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.core import (
    arange,
    barrier,
    cast,
    full,
    full_like,
    num_ctas,
    num_programs,
    num_warps,
    program_id,
    to_tensor,
    zeros_like,
)
from glueball.language.debug import device_assert, device_print, expect_zero, static_assert, static_print, static_range
from glueball.language.folds import cumprod, cumsum, max, min, reduce_or, sum, xor_sum
from glueball.language.functions import (
    abs,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from glueball.language.gathers import gather, histogram, map_elementwise
from glueball.language.hints import assume, max_constancy, max_contiguous, multiple_of
from glueball.language.memory import CachePolicy, load, store
from glueball.language.methods import install
from glueball.language.names import unavailable
from glueball.language.packed import fp4_to_fp
from glueball.language.partitions import warp_specialize
from glueball.language.products import dot_fma
from glueball.language.rearranging import join, ravel, reshape, split
from glueball.language.reductions import associative_scan, reduce
from glueball.language.shape import broadcast, convert_layout, expand_dims, permute, set_auto_layout
from glueball.language.shared_memory import (
    allocate_shared_memory,
    bank_conflicts,
    shared_memory_descriptor,
    to_linear_layout,
)
from glueball.language.standard import cdiv, zeros
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple  # noqa: A004 - the name that kernel authors write
from glueball.language.values import base_type, base_value, tuple_type
from glueball.layouts import (
    AutoLayout,
    BlockedLayout,
    CoalescedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
)
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
    shared_memory_descriptor_type,
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
    "pointer_type", "shared_memory_descriptor", "shared_memory_descriptor_type", "tensor", "tuple", "tuple_type",
    # element types
    "bfloat16", "float16", "float32", "float64", "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16",
    "int1", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8", "void",
    # operations
    "add", "arange", "barrier", "broadcast", "cast", "cdiv", "convert_layout", "expand_dims", "full", "load", "maximum",
    "minimum", "mul", "num_ctas", "num_programs", "num_warps", "permute", "program_id", "set_auto_layout",
    "static_assert", "static_print", "static_range", "store", "sub", "to_tensor", "warp_specialize", "where", "zeros",
    # assembly and diagnostics
    "device_assert", "device_print", "expect_zero", "inline_asm", "inline_asm_elementwise",
    # atomic accesses
    "atomic_add", "atomic_and", "atomic_cas", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_poll",
    "atomic_store", "atomic_xchg", "atomic_xor",
    # shapes, reductions and scans
    "associative_scan", "cumprod", "cumsum", "dot_fma", "fp4_to_fp", "gather", "histogram", "join", "map_elementwise",
    "max", "min", "ravel", "reduce", "reduce_or", "reshape", "split", "sum", "xor_sum",
    # functions of numbers and promises about them
    "abs", "assume", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "full_like", "log",
    "log2", "max_constancy", "max_contiguous", "multiple_of", "rsqrt", "sin", "sqrt", "sqrt_rn", "umulhi", "zeros_like",
    # shared memory
    "allocate_shared_memory", "bank_conflicts", "to_linear_layout",
    # submodules
    "_core", "_layouts", "amd", "extra", "nvidia", "target_info",
    # layouts
    "AutoLayout", "BlockedLayout", "CoalescedLayout", "DistributedLinearLayout", "DotOperandLayout",
    "NVMMADistributedLayout", "NVMMASharedLayout", "PaddedSharedLayout", "SharedLinearLayout", "SliceLayout",
    "SwizzledSharedLayout",
    "_unwrap_if_constexpr", "aggregate_replace",
]  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise unavailable(name)
