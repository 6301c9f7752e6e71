"""Conversions between element types."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import KernelBuilder, constant_of
from glueball.language.tensor import tensor
from glueball.tile.types import ScalarType, dtype, float8e4b15, float32, int1, int64, pointer_type, uint64

ROUNDINGS = {None: "nearest", "rtne": "nearest", "rtz": "zero"}


def convert(value: tensor, element: ScalarType, builder: KernelBuilder, rounding: str | None = None) -> tensor:
    """A tensor converted to another element type with the language's rules; the shape and layout stay.

    Narrowing of floats rounds to nearest even, or toward zero where `rounding` is "rtz"; float to integer truncates.
    Errors: `ValueError` for a rounding where nothing is narrowed, `AssertionError` for types that do not convert.
    """
    source = value.dtype
    if rounding is not None:
        _check_rounding(source, element, rounding)
    if source == element:
        return value
    if isinstance(source, pointer_type) or isinstance(element, pointer_type):
        return _convert_pointer(value, source, element, builder)
    if element.is_bool():
        return not_zero(value, builder)
    if (source.is_fp8() and element.is_int()) or (source.is_int() and element.is_fp8()):
        raise AssertionError(f"cannot cast {source} to {element}: go through a wider float")
    number = constant_of(value)
    if number is not None and source.is_int() and element.is_int():
        return builder.constant(number, element)
    attributes: dict[str, Any] = {} if rounding is None else {"rounding": ROUNDINGS[rounding]}
    return builder.emit("cast", [value], value.type.with_element_ty(element), **attributes)


def not_zero(value: tensor, builder: KernelBuilder) -> tensor:
    """Whether each element differs from zero, as int1."""
    source = value.dtype
    assert isinstance(source, dtype)
    if source.is_bool():
        return value
    if source == float8e4b15:
        return not_zero(convert(value, float32, builder), builder)
    zero = builder.splat(builder.constant(0, source), value.type)
    return builder.emit("compare", [value, zero], value.type.with_element_ty(int1), predicate="ne")


def bitcast(value: tensor, element: ScalarType, builder: KernelBuilder) -> tensor:
    """The same bits as another element type of equal width; `ValueError` where the widths differ."""
    source = value.dtype
    if source == element:
        return value
    if isinstance(source, pointer_type) or isinstance(element, pointer_type):
        return convert(value, element, builder)
    if source.primitive_bitwidth != element.primitive_bitwidth:
        raise ValueError(
            f"Cannot bitcast data-type of size {source.primitive_bitwidth} to data-type of size "
            f"{element.primitive_bitwidth}"
        )
    return builder.emit("bitcast", [value], value.type.with_element_ty(element))


def _check_rounding(source: ScalarType, element: ScalarType, rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise ValueError(f"fp_downcast_rounding must be 'rtne' or 'rtz', not {rounding!r}")
    narrows = source.is_floating() and element.is_floating() and source.primitive_bitwidth > element.primitive_bitwidth
    if not narrows:
        raise ValueError(
            f"fp_downcast_rounding should be set only for truncating fp conversions, not from {source} to {element}"
        )


def _convert_pointer(value: tensor, source: ScalarType, element: ScalarType, builder: KernelBuilder) -> tensor:
    if isinstance(source, pointer_type) and isinstance(element, pointer_type):
        return builder.emit("bitcast", [value], value.type.with_element_ty(element))
    if isinstance(source, pointer_type):
        if element in (int64, uint64):
            return builder.emit("cast", [value], value.type.with_element_ty(element))
        if element == int1:
            return not_zero(convert(value, int64, builder), builder)
    elif source.is_int():
        address = value if source in (int64, uint64) else convert(value, int64, builder)
        return builder.emit("cast", [address], value.type.with_element_ty(element))
    raise AssertionError(f"cannot cast {source} to {element}: pointers convert to and from 64-bit integers")
