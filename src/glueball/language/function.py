"""Functions that the compiler works on: jitted ones, and Python functions that run at compile time."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, overload

from glueball.language.aggregate import aggregate_value
from glueball.language.builder import is_builtin
from glueball.language.source import Captured, SourceFunction
from glueball.language.tuple import unwrap

HOST_MODULES = ("builtins", "math")
LIBRARY = "glueball.language"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a function's code depends on beside its own text: the functions it reaches and the values they capture."""

    functions: tuple[SourceFunction, ...]
    constants: tuple[Captured, ...]


class JITCallable(SourceFunction):
    """A function written in the kernel language: `fn` is the Python function, `signature` its parameters.

    It runs inside kernels only; calling it raises `RuntimeError`.
    Errors: as `SourceFunction`; `TypeError` for a `**` parameter.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__(fn)
        self.signature = inspect.signature(fn)
        self.must_use: str | None = getattr(fn, "must_use", None)
        self.noinline = False
        for parameter in self.params:
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                raise TypeError(f"functions of the language do not support **{parameter.name}")

    @property
    def params(self) -> list[inspect.Parameter]:
        """The parameters in order."""
        return list(self.signature.parameters.values())

    @property
    def arg_names(self) -> list[str]:
        """The parameters' names in order."""
        return list(self.signature.parameters)

    @cached_property
    def is_library(self) -> bool:
        """Whether the function belongs to the language itself, so that no line of it is the author's."""
        return self.fn.__module__ == LIBRARY or self.fn.__module__.startswith(f"{LIBRARY}.")

    def dependencies(self) -> Dependencies:
        """The functions that this one reaches, and the outside values that it and they use at compile time.

        Computed anew at each call, so that changed values show. Defaults of parameters count as outside values.
        """
        return collect_dependencies(self)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Refuse: only kernels call it."""
        raise RuntimeError(
            f"Cannot call `{self.__name__}`, which is decorated with @glueball.jit, outside of the scope of a kernel; "
            "launch a kernel with `kernel[grid](...)`"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.qualified_name})"


class ConstexprFunction(SourceFunction):
    """A Python function that runs at compile time: its arguments are unwrapped, its result is a compile-time value."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function with the values inside compile-time wrappers; plain result."""
        plain = {name: unwrap(value) for name, value in keywords.items()}
        return unwrap(self.fn(*map(unwrap, arguments), **plain))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


MustUse = TypeVar("MustUse", bound=Callable[..., Any])


@overload
def must_use_result(function: MustUse) -> MustUse: ...
@overload
def must_use_result(function: str) -> Callable[[MustUse], MustUse]: ...
def must_use_result(function: Any) -> Any:
    """Mark a function of the language whose result must not be thrown away; bare, or called with a hint for the error.

    A call of it that stands by itself as a statement does not compile.
    """
    if isinstance(function, str):
        return lambda marked: _mark(marked, function)
    return _mark(function, "")


def _mark(function: Any, hint: str) -> Any:
    function.must_use = hint
    return function


def constexpr_function(fn: Callable[..., Any]) -> ConstexprFunction:
    """Make a Python function callable on the host and, on compile-time values, in kernels."""
    return ConstexprFunction(fn)


def collect_dependencies(root: SourceFunction) -> Dependencies:
    """The functions that one reaches, breadth first, and the values that they capture."""
    functions: dict[types.FunctionType, SourceFunction] = {root.fn: root}
    constants: list[Captured] = []
    pending = [root]
    for function in pending:
        defaults = [
            (f"default of {name}", parameter.default)
            for name, parameter in inspect.signature(function.fn).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        ]
        for name, captured in (*function.references(), *defaults):
            value = unwrap(captured)
            if _belongs_to_the_language(value):
                continue
            if isinstance(value, type) and issubclass(value, aggregate_value):
                constants.append(Captured(function.qualified_name, name, value.aggregate_text()))
                _reach(map(_as_source_function, value.aggregate_functions()), functions, pending)
                continue
            callee = _as_source_function(value)
            if callee is None:
                constants.append(Captured(function.qualified_name, name, value))
            else:
                _reach([callee], functions, pending)
    return Dependencies(tuple(pending[1:]), tuple(constants))


def _reach(
    callees: Iterable[SourceFunction | None],
    functions: dict[types.FunctionType, SourceFunction],
    pending: list[SourceFunction],
) -> None:
    for callee in callees:
        if callee is not None and callee.fn not in functions:
            functions[callee.fn] = callee
            pending.append(callee)


def _belongs_to_the_language(value: Any) -> bool:
    """Whether an object is part of Python or of glueball itself, whose own version is keyed elsewhere."""
    if is_builtin(value):
        return True
    if isinstance(value, type | types.BuiltinFunctionType | types.FunctionType):
        module = value.__module__ or ""
        return module in HOST_MODULES or module.partition(".")[0] == "glueball"
    return False


def _as_source_function(value: Any) -> SourceFunction | None:
    if isinstance(value, SourceFunction):
        return value
    if isinstance(value, types.FunctionType) and value.__name__ != "<lambda>":
        return SourceFunction(value)
    return None
