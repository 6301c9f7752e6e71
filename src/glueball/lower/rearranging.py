"""Reshaping, joining and splitting: registers are renamed."""

from __future__ import annotations

from glueball.lower.context import Context, lowers
from glueball.lower.shape import pick_registers, register_images
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type


@lowers("reshape")
def reshape(context: Context, operation: Operation) -> None:
    """Flat coordinates stay, so registers keep what they hold."""
    (source,) = operation.operands
    assert isinstance(source.type, distributed_type) and isinstance(operation.result.type, distributed_type)
    images = register_images(operation.result.type.linear)
    context.bind(operation.result, pick_registers(context.terms(source), source.type.linear, images))


@lowers("join")
def join(context: Context, operation: Operation) -> None:
    """The lowest bit of a flat coordinate tells which of the tiles an element comes from."""
    source = operation.operands[0].type
    assert isinstance(source, distributed_type) and isinstance(operation.result.type, distributed_type)
    images = register_images(operation.result.type.linear)
    held = [
        pick_registers(context.terms(operand), source.linear, [image >> 1 for image in images])
        for operand in operation.operands
    ]
    context.bind(operation.result, tuple(held[image & 1][register] for register, image in enumerate(images)))


@lowers("split")
def split(context: Context, operation: Operation) -> None:
    """Each half takes the registers with its lowest bit."""
    (source,) = operation.operands
    assert isinstance(source.type, distributed_type)
    for half, result in enumerate(operation.results):
        assert isinstance(result.type, distributed_type)
        images = [2 * image + half for image in register_images(result.type.linear)]
        context.bind(result, pick_registers(context.terms(source), source.type.linear, images))


@lowers("to_scalar")
def to_scalar(context: Context, operation: Operation) -> None:
    """Every thread holds the only element."""
    context.bind(operation.result, context.terms(operation.operands[0])[:1])
