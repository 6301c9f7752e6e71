"""Printed lines and assertions: what each register holds, from the first holder of its element."""

from __future__ import annotations

from functools import reduce
from operator import or_

from glueball.errors import CompilationError
from glueball.lower.context import Context, lowers
from glueball.lower.linear import span, split_constant, thread_offset
from glueball.lower.memory import representative_mask, representative_registers
from glueball.lower.terms import Lowered, Term, materialize, register_type
from glueball.thread import control, conversion, diagnostics
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Value
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type, dtype, element_of, int32


@lowers("print")
def print_values(context: Context, operation: Operation) -> None:
    """A line for each register; a scalar and a bare prefix are printed once."""
    builder, layout = context.builder, operation.attributes["format"]
    programs = [context.program_id(axis) for axis in range(3)]
    nothing = Lowered(int32, (Term(builder.constant("i32", 0)),))
    lowered = context.values[operation.operands[0]] if operation.operands else nothing
    holders, keep = representative_mask(context, lowered), representative_registers(lowered)
    region = builder.new_region()
    with builder.inside(region):
        for register, term in enumerate(lowered.terms):
            if not keep(register):
                continue
            operands = [*programs]
            if operation.operands:
                operands += _coordinates(builder, lowered.type, register) if layout.shape else []
                operands.append(_widened(builder, materialize(builder, term), element_of(lowered.type)))
            attributes = {"layout": layout, "format": layout.c_format, "register": register}
            builder.emit(diagnostics.PRINT, operands, attributes)
        builder.yield_values([])
    condition = builder.constant("i1", True) if holders is None else materialize(builder, holders)
    idle = builder.new_region()
    with builder.inside(idle):
        builder.yield_values([])
    builder.structured(control.IF, (condition,), (region, idle), [])


def _coordinates(builder: Builder, kind: object, register: int) -> list[Value]:
    """Where in the tile a register's element is."""
    assert isinstance(kind, distributed_type)
    linear = kind.linear
    image = int(linear.table("register")[register])
    found = []
    for axis in range(len(kind.shape)):
        bases = [[basis[axis] for basis in linear.bases[name]] for name in ("lane", "warp", "block")]
        mixed, added = split_constant(linear.unflatten(image)[axis], reduce(or_, map(span, bases)))
        start = builder.logical_xor(thread_offset(builder, *bases), builder.constant("i32", mixed))
        found.append(builder.add(start, builder.constant("i32", added)))
    return found


def _widened(builder: Builder, value: Value, element: object) -> Value:
    """A value as variable arguments pass it: floats as float64, integers as 32 or 64 bits."""
    if not isinstance(element, dtype):
        return value
    if element.is_floating():
        return builder.convert(conversion.FLOAT_EXTEND, value, "f64")
    if BITS[register_type(element)] >= 32:
        return value
    return builder.convert(conversion.SIGN_EXTEND if element.signed else conversion.ZERO_EXTEND, value, "i32")


@lowers("breakpoint")
def refuse_breakpoint(_: Context, operation: Operation) -> None:
    """Threads cannot stop one by one for a debugger."""
    raise CompilationError(
        "`breakpoint()` works on the reference executor alone, which runs programs one after the other on whole tiles: "
        "set GLUEBALL_EXECUTOR=reference",
        operation.location,
    )


@lowers("assert")
def assert_condition(context: Context, operation: Operation) -> None:
    """Registers are checked together: a thread fails if one of them does."""
    builder = context.builder
    conditions = context.terms(operation.operands[0])
    masks = context.terms(operation.operands[1]) if len(operation.operands) > 1 else None
    failed = builder.constant("i1", False)
    for register, term in enumerate(conditions):
        wrong = builder.logical_xor(materialize(builder, term), builder.constant("i1", True))
        if masks is not None:
            wrong = builder.logical_and(wrong, materialize(builder, masks[register]))
        failed = builder.logical_or(failed, wrong)
    failing, passing = builder.new_region(), builder.new_region()
    with builder.inside(failing):
        builder.emit(diagnostics.FAIL, (), {"message": operation.attributes["message"]})
        builder.yield_values([])
    with builder.inside(passing):
        builder.yield_values([])
    builder.structured(control.IF, (failed,), (failing, passing), [])
