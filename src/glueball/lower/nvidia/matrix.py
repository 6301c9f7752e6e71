"""Matrix products of warps: tiles are cut into what one instruction multiplies."""

from __future__ import annotations

from glueball.layouts import DotOperandLayout
from glueball.lower.context import Context, lowers
from glueball.lower.shape import register_images
from glueball.lower.terms import Term, materialize_all
from glueball.thread.ir import Value
from glueball.thread.nvidia import matrix
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.operations.mma import MMA_TYPES, RUN_LANES, k_steps, word_elements, words_along_k
from glueball.tile.types import distributed_type, dtype

ROW_REGISTER = 2
"""Accumulators of a lane side by side in one row; those after them belong to the next block of rows."""

Held = dict[tuple[int, ...], Value]


@lowers("mma_v2")
def mma(context: Context, operation: Operation) -> None:
    """One instruction after the other along K, for each of the tile's pieces; replicas are computed once."""
    left, right, total = operation.operands
    kind, operand = total.type, left.type
    assert isinstance(kind, distributed_type) and isinstance(operand, distributed_type)
    assert isinstance(operand.layout, DotOperandLayout) and isinstance(operand.element_ty, dtype)
    rows, columns = _held(context, left), _held(context, right)
    values = materialize_all(context.builder, context.terms(total))
    images = register_images(kind.linear)
    blocks = 1 if words_along_k(operand.element_ty) == 1 else 2
    size = ROW_REGISTER * blocks
    attributes = _attributes(left, right, total, blocks)
    done: dict[tuple[int, ...], list[Value]] = {}
    results: list[Value] = []
    for start in range(0, len(images), size):
        group = images[start : start + size]
        found = done.get(tuple(group))
        if found is None:
            found = values[start : start + size]
            places = [kind.linear.unflatten(image) for image in group[::ROW_REGISTER]]
            for starts in k_steps(operand.shape[-1], operand.layout.k_width, operand.element_ty):
                factors = _fragments(rows, columns, places, starts, word_elements(operand.element_ty))
                found = list(context.builder.emit(matrix.MMA_SYNC, [*found, *factors], attributes))
            done[tuple(group)] = found
        results += found
    context.bind(operation.result, tuple(map(Term, results)))


def _fragments(
    rows: Held, columns: Held, places: list[tuple[int, ...]], starts: tuple[int, ...], word: int
) -> list[Value]:
    """A lane's elements of both matrices, in the order of the instruction: along K outermost, then blocks of rows."""
    left = [rows[*place[:-1], start + k] for start in starts for place in places for k in range(word)]
    *batch, _, column = places[0]
    return left + [columns[*batch, start + k, column] for start in starts for k in range(word)]


def _held(context: Context, operand: TileValue) -> Held:
    """An operand's registers by where they are in the part of the tile that the first lane holds."""
    kind = operand.type
    assert isinstance(kind, distributed_type)
    values = materialize_all(context.builder, context.terms(operand))
    return {
        tuple(kind.linear.unflatten(image)): value
        for image, value in zip(register_images(kind.linear), values, strict=True)
    }


def _attributes(left: TileValue, right: TileValue, total: TileValue, blocks: int) -> dict[str, object]:
    element = left.type.scalar
    assert isinstance(element, dtype)
    names = [MMA_TYPES[value.type.scalar.name].operand for value in (left, right)]
    return {
        "rows": blocks * matrix.ROWS,
        "columns": matrix.ROWS,
        "inner": RUN_LANES * word_elements(element) * words_along_k(element),
        "types": (*names, MMA_TYPES[total.type.scalar.name].accumulator),
    }
