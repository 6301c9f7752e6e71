"""Launches of a kernel that is compiled already, and one launch made again and again."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import knobs
from glueball.errors import TargetError
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver
from tests.runtime.kernels import layout
from tests.runtime.launcher_support import Driver, Kernel, each_launcher, torch_tensor_on_device
from tests.runtime.settings import fresh

pytestmark = pytest.mark.usefixtures("own_settings")


@glueball.jit
def scalars(a: Any, b: Any, c: gl.float64, C: gl.constexpr):  # type: ignore[valid-type]
    pass


def test_a_compiled_kernel_is_launched_natively(driver: FakeDriver) -> None:
    driver.argument_count = 3
    spread = layout()
    compiled = fresh(scalars).warmup(7, 2.5, 1.5, spread, grid=(1,))
    assert driver.launches == driver.calls == []
    for value in (7, 7, 1, 16, 2**31 - 1):
        assert compiled[(5, 2)](value, 0.5, 2.5, spread) is compiled
    assert len(driver.launches) == 1
    assert len(driver.calls) == 4, "no value of an argument is told apart that code does not depend on"
    function, numbers, stream, raw, _ = driver.calls[-1]
    assert (function, numbers, stream) == (0xF00, (5, 2, 1, 128, 1, 1, 0), None)
    assert raw[0] == struct.pack("<q", 2**31 - 1)
    assert raw[1][:4] == struct.pack("<f", 0.5)
    assert raw[2] == struct.pack("<d", 2.5)
    assert compiled[(0,)](7, 0.5, 2.5, spread) is compiled
    assert len(driver.calls) == 4


def test_what_a_kernel_was_compiled_for_is_still_asked_of_arguments(driver: FakeDriver) -> None:
    compiled = fresh(scalars).warmup(16, 2.5, 1.5, 3)
    launch = compiled[(1,)]
    launch(32, 2.5, 1.5, 3)
    for arguments, message in (
        ((17, 2.5, 1.5, 3), "`a` is compiled as a multiple of 16, and 17 was given"),
        ((2**40, 2.5, 1.5, 3), "does not fit"),
        ((32, 2.5, 1.5, 4), "`C` is compiled as the constant 3, not 4"),
        ((32, 2.5, 1.5, 3.0), "`C` is compiled as the constant 3, not 3.0"),
        ((None, 2.5, 1.5, 3), "`a` is compiled as"),
        ((32, 2.5, 1.5), "takes all its 4 arguments here, and 3 were given"),
    ):
        for _ in range(2):
            with pytest.raises((TypeError, OverflowError), match=message):
                launch(*arguments)
    with pytest.raises(TypeError, match="takes all its arguments in order, not C"):
        launch(32, 2.5, 1.5, C=3)
    assert len(driver.launches) == 1


@pytest.mark.torch
def test_tensors_of_a_compiled_kernel(driver: FakeDriver) -> None:
    import torch

    driver.argument_count = 3
    x, y, spread = torch_tensor_on_device(132), torch_tensor_on_device(132), layout()
    aligned = fresh(kernels.copy).warmup(x, y, 100, 128, spread)
    unaligned = fresh(kernels.copy).warmup(x[1:], y[1:], 100, 128, spread)
    for _ in range(2):
        aligned[(1,)](x, y, 100, 128, spread)
        unaligned[(1,)](x, y, 100, 128, spread)
        unaligned[(1,)](x[1:], y, 100, 128, spread)
    assert (len(driver.launches), len(driver.calls)) == (2, 4)
    assert driver.calls[-1][3][0] == struct.pack("<Q", x[1:].data_ptr())
    integers = torch_tensor_on_device(132, torch.int32)
    for wrong, message in ((x[1:], "multiple of 16"), (integers, "not for an array of int32")):
        with pytest.raises(TypeError, match=f"`x` is compiled as .*{message}"):
            aligned[(1,)](wrong, y, 100, 128, spread)


def test_a_stream_of_the_callers_choice(driver: FakeDriver) -> None:
    driver.argument_count = 3
    compiled = fresh(scalars).warmup(7, 2.5, 1.5, 3)
    for stream in (77, 77, 78, 78, None, None):
        compiled[(1,)](7, 2.5, 1.5, 3, stream=stream)
    assert [launch[3] for launch in driver.launches] == [77, 78, 0]
    assert [call[2] for call in driver.calls] == [77, 78, None]


def test_a_compiled_kernel_needs_its_target(driver: FakeDriver) -> None:
    compiled = glueball.compile_only(fresh(kernels.nothing), "i32", target="sm_100a")
    for launch in (compiled[(1,)], lambda value: compiled.prepared_launch(value, grid=1)):
        with pytest.raises(TargetError, match="compiled for sm_100a, not for sm_90a"):
            launch(5)


def test_the_grid_of_a_compiled_kernel_is_numbers(driver: FakeDriver) -> None:
    compiled = fresh(kernels.nothing).warmup(5)
    assert compiled[(3, 1, 1)] is compiled[(3,)] is compiled[3] is compiled[(3, 1)]
    for grid, message in ((lambda bound: 1, "given by numbers"), ((1.0,), "must be an integer"), ("1", "integer")):
        with pytest.raises(TypeError, match=message):
            compiled[grid]


def test_a_prepared_launch_repeats_itself(driver: FakeDriver) -> None:
    driver.argument_count = 3
    compiled = fresh(scalars).warmup(7, 2.5, 1.5, 3)
    launch = compiled.prepared_launch(-7, 0.5, 2.5, 3, grid=(5, 2))
    for _ in range(3):
        assert launch() is compiled
    assert driver.launches == []
    function, numbers, stream, raw, _ = driver.calls[-1]
    assert (function, numbers, stream) == (0xF00, (5, 2, 1, 128, 1, 1, 0), None)
    assert raw == [struct.pack("<iI", -7, 0), struct.pack("<fI", 0.5, 0), struct.pack("<d", 2.5)]
    with pytest.raises(TypeError):
        launch(3)  # type: ignore[call-arg]
    compiled.prepared_launch(-7, 0.5, 2.5, 3, grid=2, stream=99)()
    assert driver.calls[-1][2] == 99
    assert compiled.prepared_launch(-7, 0.5, 2.5, 3, grid=(2, 0))() is compiled
    assert len(driver.calls) == 4


def test_a_prepared_launch_takes_arrays_of_any_library(driver: FakeDriver) -> None:
    driver.argument_count = 3
    x, y = DeviceArray(128), DeviceArray(128)
    compiled = fresh(kernels.copy).warmup(x, y, 100, 128, layout())
    compiled.prepared_launch(x, y, 100, 128, layout(), grid=1)()
    assert driver.calls[-1][3] == [struct.pack("<Q", x.address), struct.pack("<Q", y.address), struct.pack("<q", 100)]


def test_a_prepared_launch_calls_hooks_and_survives_unloading(driver: FakeDriver) -> None:
    driver.argument_count = 1
    compiled = fresh(kernels.nothing).warmup(6)
    launch = compiled.prepared_launch(6, grid=1)
    launch()
    seen: list[Any] = []
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()["name"]))
        for _ in range(2):
            launch()
    assert seen == ["nothing"] * 2
    compiled.unload()
    for _ in range(3):
        launch()
    assert len(seen) == 2
    assert len(driver.loads) == 2
    assert (len(driver.launches), len(driver.calls)) == (3, 3)


def test_a_prepared_launch_in_another_context(driver: FakeDriver) -> None:
    driver.argument_count = 1
    launch = fresh(kernels.nothing).warmup(6).prepared_launch(6, grid=1)
    driver.context = 0xAA
    launch()
    driver.context = 0xC0
    launch()
    assert (len(driver.launches), len(driver.calls)) == (1, 1)


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_compiled_and_prepared_launches_on_the_host(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    compiled = fresh(kernels.copy).warmup(x, y, 200, 128, layout())
    assert compiled[(2, 1, 1)](x, y, 250, 128, layout()) is compiled
    assert (y == np.where(np.arange(256) < 250, x, 0)).all()
    launch = compiled.prepared_launch(x, y, 100, 128, layout(), grid=(2,))
    y[:] = 0
    assert launch() is compiled
    assert y.sum() == x[:100].sum()
    x[:] = 1
    launch()
    assert y.sum() == 100, "contents are read when it runs"


@each_launcher
def test_repetition_needs_its_values(native: bool) -> None:
    from glueball.runtime.launcher import Variant, VariantTable

    table, driver, kernel = VariantTable(lambda *_: None, native=native), Driver(argument_count=2), Kernel()

    def variant(*indices: int) -> Variant:
        return Variant(kernel, driver.launch_address, 0xF00, (64, 1, 1), 32, indices)

    repeat = table.repeater((2, 3, 4), [5, 6, 7], lambda: "again", lambda: variant(2, 0))
    assert repeat() is kernel
    assert driver.calls == [(0xF00, (2, 3, 4, 64, 1, 1, 32), None, [struct.pack("<q", 7), struct.pack("<q", 5)], None)]
    with pytest.raises(ValueError, match="not among the values"):
        table.repeater((1, 1, 1), [5], lambda: None, lambda: variant(0, 1))
    with pytest.raises(ValueError, match="outside"):
        table.repeater((1, 1, 2**32), [5], lambda: None, lambda: variant(0))


@each_launcher
def test_a_stale_repetition_is_renewed(native: bool) -> None:
    from glueball.runtime.launcher import Variant, VariantTable

    table, driver, kernels_made, available = VariantTable(lambda *_: None, native=native), Driver(1), [], [True]

    def renew() -> Variant | None:
        if not available[0]:
            return None
        kernels_made.append(Kernel())
        return Variant(kernels_made[-1], driver.launch_address, 0xF00, (64, 1, 1), 32, (0,))

    again = ["again"]
    repeat = table.repeater((2, 3, 4), [5], again.pop, renew)
    assert repeat() is kernels_made[0]
    knobs.refresh_knobs()
    assert repeat() == "again"
    assert repeat() is kernels_made[1]
    available[0] = False
    knobs.refresh_knobs()
    again += ["second", "first"]
    assert [repeat(), repeat()] == ["first", "second"]
    with pytest.raises(IndexError):
        repeat()
    available[0] = True
    again.append("again")
    assert repeat() == "again"
    assert repeat() is kernels_made[2]
    assert len(driver.calls) == 3
