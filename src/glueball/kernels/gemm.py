"""Matrix products by the matrix units: one function for all shapes, orders, batches and groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.groups import grouped_launch, run_grouped
from glueball.kernels.matrix_products.launches import Arrays
from glueball.kernels.matrix_products.problems import Problem
from glueball.kernels.matrix_products.products import describe, prepare


def gemm(
    a: Any,
    b: Any,
    out: Any = None,
    bias: Any = None,
    activation: str | None = None,
    *,
    scale_a: Any = None,
    scale_b: Any = None,
    out_dtype: Any = None,
    plan: Plan | None = None,
    tune: bool = False,
) -> Any:
    """`activation(a @ b * scale_a * scale_b + bias)` on the matrix units.

    `a` is M x K and `b` K x N, of float16, of bfloat16, or of 8-bit floats (e4m3, e5m2, also mixed), in any strides;
    either may be a batch of them, [batch, ...]. Lists of as many matrices `a` and `b` are products of any shapes, and
    give a list. Sums are in float32, rounded once to the result.

    `out`, of any strides, receives the result, else a new array does: of the operands' type, bfloat16 for 8-bit ones,
    or of `out_dtype` (float16, bfloat16 or float32). `bias` has a number for each column. `activation` is "relu",
    "gelu" (by the error function) or "silu". `scale_a` holds one float32 or one for each row of `a`, `scale_b` one or
    one for each column of `b`.

    `plan` says how to compute it; otherwise a table of measured shapes or a model of the machine does. `tune` measures
    several plans on these arrays, once for each kind of problem, and keeps to the best.
    Errors: `ValueError` for arrays that do not fit together, unknown types and plans that do not fit; `TargetError`
    where there are no matrix units.
    """
    if isinstance(a, list | tuple):
        return grouped(
            a, b, out, bias, activation, scale_a=scale_a, scale_b=scale_b, out_dtype=out_dtype, plan=plan, tune=tune
        )  # fmt: skip
    problem, arrays = describe(a, b, out, bias, activation, scale_a=scale_a, scale_b=scale_b, out_dtype=out_dtype)
    solve(problem, arrays, plan, tune)
    return arrays.c


def solve(problem: Problem, arrays: Arrays, plan: Plan | None, tune: bool) -> None:
    """Launches what computes a product."""
    if problem.c.elements:
        for launch in prepare(problem, arrays, plan, tune):
            launch.run()


def grouped(a: Sequence[Any], b: Sequence[Any], out: Any, bias: Any, *arguments: Any, **keywords: Any) -> list[Any]:
    """`gemm` of the pairs of two lists; `out` and `bias` are lists too, or `None`."""
    count = len(a)
    lists = {"b": b, **{name: value for name, value in (("out", out), ("bias", bias)) if value is not None}}
    for name, values in lists.items():
        if not isinstance(values, list | tuple) or len(values) != count:
            raise ValueError(f"a is a list of {count} matrices, and {name} must be a list of as many")
    outs, biases = out or [None] * count, bias or [None] * count
    described = {name: keywords[name] for name in ("scale_a", "scale_b", "out_dtype")}
    products = [describe(*each, *arguments, **described) for each in zip(a, b, outs, biases, strict=True)]
    launch = None if keywords["plan"] or keywords["tune"] else grouped_launch(products)
    if launch is not None:
        run_grouped(launch)
    else:
        for problem, arrays in products:
            solve(problem, arrays, keywords["plan"], keywords["tune"])
    return [arrays.c for _, arrays in products]


class _CallableModule(ModuleType):
    """Has `glueball.kernels.gemm(a, b)` work after this module was imported by its own name too, which replaces it."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return gemm(*arguments, **keywords)


sys.modules[__name__].__class__ = _CallableModule
