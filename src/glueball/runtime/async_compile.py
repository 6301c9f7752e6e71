"""Compilation in the background: launches and warm-ups inside a block hand it to an executor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from glueball.runtime.kernel import CompiledKernel

_ACTIVE: ContextVar[AsyncCompileMode | None] = ContextVar("glueball_async_compile_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled. Its attributes are the kernel's; the first access waits for the end."""

    def __init__(self, future: Future[CompiledKernel]) -> None:
        self._future = future

    def result(self) -> CompiledKernel:
        """The kernel, once it is compiled; what compiling it raised is raised here."""
        return self._future.result()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return self.result()[grid]


class AsyncCompileMode:
    """A block in which `kernel.warmup(...)` gives a `FutureKernel` at once, while `executor` compiles.

    Kernels that are compiled already, or are being compiled in the block, are not compiled twice. A launch inside the
    block waits for its own kernel. The end of the block waits for all, and raises what the first of them raised, unless
    `ignore_errors`.
    """

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor = executor
        self.ignore_errors = ignore_errors
        self._kernels: dict[object, FutureKernel] = {}
        self._token: Token[AsyncCompileMode | None] | None = None

    def submit(self, key: object, compile_kernel: Callable[[], CompiledKernel]) -> FutureKernel:
        """The kernel of a key, which `compile_kernel()` gives."""
        if key not in self._kernels:
            self._kernels[key] = FutureKernel(self.executor.submit(compile_kernel))
        return self._kernels[key]

    def __enter__(self) -> AsyncCompileMode:
        if _ACTIVE.get() is not None:
            raise RuntimeError("an AsyncCompileMode is active already: such blocks do not nest")
        self._token = _ACTIVE.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _ACTIVE.reset(self._token)
        quietly = self.ignore_errors or error is not None
        for kernel in self._kernels.values():
            with contextlib.suppress(Exception) if quietly else contextlib.nullcontext():
                kernel.result()


def active_mode() -> AsyncCompileMode | None:
    """The mode of the block that surrounds the caller."""
    return _ACTIVE.get()
