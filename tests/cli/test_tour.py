"""`glueball tour` on the simulator, and on a stand-in of a GPU that runs kernels on the simulator and has a clock."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from glueball.cli import pattern, tour, tour_machines
from glueball.cli.commands import commands
from glueball.drivers import arrays, cuda, device_memory
from glueball.drivers.cuda import CudaDriver
from glueball.drivers.device_memory import CudaArray
from glueball.errors import DriverError
from glueball.kernels.ladder import RUNGS, Launch
from glueball.runtime import devices
from glueball.targets import TARGETS
from tests.drivers.host_bindings import HostBindings, numpy_view


@pytest.fixture(autouse=True)
def knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets these for its process."""
    for name in ("GLUEBALL_EXECUTOR", "GLUEBALL_TARGET"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize(("rows", "columns"), [(128, 256), (37, 100), (1, 1)])
def test_every_rung_is_counted_as_predicted_and_verified(rows: int, columns: int, target: str) -> None:
    size = f"{rows}x{columns}"
    result = CliRunner().invoke(commands, ["tour", "--json", "--size", size, "--executor", "sim", "--target", target])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["executor"], data["target"], data["rows"], data["columns"]) == ("sim", target, rows, columns)
    assert data["verified"] is True
    assert [rung["rung"] for rung in data["rungs"]] == [rung.name for rung in RUNGS]
    for rung in data["rungs"]:
        assert rung["predicted_loads"] == pytest.approx(rung["counted_loads"]), rung["rung"]
        assert rung["predicted_stores"] == pytest.approx(rung["counted_stores"]), rung["rung"]
        assert rung["differences"] == 0
        assert rung["seconds"] is rung["terabytes_per_second"] is None
    by_name = {rung["rung"]: rung for rung in data["rungs"]}
    if target == "sm_90a" and rows == 128:
        assert by_name["b8"]["predicted_loads"] == {"sectors_per_request": 32, "efficiency": 0.5}
        assert by_name["f-converted"]["layouts"] == [
            "BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])",
            "BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])",
        ]


def test_the_table_has_a_row_for_every_rung() -> None:
    result = CliRunner().invoke(commands, ["tour", "--size", "128x128", "--executor", "sim"])
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line[:1].strip()}
    assert all(rung.name in rows for rung in RUNGS)
    assert rows["f-rows"].split()[-4:] == ["4/32", "100/12.5", "4/32", "100/12.5"]
    assert "equal to its source, bit by bit" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("size", ["37x100", "1x1"])
def test_ragged_sizes_are_copied_whole(size: str) -> None:
    result = CliRunner().invoke(commands, ["tour", "--size", size, "--executor", "sim", "--target", "gfx950"])
    assert result.exit_code == 0, result.output
    assert "equal to its source, bit by bit" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_wrong_copy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tour_machines.Simulator.run

    def damaging(machine: tour_machines.Simulator, launch: Launch) -> Any:
        report = run(machine, launch)
        machine.destination.view(np.uint32)[7] ^= 1
        return report

    monkeypatch.setattr(tour_machines.Simulator, "run", damaging)
    result = CliRunner().invoke(commands, ["tour", "--size", "64x64", "--executor", "sim"])
    assert result.exit_code == 1
    assert "1 elements differ" in result.stdout
    assert "differs from its source" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--size", "12"], "no size such as"),
        (["--size", "0x12"], "no size such as"),
        (["--executor", "tpu"], "tpu"),
        (["--target", "sm_1"], "sm_1"),
    ],
)
def test_wrong_options_are_told(options: list[str], words: str) -> None:
    result = CliRunner().invoke(commands, ["tour", *options])
    assert result.exit_code == 2
    assert words in result.stderr


def test_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> CudaDriver:
        raise DriverError("the CUDA driver finds no device")

    monkeypatch.setattr(cuda, "cuda_driver", missing)
    result = CliRunner().invoke(commands, ["tour", "--executor", "gpu"])
    assert result.exit_code == 1
    assert result.stderr == "Error: the CUDA driver finds no device\n"


class FakeDevice(HostBindings):
    """One device in host memory."""

    def cuDeviceGetCount(self) -> tuple[int, int]:  # noqa: N802
        return 0, 1

    def cuDeviceGetName(self, *_: Any) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"NVIDIA Stand-in\0\0"


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A GPU whose launches run on the simulator, over the same memory."""
    bindings = FakeDevice(limit=200 << 20)
    driver = CudaDriver(bindings)
    for module in (arrays, cuda, device_memory):
        monkeypatch.setattr(module, "cuda_driver", lambda: driver)
    monkeypatch.setattr(tour_machines, "device_target", lambda _: TARGETS["sm_90a"])
    monkeypatch.setattr(devices, "cuda_driver", lambda: driver)

    def run(launch: Launch) -> Any:
        monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
        host = [numpy_view(item) if isinstance(item, CudaArray) else item for item in launch.arguments]
        return launch.kernel[launch.grid](*host, **launch.keywords)

    monkeypatch.setattr(Launch, "run", run)
    return bindings


def test_a_gpu_is_timed_beside_its_plain_copy(fake_gpu: FakeDevice) -> None:
    result = CliRunner().invoke(commands, ["tour", "--json", "--size", "32x32", "--executor", "gpu"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["device"], data["target"], data["verified"]) == ("NVIDIA Stand-in", "sm_90a", True)
    moved = 2 * 32 * 32 * 4
    assert data["copy_terabytes_per_second"] == pytest.approx(moved / 1e-3 / 1e12)
    for rung in data["rungs"]:
        assert rung["seconds"] == pytest.approx(1e-3)
        assert rung["terabytes_per_second"] == pytest.approx(moved / 1e-3 / 1e12)
        assert rung["share_of_copy"] == pytest.approx(1.0)
        assert rung["counted_loads"] is None and rung["predicted_loads"] is not None
    assert not fake_gpu.buffers


def test_the_gpu_table_has_rates(fake_gpu: FakeDevice) -> None:
    result = CliRunner().invoke(commands, ["tour", "--size", "32x32", "--executor", "gpu"])
    assert result.exit_code == 0, result.output
    assert "TB/s" in result.stdout and "plain copy moves" in result.stdout
    assert "NVIDIA Stand-in (sm_90a)" in result.stdout


def test_a_gpu_copy_that_is_wrong_is_told(fake_gpu: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "run", lambda _: None)
    results = tour.run("gpu", (32, 32))
    assert [result.differences for result in results.rungs] == [1024] * len(RUNGS)


@pytest.mark.parametrize(
    ("free", "size"),
    [
        (140 << 30, (32768, 32768)),
        (16 << 30, (32768, 32768)),
        (12 << 30, (16384, 32768)),
        (1 << 30, (8192, 8192)),
    ],
)
def test_tensors_fit_into_free_memory(free: int, size: tuple[int, int]) -> None:
    assert tour_machines.fitting_size(free) == size
    assert 3 * 4 * size[0] * size[1] <= free


def test_too_little_memory_is_told() -> None:
    with pytest.raises(DriverError, match="too few"):
        tour_machines.fitting_size(1 << 20)


@pytest.mark.parametrize("chunk", [5, 64, 1 << 24])
def test_differences_are_found_wherever_they_are(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "CHUNK_ELEMENTS", chunk)
    storage = np.empty(2 * 12 * 20, np.float32)
    pattern.fill(storage)
    assert len(np.unique(storage.view(np.uint32))) == storage.size
    matrix = storage[:240].reshape(12, 20)
    for source, destination in (
        (matrix, matrix.copy()),
        (storage, storage.copy()),
        (matrix.T, matrix.T.copy()),
        (matrix.T, matrix.copy().T),
        (storage.reshape(24, 20)[::2], storage.reshape(24, 20)[::2].copy()),
    ):
        assert pattern.count_differences(source, destination) == 0
        last = (-1,) * destination.ndim
        destination[last] = 0
        assert pattern.count_differences(source, destination) == 1


@pytest.mark.gpu
def test_on_a_device() -> None:
    result = CliRunner().invoke(commands, ["tour", "--json", "--size", "2048x2048", "--executor", "gpu"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["verified"] is True
    assert all(rung["terabytes_per_second"] > 0 for rung in data["rungs"])
