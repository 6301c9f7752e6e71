"""From a launch to a result: specialisation, compilation, caches and executors."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Autotuner": "autotuning",
    "Config": "autotuning",
    "Heuristics": "autotuning",
    "InterpreterError": "errors",
    "JITFunction": "jit",
    "KernelInterface": "launchable",
    "MockTensor": "tensor_wrapper",
    "OutOfResources": "errors",
    "TensorWrapper": "tensor_wrapper",
    "autotune": "autotuning",
    "constexpr_function": "host_functions",
    "heuristics": "autotuning",
    "reinterpret": "tensor_wrapper",
}
_MODULES = ("cache", "driver", "errors", "jit")


def __getattr__(name: str) -> Any:
    """What programs take from here, loaded when it is first used."""
    if name in _MODULES:
        return importlib.import_module(f"glueball.runtime.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"glueball.runtime.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'glueball.runtime' has no attribute {name!r}")
