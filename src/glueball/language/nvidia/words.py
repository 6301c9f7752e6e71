"""The arguments that operations on mbarriers share."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor
from glueball.tile.mbarriers import is_word
from glueball.tile.types import distributed_type, int1, int32


def word_argument(value: Any, name: str) -> shared_memory_descriptor:
    """A view of one mbarrier; `ValueError` for anything else."""
    if not isinstance(value, shared_memory_descriptor):
        raise ValueError(
            f"expected {name!r} to be an mbarrier in shared memory, but got {_unwrap_if_constexpr(value)!r}"
        )
    if not is_word(value.type):
        raise ValueError(
            f"barrier allocation must be a view of one int64 in each CTA, but {name!r} is {value.type}: take .index(i) "
            "of several mbarriers"
        )
    return value


def predicate_argument(value: Any, name: str, builder: KernelBuilder) -> tensor | None:
    """A scalar that says whether to act, None where it always does; `ValueError` for a tile."""
    given = _unwrap_if_constexpr(value)
    if given is True or given is None:
        return None
    if isinstance(given, bool | int):
        return None if given else builder.constant(False, int1)
    if not isinstance(given, tensor) or isinstance(given.type, distributed_type):
        raise ValueError(f"expected {name!r} to be a bool or an int1 scalar, but got {given!r}")
    if not given.dtype.is_bool():
        raise ValueError(f"expected {name!r} to be a bool or an int1 scalar, but got one of {given.dtype}")
    return given


def phase_argument(value: Any, builder: KernelBuilder) -> tensor:
    """A phase as an int32 scalar; `ValueError` for a tile and for a compile-time value other than 0 and 1."""
    given = _unwrap_if_constexpr(value)
    if isinstance(given, bool | int):
        if given not in (0, 1):
            raise ValueError(f"an mbarrier has the phases 0 and 1, not {given}")
        return builder.constant(int(given), int32)
    if not isinstance(given, tensor) or isinstance(given.type, distributed_type) or not given.dtype.is_int():
        raise ValueError(f"expected 'phase' to be an int or an integer scalar, but got {given!r}")
    return given


def count_argument(value: Any, name: str, least: int, greatest: int) -> int:
    """An integer known at compile time, in a range; `ValueError` otherwise."""
    given = _unwrap_if_constexpr(value)
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"expected {name!r} to be an int known at compile time, but got {given!r}")
    if given < least:
        raise ValueError(f"{name} must be greater than or equal to {least}, not {given}")
    if given > greatest:
        raise ValueError(f"{name} must be at most {greatest}, not {given}")
    return given
