"""From a function of the language and the types of its arguments to a kernel in tile IR."""

from __future__ import annotations

from collections.abc import Mapping

from glueball.frontend.calls import invoke
from glueball.frontend.control_flow import BRANCHES
from glueball.frontend.expressions import EXPRESSIONS
from glueball.frontend.frame import Frame, Syntax, Undefined
from glueball.frontend.loops import FOR_LOOPS, LOOPS
from glueball.frontend.statements import STATEMENTS
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import constexpr
from glueball.language.function import JITCallable
from glueball.language.nvidia.tensor_descriptors import make_descriptor
from glueball.language.target_info import compiling_for
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import wrap
from glueball.language.values import base_value, tuple_type
from glueball.location import SourceLocation
from glueball.targets import Target
from glueball.tile.ir import ArgumentFacts, Region, TileFunction, Value
from glueball.tile.types import DESCRIPTOR_PARTS, TileType, tensor_descriptor_type

SYNTAX = Syntax(EXPRESSIONS, {**STATEMENTS, **LOOPS}, {**BRANCHES, **FOR_LOOPS}, invoke)


def build(
    function: JITCallable,
    arguments: Mapping[str, TileType | constexpr | tuple_type],
    facts: Mapping[str, ArgumentFacts],
    *,
    num_warps: int,
    target: Target,
    name: str,
    num_ctas: int = 1,
    debug: bool = False,
    checks_overflow: bool = False,
) -> TileFunction:
    """Compile a kernel for argument types: `arguments` gives every parameter a type or a compile-time value.

    `facts` tells what is known of run-time arguments; with `debug`, assertions are part of the kernel, with
    `checks_overflow` also those that integer arithmetic fits its type. The tile function has the run-time arguments in
    the order of the parameters. Errors: `CompilationError` at the author's innermost line, caused by what went wrong;
    `ValueError` where the source is not at hand; `TypeError` where `arguments` does not fit the parameters.
    """
    if list(arguments) != function.arg_names:
        raise TypeError(
            f"`{function.__name__}` has the parameters {', '.join(function.arg_names)}, but types are given for "
            f"{', '.join(arguments)}"
        )
    names: dict[str, base_value | Undefined] = {}
    values: list[Value] = []
    for parameter, kind in arguments.items():
        names[parameter] = _argument(parameter, kind, values)
    body = Region()
    builder = KernelBuilder(body, num_warps=num_warps, num_ctas=num_ctas, target=target)
    builder.debug = debug
    builder.checks_overflow = checks_overflow
    source = function.source
    frame = Frame(function, builder, SYNTAX, names)
    with compiling_for(target):
        frame.execute(source.tree.body, tail=True)
    definition = source.line(source.first_line)
    start = len(definition) - len(definition.lstrip())
    location = SourceLocation(
        source.file, source.first_line, start, len(definition), function.__name__, source.first_line
    )
    builder.location = location
    builder.create("return")
    known = [facts.get(value.name, ArgumentFacts()) for value in values]
    return TileFunction(name, values, known, body, num_warps, target.lanes, location, num_ctas=num_ctas)


def _argument(name: str, kind: TileType | constexpr | tuple_type, values: list[Value]) -> base_value:
    """What a parameter holds; the run-time values inside are appended to `values`, those of a tuple as `name.0` etc."""
    if isinstance(kind, constexpr):
        return wrap(kind.value)
    if isinstance(kind, tuple_type):
        elements = [_argument(f"{name}.{position}", element, values) for position, element in enumerate(kind.types)]
        return language_tuple(elements, kind.fields)
    values.append(Value(kind, name))
    handle = values[-1]
    if isinstance(kind, tensor_descriptor_type):
        parts = [
            [Value(element, f"{name}.{part}.{axis}") for axis in range(kind.rank)] for part, element in DESCRIPTOR_PARTS
        ]
        for part in parts:
            values.extend(part)
        shape, strides = ([tensor(value) for value in part] for part in parts)
        return make_descriptor(handle, shape, strides)
    return tensor(handle)
