"""Runs one kernel definition on every executor that is present."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.checklist import recording

EXECUTORS = [
    pytest.param("reference"),
    pytest.param("sim"),
    pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.torch]),
]
"""Values for `pytest.mark.parametrize("executor", EXECUTORS)`."""


def run(executor: str, monkeypatch: pytest.MonkeyPatch, launch: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `launch(*arguments)` on an executor. NumPy arguments are changed in place, on a GPU by copying back."""
    with recording.launch():
        return _run(executor, monkeypatch, launch, *arguments)


def _run(executor: str, monkeypatch: pytest.MonkeyPatch, launch: Callable[..., Any], *arguments: Any) -> Any:
    if executor != "gpu":
        monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
        return launch(*arguments)
    monkeypatch.delenv("GLUEBALL_EXECUTOR", raising=False)
    bases: dict[int, tuple[np.ndarray, Any]] = {}
    result = launch(*(_on_device(argument, bases) for argument in arguments))
    for base, tensor in bases.values():
        _in_memory_order(base).view(np.uint8).reshape(-1)[:] = tensor.cpu().numpy()
    return result


def _on_device(argument: Any, bases: dict[int, tuple[np.ndarray, Any]]) -> Any:
    """A view of the same shape and strides of a copy of the argument's base; the same base is copied once."""
    if not isinstance(argument, np.ndarray):
        return argument
    torch = pytest.importorskip("torch")
    if argument.size == 0:
        return torch.empty(argument.shape, dtype=getattr(torch, argument.dtype.name), device="cuda")
    if any(stride < 0 for stride in argument.strides):
        pytest.skip("torch has no negative strides")
    base = _owner(argument)
    if id(base) not in bases:
        raw = _in_memory_order(base).view(np.uint8).reshape(-1)
        bases[id(base)] = (base, torch.from_numpy(raw.copy()).cuda())
    tensor = bases[id(base)][1].view(getattr(torch, argument.dtype.name))
    start = (argument.ctypes.data - base.ctypes.data) // argument.itemsize
    strides = [stride // argument.itemsize for stride in argument.strides]
    return tensor.as_strided(argument.shape, strides, start)


def _in_memory_order(base: np.ndarray) -> np.ndarray:
    """A view whose elements follow one another as in memory."""
    turned = base if base.flags.c_contiguous else base.transpose(np.argsort(base.strides)[::-1])
    assert turned.flags.c_contiguous, f"an array that owns its memory has strides {base.strides}"
    return turned


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def random_array(shape: Sequence[int], dtype: Any, seed: int = 0) -> np.ndarray:
    """Random bits of an element type, NaNs avoided for floats so that equality can be asked for."""
    generator = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return generator.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return (generator.standard_normal(shape) * 8).astype(kind)
