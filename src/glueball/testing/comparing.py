"""Comparing arrays of any framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Tolerance: TypeAlias = float | Callable[[Any], float] | None

ABSOLUTE_TOLERANCE = 1e-2


def assert_close(x: Any, y: Any, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = "") -> None:
    """Raises `AssertionError` unless two arrays, or what NumPy makes arrays of, agree elementwise.

    `|x - y| <= atol + rtol * |y|`, by default 0.01 and 0; either may be a function of the dtype of its array. NaN
    agrees with NaN. The shapes must be equal, or one of both a scalar's. Arrays on a device are copied to the host.
    """
    import numpy

    absolute = _tolerance(atol, ABSOLUTE_TOLERANCE, x)
    relative = _tolerance(rtol, 0.0, x)
    left, right = _host_array(x), _host_array(y)
    if left.size > 1 or right.size > 1:
        numpy.testing.assert_allclose(left, right, atol=absolute, rtol=relative, equal_nan=True, err_msg=err_msg)
    elif left.shape != right.shape and left.size != right.size:
        raise AssertionError(f"{err_msg} the shapes {left.shape} and {right.shape} differ".lstrip())
    elif not numpy.allclose(left, right, atol=absolute, rtol=relative, equal_nan=True):
        raise AssertionError(f"{err_msg} {left} is not close to {right} (atol={absolute}, rtol={relative})".lstrip())


def _tolerance(given: Tolerance, default: float, value: Any) -> float:
    if callable(given):
        return given(getattr(value, "dtype", None))
    return default if given is None else given


def _host_array(value: Any) -> Any:
    """A NumPy array of at least the accuracy of `value`; floats narrower than NumPy's own become float32."""
    import numpy

    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() <= 2:
            value = value.float()
        return value.numpy()
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):  # CuPy
        value = value.get()
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    array = numpy.asarray(value)
    return array.astype(numpy.float32) if array.dtype.kind == "V" else array
