"""The operations of the language as operators and methods of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glueball.language import (
    arithmetic,
    atomics,
    core,
    folds,
    functions,
    gathers,
    memory,
    rearranging,
    reductions,
    shape,
    standard,
)
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.function import JITCallable
from glueball.language.tensor import tensor


def _reflected(operation: Callable[..., tensor]) -> Callable[..., tensor]:
    """The operator for `number op tensor`."""

    def reflected(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        return operation(y, x, _builder=_builder)

    reflected.__name__ = operation.__name__
    return builtin(reflected)


METHODS: dict[str, Callable[..., Any] | JITCallable] = {
    "__add__": arithmetic.add,
    "__radd__": _reflected(arithmetic.add),
    "__sub__": arithmetic.sub,
    "__rsub__": _reflected(arithmetic.sub),
    "__mul__": arithmetic.mul,
    "__rmul__": _reflected(arithmetic.mul),
    "__truediv__": arithmetic.truediv,
    "__rtruediv__": _reflected(arithmetic.truediv),
    "__floordiv__": arithmetic.floordiv,
    "__rfloordiv__": _reflected(arithmetic.floordiv),
    "__mod__": arithmetic.mod,
    "__rmod__": _reflected(arithmetic.mod),
    "__and__": arithmetic.bitwise_and,
    "__rand__": _reflected(arithmetic.bitwise_and),
    "__or__": arithmetic.bitwise_or,
    "__ror__": _reflected(arithmetic.bitwise_or),
    "__xor__": arithmetic.bitwise_xor,
    "__rxor__": _reflected(arithmetic.bitwise_xor),
    "__lshift__": arithmetic.lshift,
    "__rlshift__": _reflected(arithmetic.lshift),
    "__rshift__": arithmetic.rshift,
    "__rrshift__": _reflected(arithmetic.rshift),
    "__eq__": arithmetic.equal,
    "__ne__": arithmetic.not_equal,
    "__lt__": arithmetic.less_than,
    "__le__": arithmetic.less_equal,
    "__gt__": arithmetic.greater_than,
    "__ge__": arithmetic.greater_equal,
    "__neg__": arithmetic.negate,
    "__invert__": arithmetic.invert,
    "__getitem__": shape.getitem,
    "to": core.cast,
    "cast": core.cast,
    "expand_dims": shape.expand_dims,
    "broadcast_to": shape.broadcast_to,
    "permute": shape.permute,
    "trans": shape.trans,
    "reshape": rearranging.reshape,
    "ravel": rearranging.ravel,
    "item": rearranging.item,
    "split": rearranging.split,
    "reduce": reductions.reduce,
    "associative_scan": reductions.associative_scan,
    "gather": gathers.gather,
    "histogram": gathers.histogram,
    "sum": folds.sum,
    "max": folds.max,
    "min": folds.min,
    "argmax": folds.argmax,
    "argmin": folds.argmin,
    "xor_sum": folds.xor_sum,
    "reduce_or": folds.reduce_or,
    "cumsum": folds.cumsum,
    "cumprod": folds.cumprod,
    "store": memory.store,
    "atomic_add": atomics.atomic_add,
    "atomic_and": atomics.atomic_and,
    "atomic_cas": atomics.atomic_cas,
    "atomic_load": atomics.atomic_load,
    "atomic_max": atomics.atomic_max,
    "atomic_min": atomics.atomic_min,
    "atomic_or": atomics.atomic_or,
    "atomic_poll": atomics.atomic_poll,
    "atomic_store": atomics.atomic_store,
    "atomic_xchg": atomics.atomic_xchg,
    "atomic_xor": atomics.atomic_xor,
    "cdiv": standard.cdiv,
    "sigmoid": standard.sigmoid,
    "softmax": standard.softmax,
    "logical_and": arithmetic.logical_and,
    "logical_or": arithmetic.logical_or,
    "abs": functions.abs,
    "ceil": functions.ceil,
    "cos": functions.cos,
    "erf": functions.erf,
    "exp": functions.exp,
    "exp2": functions.exp2,
    "floor": functions.floor,
    "log": functions.log,
    "log2": functions.log2,
    "rsqrt": functions.rsqrt,
    "sin": functions.sin,
    "sqrt": functions.sqrt,
    "sqrt_rn": functions.sqrt_rn,
}


def install() -> None:
    """Make every operation of the table a member of `tensor`."""
    for name, operation in METHODS.items():
        setattr(tensor, name, operation)
