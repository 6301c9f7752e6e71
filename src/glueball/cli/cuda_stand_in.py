"""`torch` scripts that ask for "cuda", on a machine without it: their tensors live on the host instead.

Inside `host_for_cuda`, wherever torch is told a CUDA device it takes the host, copies between the two are copies on the
host, and `torch.cuda` describes the simulated target. `tensor.device` stays `cpu`, `tensor.is_cuda` false, and what
needs a real device (graphs, generators of random numbers made for it) fails as it does in torch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from glueball.targets import Target

_MULTIPROCESSORS = 132
_MEMORY_BYTES = 80 << 30


@contextlib.contextmanager
def host_for_cuda(target: Target) -> Iterator[bool]:
    """Whether torch is there without CUDA, and then the host stands in for it inside the block."""
    if importlib.util.find_spec("torch") is None:
        yield False
        return
    import torch

    if torch.cuda.is_available():
        yield False
        return
    with contextlib.ExitStack() as stack:
        for name, value in _cuda_module(target).items():
            stack.callback(setattr, torch.cuda, name, getattr(torch.cuda, name))
            setattr(torch.cuda, name, value)
        stack.enter_context(_mode())
        yield True


def _mode() -> Any:
    """The context in which torch's functions take the host for a CUDA device."""
    import torch
    from torch.overrides import TorchFunctionMode

    copies = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)

    class HostForCuda(TorchFunctionMode):  # type: ignore[misc] # torch is not analysed
        """Changes the arguments of every call."""

        def __torch_function__(
            self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            given = dict(kwargs or {})
            given.pop("pin_memory", None)
            if function is torch.Tensor.pin_memory:
                return args[0]
            if function is torch.Tensor.cuda:
                args, given = (args[0], "cuda"), {}
                function = torch.Tensor.to
            moves = function is torch.Tensor.cpu or _names_cuda(given.get("device"))
            if function is torch.Tensor.to:
                moves = moves or any(map(_names_cuda, args[1:])) or "cpu" in map(str, args[1:])
                args = (args[0], *(_on_host(argument) for argument in args[1:]))
            if "device" in given:
                given["device"] = _on_host(given["device"], index=True)
            result = function(*args, **given)
            # On two devices the results would not share memory, and programs rely on that.
            return result.clone() if moves and function in copies and result is args[0] else result

    return HostForCuda()


def _names_cuda(device: Any) -> bool:
    import torch

    return (isinstance(device, str) and device.partition(":")[0] == "cuda") or (
        isinstance(device, torch.device) and device.type == "cuda"
    )


def _on_host(device: Any, *, index: bool = False) -> Any:
    """The host where a CUDA device is meant, by a bare number too if `index`; anything else as it is."""
    numbered = index and isinstance(device, int) and not isinstance(device, bool)
    return "cpu" if numbered or _names_cuda(device) else device


class _Stream:
    """A stream on which everything has ended."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device_index = 0

    def synchronize(self) -> None:
        """Waits for nothing."""

    wait_stream = wait_event = record_event = lambda self, *_: None
    query = lambda self: True  # noqa: E731 - a name for one expression

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends nothing."""


class _Event:
    """A point in time of the host."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._seconds = 0.0

    def record(self, *_: Any) -> None:
        """Takes the time."""
        self._seconds = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds to a later event."""
        return 1000 * (end._seconds - self._seconds)

    def synchronize(self) -> None:
        """Waits for nothing."""

    wait = lambda self, *_: None  # noqa: E731 - a name for one expression
    query = lambda self: True  # noqa: E731 - a name for one expression


def _cuda_module(target: Target) -> dict[str, Any]:
    """What stands for members of `torch.cuda`: one device, which is the simulated target."""
    number = int("".join(character for character in target.name.partition("_")[2] if character.isdigit()) or 0)
    capability = divmod(number, 10) if target.family == "nvidia" else (9, 0)
    properties = SimpleNamespace(
        name=f"glueball's simulator of {target.name}",
        major=capability[0],
        minor=capability[1],
        total_memory=_MEMORY_BYTES,
        multi_processor_count=_MULTIPROCESSORS,
        warp_size=target.lanes,
        shared_memory_per_block_optin=target.shared_bytes,
        gcnArchName=target.name,
    )
    values = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": capability,
        "get_device_name": properties.name, "get_device_properties": properties, "synchronize": None,
        "set_device": None, "empty_cache": None, "init": None, "is_initialized": True, "reset_peak_memory_stats": None,
        "memory_allocated": 0, "max_memory_allocated": 0, "mem_get_info": (_MEMORY_BYTES, _MEMORY_BYTES),
        "is_bf16_supported": True, "current_stream": _Stream(), "default_stream": _Stream(),
    }  # fmt: skip
    functions = {name: _constant(value) for name, value in values.items()}
    return {**functions, "Stream": _Stream, "Event": _Event, "device": _Stream, "stream": _Stream}


def _constant(value: Any) -> Any:
    return lambda *_, **__: value
