"""Atomic accesses of global memory.

Each element of a tile is accessed exactly once, also where its layout holds it several times; every holder gets the
result. `sem` is the ordering (`acquire`, `release`, `acq_rel`, `relaxed`), `scope` who is ordered (`gpu`, `cta`,
`sys`). Elements whose `mask` is false are not accessed, and their result is undefined.
"""

from __future__ import annotations

from typing import Any

from glueball.language.arithmetic import compare
from glueball.language.broadcasting import broadcast_all, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import bitcast, convert
from glueball.language.memory import mask_argument, pointer_argument, scalar_access
from glueball.language.tensor import tensor
from glueball.tile.operations.atomics import SCOPES, SEMANTICS, refused
from glueball.tile.types import distributed_type, dtype, int1, int32, int64, pointer_type, uint32, uint64

Word = str | constexpr | None


def _words(sem: Any, scope: Any, default: str, semantics: tuple[str, ...] = SEMANTICS) -> dict[str, str]:
    """The ordering and its scope; `ValueError` for other words."""
    semantic, extent = _unwrap_if_constexpr(sem), _unwrap_if_constexpr(scope)
    semantic = default if semantic is None else semantic
    extent = SCOPES[0] if extent is None else extent
    if semantic not in semantics:
        raise ValueError(f"Memory semantic {semantic!r} not supported; there are {', '.join(semantics)}")
    if extent not in SCOPES:
        raise ValueError(f"Memory scope {extent!r} not supported; there are {', '.join(SCOPES)}")
    return {"semantic": semantic, "scope": extent}


def _element(pointer: Any, name: str, *, writing: bool = True) -> tuple[tensor, dtype]:
    address, element = pointer_argument(pointer, name)
    assert isinstance(address.dtype, pointer_type)
    if writing and address.dtype.const:
        raise ValueError("Cannot store to a constant pointer")
    if element.is_bool() or element.is_fp8():
        raise ValueError(f"{name} does not support {element}")
    return address, element


def _operands(
    address: tensor, element: dtype, values: list[Any], mask: Any, name: str, builder: KernelBuilder
) -> list[tensor]:
    """Pointer, values of the element type, and mask, of the pointer's shape; `ValueError` where that would grow."""
    chosen = mask_argument(mask, builder)
    data = [convert(to_operand(value, builder), element, builder) for value in values]
    scalar_access(address, mask=chosen, **{f"operand {number}": value for number, value in enumerate(data)})
    operands = broadcast_all([address, *data, *([] if chosen is None else [chosen])], builder)
    if operands[0].handle is not address.handle:
        raise ValueError(
            f"Expected pointer argument to have shape {operands[0].extents}, but it has {address.extents}: the pointer "
            f"of {name} does not broadcast"
        )
    return operands


def _change(kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any, builder: KernelBuilder) -> tensor:
    name = f"atomic_{'xchg' if kind == 'exchange' else kind}"
    words = _words(sem, scope, "acq_rel")
    address, element = _element(pointer, name)
    if reason := refused(kind, element):
        raise ValueError(reason)
    operands = _operands(address, element, [val], mask, name, builder)
    return builder.emit("atomic_change", operands, operands[1].type, kind=kind, **words)


@builtin
def atomic_add(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """Add to memory; what was there before. Integers of 32 and 64 bits, and floats.

    The order of additions by different threads is not defined, so sums of floats may differ in their last bits.
    Errors: `ValueError` for what is no pointer, a constant one, other element types, a mask that is not boolean, other
    words, and where the pointer would have to grow; `LayoutError` for different placements.
    """
    return _change("add", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_max(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The greater of memory and value put there; what was there before. Integers and floats of 32 and 64 bits.

    Floats compare as their bits do: by a signed maximum for values without sign, by an unsigned minimum for others.
    Errors: as `atomic_add`.
    """
    return _extreme("max", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_min(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The lesser of memory and value put there; what was there before. Otherwise as `atomic_max`.

    Errors: as `atomic_add`.
    """
    return _extreme("min", pointer, val, mask, sem, scope, _builder)


def _extreme(kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any, builder: KernelBuilder) -> tensor:
    """Integers directly; floats by the order of their bits, which for those with a sign is the reverse one."""
    words = _words(sem, scope, "acq_rel")
    address, element = _element(pointer, f"atomic_{kind}")
    if not element.is_floating() or element.primitive_bitwidth < 32:
        return _change(kind, pointer, val, mask, sem, scope, builder)
    address, value, *rest = _operands(address, element, [val], mask, f"atomic_{kind}", builder)
    signed, unsigned = (int32, uint32) if element.primitive_bitwidth == 32 else (int64, uint64)
    bits = bitcast(value, signed, builder)
    positive, negative = compare("ge", bits, 0, builder), compare("lt", bits, 0, builder)
    other = {"max": "min", "min": "max"}[kind]
    halves = []
    for integer, change, sign in ((signed, kind, positive), (unsigned, other, negative)):
        chosen = builder.emit("and", [sign, *rest], sign.type) if rest else sign
        place = builder.emit("bitcast", [address], address.type.with_element_ty(pointer_type(integer)))
        operands = [place, bitcast(value, integer, builder), chosen]
        old = builder.emit("atomic_change", operands, operands[1].type, kind=change, **words)
        halves.append(bitcast(old, element, builder))
    return builder.emit("select", [positive, *halves], value.type)


@builtin
def atomic_and(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The bits set in both memory and value put there; what was there before. Integers of 32 and 64 bits.

    Errors: as `atomic_add`.
    """
    return _change("and", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_or(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The bits set in memory or value put there; what was there before. Integers of 32 and 64 bits.

    Errors: as `atomic_add`.
    """
    return _change("or", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_xor(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The bits set in one of memory and value put there; what was there before. Integers of 32 and 64 bits.

    Errors: as `atomic_add`.
    """
    return _change("xor", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_xchg(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """The value put into memory; what was there before. Integers and floats of 32 and 64 bits.

    Errors: as `atomic_add`.
    """
    return _change("exchange", pointer, val, mask, sem, scope, _builder)


@builtin
def atomic_cas(
    pointer: tensor, cmp: Any, val: Any, sem: Word = None, scope: Word = None, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """`val` put into memory where that holds `cmp`, bit by bit; what was there before. Elements of 16, 32 or 64 bits.

    `cmp` and `val` have the type and shape that the pointer points to; numbers only go with a scalar pointer.
    Errors: `ValueError` for other types or shapes, and as `atomic_add`.
    """
    words = _words(sem, scope, "acq_rel")
    address, element = _element(pointer, "atomic_cas")
    if element.primitive_bitwidth not in (16, 32, 64):
        raise ValueError(f"atomic_cas only supports elements with width 16, 32 or 64, not {element}")
    operands = [address]
    for role, value in (("cmp", cmp), ("val", val)):
        given = _unwrap_if_constexpr(value)
        if not isinstance(given, tensor) and not isinstance(address.type, distributed_type):
            given = convert(to_operand(given, _builder), element, _builder)
        wanted = address.type.with_element_ty(element)
        found = given.type if isinstance(given, tensor) else given
        same = found == wanted or (
            isinstance(found, distributed_type)
            and isinstance(wanted, distributed_type)
            and found.element_ty == element
            and wanted.same_placement(found)
        )
        if not same:
            raise ValueError(
                f"atomic_cas needs that the ptr type matches {role} type: {role} must be {wanted}, not {found}"
            )
        operands.append(given)
    return _builder.emit("atomic_compare_exchange", operands, operands[1].type, **words)


@builtin
def atomic_load(
    pointer: tensor, mask: Any = None, sem: Word = None, scope: Word = None, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """What memory holds, read atomically; `sem` is `acquire` (the default) or `relaxed`.

    Errors: as `atomic_add`.
    """
    words = _words(sem, scope, "acquire", ("acquire", "relaxed"))
    address, element = _element(pointer, "atomic_load", writing=False)
    operands = _operands(address, element, [], mask, "atomic_load", _builder)
    return _builder.emit("atomic_load", operands, operands[0].type.with_element_ty(element), **words)


@builtin
def atomic_store(
    pointer: tensor, val: Any, mask: Any = None, sem: Word = None, scope: Word = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> None:  # fmt: skip
    """Write to memory atomically; `sem` is `release` (the default) or `relaxed`.

    Errors: as `atomic_add`.
    """
    words: dict[str, Any] = dict(_words(sem, scope, "release", ("release", "relaxed")))
    address, element = _element(pointer, "atomic_store")
    operands = _operands(address, element, [val], mask, "atomic_store", _builder)
    _builder.create("atomic_store", [operand.handle for operand in operands], attributes=words)


@builtin
def atomic_poll(
    pointer: tensor, expected_value: Any, sem: Word = None, scope: Word = None, timeout_ns: Any = None,
    *, _builder: KernelBuilder = HIDDEN,
) -> tensor:  # fmt: skip
    """Read memory until it holds the expected value, or `timeout_ns` nanoseconds have passed; int1: whether it did.

    Integers of 16, 32 or 64 bits; each element is read at least once. `sem` is `acquire` (the default) or `relaxed`.
    Errors: `ValueError` for other elements and for a negative constant timeout, and as `atomic_add`.
    """
    words = _words(sem, scope, "acquire", ("acquire", "relaxed"))
    address, element = _element(pointer, "atomic_poll", writing=False)
    if not element.is_int() or element.primitive_bitwidth not in (16, 32, 64):
        raise ValueError(f"atomic_poll only supports integers of 16, 32 or 64 bits, not {element}")
    operands = _operands(address, element, [expected_value], None, "atomic_poll", _builder)
    limit = _unwrap_if_constexpr(timeout_ns)
    if limit is not None:
        if isinstance(limit, int | float) and limit < 0:
            raise ValueError(f"atomic_poll's timeout_ns must not be negative, and is {limit}")
        span = convert(to_operand(limit, _builder), int64, _builder)
        if isinstance(span.type, distributed_type):
            raise ValueError(f"atomic_poll's timeout_ns must be a scalar, not {span.type}")
        operands.append(span)
    return _builder.emit("atomic_poll", operands, operands[1].type.with_element_ty(int1), **words)
