"""Elementwise arithmetic, comparison, bits and selection.

Operands are tensors or Python numbers. Types promote as `glueball.language.promotion` says; shapes broadcast where
ranks are equal and extents are equal or 1; tiles must place their elements alike (`LayoutError` otherwise).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from glueball.language.broadcasting import as_type, broadcast_all, promoted_type, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin, constant_of
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import bitcast, convert, not_zero
from glueball.language.promotion import IncompatibleTypeError, check_literal
from glueball.language.tensor import tensor
from glueball.tile.types import DTYPES, dtype, float32, int1, int32, int64, pointer_type

NEUTRAL_ON_THE_RIGHT = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}
COMMUTATIVE = frozenset(("add", "mul", "or", "xor"))
FOLDED = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}


class PropagateNan(Enum):
    """What `minimum` and `maximum` give for a NaN and a number: the number, or with `ALL` the NaN."""

    NONE = 0
    ALL = 1


def elementwise(
    opcode: str, x: Any, y: Any, element: dtype, builder: KernelBuilder, *, checked: bool = False
) -> tensor:
    """One operation on two operands brought to an element type and a common shape.

    Integer operations that constants give away leave no operation behind. With `checked` the kernel stops where the
    result does not fit the type, if its builder checks overflow.
    """
    checked = checked and builder.checks_overflow and element.is_int() and element.primitive_bitwidth < 64
    if element.is_int():
        for value in (x, y):
            if not isinstance(value, tensor):
                check_literal(value, element)
        first, second = _known(x), _known(y)
        if first is not None and second is not None and opcode in FOLDED:
            number = FOLDED[opcode](int(first), int(second))
            if checked and not element.get_int_min_value() <= number <= element.get_int_max_value():
                _check_overflow(opcode, [as_type(x, element, builder), as_type(y, element, builder)], builder)
            return builder.constant(number & 1 if element.is_bool() else number, element)
        if second is not None and second == NEUTRAL_ON_THE_RIGHT.get(opcode) and isinstance(x, tensor):
            return convert(x, element, builder)
        if first is not None and opcode in COMMUTATIVE and first == NEUTRAL_ON_THE_RIGHT[opcode]:
            return as_type(y, element, builder)
    left, right = broadcast_all([as_type(x, element, builder), as_type(y, element, builder)], builder)
    if checked:
        _check_overflow(opcode, [left, right], builder)
    return builder.emit(opcode, [left, right], left.type)


def _check_overflow(opcode: str, operands: list[tensor], builder: KernelBuilder) -> None:
    builder.create("check_overflow", [operand.handle for operand in operands], attributes={"operation": opcode})


def _known(value: Any) -> bool | int | float | None:
    """The number that an operand is known to be at compile time."""
    return constant_of(value) if isinstance(value, tensor) else value


def _operands(x: Any, y: Any) -> tuple[Any, Any]:
    return _unwrap_if_constexpr(x), _unwrap_if_constexpr(y)


def _flag(value: Any) -> bool:
    return bool(_unwrap_if_constexpr(value))


def _pointer_in(value: Any) -> bool:
    return isinstance(value, tensor) and isinstance(value.dtype, pointer_type)


def _move_pointer(pointer: tensor, offset: Any, builder: KernelBuilder, *, back: bool = False) -> tensor:
    """The pointer moved by an offset in elements; unsigned offsets narrower than 64 bits are zero-extended."""
    known = _known(offset)
    if type(known) is int and known == 0:
        return pointer
    distance = to_operand(offset, builder)
    element = distance.dtype
    if isinstance(element, pointer_type):
        raise TypeError("cannot add pointers together; subtract their addresses as gl.int64 instead")
    if not element.is_int():
        raise IncompatibleTypeError(pointer.dtype, element)
    if element.is_bool():
        distance = convert(distance, int32, builder)
    elif not element.signed and element.primitive_bitwidth < 64:
        distance = convert(distance, int64, builder)
    if back:
        distance = negate(convert(distance, int64, builder), _builder=builder)
    pointer, distance = broadcast_all([pointer, distance], builder)
    return builder.emit("pointer_add", [pointer, distance], pointer.type)


@builtin
def add(x: Any, y: Any, sanitize_overflow: bool | constexpr = True, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x + y`; integers wrap. A pointer plus an integer, in either order, moves by that many elements.

    With the launch option `debug` the kernel stops where the sum of integers below 64 bits does not fit their type,
    unless the launch or this call has `sanitize_overflow=False`.
    Errors: `TypeError` for two pointers and for a pointer with a float.
    """
    x, y = _operands(x, y)
    if _pointer_in(x):
        return _move_pointer(x, y, _builder)
    if _pointer_in(y):
        return _move_pointer(y, x, _builder)
    return elementwise("add", x, y, promoted_type(x, y), _builder, checked=_flag(sanitize_overflow))


@builtin
def sub(x: Any, y: Any, sanitize_overflow: bool | constexpr = True, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x - y`; integers wrap, or stop the kernel as for `add`. A pointer minus an integer moves back by that many
    elements.

    Errors: `TypeError` for an integer minus a pointer, for two pointers and for a pointer with a float.
    """
    x, y = _operands(x, y)
    if _pointer_in(x) and not _pointer_in(y):
        return _move_pointer(x, y, _builder, back=True)
    return elementwise("sub", x, y, promoted_type(x, y), _builder, checked=_flag(sanitize_overflow))


@builtin
def mul(x: Any, y: Any, sanitize_overflow: bool | constexpr = True, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x * y`; integers wrap, or stop the kernel as for `add`.

    Errors: `TypeError` for pointers.
    """
    x, y = _operands(x, y)
    return elementwise("mul", x, y, promoted_type(x, y), _builder, checked=_flag(sanitize_overflow))


@builtin
def truediv(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x / y`, always floating: float64 where one is float64, else float32.

    Errors: `TypeError` for pointers and for integers of different signedness.
    """
    x, y = _operands(x, y)
    element = promoted_type(x, y, dividing=True)
    return elementwise("div", x, y, element if element.is_floating() else float32, _builder)


@builtin
def floordiv(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x // y` of integers, truncated toward zero as in C (on compile-time values it floors, as in Python).

    Errors: `TypeError` for floats, pointers and integers of different signedness.
    """
    x, y = _operands(x, y)
    element = promoted_type(x, y, dividing=True)
    if not element.is_int():
        raise TypeError(f"`//` is for integers, not {_type_of(x)} and {_type_of(y)}; use `/`")
    return elementwise("div", x, y, element, _builder)


@builtin
def mod(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x % y`, what truncated division leaves, with the sign of `x`; of floats in float32 or wider.

    Errors: `TypeError` for pointers and for integers of different signedness.
    """
    x, y = _operands(x, y)
    return elementwise("rem", x, y, promoted_type(x, y, dividing=True), _builder)


def _bits(opcode: str, symbol: str, x: Any, y: Any, builder: KernelBuilder) -> tensor:
    x, y = _operands(x, y)
    return elementwise(opcode, x, y, _integer_type(symbol, x, y), builder)


def _integer_type(symbol: str, x: Any, y: Any) -> dtype:
    element = promoted_type(x, y)
    if not element.is_int():
        raise IncompatibleTypeError(_type_of(x), _type_of(y), f"; `{symbol}` is for integers")
    return element


def _type_of(value: Any) -> Any:
    return value.dtype if isinstance(value, tensor) else type(value).__name__


@builtin
def bitwise_and(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x & y` of integers or booleans.

    Errors: `TypeError` for anything else.
    """
    return _bits("and", "&", x, y, _builder)


@builtin
def bitwise_or(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x | y` of integers or booleans.

    Errors: `TypeError` for anything else.
    """
    return _bits("or", "|", x, y, _builder)


@builtin
def bitwise_xor(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x ^ y` of integers or booleans.

    Errors: `TypeError` for anything else.
    """
    return _bits("xor", "^", x, y, _builder)


@builtin
def logical_and(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Whether both booleans are true; a method of tensors only.

    Errors: `ValueError` for what is not of one bit.
    """
    return elementwise("and", _boolean(x, _builder), _boolean(y, _builder), int1, _builder)


@builtin
def logical_or(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Whether one boolean or both are true; a method of tensors only.

    Errors: `ValueError` for what is not of one bit.
    """
    return elementwise("or", _boolean(x, _builder), _boolean(y, _builder), int1, _builder)


def _boolean(value: Any, builder: KernelBuilder) -> tensor:
    return bitcast(to_operand(value, builder), int1, builder)


@builtin
def lshift(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x << y` of integers.

    Errors: `TypeError` for anything else.
    """
    return _bits("shl", "<<", x, y, _builder)


@builtin
def rshift(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x >> y` of integers: arithmetic where `x` is signed (where `x` is a number: where `y` is), else logical.

    Errors: `TypeError` for anything else.
    """
    x, y = _operands(x, y)
    element = _integer_type(">>", x, y)
    decides = next((value.dtype for value in (x, y) if isinstance(value, tensor)), element)
    assert isinstance(decides, dtype)
    computed = element
    if decides.signed != element.signed:
        computed = DTYPES[f"{'int' if decides.signed else 'uint'}{element.primitive_bitwidth}"]
    return convert(elementwise("shr", x, y, computed, _builder), element, _builder)


@builtin
def invert(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`~x` of integers or booleans.

    Errors: `TypeError` for anything else.
    """
    value = to_operand(x, _builder)
    if not value.dtype.is_int():
        raise TypeError(f"`~` is for integers, not {value.dtype}")
    assert isinstance(value.dtype, dtype)
    ones = _builder.constant(True if value.dtype.is_bool() else -1, value.dtype)
    return _builder.emit("xor", [value, _builder.splat(ones, value.type)], value.type)


@builtin
def negate(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`-x`; integers wrap, or stop the kernel as for `add`.

    Errors: `ValueError` for pointers.
    """
    value = to_operand(x, _builder)
    if isinstance(value.dtype, pointer_type):
        raise ValueError(f"cannot negate a pointer: wrong type argument to unary minus ({value.dtype})")
    number = constant_of(value)
    if number is not None and not isinstance(number, bool):
        return _builder.constant(-number, value.dtype)
    element = value.dtype
    if _builder.checks_overflow and element.is_int() and element.primitive_bitwidth < 64:
        zero = _builder.splat(as_type(0, element, _builder), value.type)
        _check_overflow("sub", [zero, value], _builder)
    return _builder.emit("negate", [value], value.type)


def compare(predicate: str, x: Any, y: Any, builder: KernelBuilder) -> tensor:
    """A comparison as int1; a NaN is unequal to everything and neither less nor greater.

    Errors: `TypeError` for pointers and for what is no number.
    """
    x, y = _operands(x, y)
    element = promoted_type(x, y)
    left, right = broadcast_all([as_type(x, element, builder), as_type(y, element, builder)], builder)
    return builder.emit("compare", [left, right], left.type.with_element_ty(int1), predicate=predicate)


@builtin
def equal(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x == y` as int1."""
    return compare("eq", x, y, _builder)


@builtin
def not_equal(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x != y` as int1; true for NaN."""
    return compare("ne", x, y, _builder)


@builtin
def less_than(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x < y` as int1."""
    return compare("lt", x, y, _builder)


@builtin
def less_equal(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x <= y` as int1."""
    return compare("le", x, y, _builder)


@builtin
def greater_than(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x > y` as int1."""
    return compare("gt", x, y, _builder)


@builtin
def greater_equal(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x >= y` as int1."""
    return compare("ge", x, y, _builder)


def _extreme(opcode: str, x: Any, y: Any, propagate_nan: Any, builder: KernelBuilder) -> tensor:
    x, y = _operands(x, y)
    mode = _unwrap_if_constexpr(propagate_nan)
    if not isinstance(mode, PropagateNan):
        raise TypeError(f"propagate_nan must be a PropagateNan, not {mode!r}")
    element = promoted_type(x, y)
    left, right = broadcast_all([as_type(x, element, builder), as_type(y, element, builder)], builder)
    result = builder.emit(opcode, [left, right], left.type)
    if mode is PropagateNan.ALL and element.is_floating():
        for value in (right, left):
            unordered = compare("ne", value, value, builder)
            result = builder.emit("select", [unordered, value, result], result.type)
    return result


@builtin
def minimum(
    x: Any, y: Any, propagate_nan: PropagateNan | constexpr = PropagateNan.NONE, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """The lesser of `x` and `y`; of a NaN and a number the number, or the NaN with `PropagateNan.ALL`."""
    return _extreme("minimum", x, y, propagate_nan, _builder)


@builtin
def maximum(
    x: Any, y: Any, propagate_nan: PropagateNan | constexpr = PropagateNan.NONE, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """The greater of `x` and `y`; of a NaN and a number the number, or the NaN with `PropagateNan.ALL`."""
    return _extreme("maximum", x, y, propagate_nan, _builder)


@builtin
def where(condition: Any, x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x` where the condition is true, else `y`. Both arms are evaluated; they promote to one type, or are pointers.

    Errors: `TypeError` for arms that do not mix.
    """
    x, y = _operands(x, y)
    chosen = not_zero(to_operand(condition, _builder), _builder)
    if _pointer_in(x) and _pointer_in(y) and x.dtype == y.dtype:
        arms = [x, y]
    else:
        element = promoted_type(x, y)
        arms = [as_type(x, element, _builder), as_type(y, element, _builder)]
    chosen, left, right = broadcast_all([chosen, *arms], _builder)
    return _builder.emit("select", [chosen, left, right], left.type)
