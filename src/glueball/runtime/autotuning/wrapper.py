"""What stands around a kernel and launches it with more keywords than the caller gave."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from glueball.runtime.grid import Grid
from glueball.runtime.jit import JITFunction
from glueball.runtime.launchable import Launchable


class KernelWrapper(Launchable):
    """A kernel with something around it, launched as the kernel is: `wrapper[grid](*arguments, **keywords)`.

    `fn` is what it wraps, a kernel or another wrapper; `base_fn` the Python function inside.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__()
        if not isinstance(fn, JITFunction | KernelWrapper):
            raise TypeError(f"{type(self).__name__} goes above a function decorated with @glueball.jit, not {fn!r}")
        self.fn: JITFunction | KernelWrapper = fn
        self.arg_names: list[str] = list(fn.arg_names)
        self.__name__: str = fn.__name__
        self.__qualname__: str = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__

    @property
    def kernel(self) -> JITFunction:
        """The kernel inside all wrappers."""
        return self.fn if isinstance(self.fn, JITFunction) else self.fn.kernel

    @property
    def base_fn(self) -> Any:
        """The Python function inside all wrappers."""
        return self.kernel.fn

    def _make_launcher(self, grid: Grid) -> Callable[..., Any]:
        return functools.partial(self._launch, grid)

    def _computed_launcher(self, grid: Callable[..., Any]) -> Callable[..., Any]:
        return functools.partial(self._launch, grid)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Any:
        """A launch, or with `warmup` a compilation, with the grid as a keyword."""
        if warmup:
            return self.warmup(*arguments, grid=grid, **keywords)
        return self[grid](*arguments, **keywords)

    @abstractmethod
    def warmup(self, *arguments: Any, grid: Any = 1, **keywords: Any) -> Any:
        """Compiles what a launch might need, and launches nothing."""

    @abstractmethod
    def _launch(self, grid: Any, /, *arguments: Any, **keywords: Any) -> Any:
        """A launch; the compiled kernel that ran."""

    def named(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """Arguments and keywords of a launch by name."""
        return {**dict(zip(self.arg_names, arguments, strict=False)), **keywords}

    def __reduce__(self) -> str:
        """Pickled and copied as functions are: by the name under which their module holds them."""
        return self.__qualname__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Refuse: kernels are launched."""
        raise RuntimeError(f"Cannot call `{self.__name__}`, a kernel: launch it with `kernel[grid](...)`")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fn!r})"
