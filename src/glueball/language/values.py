"""What every value of the language has in common: a type, and the IR values that carry it at run time."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import Any, Self

from glueball.tile.ir import Value
from glueball.tile.types import (
    block_type,
    distributed_type,
    dtype,
    pointer_type,
    shared_memory_descriptor_type,
    tensor_descriptor_type,
)


class base_type(ABC):  # noqa: N801, B024 - the name that kernel authors write; its members are registered below
    """Base of the types of the language; `isinstance` knows element, pointer and tile types as such."""

    __slots__ = ()


base_type.register(dtype)
base_type.register(pointer_type)
base_type.register(block_type)
base_type.register(shared_memory_descriptor_type)
base_type.register(tensor_descriptor_type)


class base_value:  # noqa: N801 - the name that kernel authors write
    """Base of everything that a name in a kernel can stand for.

    `flatten` gives the IR values inside, `rebuild` the same kind of value around other ones: so control flow carries
    scalars, tiles, tuples and later kinds through regions without knowing them.
    """

    __slots__ = ()

    @property
    def type(self) -> Any:
        """The type of the value."""
        raise NotImplementedError

    def flatten(self) -> Iterator[Value]:
        """The IR values inside, in order."""
        raise NotImplementedError

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The same value around the next IR values."""
        raise NotImplementedError


def types_agree(left: Any, right: Any) -> bool:
    """Whether values of two types can merge: equal, tiles compared by where their elements live."""
    if isinstance(left, distributed_type) and isinstance(right, distributed_type):
        return left.element_ty == right.element_ty and left.same_placement(right)
    if getattr(left, "owner", None) is not getattr(right, "owner", None):
        return False
    if hasattr(left, "types") and hasattr(right, "types"):
        return len(left.types) == len(right.types) and all(map(types_agree, left.types, right.types))
    return bool(left == right)


def carries_on(before: Any, after: Any, *, inside: bool = False) -> bool:
    """Whether a loop that starts with a value of one type may go on with one of another: the two agree.

    Only `inside` tuples and records may an accumulator of matrix products, whose `tensor_type` says which tile it will
    be, stand where the loop starts with that tile: the loop takes the one for the other.
    """
    if inside:
        before, after = (getattr(kind, "tensor_type", kind) for kind in (before, after))
    if not hasattr(before, "types") or not hasattr(after, "types"):
        return types_agree(before, after)
    same = getattr(before, "owner", None) is getattr(after, "owner", None) and len(before.types) == len(after.types)
    return same and all(carries_on(*pair, inside=True) for pair in zip(before.types, after.types, strict=True))


class tuple_type(base_type):  # noqa: N801 - the name that kernel authors write
    """The types of the elements of a tuple, and their names where it is a named tuple."""

    __slots__ = ("fields", "types")

    def __init__(self, types: list[Any], fields: list[str] | None = None) -> None:
        self.types = list(types)
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple_type) and self.types == other.types and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(tuple(self.types))

    def mangle(self) -> str:
        """`T` and the elements' mangles joined by `_`, closed by `T`."""
        return "T" + "_".join(str(element.mangle()) for element in self.types) + "T"

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.types)) + ")"


class constexpr_type(base_type):  # noqa: N801 - the name that kernel authors write
    """The type of a compile-time value: the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, constexpr_type)
            and type(self.value) is type(other.value)
            and bool(self.value == other.value)
        )

    def __hash__(self) -> int:
        return hash(self.value)

    def mangle(self) -> str:
        """`c` and the value, or the value's own mangle."""
        return f"c{self.value.mangle()}" if hasattr(self.value, "mangle") else f"c{self.value!r}"

    def __str__(self) -> str:
        return f"constexpr[{self.value!r}]"
