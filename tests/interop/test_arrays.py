"""Memory handed on through DLPack and the array interfaces, in both directions."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from glueball.errors import ReadOnlyWriteError
from glueball.interop.arrays import ArrayView, from_dlpack
from tests.interop.kernels import launch

DTYPES = [
    np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
    np.uint64, np.bool_,
]  # fmt: skip
VIEWS = [
    lambda x: x,
    lambda x: x.T,
    lambda x: x[::2, 1:],
    lambda x: x[::-1],
    lambda x: x[2:3, 3].reshape(()),
    lambda x: x[:0],
    lambda x: np.broadcast_to(x[0], (4, 6)),
]


def memory(dtype: Any = np.float32) -> np.ndarray:
    return np.arange(24).reshape(4, 6).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_gets_back_what_it_gave(dtype: Any) -> None:
    x = memory(dtype)
    found = np.from_dlpack(from_dlpack(x))
    assert found.dtype == x.dtype
    assert np.array_equal(found, x)
    found[1, 1] = 0
    assert x[1, 1] == 0


@pytest.mark.parametrize("view", VIEWS)
def test_geometry(view: Any) -> None:
    x = view(memory())
    given = from_dlpack(x)
    assert (given.shape, given.size, given.ndim, given.nbytes) == (x.shape, x.size, x.ndim, x.nbytes)
    for found in (np.from_dlpack(given), np.asarray(given), given.numpy()):
        assert np.array_equal(found, x)
        assert found.size == 0 or np.shares_memory(found, x)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "int64"])
def test_torch_gets_back_what_it_gave(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24).reshape(4, 6).to(getattr(torch, name)).T
    view = from_dlpack(x)
    found = torch.from_dlpack(view)
    assert found.dtype == x.dtype
    assert found.stride() == x.stride()
    assert found.data_ptr() == x.data_ptr()
    assert view.dtype == np.dtype(getattr(ml_dtypes, name, None) or name)
    assert view.numpy().astype(np.float32).tolist() == x.float().tolist()


def test_memory_lives_as_long_as_somebody_uses_it() -> None:
    class Owner(np.ndarray):
        pass

    x = memory().view(Owner)
    alive = weakref.ref(x)
    view = from_dlpack(x)
    users = [
        np.from_dlpack(view),
        np.asarray(view),
        view.numpy(),
        view.__dlpack__(),
        view.__dlpack__(max_version=(1, 0)),
    ]
    del x, view
    while users:
        gc.collect()
        assert alive() is not None
        users.pop()
    gc.collect()
    assert alive() is None


@pytest.mark.torch
def test_handing_on_leaks_nothing() -> None:
    torch = pytest.importorskip("torch")
    view = from_dlpack(memory())
    before = sys.getrefcount(view)
    for _ in range(100):
        torch.from_dlpack(view)
        np.from_dlpack(view)
        view.__dlpack__()
        view.__dlpack__(max_version=(1, 1))
    assert sys.getrefcount(view) == before


def test_read_only_memory_stays_so() -> None:
    x = memory()
    x.flags.writeable = False
    view = from_dlpack(x)
    assert not any(found.flags.writeable for found in (np.from_dlpack(view), np.asarray(view), view.numpy()))
    with pytest.raises(BufferError, match="read-only"):
        view.__dlpack__()
    assert not from_dlpack(np.from_dlpack(view)).writeable


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_kernels_take_views(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    x, out = memory(), memory()
    launch(from_dlpack(x), x, from_dlpack(out))
    assert np.array_equal(out, 3 * x)
    out.flags.writeable = False
    with pytest.raises(ReadOnlyWriteError, match="out"):
        launch(x, x, from_dlpack(out))


def test_what_the_consumer_must_do_itself() -> None:
    view = from_dlpack(memory())
    assert view.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="copy it on the consumer's side"):
        view.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"not on \(2, 0\)"):
        view.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="a list is no array"):
        from_dlpack([1, 2])
    assert from_dlpack(view) is view


def test_device_arrays_have_the_interface_of_devices() -> None:
    view = ArrayView(4096, np.dtype(np.float32), (2, 3), (3, 1), "cuda", stream=7)
    assert view.__cuda_array_interface__ == {
        "data": (4096, False), "shape": (2, 3), "strides": (12, 4), "typestr": "<f4", "version": 3, "stream": 7,
    }  # fmt: skip
    assert not hasattr(view, "__array_interface__")
    assert not hasattr(from_dlpack(memory()), "__cuda_array_interface__")
    with pytest.raises(TypeError, match="copy it to the host"):
        view.numpy()


@pytest.mark.gpu
@pytest.mark.torch
def test_device_memory_goes_there_and_back() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24, device="cuda", dtype=torch.float32)
    view = from_dlpack(x)
    out = torch.empty_like(x)
    launch(view, x, from_dlpack(out))
    assert torch.equal(out, 3 * x)
    found = torch.from_dlpack(view)
    assert found.data_ptr() == x.data_ptr()
    assert torch.as_tensor(view, device="cuda").data_ptr() == x.data_ptr()


@pytest.mark.gpu
@pytest.mark.torch
def test_an_array_s_stream_is_where_its_kernels_run() -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    x, out = torch.zeros(1 << 16, device="cuda"), torch.empty(1 << 16, device="cuda")
    launch(x, x, out)
    torch.cuda.synchronize()

    def on_stream(tensor: Any) -> ArrayView:
        given = from_dlpack(tensor)
        return ArrayView(
            given.pointer, given.dtype, given.shape, given.strides, "cuda", 0, tensor, stream=stream.cuda_stream
        )

    for attempt in range(1, 20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            x.fill_(attempt)
        launch(on_stream(x), on_stream(x), on_stream(out))
        stream.synchronize()
        assert (out == 3 * attempt).all()


@pytest.mark.gpu
def test_cupy_arrays_and_their_stream() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(1000, dtype=cupy.float32)
        out = cupy.empty_like(x)
        launch(x, x, out)
        found = cupy.from_dlpack(from_dlpack(out))
        stream.synchronize()
    assert found.data.ptr == out.data.ptr
    assert np.array_equal(cupy.asnumpy(found), 3 * np.arange(1000, dtype=np.float32))
