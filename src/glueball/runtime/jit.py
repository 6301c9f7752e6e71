"""`jit`: functions of the language that can be launched."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from glueball.drivers.cuda import cuda_available
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.function import JITCallable
from glueball.runtime.canonical import CanonicalValues
from glueball.runtime.captures import Captures, function_text
from glueball.runtime.compiler import CompilationRequest
from glueball.runtime.executors import place
from glueball.runtime.grid import Grid, normalise_grid
from glueball.runtime.kernel import CompiledKernel
from glueball.runtime.options import LaunchOptions, read_options
from glueball.runtime.parameters import ParameterRule, rules_of
from glueball.runtime.specialization import Specialization, specialize
from glueball.targets import Target

LAUNCHER_LIMIT = 1024
"""Launchers a function keeps, one per grid."""


class SpecializationInfo(NamedTuple):
    """What `jit`'s `repr` option gets: compile-time values, and the types of all other arguments, by parameter."""

    constants: dict[str, Any]
    signature: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Call:
    """One launch: its arguments by parameter, what they are compiled as, and the names it gave in its order."""

    bound: dict[str, Any]
    specialization: Specialization
    options: LaunchOptions
    given: list[str]


class JITFunction(JITCallable):
    """A function of the language. `function[grid](*arguments, num_warps=4, ...)` compiles it if needed and launches it.

    `grid` is an integer, one to three integers, or a callable that gives them from the bound arguments by name. A
    launch returns the compiled kernel. Host arrays run on the simulator. Device arrays run on their device, on the
    caller's current stream, and the launch does not wait for the end.
    Errors of a launch: `TypeError` for arguments that do not fit the parameters, `UnknownOptionError` and `OptionError`
    for its keywords, `CompilationError` for the kernel, `OutOfResources`, `RuntimeError` for an outside value that
    changed since the first launch, and what the executor raises.
    """

    def __init__(
        self,
        fn: Any,
        *,
        version: object = None,
        repr: Callable[[SpecializationInfo], str] | None = None,  # noqa: A002 - the language's name
        launch_metadata: Callable[..., Any] | None = None,
        do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
    ) -> None:
        super().__init__(fn)
        self.noinline = bool(noinline)
        self.version = version
        self.launch_metadata = launch_metadata
        self.debug = debug
        self._repr = repr
        self._unspecialized = (tuple(do_not_specialize or ()), tuple(do_not_specialize_on_alignment or ()))
        if any(self._unspecialized):
            _ = self.rules
        self._kernels: dict[tuple[object, ...], CompiledKernel] = {}
        self._launchers: dict[Any, Callable[..., CompiledKernel]] = {}
        self._canonical = CanonicalValues()
        self._captures: Captures | None = None
        self._lock = threading.RLock()

    @functools.cached_property
    def rules(self) -> dict[str, ParameterRule]:
        """How arguments are specialised, by parameter. `TypeError` for a function that only other ones can call."""
        return rules_of(self.signature, self.fn.__globals__, *self._unspecialized)

    @property
    def constexprs(self) -> list[int]:
        """Positions of the parameters that are annotated `constexpr`."""
        return [position for position, rule in enumerate(self.rules.values()) if rule.is_constexpr]

    @property
    def cache_key(self) -> str | None:
        """A hash of the function's source, of what it calls and of the outside values it uses, as they are now.

        `None` where one of those values means nothing outside this process.
        """
        return function_text(self)

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        try:
            return self._launchers[grid]
        except (KeyError, TypeError):
            return self._launcher(grid)

    def warmup(self, *arguments: Any, grid: Any = 1, **keywords: Any) -> CompiledKernel:
        """Compiles as a launch with these arguments would, and launches nothing."""
        call = self._read_call(arguments, keywords)
        normalise_grid(grid(call.bound) if callable(grid) else grid)
        placement = place(call.specialization.run_time)
        return self.compile(call.specialization, call.options, placement.target, placement.executor)

    def compile(
        self, specialization: Specialization, options: LaunchOptions, target: Target, executor: str
    ) -> CompiledKernel:
        """The kernel for a specialisation, compiled on first use as far as an executor needs it.

        `RuntimeError` where an outside value that the function uses has changed since its first compilation.
        """
        options.check(target)
        key = (*specialization.key, options, target.name)
        with self._lock:
            if self._captures is None:
                self._captures = Captures(self)
            else:
                self._captures.check()
            kernel = self._kernels.get(key)
            if kernel is None:
                name = self._kernel_name(specialization)
                kernel = CompiledKernel(
                    CompilationRequest(self, specialization.without_values(), options, target, name)
                )
            try:
                kernel.prepare(executor)
            except BaseException:
                if not self._kernels:
                    self._captures = None
                raise
            self._kernels[key] = kernel
            return kernel

    def bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by parameter, defaults filled in; keywords that name no parameter are left out.

        `TypeError` as Python's for missing, surplus and doubled ones.
        """
        named = {name: value for name, value in keywords.items() if name in self.rules}
        try:
            bound = self.signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{self.__name__}() {_counted(error, self.signature, len(arguments))}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _read_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> _Call:
        options = read_options(self.__name__, keywords, frozenset(self.rules), self.debug)
        bound = self.bind(arguments, keywords)
        given = [*list(self.rules)[: len(arguments)], *keywords]
        return _Call(bound, specialize(self.rules, bound), options, given)

    def _kernel_name(self, specialization: Specialization) -> str:
        if self._repr is None:
            return self.__name__
        kinds = specialization.types
        constants = {name: kind.value for name, kind in kinds.items() if isinstance(kind, constexpr)}
        name = self._repr(
            SpecializationInfo(constants, {name: str(kind) for name, kind in kinds.items() if name not in constants})
        )
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"{self.__name__}: `repr` gave {name!r}, which is not an identifier")
        return name

    @functools.cached_property
    def _table(self) -> Any:
        """The native launcher's table; `None` where there is no device."""
        if not cuda_available().ok:
            return None
        from glueball.runtime.device import new_table

        return new_table(self._launch, self.rules)

    def _launcher(self, grid: Any) -> Callable[..., CompiledKernel]:
        if callable(grid):
            return functools.partial(self._launch_computed, grid)
        extents = normalise_grid(grid)
        launcher: Callable[..., CompiledKernel]
        if self._table is None:
            launcher = lambda *arguments, **keywords: self._launch(extents, arguments, keywords)  # noqa: E731
        else:
            launcher = self._table.launcher(extents)
        if not isinstance(grid, list):
            if len(self._launchers) >= LAUNCHER_LIMIT:
                self._launchers.clear()
            self._launchers[grid] = launcher
        return launcher

    def _launch_computed(
        self, grid: Callable[[dict[str, Any]], Any], *arguments: Any, **keywords: Any
    ) -> CompiledKernel:
        bound = {name: _unwrap_if_constexpr(value) for name, value in self.bind(arguments, keywords).items()}
        return self[normalise_grid(grid(bound))](*arguments, **keywords)

    def _launch(self, grid: Grid, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> CompiledKernel:
        """The whole work of a launch, unless the native launcher knows the call by equal objects."""
        canonical = None if self._table is None else self._canonical.replace(arguments, keywords)
        if canonical is not None and len(self._table):
            return self[grid](*canonical[0], **canonical[1])
        call = self._read_call(arguments, keywords)
        placement = place(call.specialization.run_time)
        kernel = self.compile(call.specialization, call.options, placement.target, placement.executor)
        kernel.launch(grid, call.specialization, placement)
        if placement.executor == "gpu" and self._captures is not None:
            from glueball.runtime.device import remember

            remember(
                self._table, kernel, placement.device_index, tuple(self._captures.guards), call.specialization.run_time,
                (arguments, keywords), call.given,
            )  # fmt: skip
        return kernel


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(
    fn: None = None,
    *,
    version: object = None,
    repr: Callable[[SpecializationInfo], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Iterable[int | str] | None = None,
    do_not_specialize_on_alignment: Iterable[int | str] | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(
    fn: Callable[..., Any] | None = None, **options: Any
) -> JITFunction | Callable[[Callable[..., Any]], JITFunction]:
    """Makes a Python function one of the language: to be launched as a kernel, or called by others.

    Bare or with options. `repr(info) -> str` names the compiled kernel. `do_not_specialize` lists parameters, by name
    or position, whose values are never told apart; `do_not_specialize_on_alignment` those whose divisibility by 16 is
    not. `debug` is the default of the launch option. `launch_metadata` and `version` are kept for tools that read them.
    Errors: `TypeError` for what is no plain function, `ValueError` for a lambda.

    """
    if fn is None:
        return lambda function: JITFunction(function, **options)
    return JITFunction(fn, **options)


def _counted(error: TypeError, signature: inspect.Signature, given: int) -> str:
    """`inspect`'s sentence, with Python's counts where there are too many arguments."""
    if "too many positional" in str(error):
        named_only = sum(item.kind is inspect.Parameter.KEYWORD_ONLY for item in signature.parameters.values())
        return f"takes {len(signature.parameters) - named_only} positional arguments but {given} were given"
    return str(error).replace("multiple values", "got multiple values")
