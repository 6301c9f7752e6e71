"""`for` and `while`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glueball.errors import CompilationError, UnsupportedLanguageConstruct
from glueball.frontend.conditions import decide
from glueball.frontend.frame import Frame, Outcome, Statements, Undefined, name_handles
from glueball.frontend.merging import Names
from glueball.frontend.statements import assign, elements_of
from glueball.language.broadcasting import to_operand, type_difference
from glueball.language.constexpr import constexpr
from glueball.language.conversion import convert
from glueball.language.debug import static_range
from glueball.language.promotion import promote
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap, wrap
from glueball.language.values import base_value, carries_on, types_agree
from glueball.tile.ir import Region, Value
from glueball.tile.types import distributed_type, dtype


def bound_names(statements: Iterable[ast.AST]) -> list[str]:
    """The names that statements bind anywhere inside, in order of appearance."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
    return list(names)


@dataclass(slots=True)
class Carried:
    """The variables that a loop carries from one turn to the next, as they were before it.

    `constants` are names with compile-time values that the body binds: they must not change.
    """

    frame: Frame
    values: dict[str, base_value]
    constants: dict[str, base_value]

    def arguments(self) -> tuple[list[Value], Names]:
        """Arguments for a region, and the names as they are inside it."""
        arguments: list[Value] = []
        names = dict(self.frame.names)
        for name, value in self.values.items():
            handles = [Value(handle.type) for handle in value.flatten()]
            arguments += handles
            names[name] = inside = value.rebuild(iter(handles))
            name_handles(inside, name)
        return arguments, names

    def initial(self) -> list[Value]:
        """The IR values before the loop."""
        return [handle for value in self.values.values() for handle in value.flatten()]

    def current(self, names: Names) -> list[Value]:
        """The IR values at the end of a region, checked against the types before the loop."""
        handles: list[Value] = []
        for name, before in self.values.items():
            after = names[name]
            if not isinstance(after, base_value) or not carries_on(before.type, after.type):
                raise self._failure(
                    name,
                    f"Loop-carried variable {name} has initial type {before.type} but is re-assigned to "
                    f"{_describe(after)} in the loop body; a variable keeps its type around a loop"
                    f"{type_difference(before.type, getattr(after, 'type', None))}",
                )
            handles.extend(after.flatten())
        for name, before in self.constants.items():
            after = names[name]
            if not isinstance(after, base_value) or not types_agree(before.type, after.type):
                raise self._failure(
                    name,
                    f"`{name}` holds {before!r} before the loop, which is not a triton value, but changed type to "
                    f"{_describe(after)} in the loop body",
                )
        return handles

    def after(self, results: Sequence[Value], bound: Iterable[str], loop: str) -> Names:
        """The names after the loop, whose carried values are the results of its operation."""
        names = dict(self.frame.names)
        remaining = iter(results)
        for name, value in self.values.items():
            names[name] = result = value.rebuild(remaining)
            name_handles(result, name)
        for name in bound:
            if name not in self.values and name not in self.constants:
                names[name] = Undefined(f"it is bound only inside the {loop} loop, whose body may never run")
        return names

    def _failure(self, name: str, message: str) -> CompilationError:
        """The error at the statement that bound a name last."""
        error = CompilationError(message, self.frame.location(self.frame.bound_at[name]))
        error.__cause__ = AssertionError(message)
        return error


def _describe(value: base_value | Undefined | None) -> str:
    return f"{value.type}" if isinstance(value, base_value) else "no value"


def carry(frame: Frame, bound: Iterable[str]) -> Carried:
    """What a loop whose body binds these names carries."""
    carried = Carried(frame, {}, {})
    for name in bound:
        value = frame.names.get(name)
        if isinstance(value, base_value):
            group = carried.values if any(True for _ in value.flatten()) else carried.constants
            group[name] = value
    return carried


def _body(frame: Frame, region: Region, names: Names, run: Callable[[], None]) -> Names:
    """Run a loop's code into a region; gives the names at its end."""
    outer_region, outer_names = frame.builder.region, frame.names
    frame.builder.region, frame.names = region, names
    frame.loops += 1
    run()
    frame.loops -= 1
    names = frame.names
    frame.builder.region, frame.names = outer_region, outer_names
    return names


def _end_region(frame: Frame, region: Region, values: list[Value]) -> None:
    outer = frame.builder.region
    frame.builder.region = region
    frame.builder.create("yield", values)
    frame.builder.region = outer


class _Turn(ast.stmt):
    """Begins a turn of an unrolled loop, whose variable gets a compile-time number."""

    def __init__(self, loop: ast.For, number: int) -> None:
        super().__init__()
        ast.copy_location(self, loop)
        self.variable = loop.target
        self.number = number


def _turn(frame: Frame, node: _Turn) -> None:
    assign(frame, node.variable, constexpr(node.number))


def _for(frame: Frame, node: ast.For, rest: Statements, tail: bool) -> Outcome | None:
    if node.orelse:
        raise UnsupportedLanguageConstruct("`else` of a loop is not supported")
    if not isinstance(node.target, ast.Name):
        raise UnsupportedLanguageConstruct("a loop variable is a plain name")
    iterated = node.iter
    kind = unwrap(frame.evaluate(iterated.func)) if isinstance(iterated, ast.Call) else None
    if not isinstance(iterated, ast.Call) or kind not in (range, static_range):
        raise UnsupportedLanguageConstruct(
            "a `for` statement iterates over a call of `range` or `gl.static_range`, nothing else"
        )
    bounds: list[Any] = []
    for argument in iterated.args:
        if isinstance(argument, ast.Starred):
            bounds.extend(elements_of(frame.evaluate(argument.value)))
        else:
            bounds.append(wrap(frame.evaluate(argument)))
    keywords = {keyword.arg: frame.evaluate(keyword.value) for keyword in iterated.keywords}
    if keywords:
        raise TypeError(f"{kind.__name__} takes no keyword arguments, but got {', '.join(map(str, keywords))}")
    if kind is static_range:
        return _unroll(frame, node, static_range(*bounds).values, rest, tail)
    _for_range(frame, node, node.target.id, bounds)
    return None


def _unroll(frame: Frame, node: ast.For, values: range, rest: Statements, tail: bool) -> Outcome | None:
    """The turns one after another; with what follows where one may return, which ends the function there."""
    turns: list[ast.stmt] = []
    for value in values:
        turns += [_Turn(node, value), *node.body]
    if any(isinstance(inside, ast.Return) for statement in node.body for inside in ast.walk(statement)):
        return frame.execute([*turns, *rest], tail=tail)
    frame.execute(turns)
    return None


def _for_range(frame: Frame, node: ast.For, induction_name: str, bounds: list[Any]) -> None:
    here = frame.builder.location
    lower, upper, step = _bounds(frame, bounds)
    bound = [name for name in bound_names(node.body) if name != induction_name]
    carried = carry(frame, bound)
    induction = Value(lower.type, induction_name)
    arguments, names = carried.arguments()
    names[induction_name] = tensor(induction)
    region = Region([induction, *arguments])
    names = _body(frame, region, names, lambda: _run(frame, node.body))
    frame.builder.location = here
    _end_region(frame, region, carried.current(names))
    unchanged = _drop_unchanged(region, dict(zip(arguments, carried.initial(), strict=True)))
    operands = [
        value for argument, value in zip(arguments, carried.initial(), strict=True) if argument not in unchanged
    ]
    operation = frame.builder.create(
        "for",
        [lower.handle, upper.handle, step.handle, *operands],
        [operand.type for operand in operands],
        regions=[region],
    )
    results = iter(operation.results)
    final = [unchanged[argument] if argument in unchanged else next(results) for argument in arguments]
    frame.names = carried.after(final, bound, "`for`")
    frame.names[induction_name] = Undefined("the value of a loop variable is undefined after its loop")


def _drop_unchanged(body: Region, initial: dict[Value, Value]) -> dict[Value, Value]:
    """Let the body use the initial value itself of whatever it carries unchanged; gives those arguments."""
    end = body.operations[-1]
    unchanged = {
        argument: value
        for (argument, value), following in zip(initial.items(), end.operands, strict=True)
        if following is argument
    }
    if unchanged:
        end.operands = [value for value in end.operands if value not in unchanged]
        body.arguments = [argument for argument in body.arguments if argument not in unchanged]
        for operation in body.walk():
            operation.operands = [unchanged.get(operand, operand) for operand in operation.operands]
    return unchanged


def _run(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    frame.execute(statements)


def _bounds(frame: Frame, bounds: list[Any]) -> tuple[tensor, tensor, tensor]:
    """Lower bound, upper bound and step as scalars of one integer type.

    Errors: `TypeError` for bounds that are no integer scalars or of the wrong number, `ValueError` for a step of zero
    and for a negative step of an unsigned loop.
    """
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"range expected 1 to 3 arguments, got {len(bounds)}")
    full = [constexpr(0), bounds[0], constexpr(1)] if len(bounds) == 1 else [*bounds, constexpr(1)][:3]
    for bound in full:
        _check_bound(bound)
    step = full[2].value if isinstance(full[2], constexpr) else None
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    operands = [to_operand(bound, frame.builder) for bound in full]
    element = operands[0].dtype
    for operand in operands[1:]:
        element = promote(element, operand.dtype)
    assert isinstance(element, dtype)
    if step is not None and step < 0 and not element.signed:
        raise ValueError(f"a loop over {element} cannot step by {step}")
    lower, upper, by = (convert(operand, element, frame.builder) for operand in operands)
    return lower, upper, by


def _check_bound(bound: Any) -> None:
    if isinstance(bound, tensor):
        if isinstance(bound.type, distributed_type):
            raise TypeError(f"a bound or step of `range` must be a scalar, not {bound!r}")
        integer = bound.dtype.is_int() and not bound.dtype.is_bool()
    else:
        integer = isinstance(bound, constexpr) and type(bound.value) is int
    if not integer:
        raise TypeError(
            f"the bounds and step of `range` must all be ints, not {bound!r}; `//` and `.to(gl.int32)` give ints"
        )


def _while(frame: Frame, node: ast.While) -> None:
    if node.orelse:
        raise UnsupportedLanguageConstruct("`else` of a loop is not supported")
    here = frame.builder.location
    bound = bound_names([node.test, *node.body])
    carried = carry(frame, bound)
    decision: list[tensor] = []

    def test() -> None:
        condition = decide(frame.evaluate(node.test), frame.builder)
        if isinstance(condition, bool):
            raise ValueError(
                f"the condition of `while` must be a run-time scalar, not the compile-time value {condition}: the loop "
                "would never run or never end"
            )
        decision.append(condition)

    arguments, names = carried.arguments()
    condition_region = Region(arguments)
    names = _body(frame, condition_region, names, test)
    frame.builder.location = here
    _end_region(frame, condition_region, [decision[0].handle, *carried.current(names)])
    arguments, names = carried.arguments()
    body_region = Region(arguments)
    names = _body(frame, body_region, names, lambda: _run(frame, node.body))
    frame.builder.location = here
    _end_region(frame, body_region, carried.current(names))
    operation = frame.builder.create(
        "while",
        carried.initial(),
        [argument.type for argument in arguments],
        regions=[condition_region, body_region],
    )
    frame.names = carried.after(operation.results, bound, "`while`")


LOOPS: Mapping[type[ast.AST], Callable[[Frame, Any], None]] = {_Turn: _turn, ast.While: _while}
FOR_LOOPS: Mapping[type[ast.AST], Callable[[Frame, Any, Statements, bool], Outcome | None]] = {ast.For: _for}
