"""Kernels inside `jax.jit`, through XLA's foreign function interface, on the host and on GPUs alike.

XLA calls a function of this process with the addresses of its buffers, and on a GPU with the stream it works on. So
nothing is copied, and a launch takes its place in XLA's own order of work. The function is Python: it runs with the
interpreter's lock, once per execution of the compiled program.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from glueball.drivers.arrays import contiguous_strides
from glueball.drivers.cuda import cuda_driver
from glueball.interop.arrays import ArrayView
from glueball.interop.xla import CallFrame, MetadataExtension, element_type, error_of, metadata_of, stream_of

_PLATFORMS: Mapping[str, Literal["host", "cuda"]] = {"cpu": "host", "CUDA": "cuda"}
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(CallFrame))
_numbers = itertools.count()


def call(
    launch: Callable[..., None],
    outputs: Any,
    *arrays: Any,
    aliases: Mapping[int, int] | None = None,
    vmap_method: str | None = None,
) -> Any:
    """What `launch(*arrays, *outputs)` leaves in its outputs; for use inside and outside of `jax.jit`.

    `outputs` is a `jax.ShapeDtypeStruct`, or a sequence of them, for which as many arrays are returned. `launch` gets
    NumPy arrays on the host and `ArrayView`s on a GPU, all contiguous, inputs first; what it does not write of an
    output is undefined. It must keep none of them, and launch on them alone. `aliases` maps the position of an input to
    that of the output that takes over its memory and content, for kernels that work in place. `vmap_method` is that of
    `jax.ffi.ffi_call`; derivatives are the caller's to define, with `jax.custom_vjp`.

    Keep `launch` one function rather than making it anew for each call: each one is registered with XLA for good.
    Errors: what `launch` raises is a `jax.errors.JaxRuntimeError` that ends with its message.
    """
    import jax

    target = _registered(launch)
    run = jax.ffi.ffi_call(target.name, outputs, input_output_aliases=dict(aliases or {}), vmap_method=vmap_method)
    return run(*arrays)


@dataclass(frozen=True, slots=True)
class _Target:
    """A function as XLA knows it; `handlers` must live as long as the process."""

    name: str
    handlers: tuple[Any, ...]


@functools.cache
def _registered(launch: Callable[..., None]) -> _Target:
    import jax

    name = f"glueball_{getattr(launch, '__name__', 'launch')}_{next(_numbers)}"
    handlers = []
    for platform, kind in _PLATFORMS.items():
        handler = _HANDLER(functools.partial(_handle, launch, kind))
        handlers.append(handler)
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform=platform)
    return _Target(name, tuple(handlers))


@functools.cache
def _api_version() -> tuple[int, int]:
    """The version of the interface that this JAX speaks, from the header that it brings along."""
    import jax

    text = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    found = {name: int(number) for name, number in re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text)}
    if found.get("MAJOR") != 0:
        raise NotImplementedError(f"XLA's foreign function interface of version {found} is not known; only 0.x is")
    return found["MAJOR"], found["MINOR"]


def _handle(launch: Callable[..., None], kind: Literal["host", "cuda"], pointer: Any) -> int | None:
    """What XLA calls; the address of its error, `None` where all is well."""
    frame: CallFrame = pointer.contents
    if metadata := metadata_of(frame):
        _describe(metadata)
        return None
    try:
        stream = stream_of(frame) if kind == "cuda" else None
        # An input whose memory an output takes over may be written.
        written = {buffer.data for buffer in frame.results.buffers()}
        buffers = (*frame.arguments.buffers(), *frame.results.buffers())
        views = [_view(buffer, kind, stream, writeable=buffer.data in written) for buffer in buffers]
        launch(*(view if kind == "cuda" else view.numpy() for view in views))
    except BaseException as error:
        return error_of(frame, f"{type(error).__name__}: {error}")
    return None


def _describe(extension: MetadataExtension) -> None:
    """Answers XLA's question for the version and the properties of the function."""
    metadata = extension.metadata.contents
    metadata.api_version.major, metadata.api_version.minor = _api_version()
    metadata.traits = 0


def _view(buffer: Any, kind: Literal["host", "cuda"], stream: int | None, *, writeable: bool) -> ArrayView:
    shape = tuple(buffer.extents[: buffer.rank])
    pointer = buffer.data or 0
    device = cuda_driver().device_of_pointer(pointer) if kind == "cuda" and pointer else 0
    dtype = element_type(buffer.dtype)
    return ArrayView(pointer, dtype, shape, contiguous_strides(shape), kind, device, None, writeable, stream or None)
