"""Compile-time values: `constexpr` and what folds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from glueball.language.values import base_value, constexpr_type
from glueball.tile.ir import Value


def _unwrap_if_constexpr(value: Any) -> Any:
    """The Python value inside a `constexpr`; anything else as it is."""
    return value.value if isinstance(value, constexpr) else value


class constexpr(base_value):  # noqa: N801 - the name that kernel authors write
    """A value known at compile time. `constexpr(v)`; nested wraps collapse; `.value` is the Python value.

    Operators work on the wrapped value with Python's semantics and give a `constexpr`. As the annotation of a kernel
    parameter it makes the argument a compile-time value; as that of a variable it keeps the value compile-time.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = _unwrap_if_constexpr(value)

    @property
    def type(self) -> constexpr_type:
        """`constexpr_type` of the value."""
        return constexpr_type(self.value)

    def flatten(self) -> Iterator[Value]:
        """Nothing is left at run time."""
        return iter(())

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The value itself."""
        return self

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        if not isinstance(self.value, int):
            raise TypeError(f"{self!r} cannot be interpreted as an integer")
        return self.value

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[constexpr]:
        return map(constexpr, self.value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the wrapped value."""
        return self.value(*arguments, **keywords)

    def __getitem__(self, index: Any) -> constexpr:
        return constexpr(self.value[_unwrap_if_constexpr(index)])

    def __add__(self, other: Any) -> constexpr:
        return constexpr(self.value + _unwrap_if_constexpr(other))

    def __radd__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) + self.value)

    def __sub__(self, other: Any) -> constexpr:
        return constexpr(self.value - _unwrap_if_constexpr(other))

    def __rsub__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) - self.value)

    def __mul__(self, other: Any) -> constexpr:
        return constexpr(self.value * _unwrap_if_constexpr(other))

    def __rmul__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) * self.value)

    def __truediv__(self, other: Any) -> constexpr:
        return constexpr(self.value / _unwrap_if_constexpr(other))

    def __rtruediv__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) / self.value)

    def __floordiv__(self, other: Any) -> constexpr:
        return constexpr(self.value // _unwrap_if_constexpr(other))

    def __rfloordiv__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) // self.value)

    def __mod__(self, other: Any) -> constexpr:
        return constexpr(self.value % _unwrap_if_constexpr(other))

    def __rmod__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) % self.value)

    def __pow__(self, other: Any) -> constexpr:
        return constexpr(self.value ** _unwrap_if_constexpr(other))

    def __rpow__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) ** self.value)

    def __and__(self, other: Any) -> constexpr:
        return constexpr(self.value & _unwrap_if_constexpr(other))

    def __rand__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) & self.value)

    def __or__(self, other: Any) -> constexpr:
        return constexpr(self.value | _unwrap_if_constexpr(other))

    def __ror__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) | self.value)

    def __xor__(self, other: Any) -> constexpr:
        return constexpr(self.value ^ _unwrap_if_constexpr(other))

    def __rxor__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) ^ self.value)

    def __lshift__(self, other: Any) -> constexpr:
        return constexpr(self.value << _unwrap_if_constexpr(other))

    def __rlshift__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) << self.value)

    def __rshift__(self, other: Any) -> constexpr:
        return constexpr(self.value >> _unwrap_if_constexpr(other))

    def __rrshift__(self, other: Any) -> constexpr:
        return constexpr(_unwrap_if_constexpr(other) >> self.value)

    def __eq__(self, other: object) -> constexpr:  # type: ignore[override]  # the truth of the constexpr is the answer
        return constexpr(self.value == _unwrap_if_constexpr(other))

    def __ne__(self, other: object) -> constexpr:  # type: ignore[override]  # the truth of the constexpr is the answer
        return constexpr(self.value != _unwrap_if_constexpr(other))

    def __lt__(self, other: Any) -> constexpr:
        return constexpr(self.value < _unwrap_if_constexpr(other))

    def __le__(self, other: Any) -> constexpr:
        return constexpr(self.value <= _unwrap_if_constexpr(other))

    def __gt__(self, other: Any) -> constexpr:
        return constexpr(self.value > _unwrap_if_constexpr(other))

    def __ge__(self, other: Any) -> constexpr:
        return constexpr(self.value >= _unwrap_if_constexpr(other))

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __abs__(self) -> constexpr:
        return constexpr(abs(self.value))
