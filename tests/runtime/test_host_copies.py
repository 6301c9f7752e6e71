"""Device arrays on executors of the host: copied, run, and copied back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.drivers import cuda
from glueball.drivers.cuda import CudaDriver
from glueball.drivers.device_memory import CudaArray, from_numpy
from glueball.errors import OutOfBoundsError
from tests.drivers.host_bindings import HostBindings

LINE = gl.BlockedLayout([1], [32], [1], [0])


class CountingBindings(HostBindings):
    """Knows which bytes were copied, and refuses that kernels run on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[tuple[int, int]] = []
        self.synchronized = 0

    def cuMemcpyDtoH(self, destination: int, source: int, size: int, _: int = 0) -> Any:  # noqa: N802 - the driver's
        self.copied.append((source, size))
        return super().cuMemcpyHtoD(destination, source, size)

    def cuDeviceGetName(self, *_: Any) -> Any:  # noqa: N802 - the driver's
        return self.CUresult.CUDA_SUCCESS, b"Device\0"

    def cuCtxSynchronize(self) -> Any:  # noqa: N802 - the driver's
        self.synchronized += 1
        return (self.CUresult.CUDA_SUCCESS,)

    def cuLaunchKernel(self, *_: Any) -> Any:  # noqa: N802 - the driver's
        raise AssertionError("launched on the device")


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> CountingBindings:
    found = CountingBindings()
    driver = CudaDriver(found)
    monkeypatch.setattr(cuda, "_probe", lambda: driver)
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    return found


@pytest.fixture(params=["sim", "reference"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", request.param)
    return str(request.param)


def kernel_of() -> Any:
    """The kernel as if never launched: what launches it is made once, with the device that is there then."""
    return glueball.JITFunction(add.fn)


@glueball.jit
def add(x, y, total, n, step, layout: gl.constexpr):
    index = gl.arange(0, 64, layout)
    sums = gl.load(x + index, mask=index < n, other=0) + gl.load(y + index, mask=index < n, other=0)
    gl.store(total + index * step, sums, mask=index < n)


def on_device(host: np.ndarray) -> CudaArray:
    return from_numpy(host, driver=cuda.cuda_driver())


def test_values_come_back(bindings: CountingBindings, executor: str) -> None:
    x, y, total = (on_device(np.arange(64, dtype=np.float32) * factor) for factor in (1, 10, 0))
    kernel_of()[(1,)](x, y, total, 50, 1, LINE, num_warps=1)
    assert total.to_numpy().tolist() == [11 * value for value in range(50)] + [0] * 14
    assert bindings.synchronized == 1


def test_views_of_one_array_share_their_copy(bindings: CountingBindings, executor: str) -> None:
    """What a kernel writes through one argument is there through another, in place too."""
    base = on_device(np.arange(128, dtype=np.int32))
    kernel_of()[(1,)](base[:64], base[32:96], base[:64], 64, 1, LINE, num_warps=1)
    assert bindings.copied[0] == (base.pointer, 96 * 4)
    expected = np.arange(128)
    expected[:64] += np.arange(32, 96)
    assert base.to_numpy().tolist() == expected.tolist()


def test_steps_and_neighbours(bindings: CountingBindings, executor: str) -> None:
    """Arrays next to one another have copies of their own; elements between strided ones stay."""
    x = on_device(np.arange(16, dtype=np.int32))
    target = on_device(np.full(32, -1, np.int32))
    kernel_of()[(1,)](x[:8], x[8:], target[::2], 8, 2, LINE, num_warps=1)
    assert {(x.pointer, 32), (x.pointer + 32, 32)} < set(bindings.copied)
    assert target.to_numpy()[:16:2].tolist() == [8, 10, 12, 14, 16, 18, 20, 22]
    assert (target.to_numpy()[1::2] == -1).all()


def test_empty_arrays_are_not_copied(bindings: CountingBindings, executor: str) -> None:
    x = on_device(np.arange(8, dtype=np.int32))
    kernel_of()[(1,)](x[:0], x[:0], x, 0, 1, LINE, num_warps=1)
    assert bindings.copied == [(x.pointer, 32)]


def test_faults_name_the_argument(bindings: CountingBindings, executor: str) -> None:
    x = on_device(np.arange(64, dtype=np.int32))
    with pytest.raises(OutOfBoundsError, match="`total`"):
        kernel_of()[(1,)](x, x, on_device(np.zeros(32, np.int32)), 64, 1, LINE, num_warps=1)


@pytest.mark.gpu
@pytest.mark.torch
def test_a_real_device(executor: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(64, device="cuda", dtype=torch.float32)
    total = torch.zeros(128, device="cuda")[::2]
    kernel = kernel_of()[(1,)](x, x[:], total, 64, 2, LINE, num_warps=1)
    assert torch.equal(total, 2 * x)
    assert (kernel.report is not None) == (executor == "sim")
