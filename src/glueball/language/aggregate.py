"""Record types: classes whose instances bundle values of the language."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any, Self

from glueball.errors import did_you_mean
from glueball.language.constexpr import constexpr
from glueball.language.source import SourceFunction
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import wrap
from glueball.language.values import base_type, base_value
from glueball.tile.ir import Value


class aggregate_type(base_type):  # noqa: N801 - as the other types of the language
    """The class of an aggregate and the types of its fields."""

    __slots__ = ("owner", "types")

    def __init__(self, owner: type[aggregate_value], types: list[Any]) -> None:
        self.owner = owner
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, aggregate_type) and self.owner is other.owner and self.types == other.types

    def __hash__(self) -> int:
        return hash((self.owner, *self.types))

    def mangle(self) -> str:
        """`A`, the class, the fields' mangles joined by `_`, closed by `A`."""
        return f"A{self.owner.__name__}" + "_".join(str(field.mangle()) for field in self.types) + "A"

    def __str__(self) -> str:
        fields = zip(self.owner.aggregate_fields(), self.types, strict=True)
        return f"{self.owner.__name__}({', '.join(f'{name}: {kind}' for name, kind in fields)})"


class aggregate_value(base_value):  # noqa: N801 - as the other values of the language
    """Base of the classes that `aggregate` makes."""

    aggregate_annotations: dict[str, Any] = {}  # noqa: RUF012 - each class has its own, none changes it
    aggregate_defaults: dict[str, Any] = {}  # noqa: RUF012 - as above
    aggregate_own: frozenset[str] = frozenset()
    aggregate_scope: dict[str, Any] = {}  # noqa: RUF012 - as above

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """A record made by its constructor, which must set every field."""
        instance = super().__new__(cls)
        cls._initialize(instance, *arguments, **keywords)
        for name in cls.aggregate_annotations:
            if name not in vars(instance):
                raise AttributeError(f"constructor of aggregate {cls.__name__} did not initialize attribute {name!r}")
        object.__setattr__(instance, "_is_complete", True)
        return instance

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """All is done in `__new__`, so that an instance can also be made of its fields."""

    @classmethod
    def _initialize(cls, instance: Self, *arguments: Any, **keywords: Any) -> None:
        """The generated constructor: one parameter for each field, in order; defaults may come before others."""
        fields = list(cls.aggregate_annotations)
        if len(arguments) > len(fields):
            raise TypeError(f"{cls.__name__}() too many positional arguments: {len(arguments)}, not {len(fields)}")
        given = dict(zip(fields, arguments, strict=False))
        for name, value in keywords.items():
            if name not in cls.aggregate_annotations:
                known = did_you_mean(name, fields)
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{known}")
            if name in given:
                raise TypeError(f"{cls.__name__}() got several values for {name!r}")
            given[name] = value
        values = cls.aggregate_defaults | given
        if missing := [name for name in fields if name not in values]:
            raise TypeError(f"{cls.__name__}() missing a required argument: {', '.join(map(repr, missing))}")
        for name in fields:
            setattr(instance, name, wrap(values[name]))

    @classmethod
    def aggregate_fields(cls) -> list[str]:
        """The names of the fields in order, those of bases first."""
        return list(cls.aggregate_annotations)

    @property
    def type(self) -> aggregate_type:
        """The class and the types of the fields."""
        return aggregate_type(type(self), [value.type for value in self._fields()])

    @classmethod
    def aggregate_functions(cls) -> list[Any]:
        """Every function that the class and its bases define."""
        found = []
        for owner in cls.__mro__:
            for member in vars(owner).values() if issubclass(owner, aggregate_value) else ():
                function = member.__func__ if isinstance(member, staticmethod) else member
                function = function.fget if isinstance(function, property) else function
                if isinstance(function, SourceFunction | types.FunctionType) and owner is not aggregate_value:
                    found.append(function)
        return found

    @classmethod
    def aggregate_text(cls) -> str:
        """What tells the class from another version of it: its fields with their annotations and defaults."""
        fields = [(name, str(cls.aggregate_annotations[name])) for name in cls.aggregate_annotations]
        return f"{cls.__module__}.{cls.__qualname__}{fields}{sorted(cls.aggregate_defaults.items())}"

    def _fields(self) -> list[base_value]:
        return [vars(self)[name] for name in self.aggregate_annotations]

    def flatten(self) -> Iterator[Value]:
        """The IR values of all fields, in order."""
        for value in self._fields():
            yield from value.flatten()

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The same record around other IR values."""
        instance: Self = base_value.__new__(type(self))
        for name, value in zip(self.aggregate_annotations, self._fields(), strict=True):
            vars(instance)[name] = value.rebuild(handles)
        vars(instance)["_is_complete"] = True
        return instance

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self)
        if vars(self).get("_is_complete"):
            raise AttributeError(f"cannot assign to {name!r} of immutable aggregate {kind.__name__}")
        if name not in kind.aggregate_annotations:
            known = did_you_mean(name, kind.aggregate_annotations)
            raise AttributeError(f"aggregate {kind.__name__} has no field {name!r}{known}")
        wanted = _resolved(kind, name)
        if not isinstance(value, base_value) and _takes_constants(wanted):
            value = wrap(value)
        if not isinstance(value, wanted):
            given = type(value).__name__
            hint = "; gl.to_tensor makes a number one" if isinstance(value, constexpr) and given != wanted else ""
            raise TypeError(f"Expected {_spelled(wanted)} for attribute {name!r} of {kind.__name__}, got {given}{hint}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        fields = zip(self.aggregate_fields(), self._fields(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


def _takes_constants(annotation: Any) -> bool:
    kinds = typing.get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, constexpr | language_tuple) for kind in kinds)


def _spelled(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation))


def _resolved(kind: type[aggregate_value], name: str) -> Any:
    """A field's annotation as the class, or union of classes, that it is."""
    annotation = kind.aggregate_annotations[name]
    if not isinstance(annotation, str):
        return annotation
    owners = [each for each in kind.__mro__ if issubclass(each, aggregate_value)]
    owner = next(each for each in owners if name in each.aggregate_own)
    namespace = vars(sys.modules.get(owner.__module__, builtins))
    try:
        return eval(annotation, dict(namespace), {owner.__name__: owner, **owner.aggregate_scope})
    except Exception as error:
        raise TypeError(
            f"the annotation {annotation!r} of {kind.__name__}.{name} means nothing here: {error}"
        ) from error


def aggregate(cls: type) -> type[aggregate_value]:
    """Make a class a record type: its annotated names are fields, each of which holds a value of the language.

    Fields of base classes, which are aggregates too, come first. Without `__init__` there is a constructor that takes
    the fields in order, with the defaults that the class gives them; Python values become compile-time ones. With one,
    it sets every field. Instances do not change; `aggregate_replace` makes changed copies. Methods are functions of the
    language, which get `self`, or `constexpr_function`s; operators are methods as in Python.
    Errors: `TypeError` for a base class that is no aggregate. Of constructors: `TypeError` for arguments that do not
    fit and for a value that is no instance of a field's annotation, `AttributeError` for a field that is not set.
    """
    bases: list[builtins.type[aggregate_value]] = []
    for base in cls.__bases__:
        if issubclass(base, aggregate_value):
            bases.append(base)
        elif base is not object:
            raise TypeError(f"the base {base.__name__} of aggregate {cls.__name__} must be an aggregate")
    own = dict(vars(cls).get("__annotations__", {}))
    annotations: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for base in reversed(bases):
        annotations |= base.aggregate_annotations
        defaults |= base.aggregate_defaults
    annotations |= own
    members = {
        name: value
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__", "__annotations__", "__init__", "__slots__") and name not in own
    }
    defaults |= {name: vars(cls)[name] for name in own if name in vars(cls)}
    if "__init__" in vars(cls):
        members["_initialize"] = staticmethod(vars(cls)["__init__"])
    frame = inspect.currentframe()
    scope = dict(frame.f_back.f_locals) if frame is not None and frame.f_back is not None else {}
    members |= {
        "aggregate_annotations": annotations,
        "aggregate_defaults": defaults,
        "aggregate_own": frozenset(own),
        "aggregate_scope": scope if any(isinstance(value, str) for value in own.values()) else {},
    }
    made: builtins.type[aggregate_value] = type(cls.__name__, (*bases,) or (aggregate_value,), members)
    made.__qualname__ = cls.__qualname__
    return made


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """A copy of an aggregate with some fields changed, made by its constructor from all fields.

    Errors: `TypeError` for what is no aggregate, and for a name that is no field.
    """
    if not isinstance(instance, aggregate_value):
        raise TypeError(f"aggregate_replace needs an aggregate, not {instance!r}")
    kind = type(instance)
    for name in changes:
        if name not in kind.aggregate_annotations:
            known = did_you_mean(name, kind.aggregate_annotations)
            raise TypeError(f"aggregate {kind.__name__} has no field {name!r}{known}")
    return kind(**{name: vars(instance)[name] for name in kind.aggregate_annotations} | changes)
