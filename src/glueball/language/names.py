"""Every name of the language, and what is said of one that is not there."""

from __future__ import annotations

from glueball.errors import did_you_mean

NAMES: dict[str, tuple[str, ...]] = {
    "types": (
        "base_value", "base_type", "block_type", "dtype", "pointer_type", "tensor", "tuple", "tuple_type", "constexpr",
        "distributed_type", "shared_memory_descriptor", "shared_memory_descriptor_type", "CachePolicy",
    ),
    "element types": (
        "void", "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float8e5",
        "float8e5b16", "float8e4nv", "float8e4b8", "float8e4b15", "float16", "bfloat16", "float32", "float64",
    ),
    "helpers": ("_unwrap_if_constexpr", "aggregate_replace", "PropagateNan"),
    "core": (
        "add", "allocate_shared_memory", "arange", "associative_scan", "assume", "atomic_add", "atomic_and",
        "atomic_cas", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_poll", "atomic_store",
        "atomic_xchg", "atomic_xor", "bank_conflicts", "barrier", "broadcast", "cast", "clamp", "convert_layout",
        "device_assert", "device_print", "dot_fma", "expand_dims", "expect_zero", "fp4_to_fp", "full", "gather",
        "histogram", "inline_asm", "inline_asm_elementwise", "join", "load", "map_elementwise", "max_constancy",
        "max_contiguous", "maximum", "minimum", "mul", "multiple_of", "num_ctas", "num_programs", "num_warps",
        "permute", "program_id", "reduce", "reshape", "set_auto_layout", "split", "static_assert", "static_print",
        "static_range", "store", "sub", "to_linear_layout", "to_tensor", "warp_specialize", "where",
    ),
    "layouts": (
        "AutoLayout", "BlockedLayout", "CoalescedLayout", "DistributedLinearLayout", "DotOperandLayout",
        "NVMMADistributedLayout", "NVMMASharedLayout", "PaddedSharedLayout", "SharedLinearLayout", "SliceLayout",
        "SwizzledSharedLayout",
    ),
    "math": (
        "abs", "ceil", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma", "log", "log2", "rsqrt", "sin",
        "sqrt", "sqrt_rn", "umulhi",
    ),
    "standard": (
        "cdiv", "cumprod", "cumsum", "full_like", "max", "min", "ravel", "reduce_or", "sum", "xor_sum", "zeros",
        "zeros_like",
    ),
    "submodules": ("nvidia", "amd", "extra", "fpsan", "target_info", "_core", "_layouts"),
}  # fmt: skip

METHODS = (
    "T", "abs", "argmax", "argmin", "associative_scan", "atomic_add", "atomic_and", "atomic_cas", "atomic_load",
    "atomic_max", "atomic_min", "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg", "atomic_xor", "broadcast_to",
    "cast", "cdiv", "ceil", "cos", "cumprod", "cumsum", "dtype", "erf", "exp", "exp2", "expand_dims", "floor", "gather",
    "histogram", "item", "log", "log2", "logical_and", "logical_or", "max", "min", "numel", "permute", "ravel",
    "reduce", "reduce_or", "reshape", "rsqrt", "shape", "sigmoid", "sin", "softmax", "split", "sqrt", "sqrt_rn",
    "store", "sum", "to", "trans", "type", "xor_sum",
)  # fmt: skip

REPLACEMENTS = {
    "dot": "gl.dot_fma, or the matrix operations of the vendor modules",
    "trans": "the method x.trans()",
    "broadcast_to": "the method x.broadcast_to(shape)",
    "item": "the method x.item()",
    "range": "Python's range",
    "debug_barrier": "gl.barrier",
    "view": "gl.reshape",
    "cat": "gl.join and gl.reshape",
    "make_tensor_descriptor": "the tensor descriptors of the vendor modules",
    "make_block_ptr": "pointer arithmetic",
    "constexpr_function": "glueball.constexpr_function",
    "must_use_result": "glueball.must_use_result",
}


class UnavailableNameError(AttributeError, NotImplementedError):
    """A name that the language has but this version does not, or that the language does not have."""


def unavailable(name: str) -> UnavailableNameError:
    """The error for a name that `glueball.language` does not have, saying which of its kinds it is."""
    if any(name in group for group in NAMES.values()):
        return UnavailableNameError(f"`gl.{name}` is not there yet in this version of glueball")
    if name in REPLACEMENTS:
        return UnavailableNameError(f"the language has no `gl.{name}`; use {REPLACEMENTS[name]}")
    known = [f"gl.{each}" for group in NAMES.values() for each in group]
    return UnavailableNameError(f"the language has no `gl.{name}`{did_you_mean(f'gl.{name}', known)}")


def unavailable_method(name: str) -> UnavailableNameError:
    """The error for an attribute that a tensor does not have."""
    return UnavailableNameError(f"a tensor has no attribute {name!r}{did_you_mean(name, METHODS)}")
