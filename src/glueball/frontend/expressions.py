"""Expressions: operators, comparisons, names, attributes, subscripts, tuples, strings."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

from glueball.errors import CompilationError, UnsupportedLanguageConstruct, did_you_mean
from glueball.frontend.binary import (
    COMPARISON_METHODS,
    LOGICAL_METHODS,
    apply_binary,
    apply_method,
    apply_unary_method,
)
from glueball.frontend.calls import BoundFunction, call, compile_time_value
from glueball.frontend.conditions import decide, logical_operand
from glueball.frontend.control_flow import choose
from glueball.frontend.diagnostics import unsupported, warn
from glueball.frontend.frame import Frame
from glueball.frontend.statements import assign, demote, elements_of
from glueball.language import arithmetic
from glueball.language.aggregate import aggregate_value
from glueball.language.constexpr import constexpr
from glueball.language.function import JITCallable
from glueball.language.shape import getitem, trans
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap, wrap
from glueball.tile.types import distributed_type

UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}

CONVERTERS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}

COMPARISONS: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Callable[..., tensor]]] = {
    ast.Eq: (operator.eq, arithmetic.equal),
    ast.NotEq: (operator.ne, arithmetic.not_equal),
    ast.Lt: (operator.lt, arithmetic.less_than),
    ast.LtE: (operator.le, arithmetic.less_equal),
    ast.Gt: (operator.gt, arithmetic.greater_than),
    ast.GtE: (operator.ge, arithmetic.greater_equal),
}


def _name(frame: Frame, node: ast.Name) -> Any:
    return frame.lookup(node.id)


def _constant(_: Frame, node: ast.Constant) -> constexpr:
    return constexpr(node.value)


def _binary(frame: Frame, node: ast.BinOp) -> Any:
    return apply_binary(frame, type(node.op), frame.evaluate(node.left), frame.evaluate(node.right))


def _unary(frame: Frame, node: ast.UnaryOp) -> Any:
    value, kind = wrap(frame.evaluate(node.operand)), type(node.op)
    if isinstance(value, aggregate_value):
        return apply_unary_method(frame, kind, value)
    if not isinstance(value, tensor):
        return wrap(UNARY[kind](unwrap(value)))
    if kind is ast.Not:
        return arithmetic.invert(logical_operand(value), _builder=frame.builder)
    if kind is ast.USub:
        return arithmetic.negate(value, _builder=frame.builder)
    if kind is ast.Invert:
        return arithmetic.invert(value, _builder=frame.builder)
    raise UnsupportedLanguageConstruct(f"unary `+` is not supported on {value!r}")


def _compare_pair(frame: Frame, kind: type[ast.cmpop], left: Any, right: Any) -> Any:
    if kind in (ast.Is, ast.IsNot):
        return constexpr((unwrap(left) is unwrap(right)) == (kind is ast.Is))
    if kind not in COMPARISONS:
        raise UnsupportedLanguageConstruct(f"unsupported comparison: {kind.__name__}")
    fold, on_tensors = COMPARISONS[kind]
    if isinstance(left, aggregate_value) or isinstance(right, aggregate_value):
        return apply_method(frame, COMPARISON_METHODS[kind], left, right)
    if isinstance(left, tensor) or isinstance(right, tensor):
        return on_tensors(left, right, _builder=frame.builder)
    return constexpr(fold(unwrap(left), unwrap(right)))


def _compare(frame: Frame, node: ast.Compare) -> Any:
    """A chain evaluates each operand once and is the conjunction of its pairs."""
    left, result = frame.evaluate(node.left), None
    for kind, operand in zip(node.ops, node.comparators, strict=True):
        right = frame.evaluate(operand)
        pair = _compare_pair(frame, type(kind), left, right)
        result = pair if result is None else _conjunction(frame, ast.And, result, pair)
        left = right
    return result


def _conjunction(frame: Frame, kind: type[ast.boolop], left: Any, right: Any) -> Any:
    """`and` or `or` of two evaluated operands."""
    left, right = wrap(left), wrap(right)
    if isinstance(left, aggregate_value) or isinstance(right, aggregate_value):
        return apply_method(frame, LOGICAL_METHODS[kind], left, right)
    if not isinstance(left, tensor):
        return right if bool(left) == (kind is ast.And) else left
    first = logical_operand(left)
    if isinstance(left.type, distributed_type):
        symbol = "&" if kind is ast.And else "|"
        warn(f"`and` and `or` on tiles evaluate both operands; write `{symbol}`", frame.builder.location)
    second = logical_operand(right) if isinstance(right, tensor) else constexpr(bool(right))
    combine = arithmetic.bitwise_and if kind is ast.And else arithmetic.bitwise_or
    return combine(first, second, _builder=frame.builder)


def _boolean(frame: Frame, node: ast.BoolOp) -> Any:
    """Compile-time operands short-circuit; what follows one that decides is not looked at."""
    kind = type(node.op)
    result = wrap(frame.evaluate(node.values[0]))
    for operand in node.values[1:]:
        if not isinstance(result, tensor | aggregate_value) and bool(result) != (kind is ast.And):
            return result
        result = _conjunction(frame, kind, result, frame.evaluate(operand))
    return result


def _ternary(frame: Frame, node: ast.IfExp) -> Any:
    condition = decide(frame.evaluate(node.test), frame.builder)
    if isinstance(condition, bool):
        return frame.evaluate(node.body if condition else node.orelse)
    return choose(frame, condition, node)


def _attribute(frame: Frame, node: ast.Attribute) -> Any:
    owner, name = frame.evaluate(node.value), node.attr
    if isinstance(owner, tensor):
        if name == "T":
            return trans(owner, _builder=frame.builder)
        member = getattr(owner, name)
        return BoundFunction(member, owner) if isinstance(member, JITCallable) else member
    if isinstance(owner, language_tuple):
        return owner.field(name)
    if isinstance(owner, aggregate_value):
        return _member(owner, name)
    if isinstance(owner, constexpr) and name not in ("value", "type"):
        owner = owner.value
    return compile_time_value(getattr(owner, name))


def _member(owner: aggregate_value, name: str) -> Any:
    if name in owner.aggregate_annotations:
        return vars(owner)[name]
    try:
        member = inspect.getattr_static(owner, name)
    except AttributeError:
        kind = type(owner)
        known = [*owner.aggregate_annotations, *(each.__name__ for each in kind.aggregate_functions())]
        raise AttributeError(
            f"aggregate {kind.__name__} has no attribute {name!r}{did_you_mean(name, known)}"
        ) from None
    if isinstance(member, JITCallable):
        return BoundFunction(member, owner)
    return compile_time_value(getattr(owner, name))


def _subscript(frame: Frame, node: ast.Subscript) -> Any:
    owner = frame.evaluate(node.value)
    index = frame.evaluate(node.slice)
    if isinstance(owner, tensor):
        return getitem(owner, index, _builder=frame.builder)
    if isinstance(owner, language_tuple):
        return owner[index]
    if isinstance(owner, aggregate_value):
        return frame.invoke(_member(owner, "__getitem__"), index)
    if isinstance(owner, JITCallable):
        raise CompilationError(f"a kernel cannot launch `{owner.__name__}`; call it without a grid")
    return compile_time_value(unwrap(owner)[unwrap(index)])


def _slice(frame: Frame, node: ast.Slice) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else unwrap(frame.evaluate(part)) for part in parts))


def _tuple(frame: Frame, node: ast.Tuple | ast.List) -> language_tuple:
    values: list[Any] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            values.extend(elements_of(frame.evaluate(element.value)))
        else:
            values.append(frame.evaluate(element))
    return language_tuple(values)


def _string(frame: Frame, node: ast.JoinedStr) -> constexpr:
    return constexpr("".join(str(unwrap(frame.evaluate(piece))) for piece in node.values))


def _formatted(frame: Frame, node: ast.FormattedValue) -> constexpr:
    value = wrap(frame.evaluate(node.value))
    plain = unwrap(value)
    if any(True for _ in value.flatten()):
        raise NotImplementedError(f"Cannot evaluate f-string containing non-constexpr values, found {value!r}")
    if node.conversion in CONVERTERS:
        plain = CONVERTERS[node.conversion](plain)
    specification = "" if node.format_spec is None else unwrap(frame.evaluate(node.format_spec))
    return constexpr(format(plain, specification))


def _comprehension(frame: Frame, node: ast.ListComp) -> language_tuple:
    """`[f(x) for x in a_tuple if constant]`, unrolled; the names it binds vanish with it."""
    if len(node.generators) != 1:
        raise unsupported(node, "a list comprehension has one `for`")
    (generator,) = node.generators
    results = []
    names = dict(frame.names)
    for element in elements_of(frame.evaluate(generator.iter)):
        assign(frame, generator.target, element)
        keep = [decide(frame.evaluate(condition), frame.builder) for condition in generator.ifs]
        if not all(isinstance(condition, bool) for condition in keep):
            raise ValueError("the `if` of a list comprehension must be known at compile time")
        if all(keep):
            results.append(frame.evaluate(node.elt))
    frame.names = names
    return language_tuple(results)


def _walrus(frame: Frame, node: ast.NamedExpr) -> Any:
    value = demote(frame.evaluate(node.value), frame.builder)
    assign(frame, node.target, value)
    return value


EXPRESSIONS: Mapping[type[ast.AST], Callable[[Frame, Any], Any]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Call: call,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.FormattedValue: _formatted,
    ast.IfExp: _ternary,
    ast.JoinedStr: _string,
    ast.List: _tuple,
    ast.ListComp: _comprehension,
    ast.Name: _name,
    ast.NamedExpr: _walrus,
    ast.Slice: _slice,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}
