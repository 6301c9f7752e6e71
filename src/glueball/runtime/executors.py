"""Where a launch runs: its arguments say, unless a knob does.

Host arrays (NumPy, torch on the CPU, anything with DLPack there) run on the simulator, device arrays on their device.
A kernel without arrays runs on the GPU where there is one. Where the knob asks for an executor on the host, device
arrays are copied there and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball import knobs
from glueball.drivers.arrays import DeviceArray
from glueball.drivers.cuda import cuda_available, cuda_driver, forked
from glueball.errors import TargetError
from glueball.runtime.devices import default_target, device_target
from glueball.runtime.specialization import Argument
from glueball.targets import Target, target_named

_EXECUTOR_OF = {"cuda": "gpu", "host": "sim"}


@dataclass(frozen=True, slots=True)
class Placement:
    """The executor (`gpu`, `sim` or `reference`), the target, and the device on `gpu`."""

    executor: str
    target: Target
    device_index: int = 0


def place(arguments: Sequence[Argument]) -> Placement:
    """Decides where a launch runs. Errors: `TypeError` for arrays in different places, `TargetError` for a target that
    the device is not, `DriverError` for `gpu` where there is none."""
    found = _common_place(arguments)
    chosen = knobs.EXECUTOR.read()
    if found is None:
        executor = chosen or ("gpu" if cuda_available().ok or forked() else "sim")
        device_index = cuda_driver().current_device() if executor == "gpu" else 0
    else:
        executor, device_index = _EXECUTOR_OF[found.kind], found.device_index
        if chosen == "gpu" and executor != "gpu":
            raise TypeError("GLUEBALL_EXECUTOR=gpu needs device arrays, and these are on the host")
        executor = chosen or executor
    return Placement(executor, _target(executor, device_index), device_index)


def _common_place(arguments: Sequence[Argument]) -> DeviceArray | None:
    """One of the arrays, all of which are in the same place; `None` without arrays."""
    places = [(argument.name, argument.array) for argument in arguments if argument.array is not None]
    if not places:
        return None
    first_name, first = places[0]
    for name, array in places[1:]:
        if _place_of(array) != _place_of(first):
            raise TypeError(
                f"arguments `{first_name}` (on {_place_of(first)}) and `{name}` (on {_place_of(array)}) are in "
                f"different places; move one of them{_number_hint(first, array)}"
            )
    return first


def _number_hint(*arrays: DeviceArray) -> str:
    """What may be meant where a host array has no dimensions."""
    if any(array.kind == "host" and array.shape == () for array in arrays):
        return "; to pass the number in an array without dimensions, pass its `.item()`"
    return ""


def _place_of(array: DeviceArray) -> str:
    return "the host" if array.kind == "host" else f"device {array.device_index}"


def _target(executor: str, device_index: int) -> Target:
    named = knobs.TARGET.read()
    if executor != "gpu":
        return default_target(announce=knobs.EXECUTOR.read() is None)
    target = device_target(device_index)
    if named is not None and target_named(named) is not target:
        raise TargetError(
            f"GLUEBALL_TARGET={named}, but device {device_index} is {target.name}; set GLUEBALL_EXECUTOR=sim and pass "
            f"host arrays to run for another target"
        )
    return target
