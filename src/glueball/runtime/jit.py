"""`jit`: functions of the language that can be launched."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import glueball.runtime
from glueball import knobs
from glueball.drivers.cuda import cuda_available
from glueball.knob_groups import RUNTIME, refresh_knobs
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.function import JITCallable
from glueball.runtime.async_compile import active_mode
from glueball.runtime.canonical import CanonicalValues
from glueball.runtime.captures import Captures, function_text
from glueball.runtime.compiler import CompilationRequest
from glueball.runtime.executors import Placement, place
from glueball.runtime.grid import Grid, normalise_grid
from glueball.runtime.jit_hooks import call_jit_hook
from glueball.runtime.kernel import CompiledKernel
from glueball.runtime.launchable import Launchable
from glueball.runtime.locks import COMPILATION
from glueball.runtime.options import LaunchOptions, read_options
from glueball.runtime.parameters import ParameterRule, rules_of
from glueball.runtime.specialization import ALIGNMENT, ArgumentSpec, Specialization, specialize
from glueball.runtime.tensor_wrapper import MockTensor, element_type
from glueball.runtime.tracing import untraced
from glueball.targets import Target
from glueball.tile.types import pointer_type


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


class JITFunction(JITCallable, Launchable):
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
        source: str | None = None,
    ) -> None:
        super().__init__(fn)
        Launchable.__init__(self)
        if source is not None:
            self._replace_source(source)
        self.noinline = bool(noinline)
        self.version = version
        self.launch_metadata = launch_metadata
        self.debug = debug
        self._repr = repr
        self._unspecialized = (tuple(do_not_specialize or ()), tuple(do_not_specialize_on_alignment or ()))
        if any(self._unspecialized):
            _ = self.rules
        self._kernels: dict[tuple[object, ...], CompiledKernel] = {}
        self._canonical = CanonicalValues()
        self._captures: Captures | None = None
        self.pre_run_hooks: list[Callable[..., Any]] = []

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

    @property
    def hash(self) -> str | None:
        """`cache_key`."""
        return self.cache_key

    @property
    def device_caches(self) -> dict[int, tuple[dict[tuple[object, ...], CompiledKernel]]]:
        """For each device a tuple that begins with the compiled kernels by key; host executors count as device 0."""
        devices = {0, *(index for kernel in self._kernels.values() for index in kernel.devices)}
        return dict.fromkeys(sorted(devices), (self._kernels,))

    def is_gluon(self) -> bool:
        """True: the function is written with layouts."""
        return True

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Has `hook(*arguments, **keywords)` called before each launch; launches then take more host time."""
        if not callable(hook):
            raise TypeError(f"a hook is a function, not {hook!r}")
        self.pre_run_hooks.append(hook)
        refresh_knobs()

    def _unsafe_update_src(self, new_src: str) -> None:
        """Makes the function that of another text. Kernels that call it and are compiled already stay as they are."""
        with COMPILATION:
            self._replace_source(new_src)
            self._kernels.clear()
            self._captures = None
            refresh_knobs()

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Any:
        """`self[grid](*arguments, **keywords)`, or with `warmup` the method of that name."""
        return self.warmup(*arguments, grid=grid, **keywords) if warmup else self[grid](*arguments, **keywords)

    def warmup(self, *arguments: Any, grid: Any = 1, **keywords: Any) -> Any:
        """Compiles as a launch with these arguments would, and launches nothing; gives the compiled kernel.

        A `MockTensor`, or a dtype of torch, stands for an array. In an `AsyncCompileMode` block the kernel is a
        `FutureKernel`; where a `jit_cache_hook` says so, it is `None` and nothing is compiled.
        """
        call = self._read_call(arguments, keywords, mocked=True)
        normalise_grid(grid(call.bound) if callable(grid) else grid)
        return self._compiled(call, place(call.specialization.run_time), is_warmup=True)

    def preload(self, specialization_data: str) -> CompiledKernel | None:
        """Compiles what the `specialization_data` describes that a hook was given, perhaps in another process.

        Errors: `RuntimeError` for that of another function, `ValueError` for what no hook gives.
        """
        from glueball.runtime.preload import read_specialization

        specialization, options, target, executor = read_specialization(self, specialization_data)
        return self.compile(specialization, options, target, executor)

    def compile(
        self, specialization: Specialization, options: LaunchOptions, target: Target, executor: str
    ) -> CompiledKernel:
        """The kernel for a specialisation, compiled on first use as far as an executor needs it.

        `RuntimeError` where an outside value that the function uses has changed since its first compilation.
        """
        options = options.for_target(target)
        key = (*specialization.key, options, target.name)
        kernel, captures = self._kernels.get(key), self._captures
        if kernel is not None and captures is not None and kernel.is_prepared(executor):
            captures.check()
            return kernel
        with COMPILATION:
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

    def _compiled(self, call: _Call, placement: Placement, is_warmup: bool) -> Any:
        """The kernel of a call, hooks and background compilation considered; `None` where a hook forbids it."""
        options = call.options.for_target(placement.target)
        key = (*call.specialization.key, options, placement.target.name)
        kernel = self._kernels.get(key)
        if kernel is not None and kernel.is_prepared(placement.executor):
            return self.compile(call.specialization, options, placement.target, placement.executor)
        if RUNTIME.jit_cache_hook is None and RUNTIME.jit_post_compile_hook is None:
            tell: Callable[[Any], Any] = lambda hook: None  # noqa: E731 - a name for one expression
        else:
            tell = functools.partial(call_jit_hook, self, call.specialization, options, placement, is_warmup)
        if tell(RUNTIME.jit_cache_hook):
            return None

        def compile_kernel() -> CompiledKernel:
            made = self.compile(call.specialization, options, placement.target, placement.executor)
            tell(RUNTIME.jit_post_compile_hook)
            return made

        mode = active_mode()
        if mode is None:
            return compile_kernel()
        future = mode.submit((self, key, placement.executor), compile_kernel)
        return future if is_warmup else future.result()

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

    def _read_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any], mocked: bool = False) -> _Call:
        options = read_options(self.__name__, keywords, frozenset(self.rules), self.debug)
        bound = self.bind(arguments, keywords)
        if mocked:
            bound = {name: _unmocked(self.rules[name], value) for name, value in bound.items()}
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

        with COMPILATION:
            return self.__dict__.get("_table") or new_table(self._launch, self.rules)

    def _make_launcher(self, grid: Grid) -> Callable[..., Any]:
        if self._table is None:
            return lambda *arguments, **keywords: self._launch(grid, arguments, keywords)
        launcher: Callable[..., Any] = self._table.launcher(grid)
        return launcher

    def _computed_launcher(self, grid: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(self._launch_computed, grid)

    def _launch_computed(self, grid: Callable[[dict[str, Any]], Any], *arguments: Any, **keywords: Any) -> Any:
        bound = {name: _unwrap_if_constexpr(value) for name, value in self.bind(arguments, keywords).items()}
        return self[normalise_grid(grid(bound))](*arguments, **keywords)

    def _launch(self, grid: Grid, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A launch that the native launcher does not know, out of sight of `torch.compile`."""
        return untraced(self._launch_here)(grid, arguments, keywords)

    def _launch_here(self, grid: Grid, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The whole work of a launch, unless the native launcher knows the call by equal objects."""
        canonical = None if self._table is None else self._canonical.replace(arguments, keywords)
        if canonical is not None and len(self._table):
            return self[grid](*canonical[0], **canonical[1])
        for hook in self.pre_run_hooks:
            hook(*arguments, **keywords)
        call = self._read_call(arguments, keywords)
        placement = place(call.specialization.run_time)
        with self._recorded(grid, arguments, keywords, placement, call):
            kernel = self._compiled(call, placement, is_warmup=False)
            if kernel is None:
                return None
            kernel.launch(grid, call.specialization, placement)
        if placement.executor == "gpu" and self._captures is not None and not self.pre_run_hooks:
            from glueball.runtime.device import remember

            remember(
                self._table, kernel, placement.device_index, tuple(self._captures.guards), call.specialization,
                (arguments, keywords), call.given,
            )  # fmt: skip
        return kernel

    def _recorded(
        self, grid: Grid, arguments: tuple[Any, ...], keywords: dict[str, Any], placement: Placement, call: _Call
    ) -> AbstractContextManager[None]:
        """Writes bundles of what is launched inside the block where the knob asks for it."""
        folder = knobs.REPRO.read()
        if folder is None:
            return contextlib.nullcontext()
        from glueball.runtime import repro

        variant = repr((call.specialization.key, call.options, placement.target.name))
        return repro.recorded(self, grid, arguments, keywords, placement, folder=folder, variant=variant)

    def save_repro(self, path: str | Path, *arguments: Any, grid: Any = 1, **keywords: Any) -> Path:
        """Launches the kernel and writes a bundle that makes the same launch in a process of its own; where it is.

        `path` is a folder that receives the bundle's, or ends in `.zip`. The bundle has the kernel's source with all
        that it uses, the arrays as they were before the launch, options, versions and the outcome, be it an error,
        which is not raised. `python run.py` in it compares. `ReproError` for a value that cannot be written down.
        """
        from glueball.runtime import repro

        call = self._read_call(arguments, keywords)
        extents = normalise_grid(grid(call.bound) if callable(grid) else grid)
        placement = place(call.specialization.run_time)
        launch = functools.partial(self[extents], *arguments, **keywords)
        return repro.save(Path(path), self, extents, arguments, keywords, placement, launch)


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
    source: str | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...
def jit(
    fn: Callable[..., Any] | None = None, **options: Any
) -> JITFunction | Callable[[Callable[..., Any]], JITFunction]:
    """Makes a Python function one of the language: to be launched as a kernel, or called by others.

    Bare or with options. `repr(info) -> str` names the compiled kernel. `do_not_specialize` lists parameters, by name
    or position, whose values are never told apart; `do_not_specialize_on_alignment` those whose divisibility by 16 is
    not. `debug` is the default of the launch option. `launch_metadata(grid, metadata, arguments) -> dict` adds to what
    launch hooks are told. `noinline` has the function take scalars only. `version` is kept for tools that read it.
    `source` is the text of the function, from its decorators or `def` on, where no file has it.
    Errors: `TypeError` for what is no plain function, `ValueError` for a lambda.
    """
    if fn is None:
        return lambda function: JITFunction(function, **options)
    return JITFunction(fn, **options)


def _unmocked(rule: ParameterRule, value: Any) -> Any:
    """A description of the array that a `MockTensor` or a dtype of torch stands for; any other value as it is."""
    value = value if rule.is_constexpr else MockTensor.wrap_dtype(value)
    if not isinstance(value, MockTensor):
        return value
    pointer = pointer_type(element_type(value.dtype), const=rule.is_const)
    return ArgumentSpec(pointer, ALIGNMENT if rule.specialize_alignment else 1)


def _counted(error: TypeError, signature: inspect.Signature, given: int) -> str:
    """`inspect`'s sentence, with Python's counts where there are too many arguments."""
    if "too many positional" in str(error):
        named_only = sum(item.kind is inspect.Parameter.KEYWORD_ONLY for item in signature.parameters.values())
        return f"takes {len(signature.parameters) - named_only} positional arguments but {given} were given"
    return str(error).replace("multiple values", "got multiple values")


GluonJITFunction = JITFunction


def __getattr__(name: str) -> Any:
    """What else programs import from here."""
    return getattr(glueball.runtime, name)
