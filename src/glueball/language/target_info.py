"""What kernels and the functions that run at compile time ask about the target: `gl.target_info.current_target()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import glueball
from glueball.gpu_target import GPUTarget, described_target
from glueball.targets import Target

__all__ = ["current_target"]

_COMPILED_FOR: ContextVar[Target | None] = ContextVar("glueball_compiled_for", default=None)


def current_target() -> GPUTarget:
    """The target of the kernel that is being compiled; elsewhere that of the current device, or of the simulator."""
    target = _COMPILED_FOR.get()
    return glueball.runtime.driver.active.get_current_target() if target is None else described_target(target)


@contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """A kernel is being compiled for a target meanwhile."""
    token = _COMPILED_FOR.set(target)
    try:
        yield
    finally:
        _COMPILED_FOR.reset(token)
