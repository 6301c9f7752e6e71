"""Python's own functions as kernels may use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from glueball.language.arithmetic import maximum, minimum
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import constexpr
from glueball.language.debug import device_print
from glueball.language.functions import abs as absolute
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap, wrap
from glueball.language.values import base_value


def _constant(name: str, value: Any) -> Any:
    """The Python object behind a compile-time value; `TypeError` for a run-time one."""
    if isinstance(value, tensor):
        raise TypeError(f"`{name}` works on compile-time values, not on {value!r}; use .to(dtype) to convert")
    return unwrap(value)


def _len(_: KernelBuilder, value: Any) -> constexpr:
    if isinstance(value, tensor):
        if not value.extents:
            raise TypeError("a scalar has no length")
        return constexpr(value.extents[0])
    return constexpr(len(value))


def _int(_: KernelBuilder, *values: Any) -> constexpr:
    return constexpr(int(*(_constant("int", value) for value in values)))


def _float(_: KernelBuilder, value: Any = 0.0) -> constexpr:
    return constexpr(float(_constant("float", value)))


def _list(_: KernelBuilder, value: Any = ()) -> language_tuple:
    return language_tuple(value)


def _isinstance(_: KernelBuilder, value: Any, kinds: Any) -> constexpr:
    kinds = unwrap(kinds)
    return constexpr(isinstance(value, kinds) or isinstance(unwrap(value), kinds))


def _getattr(_: KernelBuilder, value: Any, name: Any, *default: Any) -> Any:
    return wrap(getattr(_owner(value), unwrap(name), *default))


def _hasattr(_: KernelBuilder, value: Any, name: Any) -> constexpr:
    return constexpr(hasattr(_owner(value), unwrap(name)))


def _owner(value: Any) -> Any:
    return value.value if isinstance(value, constexpr) else value


def _range(_: KernelBuilder, *__: Any) -> Any:
    raise TypeError("`range` can only be iterated over by a `for` statement")


def _print(builder: KernelBuilder, *values: Any, **options: Any) -> Any:
    return device_print(*values, **options, _builder=builder)


def _abs(builder: KernelBuilder, value: Any) -> Any:
    return absolute(value, _builder=builder) if isinstance(value, tensor) else constexpr(abs(unwrap(value)))


def _extreme(name: str, on_constants: Callable[..., Any], on_tensors: Callable[..., tensor]) -> Callable[..., Any]:
    def apply(builder: KernelBuilder, *values: Any) -> base_value:
        if len(values) < 2:
            raise TypeError(f"`{name}` takes two values or more, not {len(values)}")
        if not any(isinstance(value, tensor) for value in values):
            return constexpr(on_constants(*(_comparable(name, unwrap(value)) for value in values)))
        result = values[0]
        for value in values[1:]:
            result = on_tensors(result, value, _builder=builder)
        return wrap(result)

    return apply


def _comparable(name: str, value: Any) -> Any:
    if isinstance(value, float) and (math.isnan(value) or (value == 0.0 and math.copysign(1.0, value) < 0)):
        raise ValueError(f"`{name}` of compile-time values does not take {value}")
    return value


PYTHON_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    abs: _abs,
    float: _float,
    getattr: _getattr,
    hasattr: _hasattr,
    int: _int,
    isinstance: _isinstance,
    len: _len,
    list: _list,
    max: _extreme("max", max, maximum),
    min: _extreme("min", min, minimum),
    print: _print,
    range: _range,
}
