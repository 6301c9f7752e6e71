"""From arrays to a problem, and from a problem to the launches that solve it."""

from __future__ import annotations

import math
from typing import Any

from glueball.errors import TargetError
from glueball.kernels.arrays import dtype_name, empty
from glueball.kernels.ladder import Launch, strides_of
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.launches import Arrays, launches, multiprocessors_of
from glueball.kernels.matrix_products.plans import is_possible, plan_for
from glueball.kernels.matrix_products.problems import (
    ACTIVATIONS,
    NARROW,
    RESULTS,
    Matrix,
    Problem,
    check_operands,
    matrix_of,
)
from glueball.runtime.devices import default_target, device_target
from glueball.targets import Target


def describe(
    a: Any, b: Any, out: Any = None, bias: Any = None, activation: str | None = None, *,
    scale_a: Any = None, scale_b: Any = None, out_dtype: Any = None,
) -> tuple[Problem, Arrays]:  # fmt: skip
    """What is multiplied, with a new array for the result where none was given."""
    left, right = matrix_of(a, "a"), matrix_of(b, "b")
    check_operands(left, right)
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"activation must be {', '.join(ACTIVATIONS)} or None, not {activation!r}")
    shape = (max(left.shape[0], right.shape[0]), left.shape[1], right.shape[2])
    plain = shape if len(a.shape) == 3 or len(b.shape) == 3 else shape[1:]
    if out is None:
        out = empty(a, plain, _result_type(left, out_dtype))
    elif tuple(out.shape) != plain or dtype_name(out) not in RESULTS:
        raise ValueError(
            f"out must be of shape {plain} and of {', '.join(RESULTS)}, not {tuple(out.shape)} of {dtype_name(out)}"
        )
    problem = Problem(
        left, right, matrix_of(out, "out"), _scale(scale_a, shape[1], "scale_a"), _scale(scale_b, shape[2], "scale_b"),
        -1 if bias is None else 1, activation or "",
    )  # fmt: skip
    if bias is not None:
        _check_line(bias, shape[2], "bias")
    return flattened(problem), Arrays(a, b, out, scale_a, scale_b, bias)


def prepare(problem: Problem, arrays: Arrays, plan: Plan | None = None, tune: bool = False) -> list[Launch]:
    """The launches of a product. `ValueError` for a given plan that cannot compute it."""
    if problem.c.turned or (problem.columns == 1 and problem.rows > 1):
        problem, arrays = problem.swapped(), arrays.swapped()
    target, multiprocessors = target_of(arrays.c), multiprocessors_of(arrays.c)
    if not target.supports("nvidia"):
        raise TargetError(f"gemm needs an NVIDIA GPU, and {target.name} is none; glueball.kernels.matmul runs anywhere")
    if plan is not None and not is_possible(plan, problem.swapped() if plan.swapped else problem, target):
        extents = f"{problem.rows} x {problem.columns} x {problem.inner}"
        raise ValueError(f"the product of {extents} cannot be computed on {target.name} by {plan}")
    if plan is None and tune:
        from glueball.kernels.matrix_products.tuning import tuned_plan

        plan = tuned_plan(problem, arrays, target, multiprocessors)
    return launches(problem, plan or plan_for(problem, target, multiprocessors), arrays)


def flattened(problem: Problem) -> Problem:
    """A batch of matrices times one matrix as one product, where the batches follow each other like rows."""
    a, b, c = problem.a, problem.b, problem.c
    follows = all(matrix.strides[0] == matrix.shape[1] * matrix.strides[1] for matrix in (a, c))
    if a.shape[0] == 1 or b.shape[0] > 1 or not follows or problem.row_scale == "each":
        return problem
    return Problem(
        _one_batch(a), b, _one_batch(c), problem.row_scale, problem.column_scale, problem.bias_axis, problem.activation
    )  # fmt: skip


def _one_batch(matrix: Matrix) -> Matrix:
    batches, rows, columns = matrix.shape
    return Matrix(matrix.dtype, (1, batches * rows, columns), (0, *matrix.strides[1:]), matrix.aligned)


def target_of(array: Any) -> Target:
    """The target that kernels on this array are compiled for."""
    return device_target(array.device.index or 0) if getattr(array, "is_cuda", False) else default_target()


def _result_type(left: Matrix, wanted: Any) -> str:
    if wanted is None:
        return "bfloat16" if left.dtype in NARROW else left.dtype
    name = wanted if isinstance(wanted, str) else str(getattr(wanted, "__name__", wanted)).removeprefix("torch.")
    if name not in RESULTS:
        raise ValueError(f"out_dtype must be {', '.join(RESULTS)}, not {wanted!r}")
    return name


def _scale(scale: Any, count: int, name: str) -> str:
    """Which scale it is."""
    if scale is None:
        return ""
    elements = math.prod(scale.shape)
    if dtype_name(scale) != "float32" or elements not in (1, count):
        raise ValueError(f"{name} must hold 1 or {count} float32, not {elements} of {dtype_name(scale)}")
    if elements > 1:
        _check_line(scale.reshape(-1), count, name)
    return "one" if elements == 1 else "each"


def _check_line(array: Any, count: int, name: str) -> None:
    if tuple(array.shape) != (count,) or (count > 1 and strides_of(array) != (1,)):
        raise ValueError(f"{name} must be a line of {count} neighbours, not of shape {tuple(array.shape)}")
