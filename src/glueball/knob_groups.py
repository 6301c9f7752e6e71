"""Settings as programs assign to them: `knobs.runtime.debug = True`, hooks, and scopes that put everything back.

A setting's value lives in its environment variable, so that child processes have it too; a hook lives in its group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from glueball import knobs
from glueball.knobs import Knob

T = TypeVar("T")

Hook = Callable[..., Any]

LAUNCH_EPOCH = (ctypes.c_int64 * 1)()
"""Counts changes after which a launch seen before may mean something else. The native launcher reads it by address."""


def refresh_knobs() -> None:
    """Makes changes of environment variables hold for launches seen before too; assignments do this by themselves."""
    LAUNCH_EPOCH[0] += 1


if hasattr(os, "register_at_fork"):
    # CUDA does not survive a fork, so that the child's launches must not be made as the parent's were.
    os.register_at_fork(after_in_child=refresh_knobs)


class HookChain:
    """Functions that are called one after the other with the same arguments; the last added first if `reversed`."""

    def __init__(self, reversed: bool = False) -> None:  # noqa: A002 - the name that programs pass
        self.reversed = reversed
        self.calls: list[Hook] = []

    def add(self, func: Hook) -> None:
        """Adds a function that is not in the chain yet."""
        if func not in self.calls:
            self.calls.append(func)
            refresh_knobs()

    def remove(self, func: Hook) -> None:
        """Removes a function, if it is in the chain."""
        if func in self.calls:
            self.calls.remove(func)
            refresh_knobs()

    def __bool__(self) -> bool:
        return bool(self.calls)

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        """Calls every function; what one raises reaches the caller."""
        for call in self.calls[::-1] if self.reversed else list(self.calls):
            call(*arguments, **keywords)


class Setting(Generic[T]):
    """An attribute of a group whose value is a knob's. Assigning exports it; `None` and `del` unset the variable."""

    def __init__(self, knob: Knob[T]) -> None:
        self.knob = knob

    @overload
    def __get__(self, group: None, owner: type[Group]) -> Setting[T]: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> T: ...
    def __get__(self, group: Group | None, owner: type[Group]) -> T | Setting[T]:
        return self if group is None else self.knob.read()

    def __set__(self, group: Group, value: T) -> None:
        if value is None:
            self.__delete__(group)
            return
        before = os.environ.get(self.knob.variable)
        os.environ[self.knob.variable] = str(int(value)) if isinstance(value, bool) else str(value)
        try:
            self.knob.read()
        except ValueError:
            _restore(self.knob.variable, before)
            raise
        refresh_knobs()

    def __delete__(self, group: Group) -> None:
        for variable in (self.knob.variable, self.knob.alias):
            if variable is not None:
                os.environ.pop(variable, None)
        refresh_knobs()


class HookSlot:
    """An attribute of a group that holds one function or `None`."""

    def __set_name__(self, owner: type[Group], name: str) -> None:
        self.name = name

    def __get__(self, group: Group | None, owner: type[Group]) -> Any:
        return self if group is None else group.hooks.get(self.name)

    def __set__(self, group: Group, value: Hook | None) -> None:
        if value is not None and not callable(value):
            raise TypeError(f"{self.name} is a function or None, not {value!r}")
        group.hooks[self.name] = value


class ChainSlot:
    """An attribute of a group that holds a chain of hooks. Assigning a function or `None` replaces all in it."""

    def __init__(self, reversed: bool = False) -> None:  # noqa: A002 - the name that programs pass
        self.reversed = reversed

    def __set_name__(self, owner: type[Group], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, group: None, owner: type[Group]) -> ChainSlot: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> HookChain: ...
    def __get__(self, group: Group | None, owner: type[Group]) -> HookChain | ChainSlot:
        if group is None:
            return self
        chain: HookChain = group.hooks.setdefault(self.name, HookChain(self.reversed))
        return chain

    def __set__(self, group: Group, value: HookChain | Hook | None) -> None:
        chain = self.__get__(group, type(group))
        calls = [] if value is None else list(value.calls) if isinstance(value, HookChain) else [value]
        chain.calls[:] = calls
        refresh_knobs()


class Group:
    """Settings and hooks of one subject. `AttributeError` for a name that is none of them."""

    title: ClassVar[str]

    def __init__(self) -> None:
        object.__setattr__(self, "hooks", {})
        self.hooks: dict[str, Any]

    @classmethod
    def settings(cls) -> dict[str, Setting[Any]]:
        """The settings by name."""
        return {name: found for name, found in vars(cls).items() if isinstance(found, Setting)}

    @property
    def knobs(self) -> dict[str, Any]:
        """The values of all settings by name."""
        return {name: setting.knob.read() for name, setting in self.settings().items()}

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(vars(type(self)).get(name), Setting | HookSlot | ChainSlot):
            raise self._unknown(name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    def _unknown(self, name: str) -> AttributeError:
        known = [name for name in vars(type(self)) if not name.startswith("_") and name != "title"]
        return AttributeError(f"glueball has no knobs.{self.title}.{name}; there are {', '.join(sorted(known))}")

    def reset(self) -> Self:
        """Unsets every variable of the group and forgets every hook."""
        for setting in self.settings().values():
            setting.__delete__(self)
        self._put_back({})
        return self

    def copy(self) -> Self:
        """A group with the same settings, whose hooks are its own."""
        other = type(self)()
        other._put_back(self._taken())
        return other

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A block after which every setting and hook of the group is as it was before."""
        variables = [
            variable
            for setting in self.settings().values()
            for variable in (setting.knob.variable, setting.knob.alias)
            if variable is not None
        ]
        before, hooks = {variable: os.environ.get(variable) for variable in variables}, self._taken()
        try:
            yield
        finally:
            for variable, text in before.items():
                _restore(variable, text)
            self._put_back(hooks)

    def _taken(self) -> dict[str, Any]:
        return {name: list(hook.calls) if isinstance(hook, HookChain) else hook for name, hook in self.hooks.items()}

    def _put_back(self, taken: dict[str, Any]) -> None:
        for name, slot in vars(type(self)).items():
            if isinstance(slot, ChainSlot):
                slot.__get__(self, type(self)).calls[:] = taken.get(name, [])
            elif isinstance(slot, HookSlot):
                self.hooks[name] = taken.get(name)
        refresh_knobs()


class RuntimeKnobs(Group):
    """Launches: their default options, and what is called before and after them.

    `launch_enter_hook(metadata)` and `launch_exit_hook(metadata)` surround each launch; `metadata.get()` is a
    dictionary with `name`, `function`, `stream` and what the kernel's `launch_metadata` gives. While there is one,
    launches take more host time.

    `kernel_load_start_hook(module, function, name, metadata_group, hash)` and `kernel_load_end_hook` surround the
    loading of a kernel on a device; `kernel_unload_hook` is called by `CompiledKernel.unload`.

    `jit_cache_hook(*, key, repr, fn, compile, is_manual_warmup, already_compiled)` is called before a kernel is
    compiled and may give true to have neither that nor the launch; `jit_post_compile_hook` is called afterwards.

    `add_stages_inspection_hook()` gives a key and a hash, which becomes part of cache keys; then, before a kernel's
    stages are made, `add_stages_inspection_hook(kernel, stages, options, language, arch)` sees what makes them.
    """

    title = "runtime"

    debug = Setting(knobs.DEBUG)
    override_arch = Setting(knobs.TARGET)

    launch_enter_hook = ChainSlot()
    launch_exit_hook = ChainSlot(reversed=True)
    kernel_load_start_hook = ChainSlot()
    kernel_load_end_hook = ChainSlot(reversed=True)
    kernel_unload_hook = ChainSlot()
    jit_cache_hook = HookSlot()
    jit_post_compile_hook = HookSlot()
    add_stages_inspection_hook = HookSlot()

    @property
    def interpret(self) -> bool:
        """False: kernels are never interpreted; `GLUEBALL_EXECUTOR=sim` or `reference` runs them on the host."""
        return False


class CompilationKnobs(Group):
    """Compilation. `listener(src, metadata, metadata_group, times, cache_hit)` is called after each."""

    title = "compilation"

    always_compile = Setting(knobs.ALWAYS_COMPILE)
    instrumentation_mode = Setting(knobs.INSTRUMENTATION_MODE)
    disable_line_info = Setting(knobs.DISABLE_LINE_INFO)
    allow_non_constexpr_globals = Setting(knobs.ALLOW_NON_CONSTEXPR_GLOBALS)
    front_end_debugging = Setting(knobs.FRONT_END_DEBUGGING)

    listener = HookSlot()


class CacheKnobs(Group):
    """Folders: the disk cache, and where the stages of compiled kernels are written."""

    title = "cache"

    dir = Setting(knobs.CACHE_DIR)
    dump_dir = Setting(knobs.DUMP)


class AutotuningKnobs(Group):
    """The tuner. `listener(*, fn, key, best_config, configs_timings, duration, cache_hit)` is called after it tuned."""

    title = "autotuning"

    print = Setting(knobs.PRINT_AUTOTUNING)
    cache = Setting(knobs.CACHE_AUTOTUNING)

    listener = HookSlot()


RUNTIME = RuntimeKnobs()
COMPILATION = CompilationKnobs()

_GROUPS: dict[str, Group] = {group.title: group for group in (RUNTIME, COMPILATION, CacheKnobs(), AutotuningKnobs())}
_MEMBERS: dict[str, Any] = {**_GROUPS, "HookChain": HookChain, "refresh_knobs": refresh_knobs}
_ELSEWHERE = ("amd", "build", "language", "nvidia", "proton", "redis")


def member(name: str) -> Any:
    """What `knobs` has beside its table; `AttributeError` for another name."""
    if name in _MEMBERS:
        return _MEMBERS[name]
    if name in _ELSEWHERE:
        raise AttributeError(
            f"glueball has no knobs.{name}: no setting of that group has a counterpart; the groups are "
            f"{', '.join(_GROUPS)}"
        )
    raise AttributeError(f"module 'glueball.knobs' has no attribute {name!r}")


def _restore(variable: str, text: str | None) -> None:
    if text is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = text
