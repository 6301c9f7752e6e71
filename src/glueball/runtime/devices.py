"""The targets of the devices that are there, and the target where none is asked for."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from glueball import knobs
from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.errors import TargetError
from glueball.gpu_target import GPUTarget, target_of
from glueball.targets import DEFAULT_TARGET, TARGETS, Target, target_named

_ANNOUNCING = threading.Lock()


@functools.cache
def device_target(device_index: int) -> Target:
    """The target of a device; `TargetError` where there is none. Compute capability 8.x runs the code of `sm_80`."""
    driver = cuda_driver()
    name = driver.architecture(device_index)
    if name not in TARGETS and driver.compute_capability(device_index)[0] == 8:
        name = "sm_80"
    if name not in TARGETS:
        raise TargetError(
            f"device {device_index} is {name}, which glueball does not compile for; it does for {', '.join(TARGETS)}"
        )
    return TARGETS[name]


@functools.cache
def multiprocessors(device_index: int) -> int:
    """How many multiprocessors a device has."""
    return cuda_driver().multiprocessor_count(device_index)


def default_target(*, announce: bool = False) -> Target:
    """The target where none is asked for: the knob's, that of the first device, else `sm_90a`.

    `announce` says on standard error, once a process, that there is no GPU and kernels are simulated.
    """
    named = knobs.TARGET.read()
    if named is not None:
        return _named_by_knob(named)
    target = _first_device_target()
    if target is None and announce:
        with _ANNOUNCING:
            _announce()
    return target or DEFAULT_TARGET


def chosen_target(target: Any) -> Target:
    """The target that a name, a `GPUTarget`, a `Target` or, for the default, `None` means.

    `TargetError` for an unknown one and for anything else.
    """
    if target is None:
        return default_target()
    if isinstance(target, GPUTarget):
        return target_of(target)
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        return target_named(target)
    raise TargetError(f"a target is a GPUTarget or named by a text such as 'sm_90a', not by {target!r}")


def _named_by_knob(name: str) -> Target:
    try:
        return target_named(name)
    except TargetError as error:
        raise TargetError(f"{knobs.TARGET.variable}={name}: {error}") from None


@functools.cache
def _first_device_target() -> Target | None:
    if not cuda_available().ok:
        return None
    try:
        return device_target(0)
    except TargetError:
        return None


@functools.cache
def _announce() -> None:
    print(
        f"glueball: no GPU found; kernels run on the CPU simulator as {DEFAULT_TARGET.name} (GLUEBALL_TARGET chooses "
        f"another target)",
        file=sys.stderr,
    )
