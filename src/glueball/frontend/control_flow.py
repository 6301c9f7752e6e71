"""`if`, `return` and the ternary."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from glueball.errors import UnsupportedLanguageConstruct
from glueball.frontend.conditions import decide
from glueball.frontend.frame import Frame, Outcome, Statements
from glueball.frontend.merging import (
    Branch,
    Joined,
    extend_branch,
    merge_names,
    placeholder,
    run_branch,
    unify_returns,
)
from glueball.language.broadcasting import to_operand
from glueball.language.constexpr import constexpr
from glueball.language.tensor import tensor
from glueball.language.tuple import wrap
from glueball.language.values import base_value, types_agree


def _return(frame: Frame, node: ast.Return, _: Statements, __: bool) -> Outcome:
    if frame.loops:
        raise UnsupportedLanguageConstruct(
            "Cannot have `return` statements inside `while` or `for` statements; keep the value in a variable and "
            "return it after the loop"
        )
    value = constexpr(None) if node.value is None else wrap(frame.evaluate(node.value))
    return Outcome(returned=True, value=value)


def _if(frame: Frame, node: ast.If, rest: Statements, tail: bool) -> Outcome | None:
    """An `if`. A compile-time condition compiles one branch; a run-time one both, then joins what they bind."""
    here = frame.builder.location
    condition = decide(frame.evaluate(node.test), frame.builder)
    ends = tail and not rest
    if isinstance(condition, bool):
        outcome = frame.execute(node.body if condition else node.orelse, tail=ends)
        if isinstance(outcome.returned, bool):
            return outcome if outcome.returned else None
        frame.builder.location = here
        return _guard(frame, outcome, rest, tail)
    then = run_branch(frame, frame.names, lambda: frame.execute(node.body, tail=ends))
    otherwise = run_branch(frame, frame.names, lambda: frame.execute(node.orelse, tail=ends))
    frame.builder.location = here
    return _join(frame, condition, then, otherwise, rest, tail)


def _guard(frame: Frame, outcome: Outcome, rest: Statements, tail: bool) -> Outcome:
    """Run the rest of a block only where the function has not returned yet."""
    assert isinstance(outcome.returned, tensor)
    if not rest:
        return outcome
    here = frame.builder.location
    returned = run_branch(frame, frame.names, lambda: Outcome(returned=True, value=outcome.value))
    going_on = run_branch(frame, frame.names, lambda: frame.execute(rest, tail=tail))
    frame.builder.location = here
    result = _join(frame, outcome.returned, returned, going_on, (), tail)
    assert result is not None
    return result


def _join(
    frame: Frame, condition: tensor, then: Branch, otherwise: Branch, rest: Statements, tail: bool
) -> Outcome | None:
    """Create the `if` operation of two branches; gives an outcome unless the block simply goes on after it."""
    first, second = then.outcome.returned, otherwise.outcome.returned
    here = frame.builder.location
    if rest and {_certain(first), _certain(second)} == {True, False}:
        going_on = otherwise if first is True else then
        extend_branch(frame, going_on, lambda: frame.execute(rest, tail=tail))
        frame.builder.location = here
        return _join(frame, condition, then, otherwise, (), tail)
    joined = Joined(frame.builder, then, otherwise)
    if first is False and second is False:
        names_from = merge_names(frame, joined)
        frame.names = names_from(joined.emit(condition))
        return None
    joined.add(*_returned_values(joined))
    if (first is True and second is True) or (tail and not rest):
        return Outcome(returned=True, value=next(joined.emit(condition)))
    joined.add(_flag(joined, then), _flag(joined, otherwise))
    names_from = merge_names(frame, joined)
    value, flag, *others = joined.emit(condition)
    frame.names = names_from(iter(others))
    assert isinstance(flag, tensor)
    return _guard(frame, Outcome(flag, value), rest, tail)


def _certain(returned: bool | tensor) -> bool | None:
    """Whether the function has returned, None where that depends on run-time values."""
    return returned if isinstance(returned, bool) else None


def _flag(joined: Joined, branch: Branch) -> base_value:
    """Whether the function has returned at the end of a branch, as a run-time value."""
    returned = branch.outcome.returned
    return joined.within(branch, lambda: to_operand(returned, joined.builder))


def _returned_values(joined: Joined) -> tuple[base_value, base_value]:
    """What both branches return; where one does not, a stand-in of the other's type."""
    then, otherwise = joined.branches
    first, second = then.outcome.value, otherwise.outcome.value
    if first is not None and second is not None:
        return unify_returns(joined, first, second)
    if first is not None:
        return first, _stand_in(joined, otherwise, first)
    assert second is not None
    return _stand_in(joined, then, second), second


def _stand_in(joined: Joined, branch: Branch, value: base_value) -> base_value:
    return joined.within(branch, lambda: placeholder(value, joined.builder))


def choose(frame: Frame, condition: tensor, node: ast.IfExp) -> base_value:
    """A ternary on a run-time condition: only the chosen arm is evaluated at run time.

    Errors: `TypeError` where the arms are of different types.
    """

    def arm(expression: ast.expr) -> Callable[[], Outcome]:
        return lambda: Outcome(returned=False, value=_as_run_time(frame, frame.evaluate(expression)))

    then = run_branch(frame, frame.names, arm(node.body))
    otherwise = run_branch(frame, frame.names, arm(node.orelse))
    first, second = then.outcome.value, otherwise.outcome.value
    assert first is not None and second is not None
    if not types_agree(first.type, second.type):
        raise TypeError(
            f"ternary expression with a run-time condition has inconsistent types {first.type} and {second.type}"
        )
    joined = Joined(frame.builder, then, otherwise)
    joined.add(first, second)
    return next(joined.emit(condition))


def _as_run_time(frame: Frame, value: Any) -> base_value:
    wrapped = wrap(value)
    if isinstance(wrapped, constexpr) and isinstance(wrapped.value, bool | int | float):
        return to_operand(wrapped, frame.builder)
    return wrapped


BRANCHES: Mapping[type[ast.AST], Callable[[Frame, Any, Statements, bool], Outcome | None]] = {
    ast.If: _if,
    ast.Return: _return,
}
