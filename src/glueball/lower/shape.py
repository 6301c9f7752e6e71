"""Values that are made, repeated or renamed: nothing here moves data between threads."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

import numpy as np

from glueball.errors import LayoutError
from glueball.layouts import LinearLayout
from glueball.lower.context import Context, lowers
from glueball.lower.linear import span, split_constant, thread_offset
from glueball.lower.terms import Registers, Term, register_count, register_type
from glueball.thread import float8
from glueball.thread.ir import BITS
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type, dtype, element_of


def register_images(linear: LinearLayout) -> list[int]:
    """The flat coordinate that each register contributes, in register order."""
    images = [0]
    for basis in linear.flat_bases("register"):
        images += [image ^ basis for image in images]
    return images


def pick_registers(terms: Registers, source: LinearLayout, images: Iterable[int]) -> Registers:
    """The source registers that contribute the given flat coordinates."""
    holder: dict[int, int] = {}
    for register, image in enumerate(register_images(source)):
        holder.setdefault(image, register)
    try:
        return tuple(terms[holder[image]] for image in images)
    except KeyError as missing:
        raise LayoutError(f"no register of {source} holds element {missing.args[0]}") from None


@lowers("constant")
def constant(context: Context, operation: Operation) -> None:
    """A literal scalar; integers live in the offset of a zero base."""
    element, number = element_of(operation.result.type), operation.attributes["value"]
    kind = register_type(element)
    if isinstance(element, dtype) and element.is_fp8():
        bits = float8.encode(np.asarray(number, np.float64), float8.FORMATS[element.name], "nearest")
        context.bind(operation.result, (Term(context.builder.constant(kind, int(bits))),))
    elif kind[0] == "i" and BITS[kind] > 1:
        folded = context.builder.constant(kind, number)
        context.bind(operation.result, (Term(context.builder.constant(kind, 0), int(folded.constant)),))
    else:
        context.bind(operation.result, (Term(context.builder.constant(kind, number)),))


@lowers("program_id")
def program_id(context: Context, operation: Operation) -> None:
    """Index of the program along an axis."""
    context.bind(operation.result, (Term(context.program_id(operation.attributes["axis"])),))


@lowers("num_programs")
def num_programs(context: Context, operation: Operation) -> None:
    """Number of programs along an axis."""
    context.bind(operation.result, (Term(context.num_programs(operation.attributes["axis"])),))


@lowers("make_range")
def make_range(context: Context, operation: Operation) -> None:
    """`start + coordinate`: the thread's part is one register, each register's part a constant."""
    assert isinstance(operation.result.type, distributed_type)
    builder, linear, start = context.builder, operation.result.type.linear, operation.attributes["start"]
    bases = [linear.flat_bases(name) for name in ("lane", "warp", "block")]
    base = thread_offset(builder, *bases)
    variable = reduce(or_, map(span, bases))
    terms = []
    for image in register_images(linear):
        mixed, added = split_constant(image, variable)
        terms.append(Term(builder.logical_xor(base, builder.constant("i32", mixed)), start + added))
    context.bind(operation.result, tuple(terms))


@lowers("splat")
def splat(context: Context, operation: Operation) -> None:
    """One scalar in every register."""
    context.bind(operation.result, (context.term(operation.operands[0]),) * register_count(operation.result.type))


@lowers("expand_dims")
def expand_dims(context: Context, operation: Operation) -> None:
    """A new axis of extent 1 keeps every flat coordinate, so the registers are only renamed."""
    (source,) = operation.operands
    assert isinstance(source.type, distributed_type) and isinstance(operation.result.type, distributed_type)
    images = register_images(operation.result.type.linear)
    context.bind(operation.result, pick_registers(context.terms(source), source.type.linear, images))


@lowers("broadcast")
def broadcast(context: Context, operation: Operation) -> None:
    """Registers along the grown axes repeat those of the source."""
    (source,) = operation.operands
    assert isinstance(source.type, distributed_type) and isinstance(operation.result.type, distributed_type)
    narrow, wide = source.type.shape, operation.result.type.shape
    images = [_projected(image, narrow, wide) for image in register_images(operation.result.type.linear)]
    context.bind(operation.result, pick_registers(context.terms(source), source.type.linear, images))


def _projected(image: int, narrow: tuple[int, ...], wide: tuple[int, ...]) -> int:
    """A flat coordinate of the wide shape as one of the narrow shape, grown axes at 0."""
    coordinates = []
    for extent in reversed(wide):
        coordinates.append(image % extent)
        image //= extent
    flat = 0
    for coordinate, narrow_extent in zip(reversed(coordinates), narrow, strict=True):
        flat = flat * narrow_extent + (coordinate if narrow_extent > 1 else 0)
    return flat


@lowers("permute")
def permute(context: Context, operation: Operation) -> None:
    """Axes change places; the permuted layout keeps every element in its register."""
    context.bind(operation.result, context.terms(operation.operands[0]))
