"""Matrix products of warp groups: tiles are cut into instructions, layouts are checked to be what those read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor

from glueball.errors import LayoutError
from glueball.layouts import NVMMADistributedLayout, f2
from glueball.lower.context import Context, lowers
from glueball.lower.linear import linear_combination, thread_offset, warp_id
from glueball.lower.shape import register_images
from glueball.lower.shared_memory import View, first_address, view_of
from glueball.lower.terms import Term, materialize, register_type
from glueball.thread import arithmetic, synchronization
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Value
from glueball.thread.nvidia import warpgroup
from glueball.thread.nvidia.matrix_operands import GROUP, MatrixOperand
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.operations.mma import RUN_LANES
from glueball.tile.operations.warpgroup import GROUP_WARPS, INSTRUCTION_TYPES, STEP_BYTES
from glueball.tile.shared_views import Descriptor, allocation_alignment, coordinate_offsets, cta_of, part_shape
from glueball.tile.types import distributed_type, shared_memory_descriptor_type

SWIZZLES = (128, 64, 32)
GROUP_THREADS = 128
ROW_BLOCK = 8
"""Rows between the two that a lane holds of each part of the left matrix."""
WORD = 32


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory: how the units read it, and the byte offsets that bits of its rows and of K add."""

    matrix: MatrixOperand
    rows: tuple[int, ...]
    inner: tuple[int, ...]

    def place(self, row: int, k: int) -> int:
        """The byte offset of the part that starts at a row and a k."""
        return f2.apply(self.rows, row) ^ f2.apply(self.inner, k)


def operand_of(kind: Descriptor, row_axis: int, rows: int, transposes: bool, name: str) -> Operand:
    """How the units read a view, `rows` rows an instruction. `LayoutError` where they cannot."""
    size = kind.element_ty.itemsize
    columns = [tuple(offset * size for offset in column) for column in coordinate_offsets(kind)]
    extents = part_shape(kind)
    row_bits, inner_bits = (columns[axis][: extents[axis].bit_length() - 1] for axis in (row_axis, 1 - row_axis))
    step = (STEP_BYTES // size).bit_length() - 1
    if extents[1 - row_axis] < STEP_BYTES // size or extents[row_axis] < rows:
        raise LayoutError(f"operand {name} of {list(extents)} is smaller than one instruction's")
    used_rows = row_bits[: rows.bit_length() - 1]
    alignment = allocation_alignment(kind)
    for swizzle in SWIZZLES:
        for k_major in (True, False) if transposes else (True,):
            found = _matrix(used_rows, inner_bits[:step], size, swizzle, k_major)
            if found is None:
                continue
            if alignment % (GROUP * swizzle):
                raise LayoutError(
                    f"operand {name} must start at a multiple of {GROUP * swizzle} bytes, and its layout asks for "
                    f"{alignment}: {kind.layout}"
                )
            return Operand(found, row_bits, inner_bits)
    need = "" if transposes else "; WGMMA requires K-major operands for this type"
    raise LayoutError(
        f"failed to find valid wgmma layout for operand {name} in shared memory: {kind}{need}. An NVMMASharedLayout "
        f"with a swizzle_byte_width of 32, 64 or 128 is one"
    )


def _matrix(rows: Sequence[int], inner: Sequence[int], size: int, swizzle: int, k_major: bool) -> MatrixOperand | None:
    """The operand that has these byte offsets, if the units can read it with a swizzle."""
    lines, along = (rows, inner) if k_major else (inner, rows)
    group_bits = GROUP.bit_length() - 1
    inside = (swizzle // size).bit_length() - 1
    stride = lines[group_bits] if len(lines) > group_bits else GROUP * swizzle
    leading = along[inside] if len(along) > inside else 0
    if k_major and leading:
        return None
    found = MatrixOperand(swizzle, stride, leading, k_major)
    count, depth = 1 << len(rows), 1 << len(inner)
    expected = found.addresses(0, count, depth, size)
    for bit, offset in enumerate(rows):
        if expected[1 << bit, 0] != offset:
            return None
    for bit, offset in enumerate(inner):
        if expected[0, 1 << bit] != offset:
            return None
    return found


@dataclass(frozen=True, slots=True)
class Left:
    """The first matrix: operands and attributes of the instruction, and what each part of it is called in a step."""

    operands: tuple[Value, ...]
    attributes: dict[str, object]
    places: dict[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Product:
    """A product to be lowered: its accumulators, and how it is cut into instructions."""

    result: distributed_type
    left: distributed_type | shared_memory_descriptor_type
    right: shared_memory_descriptor_type

    @property
    def item_bytes(self) -> int:
        """Bytes of an element of either matrix."""
        return self.right.element_ty.itemsize

    @property
    def inner(self) -> int:
        """K of one instruction."""
        return STEP_BYTES // self.item_bytes

    @property
    def columns(self) -> int:
        """N of one instruction."""
        layout = self.result.layout
        assert isinstance(layout, NVMMADistributedLayout)
        return layout.instr_shape[1]

    @property
    def part(self) -> int:
        """A lane's accumulators of one instruction."""
        return warpgroup.ROWS * self.columns // GROUP_THREADS

    def starts(self) -> list[tuple[int, int]]:
        """Row and column at which each part of the accumulators starts, in the first warp group."""
        images = register_images(self.result.linear)[:: self.part]
        return [(row, column) for row, column in map(self.result.linear.unflatten, images)]


@lowers("warpgroup_mma")
def mma(context: Context, operation: Operation) -> None:
    """Rows outermost, K innermost; in pieces along K where each is to be added up by itself."""
    left, right, accumulator, *use = operation.operands
    result, depth = accumulator.type, right.type.shape[0]
    assert isinstance(result, distributed_type) and isinstance(right.type, shared_memory_descriptor_type)
    assert isinstance(left.type, distributed_type | shared_memory_descriptor_type)
    product = Product(result, left.type, right.type)
    adds = materialize(context.builder, context.term(use[0])) if use else context.builder.constant("i1", True)
    totals = [materialize(context.builder, term) for term in context.terms(accumulator)]
    piece = operation.attributes["most_inexact"]
    if piece is None:
        totals = _multiply(context, operation, product, range(0, depth, product.inner), totals, adds)
    else:
        for start in range(0, depth, piece):
            steps = range(start, min(start + piece, depth), product.inner)
            started = _multiply(context, operation, product, steps, totals, context.builder.constant("i1", False))
            partial = context.builder.emit(warpgroup.WARPGROUP_WAIT, started, {"pending": 0})
            totals = _added(context.builder, totals, list(partial), adds if start == 0 else None)
    context.bind(operation.result, tuple(map(Term, totals)))


def _added(builder: Builder, totals: list[Value], partial: list[Value], adds: Value | None) -> list[Value]:
    """Sums of accumulators; where `adds` does not hold, the new ones alone."""
    if adds is not None and adds.constant is False:
        return partial
    sums = [builder.emit(arithmetic.FADD, pair)[0] for pair in zip(totals, partial, strict=True)]
    if adds is None or adds.constant is True:
        return sums
    return [builder.select(adds, total, alone) for total, alone in zip(sums, partial, strict=True)]


def _multiply(
    context: Context, operation: Operation, product: Product, depths: range, totals: list[Value], adds: Value
) -> list[Value]:
    """The accumulators after the steps along K that start at some depths."""
    builder, result = context.builder, product.result
    names = INSTRUCTION_TYPES[product.right.element_ty.name]
    right_view = view_of(context, operation.operands[1])
    right = operand_of(product.right, 1, product.columns, names.transposes, "B")
    left = _left(context, operation, product, depths)
    place = _base(context, right_view, result, 1, right)
    fresh = adds.constant is False or all(_is_zero(total) for total in totals)
    steps = [
        warpgroup.Step(index, left.places[row, depth], right.place(column, depth), depth == depths.start)
        for index, (row, column) in enumerate(product.starts())
        for depth in depths
    ]
    attributes = {
        "columns": product.columns,
        "inner": product.inner,
        "steps": tuple(steps),
        "part": product.part,
        "accumulators": len(totals),
        "kind": register_type(result.element_ty),
        "fresh": fresh,
        "types": (
            INSTRUCTION_TYPES[product.left.scalar.name].operand,
            names.operand,
            INSTRUCTION_TYPES[result.element_ty.name].accumulator,
        ),
        "right": right.matrix,
        "item_bytes": product.item_bytes,
        "allocation": right_view.allocation,
        "offset": place.offset,
        **left.attributes,
    }
    operands = [*([] if fresh else totals), *left.operands, place.base, *([] if fresh else [adds])]
    return list(builder.emit(warpgroup.WARPGROUP_MMA, operands, attributes))


def _is_zero(value: Value) -> bool:
    return value.constant is not None and value.constant == 0


def _left(context: Context, operation: Operation, product: Product, depths: range) -> Left:
    """The first matrix, in shared memory or in registers."""
    source, kind = operation.operands[0], product.left
    rows = list(dict.fromkeys(row for row, _ in product.starts()))
    if isinstance(kind, distributed_type):
        return _left_in_registers(context, source, rows, depths)
    operand = operand_of(kind, 0, warpgroup.ROWS, INSTRUCTION_TYPES[kind.element_ty.name].transposes, "A")
    view = view_of(context, source)
    place = _base(context, view, product.result, 0, operand)
    attributes = {"left": operand.matrix, "left_allocation": view.allocation, "left_offset": place.offset}
    return Left(
        (place.base,), attributes, {(row, depth): operand.place(row, depth) for row in rows for depth in depths}
    )


def _left_in_registers(context: Context, source: TileValue, rows: list[int], depths: range) -> Left:
    """What a lane holds for each step, in the order of the instruction: along K outermost, then blocks of rows."""
    kind = source.type
    assert isinstance(kind, distributed_type)
    values = [materialize(context.builder, term) for term in context.terms(source)]
    images = map(kind.linear.unflatten, register_images(kind.linear))
    held = {(row, depth): value for (row, depth), value in zip(images, values, strict=True)}
    run = depths.step // (2 * RUN_LANES)
    operands: list[Value] = []
    places: dict[tuple[int, int], int] = {}
    for row in rows:
        for depth in depths:
            places[row, depth] = len(places)
            operands += [
                held[row + block, depth + half * RUN_LANES * run + place]
                for half in range(2)
                for block in (0, ROW_BLOCK)
                for place in range(run)
            ]
    return Left(tuple(operands), {"left": None}, places)


def _base(context: Context, view: View, result: distributed_type, axis: int, operand: Operand) -> Term:
    """Where the part of a matrix starts that this warp group of this CTA works on."""
    builder = context.builder
    address = first_address(builder, view)
    if any(in_ctas := _in_ctas(view.type, result, axis)):
        address = Term(builder.add(address.base, thread_offset(builder, (), (), in_ctas)), address.offset)
    bases = [basis[axis] for basis in result.linear.bases["warp"]][GROUP_WARPS.bit_length() - 1 :]
    moved = [f2.apply(operand.rows, basis) for basis in bases]
    if not any(moved):
        return address
    (warp,) = builder.emit(synchronization.SHUFFLE, [warp_id(builder), builder.constant("i32", 0)])
    group = builder.shift_right(warp, GROUP_WARPS.bit_length() - 1)
    return Term(builder.add(address.base, linear_combination(builder, group, moved)), address.offset)


def _in_ctas(kind: Descriptor, result: distributed_type, axis: int) -> list[int]:
    """By how many bytes each bit of the rank moves the part of a matrix that a CTA works on, in its own memory."""
    moved = []
    for own, wanted in zip(kind.linear.bases["block"], result.linear.bases["block"], strict=True):
        rest = tuple(value ^ wanted[axis] if dim == axis else value for dim, value in enumerate(own))
        if cta_of(rest, kind):
            raise LayoutError(
                f"a CTA multiplies what lies in its own memory, and of operand {'AB'[axis]} it has another part than "
                f"of the result: {kind.layout} for {result.layout}"
            )
        places = zip(rest, coordinate_offsets(kind), strict=True)
        moved.append(reduce(xor, (f2.apply(column, value) for value, column in places)) * kind.element_ty.itemsize)
    return moved


@lowers("warpgroup_wait")
def wait(context: Context, operation: Operation) -> None:
    """Registers pass through the wait, but for those of types that no product has."""
    builder = context.builder
    passing = [operand for operand in operation.operands if _passes(context, operand)]
    values = [materialize(builder, term) for operand in passing for term in context.terms(operand)]
    attributes = {"pending": operation.attributes["pending"]}
    waited = iter(builder.emit(warpgroup.WARPGROUP_WAIT, values, attributes))
    for operand, result in zip(operation.operands, operation.results, strict=True):
        terms = context.terms(operand)
        context.bind(result, tuple(Term(next(waited)) for _ in terms) if operand in passing else terms)


def _passes(context: Context, operand: TileValue) -> bool:
    terms = context.terms(operand)
    bits = BITS[terms[0].base.type]
    return 1 < bits <= WORD and bits * len(terms) % WORD == 0
