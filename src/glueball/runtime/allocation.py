"""Memory that kernels ask for beside their arguments, from an allocator that the program sets."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

SCRATCH_ALIGNMENT = 128
"""Bytes at whose multiples scratch memory starts."""


class Buffer(Protocol):
    """Memory on a device."""

    def data_ptr(self) -> int:
        """Its address."""


Allocator = Callable[[int, int, int | None], Buffer]
"""`allocator(size, alignment, stream)` gives at least `size` bytes at a multiple of `alignment`, usable on a stream."""

_ALLOCATOR: ContextVar[Allocator | None] = ContextVar("glueball_allocator", default=None)


def set_allocator(allocator: Allocator | None) -> None:
    """Sets what gives kernels global scratch memory, as device-side descriptors need; `None` for nothing.

    It holds for the current context: a thread that was started before keeps its own. `TypeError` for what is not
    callable.
    """
    if allocator is not None and not callable(allocator):
        raise TypeError(f"an allocator is a function of size, alignment and stream, not {allocator!r}")
    _ALLOCATOR.set(allocator)


def allocate_scratch(kernel_name: str, size: int, alignment: int, stream: int | None) -> Buffer:
    """Scratch memory for one launch. `RuntimeError` where no allocator was set, or where it gives no such memory."""
    allocator = _ALLOCATOR.get()
    if allocator is None:
        raise RuntimeError(
            f"{kernel_name} needs {size} bytes of global scratch memory, but no allocator was set: call "
            f"glueball.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, "
            f"device='cuda'))"
        )
    buffer = allocator(size, alignment, stream)
    address = getattr(buffer, "data_ptr", lambda: None)()
    if not isinstance(address, int) or address % alignment:
        raise RuntimeError(
            f"{kernel_name}: the allocator gave {buffer!r}, which is no memory at a multiple of {alignment} bytes"
        )
    return buffer
