"""Comparisons and selections. PTX ISA, sections "Comparison and Selection Instructions"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from glueball.ptx.floats import flushed
from glueball.ptx.instruction import GROUPS, Form, Instruction
from glueball.ptx.types import Array

_ORDERED: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": lambda x, y: (x != y) & ~_unordered(x, y),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": lambda x, y: ~_unordered(x, y),
}
"""Comparisons that are false where an operand is NaN."""


def _unordered(x: Array, y: Array) -> Array:
    return np.not_equal(x, x) | np.not_equal(y, y)


def _compare(form: Form, x: Array, y: Array) -> Array:
    """The comparison that the opcode names; those that end in `u` are also true of NaN."""
    name = next(each for each in form.modifiers if each in GROUPS["comparison"])
    x, y = flushed(form, x), flushed(form, y)
    if name == "nan":
        return _unordered(x, y)
    if name in _ORDERED:
        return np.asarray(_ORDERED[name](x, y))
    return np.asarray(_ORDERED[name[:-1]](x, y)) | _unordered(x, y)


def _combined(form: Form, found: Array, other: Array) -> Array:
    match next(each for each in form.modifiers if each in GROUPS["combination"]):
        case "and":
            return found & other
        case "or":
            return found | other
    return found ^ other


def _predicates(form: Form, x: Array, y: Array, *other: Array) -> tuple[Array, Array]:
    """The comparison and its opposite, both combined with another predicate if there is one."""
    found = _compare(form, x, y)
    if not other:
        return found, ~found
    return _combined(form, found, *other), _combined(form, ~found, *other)


def _lanes(form: Form, x: Array, y: Array) -> tuple[Array, Array]:
    """The comparison of both elements of packed types."""
    found = _compare(form, x, y)
    return found[..., 0], found[..., 1]


def _words(form: Form, x: Array, y: Array, *other: Array) -> Array:
    """All bits set, or 1.0, where the comparison holds; else 0."""
    found, kind = _predicates(form, x, y, *other)[0], form.types[0]
    return found.astype(kind.element) if kind.is_float else np.asarray(-found.astype(np.int64)).astype(kind.element)


def _by_sign(form: Form, x: Array, y: Array, chooser: Array) -> Array:
    return np.where(flushed(form, chooser) >= 0, x, y)


_CLASSES: Mapping[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
    "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
}


def _is_class(form: Form, x: Array) -> Array:
    return np.asarray(_CLASSES[form.modifiers[0]](x))


COMPARISONS = (
    Instruction("setp.comparison[.ftz].scalar", "pp=tt", _predicates),
    Instruction("setp.comparison[.ftz].f16|bf16", "p=tt", _compare),
    Instruction("setp.comparison.combination[.ftz].scalar", "pp=ttp", _predicates),
    Instruction("setp.comparison.combination[.ftz].f16|bf16", "p=ttp", lambda *given: _predicates(*given)[0]),
    Instruction("setp.comparison[.ftz].f16x2|bf16x2", "pp=tt", _lanes),
    Instruction("set.comparison[.ftz].u32|s32|f32.scalar", "0=tt", _words),
    Instruction("set.comparison.combination[.ftz].u32|s32|f32.scalar", "0=ttp", _words),
    Instruction("selp.scalar", "t=ttp", lambda form, x, y, chooser: np.where(chooser, x, y)),
    Instruction("slct[.ftz].scalar.s32|f32", "0=001", _by_sign),
    Instruction("testp.finite|infinite|number|notanumber|normal|subnormal.f32|f64", "p=t", _is_class),
)
