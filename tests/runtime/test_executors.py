"""Where launches run, and what each executor is given."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import knobs, sim
from glueball.codegen import Binary
from glueball.errors import DriverError, OutOfBoundsError, OutOfResources, SimulationError, TargetError
from glueball.runtime import devices, host, machine_code
from glueball.runtime.executors import place
from glueball.runtime.jit import JITFunction
from glueball.runtime.parameters import ParameterRule
from glueball.runtime.specialization import Argument, specialize_argument
from glueball.targets import TARGETS
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver, fake_gpu
from tests.runtime.kernels import layout
from tests.runtime.launcher_support import torch_tensor_on_device


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for knob in knobs.KNOBS:
        monkeypatch.delenv(knob.variable, raising=False)
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("glueball.drivers.cuda._probe", lambda: "there is no GPU")
    monkeypatch.setattr(machine_code, "assemble", lambda *_: pytest.fail("assembled in a test of executors"))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Two devices of compute capability 9.0 that load anything."""
    monkeypatch.setattr("glueball.runtime.compiler.assemble", _assembled)
    with fake_gpu(monkeypatch) as found:
        yield found


def _assembled(*_: Any) -> Any:
    return Binary(b"cubin", "cubin", 40, 0)


def arguments(*values: Any) -> list[Argument]:
    return [specialize_argument(ParameterRule(f"p{index}"), value) for index, value in enumerate(values)]


def fresh(function: JITFunction) -> JITFunction:
    """The function as if never launched."""
    return JITFunction(function.fn)


HOST, DEVICE = np.zeros(4, np.float32), DeviceArray(4)


def test_arguments_choose(driver: FakeDriver) -> None:
    assert place(arguments(HOST, 5)).executor == "sim"
    found = place(arguments(5, DeviceArray(4, device=1), DeviceArray(4, device=1)))
    assert (found.executor, found.device_index, found.target.name) == ("gpu", 1, "sm_90a")
    assert place(arguments(5)).executor == "gpu"
    assert place([]).executor == "gpu"


def test_arguments_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    devices._first_device_target.cache_clear()
    devices._announce.cache_clear()
    for _ in range(3):
        for given in ([], arguments(5), arguments(HOST)):
            found = place(given)
            assert (found.executor, found.target.name) == ("sim", "sm_90a")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "no GPU found" in said[0]
    assert "sm_90a" in said[0]
    with pytest.raises(DriverError, match="there is no GPU"):
        place(arguments(DEVICE))


def test_arrays_in_different_places() -> None:
    with pytest.raises(TypeError, match=r"`p1` \(on the host\) and `p2` \(on device 0\) are in different places"):
        place(arguments(3, HOST, DEVICE))
    with pytest.raises(TypeError, match=r"`p0` \(on device 0\) and `p1` \(on device 1\)"):
        place(arguments(DEVICE, DeviceArray(4, device=1)))


def test_knobs_override(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    assert place(arguments(HOST)).executor == "reference"
    assert place([]).executor == "reference"
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    assert place(arguments(DEVICE)).executor == "sim"
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "gpu")
    assert place(arguments(3)).executor == "gpu"
    with pytest.raises(TypeError, match="GLUEBALL_EXECUTOR=gpu needs device arrays"):
        place(arguments(HOST))
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "cpu")
    with pytest.raises(ValueError, match="GLUEBALL_EXECUTOR='cpu': expected one of gpu, sim, reference"):
        place([])


def test_target_knob(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "gfx950")
    assert place(arguments(HOST)).target.name == "gfx950"
    with pytest.raises(TargetError, match="GLUEBALL_TARGET=gfx950, but device 0 is sm_90a"):
        place(arguments(DEVICE))
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    assert place(arguments(DEVICE)).target.name == "sm_90a"
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_1")
    with pytest.raises(TargetError, match="unknown target 'sm_1'"):
        place(arguments(HOST))


@pytest.mark.parametrize(
    ("capability", "name"),
    [((8, 0), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a"), ((7, 5), None)],
)
def test_targets_of_devices(capability: tuple[int, int], name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu(monkeypatch, capabilities=[capability]):
        if name is None:
            with pytest.raises(TargetError, match="device 0 is sm_75, which glueball does not compile for"):
                place(arguments(DEVICE))
            assert place(arguments(HOST)).target.name == "sm_90a"
        else:
            assert place(arguments(DEVICE)).target.name == place(arguments(HOST)).target.name == name


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False), ("", False), ("N", False)])
def test_boolean_knobs(text: str, value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_VERIFY", text)
    assert knobs.VERIFY.read() is value


def test_knobs_name_their_variable_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_VERIFY", "perhaps")
    with pytest.raises(ValueError, match="GLUEBALL_VERIFY='perhaps': expected 1 or 0"):
        knobs.VERIFY.read()


EXECUTORS = pytest.mark.parametrize("executor", ["sim", "reference"])


@EXECUTORS
@pytest.mark.parametrize(
    "dtype", [np.float32, np.int8, np.bool_, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_numpy_arrays(executor: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x = (np.arange(100) % 3).astype(dtype)
    y = np.zeros(100, dtype)
    kernels.copy[(1,)](x, y, 90, 128, layout())
    assert (y[:90] == x[:90]).all()
    assert not y[90:].astype(bool).any()


@EXECUTORS
def test_views(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @glueball.jit
    def reversed_copy(x: Any, y: Any, BLOCK: gl.constexpr, spread: gl.constexpr):
        offsets = gl.arange(0, BLOCK, layout=spread)
        gl.store(y + 2 * offsets, gl.load(x - offsets))

    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x, y = np.arange(128, dtype=np.int32), np.zeros(256, np.int32)
    reversed_copy[(1,)](x[::-1], y[1::2], 128, layout())
    assert (y[1::2] == x[::-1]).all()
    assert not y[::2].any()


@EXECUTORS
def test_faults_name_the_argument(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x, y = np.zeros(100, np.float32), np.zeros(128, np.float32)
    with pytest.raises(OutOfBoundsError, match="`x`"):
        kernels.copy[(1,)](x, y, 128, 128, layout())
    y.flags.writeable = False
    with pytest.raises(SimulationError, match="`y`"):
        kernels.copy[(1,)](x, y, 100, 128, layout())


@EXECUTORS
def test_arrays_known_by_dlpack_only(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapped:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels.copy[(1,)](Wrapped(x), Wrapped(y), 64, 64, layout())
    assert (x == y).all()


@pytest.mark.torch
@EXECUTORS
def test_torch_tensors_on_the_cpu(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    storage = torch.zeros(300, dtype=torch.bfloat16)
    x, y = torch.arange(100).to(torch.bfloat16), storage[100:200]
    kernels.copy[(1,)](x, y, 100, 128, layout())
    assert torch.equal(storage[100:200], x)
    assert not storage[:100].any()
    assert not storage[200:].any()
    with pytest.raises(OutOfBoundsError, match="`y`"):
        kernels.copy[(1,)](torch.zeros(128, dtype=torch.bfloat16), y, 101, 128, layout())
    empty = torch.zeros(0)
    kernels.copy[(1,)](empty, empty, 0, 128, layout())


def test_every_target_runs_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(500, dtype=np.float32)
    for target in TARGETS.values():
        monkeypatch.setenv("GLUEBALL_TARGET", target.name)
        y = np.zeros_like(x)
        kernel = kernels.copy[(2,)](x, y, 500, 256, layout(target.lanes))
        assert (x == y).all()
        assert kernel.metadata.warp_size == target.lanes


def test_long_simulations_are_announced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host, "TOLD_SECONDS", 0.0)
    kernels.nothing[(1,)](5)
    assert "simulating nothing on grid (1, 1, 1) will take about" not in capsys.readouterr().err
    y = np.zeros(1, np.int32)
    kernels.count_programs[(1,)](y)
    assert "simulating count_programs on grid (1, 1, 1) will take about" in capsys.readouterr().err


def test_progress_reaches_the_end() -> None:
    kernel = glueball.compile_only(kernels.count_programs, "*i32", target="gfx950")
    shares: list[float] = []
    y = np.zeros(5000, np.int32)
    sim.run(kernel.thread, kernel.request.target, (5000, 1, 1), [y], progress=shares.append)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_estimates_count_constant_trip_counts() -> None:
    @glueball.jit
    def loop(y: Any, N: gl.constexpr):
        for index in range(N):
            gl.store(y + index, index)

    def seconds(trips: int, programs: int) -> float:
        kernel = glueball.compile_only(loop, "*i32", trips, target="gfx950")
        return host.estimate_seconds(kernel.thread, kernel.request.target, (programs, 1, 1))

    assert seconds(1000, 1) == pytest.approx(10 * seconds(100, 1), rel=0.05)
    assert seconds(1000, 7) == pytest.approx(7 * seconds(1000, 1))


def test_launch_of_arrays_that_are_no_torch_tensors(driver: FakeDriver) -> None:
    copy = fresh(kernels.copy)
    x, y = DeviceArray(100), DeviceArray(100)
    for _ in range(2):
        kernel = copy[(3,)](x, y, 90, 128, layout())
    assert driver.loads == [("copy", 0, 0)]
    assert kernel.n_regs == 40
    packed = [struct.pack("<Q", x.address), struct.pack("<Q", y.address), struct.pack("<q", 90)]
    assert driver.launches == [(0, (3, 1, 1), (128, 1, 1), 0, packed)] * 2
    copy[(0,)](x, y, 90, 128, layout())
    assert len(driver.launches) == 2
    kernel[(1,)](x, y, 90, 128, layout(), stream=77)
    assert driver.launches[-1][3] == 77
    copy[(1,)](DeviceArray(1, device=1), DeviceArray(1, device=1), 90, 128, layout())
    assert driver.loads[-1] == ("copy", 0, 1)
    assert driver.launches[-1][0] == 1


def test_scalars_are_packed_as_the_parameters_type(driver: FakeDriver) -> None:
    write = fresh(kernels.write_scalars)
    write[(1,)](DeviceArray(4), True, 3, 2**40, d=1.5)
    numbers = driver.launches[-1][4][1:]
    assert numbers == [
        b"\x01".ljust(8, b"\0"),
        struct.pack("<d", 3),
        struct.pack("<q", 2**40),
        struct.pack("<fI", 1.5, 0),
    ]


def test_native_launcher_repeats_scalar_launches(driver: FakeDriver) -> None:
    driver.argument_count = 2

    @glueball.jit(do_not_specialize=["a"])
    def kernel(a: Any, b: Any):
        pass

    first = kernel[(5, 2)](7, 0.5)
    assert len(driver.launches) == 1
    assert kernel[(5, 2)](1, 2.5) is first
    assert len(driver.launches) == 1
    function, numbers, stream, raw, _ = driver.calls[-1]
    assert (function, numbers, stream) == (0xF00, (5, 2, 1, 128, 1, 1, 0), None)
    assert (raw[0], raw[1][:4]) == (struct.pack("<q", 1), struct.pack("<f", 2.5))
    kernel[(5, 2)](np.int16(9), np.float32(0.5))
    assert (len(driver.launches), driver.calls[-1][3][0]) == (1, struct.pack("<q", 9))


def test_native_launcher_is_told_of_options_and_defaults(driver: FakeDriver) -> None:
    @glueball.jit
    def kernel(a: Any, b: Any = 6):
        pass

    for _ in range(2):
        kernel[(1,)](2, num_warps=8)
    assert (len(driver.launches), len(driver.calls)) == (2, 0)
    driver.argument_count = 2
    for _ in range(2):
        kernel[(1,)](2, num_warps=8, b=7)
    assert (len(driver.launches), len(driver.calls)) == (3, 1)
    assert driver.calls[-1][1][3] == 256
    kernel[(1,)](2, num_warps=2, b=7)
    assert driver.launches[-1][2] == (64, 1, 1)


def test_native_launcher_sees_changed_globals(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    @glueball.jit
    def kernel(n: Any):
        gl.static_assert(kernels.STEP == 1)

    for _ in range(2):
        kernel[(1,)](5)
    assert (len(driver.launches), len(driver.calls)) == (1, 1)
    monkeypatch.setattr(kernels, "STEP", gl.constexpr(2))
    with pytest.raises(RuntimeError, match=r"STEP .* has changed since we compiled this kernel"):
        kernel[(1,)](5)


def test_values_that_share_a_native_key_are_checked(driver: FakeDriver) -> None:
    @glueball.jit
    def kernel(n: "u64"):  # noqa: F821, UP037
        pass

    for _ in range(2):
        kernel[(1,)](5)
    with pytest.raises(OverflowError, match="-5 does not fit the annotated uint64"):
        kernel[(1,)](-5)


@pytest.mark.torch
def test_native_launcher_takes_torch_tensors(driver: FakeDriver) -> None:
    copy, spread = fresh(kernels.copy), layout()
    x, y = (torch_tensor_on_device(128) for _ in range(2))
    driver.argument_count = 3
    for _ in range(3):
        copy[(1,)](x, y, 100, 128, spread, num_warps=4)
    assert (len(driver.launches), len(driver.calls)) == (1, 2)
    assert driver.calls[-1][3] == driver.launches[0][4]


def test_grid_from_arguments_uses_the_native_launcher(driver: FakeDriver) -> None:
    nothing = fresh(kernels.nothing)
    driver.argument_count = 1
    for _ in range(3):
        nothing[lambda bound: (bound["n"],)](6)
    assert (len(driver.launches), len(driver.calls)) == (1, 2)
    assert driver.calls[-1][1][0] == 6


def test_registers_that_leave_no_room(driver: FakeDriver) -> None:
    driver.max_threads = 64
    with pytest.raises(OutOfResources, match=r"threads, required 128, limit 64\n.*40 registers"):
        fresh(kernels.nothing)[(1,)](5)


def test_drivers_linker_serves_its_device_only(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_installed", dict)
    assert machine_code.assembler(TARGETS["sm_90a"]) == "driver 13.0"
    assert machine_code.assembler(TARGETS["sm_100a"]) == machine_code.assembler(TARGETS["gfx950"]) == ""
