"""Specialisations as text, so that one process can compile what another one launched."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from glueball import layouts
from glueball.language.constexpr import constexpr
from glueball.language.values import tuple_type
from glueball.runtime.executors import Placement
from glueball.runtime.options import LaunchOptions
from glueball.runtime.parameters import parse_type
from glueball.runtime.specialization import Argument, Specialization
from glueball.targets import Target, target_named
from glueball.tile.types import dtype, pointer_type

if TYPE_CHECKING:
    from glueball.runtime.jit import JITFunction

_NUMBERS = (type(None), bool, int, float, str)
_LAYOUTS: dict[str, type] = {
    name: found
    for name, found in vars(layouts).items()
    if isinstance(found, type) and issubclass(found, layouts.base.Layout)
}


def write_specialization(
    function: JITFunction, specialization: Specialization, options: LaunchOptions, placement: Placement
) -> str | None:
    """A specialisation as JSON; `None` where a constant, such as a function, has no text that stands for it."""
    try:
        arguments = [_written(argument) for argument in specialization.arguments]
    except TypeError:
        return None
    return json.dumps(
        {
            "name": f"{function.__module__}.{function.__qualname__}",
            "arguments": arguments,
            "options": asdict(options),
            "target": placement.target.name,
            "executor": placement.executor,
        }
    )


def read_specialization(function: JITFunction, text: str) -> tuple[Specialization, LaunchOptions, Target, str]:
    """What `write_specialization` wrote: the specialisation, the options, the target and the executor.

    `RuntimeError` for that of another function, `ValueError` for what is none.
    """
    try:
        data = json.loads(text)
        name, written = data["name"], data["arguments"]
        chosen, target, executor = data["options"], data["target"], data["executor"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"this is no specialisation that a hook gives: {error!r}") from None
    own = f"{function.__module__}.{function.__qualname__}"
    if name != own:
        raise RuntimeError(f"this specialisation is of {name}, not of {own}")
    if [item["name"] for item in written] != list(function.rules):
        raise RuntimeError(f"this specialisation is of another {own}: its parameters are not the same")
    known = {field.name for field in fields(LaunchOptions)}
    options = LaunchOptions(**{key: value for key, value in chosen.items() if key in known})
    arguments = tuple(_read(item) for item in written)
    return Specialization(arguments), options, target_named(target), executor


def _written(argument: Argument) -> dict[str, Any]:
    if isinstance(argument.type, constexpr):
        return {"name": argument.name, "constant": _constant_text(argument.type.value)}
    if isinstance(argument.type, tuple_type):
        elements = [_written(element) for element in argument.elements]
        return {"name": argument.name, "elements": elements, "fields": argument.type.fields}
    if not isinstance(argument.type, dtype | pointer_type):
        raise TypeError(f"an argument of type {argument.type} has no text")
    is_pointer = isinstance(argument.type, pointer_type)
    const = "k" if isinstance(argument.type, pointer_type) and argument.type.const else ""
    kind = f"*{const}{argument.type.element_ty.mangle()}" if isinstance(argument.type, pointer_type) else None
    return {
        "name": argument.name,
        "type": kind if is_pointer else argument.type.mangle(),
        "divisibility": argument.divisibility,
    }


def _read(item: Mapping[str, Any]) -> Argument:
    if "constant" in item:
        return Argument(item["name"], constexpr(_constant(ast.parse(item["constant"], mode="eval").body)))
    if "elements" in item:
        elements = tuple(map(_read, item["elements"]))
        kind = tuple_type([element.type for element in elements], item["fields"])
        return Argument(item["name"], kind, elements=elements)
    return Argument(item["name"], parse_type(item["type"]), item["divisibility"])


def _constant_text(value: Any) -> str:
    """Text of a plain constant, a dtype, a layout, or a tuple or list of such; `TypeError` for another value."""
    if type(value) in _NUMBERS or isinstance(value, layouts.base.Layout):
        return repr(value)
    if isinstance(value, dtype):
        return value.name
    if isinstance(value, constexpr):
        return _constant_text(value.value)
    if type(value) in (tuple, list):
        inner = "".join(f"{_constant_text(item)}, " for item in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    raise TypeError(f"a {type(value).__name__} has no text")


def _constant(node: ast.expr) -> Any:
    """The value of such a text. Nothing is evaluated: only literals, dtypes and layouts are made."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in _LAYOUTS:
            return _LAYOUTS[name](**{str(item.arg): _constant(item.value) for item in keywords})
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Name(id=name):
            return parse_type(name)
        case ast.Tuple(elts=elements):
            return tuple(map(_constant, elements))
        case ast.List(elts=elements):
            return list(map(_constant, elements))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -float("inf")
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"{ast.unparse(node)} is no constant that a hook gives") from None
