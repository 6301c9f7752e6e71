"""The launcher against a recording launch function: what it passes on, and what goes wrong."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from glueball.errors import DriverError
from glueball.runtime.launcher import VARIANT_LIMIT, KeyFlag, Variant, VariantTable
from tests.runtime.launcher_support import (
    Driver,
    Runtime,
    Tensor,
    each_launcher,
)


@each_launcher
def test_the_driver_gets_the_launch_and_the_caller_the_kernel(native: bool) -> None:
    runtime = Runtime(native)
    tensor = Tensor(0x7F00_0000_1230)
    assert runtime.launch(tensor, -5, 2.5) == "missed"
    assert runtime.misses == [((2, 3, 4), (tensor, -5, 2.5), {})]
    assert runtime.driver.calls == []
    assert runtime.launch(tensor, -5, 2.5) is runtime.kernels[0]
    function, numbers, stream, raw, extra = runtime.driver.calls[0]
    assert (function, numbers, stream, extra) == (0xF00, (2, 3, 4, 128, 1, 1, 1024), None, None)
    assert raw[0] == struct.pack("<Q", 0x7F00_0000_1230)
    assert raw[1] == struct.pack("<q", -5)
    assert raw[2][:4] == struct.pack("<f", 2.5)


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (Tensor(ZeroDivisionError("no storage")), ZeroDivisionError),
        (Tensor("text"), TypeError),
        (Tensor(-16), OverflowError),
        (Tensor(2**64), OverflowError),
        (Tensor(device=ZeroDivisionError("no device")), ZeroDivisionError),
        (Tensor(device="text"), TypeError),
    ],
)
@each_launcher
def test_what_a_tensor_raises_reaches_the_caller(native: bool, tensor: Tensor, error: type[Exception]) -> None:
    runtime = Runtime(native)
    with pytest.raises(error):
        runtime.launch(3, tensor)
    with pytest.raises(error):
        runtime.table.key((3, tensor), {})
    assert runtime.misses == []


@each_launcher
def test_a_tensor_without_dtype_is_an_attribute_error(native: bool) -> None:
    runtime = Runtime(native)
    tensor = Tensor()
    del tensor.dtype
    with pytest.raises(AttributeError, match="dtype"):
        runtime.launch(tensor)


@each_launcher
def test_what_miss_raises_reaches_the_caller(native: bool) -> None:
    def miss(grid: Any, arguments: Any, keywords: Any) -> object:
        raise LookupError(grid, arguments, keywords)

    launch = VariantTable(miss, native=native).launcher((1, 1, 1))
    with pytest.raises(LookupError) as caught:
        launch(3, x=5)
    assert caught.value.args == ((1, 1, 1), (3,), {"x": 5})


@each_launcher
def test_the_stream_is_asked_for_at_each_launch(native: bool) -> None:
    streams = iter([0x51, 0, 2**64 - 8])
    asked: list[object] = []

    def stream_of(device: object) -> int:
        asked.append(device)
        return next(streams)

    runtime = Runtime(native, stream_callable=stream_of, stream_argument=3)
    for _ in range(4):
        runtime.launch(7)
    assert asked == [3, 3, 3]
    assert [call[2] for call in runtime.driver.calls] == [0x51, None, 2**64 - 8]


@pytest.mark.parametrize(("stream", "error"), [(lambda _: 1 // 0, ZeroDivisionError), (lambda _: "text", TypeError)])
@each_launcher
def test_a_stream_that_fails_reaches_the_caller(native: bool, stream: Any, error: type[Exception]) -> None:
    runtime = Runtime(native, stream_callable=stream)
    runtime.launch(7)
    with pytest.raises(error):
        runtime.launch(7)
    assert runtime.driver.calls == []


@each_launcher
def test_another_current_context_is_a_miss(native: bool) -> None:
    context = Driver()
    runtime = Runtime(native, context_address=context.context_address, context_handle=0xC0)
    runtime.launch(7)
    assert runtime.hits(7)
    context.context = 0xC1
    assert not runtime.hits(7)
    context.context = 0
    assert not runtime.hits(7)


@each_launcher
def test_a_global_that_changed_is_a_miss(native: bool) -> None:
    namespace = {"SCALE": (expected := [1]), "other": 2}
    runtime = Runtime(native, guards=((namespace, "SCALE", expected),))
    runtime.launch(7)
    assert runtime.hits(7)
    namespace["other"] = 3
    assert runtime.hits(7)
    namespace["SCALE"] = [1]
    assert not runtime.hits(7)
    del namespace["SCALE"]
    assert not runtime.hits(7)
    namespace["SCALE"] = expected
    assert runtime.hits(7)


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
@each_launcher
def test_an_empty_grid_launches_nothing(native: bool, grid: tuple[int, int, int]) -> None:
    runtime = Runtime(native)
    launch = runtime.table.launcher(grid)
    assert launch(7) == "missed"
    assert launch(7) is runtime.kernels[0]
    assert runtime.driver.calls == []


@each_launcher
def test_launchers_of_a_table_share_its_variants(native: bool) -> None:
    runtime = Runtime(native)
    runtime.launch(7)
    assert runtime.table.launcher((2**31 - 1, 65535, 1))(7) is runtime.kernels[0]
    assert runtime.driver.calls[0][1][:3] == (2**31 - 1, 65535, 1)


@pytest.mark.parametrize(
    ("grid", "error"),
    [((-1, 1, 1), ValueError), ((1, 2**32, 1), ValueError), ((1, 1), ValueError), ((1, 1, 1.0), TypeError)],
)
@each_launcher
def test_a_grid_that_cannot_be_is_refused(native: bool, grid: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Runtime(native).table.launcher(grid)


@each_launcher
def test_a_failed_launch_is_reported_by_code(native: bool) -> None:
    def failed(code: int) -> object:
        raise DriverError(f"code {code}")

    runtime = Runtime(native, launch_failed=failed)
    runtime.launch(7)
    runtime.driver.result = 719
    with pytest.raises(DriverError, match="code 719"):
        runtime.launch(7)
    runtime.driver.result = 0
    assert runtime.hits(7)


@each_launcher
def test_the_oldest_variant_leaves_first(native: bool) -> None:
    runtime = Runtime(native, [("C", KeyFlag.CONSTEXPR)])
    for value in range(VARIANT_LIMIT):
        runtime.launch(value)
    assert runtime.hits(0)
    runtime.launch(VARIANT_LIMIT)
    assert len(runtime.table) == VARIANT_LIMIT
    assert runtime.hits(1)
    assert not runtime.hits(0)
    runtime.table.clear()
    assert not runtime.hits(VARIANT_LIMIT)


@pytest.mark.parametrize(
    "change",
    [
        {"launch_address": 0},
        {"argument_indices": (1,)},
        {"argument_indices": (-1,)},
        {"argument_indices": (0, 0)},
        {"shared_bytes": -1},
        {"shared_bytes": 2**32},
        {"block": (1, -1, 1)},
        {"block": (1, 1)},
        {"function_handle": 2**64},
    ],
)
@each_launcher
def test_a_variant_that_cannot_be_launched_is_refused(native: bool, change: dict[str, Any]) -> None:
    table = Runtime(native).table
    good: dict[str, Any] = {
        "kernel": None,
        "launch_address": 8,
        "function_handle": 1,
        "block": (1, 1, 1),
        "shared_bytes": 0,
        "argument_indices": (0,),
    }
    assert table.add(Variant(**good), (7,), {})
    with pytest.raises(ValueError, match=r"."):
        table.add(Variant(**(good | change)), (7,), {})


@each_launcher
def test_an_argument_keyed_by_identity_cannot_be_passed(native: bool) -> None:
    runtime = Runtime(native, passed=(1,))
    with pytest.raises(ValueError, match="argument 1 is keyed by identity"):
        runtime.launch(7, "text")
    with pytest.raises(ValueError, match="argument 1 is keyed by identity"):
        runtime.launch(7, x="text")


@pytest.mark.torch
@each_launcher
def test_torch_tensors_launch(native: bool) -> None:
    import torch

    runtime = Runtime(native)
    runtime.table.register_tensor_type(torch.Tensor)
    first, second = torch.zeros(64), torch.ones(64)
    assert runtime.raw(first, 3) == [struct.pack("<Q", first.data_ptr()), struct.pack("<q", 3)]
    assert runtime.hits(second, 5)
    assert not runtime.hits(second.half(), 5)
    assert not runtime.hits(second[1:], 5)
    assert runtime.hits(second[4:], 5)
