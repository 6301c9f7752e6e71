"""Equal compile-time values made anew at each launch find the launcher's variant."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball.language as gl
from glueball.codegen import Binary
from glueball.drivers.device_memory import CudaArray
from glueball.language.cache_policies import CachePolicy as HardwarePolicy
from glueball.language.constexpr import constexpr
from glueball.runtime import canonical
from glueball.runtime.canonical import CanonicalValues
from glueball.runtime.jit import JITFunction
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver, fake_gpu
from tests.runtime.kernels import layout
from tests.runtime.launcher_support import FRAMEWORK, ExchangeTensor


class ExchangeArray(DeviceArray):
    """An array that Python code and the launcher can read."""

    __dlpack_c_exchange_api__ = ExchangeTensor.__dlpack_c_exchange_api__
    offset, dtype, status, shape = 0, (2, 32, 1), 0, (ctypes.c_int64 * 1)(5000)
    address = property(lambda self: self.host.ctypes.data)
    device = (2, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("glueball.runtime.compiler.assemble", lambda *_: Binary(b"cubin", "cubin", 40, 0))
    with fake_gpu(monkeypatch) as found:
        found.argument_count = 3
        yield found


def test_a_layout_made_anew_takes_the_short_way(driver: FakeDriver) -> None:
    copy = JITFunction(kernels.copy.fn)
    x, y = ExchangeArray(5000), ExchangeArray(5000)
    makers: list[Any] = [layout, lambda: constexpr(layout())]
    for make in makers:
        first = copy[(3,)](x, y, 4999, 1024, make())
        long_way = len(driver.launches)
        assert copy[(3,)](x, y, 4999, 1024, make()) is first
        assert copy[(3,)](x, y, 4999, BLOCK=1024, spread=make()) is first
        by_name = len(driver.launches)
        assert by_name == long_way + 1, "another spelling of the call goes the long way once"
        assert copy[(3,)](x, y, 4999, BLOCK=constexpr(1024), spread=make()) is first
        assert copy[(3,)](x, y, 4999, BLOCK=constexpr(1024), spread=make()) is first
        assert len(driver.launches) == by_name + 1
    assert driver.launches[-1][3] == FRAMEWORK.stream == driver.calls[-1][2]
    assert copy[(3,)](x, y, 4999, 1024, layout(warps=8), num_warps=8) is not first


def test_arrays_that_the_launcher_cannot_read_go_the_long_way(driver: FakeDriver) -> None:
    copy = JITFunction(kernels.copy.fn)
    x, y = DeviceArray(5000), DeviceArray(5000)
    for count in (1, 2, 3):
        copy[(3,)](x, y, 5000, 1024, layout())
        assert len(driver.launches) == count


def test_values_that_compile_differently_stay_apart() -> None:
    values = CanonicalValues()
    others = [constexpr(value) for value in (1, True, 1.0, 0.0, -0.0, "1", None)]
    others += [layout(), layout(warps=8), constexpr(layout()), gl.BlockedLayout([1, 1], [32, 1], [4, 1], [1, 0])]
    assert values.replace(tuple(others), {}) is None
    assert values.replace((), {str(index): value for index, value in enumerate(others)}) is None


def test_only_layouts_and_constexpr_values_are_replaced() -> None:
    values = CanonicalValues()
    first = layout()
    assert values.replace((first, 3), {"n": [1]}) is None
    unhashable = constexpr([1])
    replaced = values.replace((unhashable, 3), {"spread": layout(), "n": [1]})
    assert replaced == ((unhashable, 3), {"spread": first, "n": [1]})
    assert replaced is not None
    assert replaced[0][0] is unhashable
    assert replaced[1]["spread"] is first


def test_arrays_are_never_replaced() -> None:
    """Not even those of ours that are equal by value: the one that is launched with must be the one that lives."""
    values = CanonicalValues()
    for pointer in (0, 16, 16):
        array = CudaArray(None, pointer, (4,), (4,), np.dtype(np.float32))  # type: ignore[arg-type]
        assert values.replace((array,), {"x": array}) is None


@pytest.mark.parametrize("make", [lambda: HardwarePolicy(l1="evict_last"), lambda: gl.CachePolicy(".cg")])
def test_a_cache_policy_made_anew_is_the_one_seen_first(make: Any) -> None:
    values = CanonicalValues()
    first = make()
    assert values.replace((first,), {}) is None
    replaced = values.replace((make(),), {})
    assert replaced is not None
    assert replaced[0][0] is first


def test_a_bounded_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "VALUE_LIMIT", 2)
    values = CanonicalValues()
    for value in range(5):
        values.replace((constexpr(value),), {})
    assert len(values._values) <= 2
