"""Kernel parameters: what annotations and options of `jit` say about each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from glueball.errors import CompilationError
from glueball.language.constexpr import constexpr
from glueball.layouts import NVMMASharedLayout
from glueball.layouts.parse import parse_layout
from glueball.tile.types import DTYPES, ScalarType, dtype, pointer_type, tensor_descriptor_type

_SHORT_NAMES = {
    **{item.name: item for item in DTYPES.values()},
    **{item.mangle(): item for item in DTYPES.values()},
    "float8_e4m3fn": DTYPES["float8e4nv"],
    "float8_e5m2": DTYPES["float8e5"],
    "float8_e4m3fnuz": DTYPES["float8e4b8"],
    "float8_e5m2fnuz": DTYPES["float8e5b16"],
    "half": DTYPES["float16"],
}
_PYTHON_NAMES = ("bool", "float", "int")


@dataclass(frozen=True, slots=True)
class ParameterRule:
    """How arguments for one parameter are specialised.

    `type` is forced by an annotation. `specialize_value` makes an int equal to 1 a constant, `specialize_alignment`
    tells multiples of 16 apart.
    """

    name: str
    is_constexpr: bool = False
    is_const: bool = False
    type: ScalarType | None = None
    specialize_value: bool = True
    specialize_alignment: bool = True


def parse_type(text: str) -> ScalarType:
    """The type that a text such as `i64`, `fp16`, `*bf16` or `*kfp32` (a pointer never stored through) names.

    `ValueError` with the known names otherwise.
    """
    constant = text.startswith("*k")
    name = text.removeprefix("*k" if constant else "*").rpartition(".")[2]
    found = DTYPES.get(name) or _SHORT_NAMES.get(name)
    if found is None:
        raise ValueError(
            f"unknown type {text!r}; the known ones are {', '.join(DTYPES)}, and `*` before one for a pointer"
        )
    return pointer_type(found, const=constant) if text.startswith("*") else found


_DESCRIPTOR = re.compile(
    r"tensordesc(_im2col)?<(\w+)\[([\d, ]+)\],\s*(?:input_rank=(\d+),\s*)?(NVMMASharedLayout\(.*\))>"
)


def parse_descriptor_type(text: str) -> tensor_descriptor_type | None:
    """The type that a text such as `tensordesc<fp16[64,64],NVMMASharedLayout(...)>` names; `None` for another text."""
    match = _DESCRIPTOR.fullmatch(text.strip())
    if match is None:
        return None
    im2col, element, extents, rank, layout = match.groups()
    kind, read = parse_type(element), parse_layout(layout)
    if not isinstance(kind, dtype) or not isinstance(read, NVMMASharedLayout):
        raise ValueError(f"{text!r} is no type of a tensor descriptor")
    block = tuple(int(extent) for extent in extents.split(","))
    return tensor_descriptor_type(kind, block, read, int(rank or len(block)), im2col=im2col is not None)


def rules_of(
    signature: inspect.Signature,
    namespace: Mapping[str, Any],
    do_not_specialize: Iterable[int | str] = (),
    do_not_specialize_on_alignment: Iterable[int | str] = (),
) -> dict[str, ParameterRule]:
    """The rule of every parameter by name, in order. The two lists hold names or positions.

    `namespace` is the function's, in which annotations that are texts are looked up.

    `TypeError` for `*` and `**` parameters and for a list that names no parameter; `CompilationError` for a
    compile-time parameter in a list.
    """
    names = list(signature.parameters)
    plain = _named(names, do_not_specialize, "do_not_specialize")
    unaligned = _named(names, do_not_specialize_on_alignment, "do_not_specialize_on_alignment") | plain
    return {
        name: _rule(parameter, _resolved(parameter.annotation, namespace), name not in plain, name not in unaligned)
        for name, parameter in signature.parameters.items()
    }


def _named(names: list[str], listed: Iterable[int | str], option: str) -> set[str]:
    found = set()
    for item in listed:
        if isinstance(item, int) and 0 <= item < len(names):
            found.add(names[item])
        elif item in names:
            found.add(str(item))
        else:
            raise TypeError(f"{option} names {item!r}, which is no parameter; they are {', '.join(names)}")
    return found


def _resolved(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """An annotation that is text, as under `from __future__ import annotations`, as the object it names, if it does."""
    if not isinstance(annotation, str):
        return annotation
    try:
        found = eval(annotation, dict(namespace))
    except Exception:  # whatever the author's expression raises: the text itself may still say enough
        return annotation.strip("'\" ")
    return (
        found if isinstance(found, str) or found is constexpr or isinstance(found, dtype | pointer_type) else annotation
    )


def _rule(
    parameter: inspect.Parameter, annotation: Any, specialize_value: bool, specialize_alignment: bool
) -> ParameterRule:
    if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else "*"
        raise TypeError(f"kernels do not support {stars}{parameter.name}: every parameter has a name of its own")
    is_constexpr = _is_constexpr(annotation)
    if is_constexpr and not (specialize_value and specialize_alignment):
        raise CompilationError(f"parameter `{parameter.name}` is constexpr and cannot be excluded from specialisation")
    forced = None if is_constexpr else _forced_type(annotation)
    return ParameterRule(
        name=parameter.name,
        is_constexpr=is_constexpr,
        is_const=_is_const(annotation),
        type=forced,
        specialize_value=specialize_value and forced is None,
        specialize_alignment=specialize_alignment,
    )


def _is_constexpr(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == "constexpr"
    return annotation is constexpr


def _is_const(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] == "const" or text.startswith(("const ", "*k"))


def _forced_type(annotation: Any) -> ScalarType | None:
    """The type that an annotation forces; annotations that are no types of the language say nothing."""
    if isinstance(annotation, dtype | pointer_type):
        return annotation
    if not isinstance(annotation, str):
        return None
    if annotation in _PYTHON_NAMES:
        return None
    try:
        return parse_type(annotation)
    except ValueError:
        return None
