"""Tensors read through DLPack's C exchange API, and the variant that is tried first."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

import pytest

from glueball.drivers.arrays import current_stream
from glueball.drivers.exchange import exchange_api
from glueball.runtime.launcher import VARIANT_LIMIT, KeyFlag, Variant, VariantTable
from tests.runtime.launcher_support import (
    CAPSULE_NAME,
    FRAMEWORK,
    LAUNCH_TYPE,
    ExchangeTensor,
    Framework,
    Kernel,
    Runtime,
    Tensor,
    capsule,
    each_launcher,
)

API = exchange_api(ExchangeTensor)


@each_launcher
def test_the_pointer_includes_the_offset(native: bool) -> None:
    assert Runtime(native).raw(ExchangeTensor(0x1000, offset=0x30)) == [struct.pack("<Q", 0x1030)]


@each_launcher
def test_no_attribute_of_the_tensor_is_read_by_the_launcher(native: bool) -> None:
    class Sealed:
        __dlpack_c_exchange_api__ = ExchangeTensor.__dlpack_c_exchange_api__
        data_ptr = get_device = property(lambda self: pytest.fail("read by attribute"))
        address, offset, device, dtype, status = 0x1000, 0, (2, 0), (2, 32, 1), 0
        shape = (ctypes.c_int64 * 1)(64)

    runtime = Runtime(native)
    runtime.table.register_tensor_type(Sealed)
    assert runtime.raw(Sealed()) == [struct.pack("<Q", 0x1000)]


@pytest.mark.parametrize(
    "tensor",
    [ExchangeTensor(status=-1), ExchangeTensor(0), ExchangeTensor(2**64 - 8, offset=8), ExchangeTensor(0, shape=())],
)
@each_launcher
def test_a_tensor_that_cannot_be_read_or_has_no_memory_is_a_miss(native: bool, tensor: ExchangeTensor) -> None:
    runtime = Runtime(native)
    assert runtime.table.key((tensor,), {}) is None
    assert not runtime.hits(tensor)
    assert not runtime.hits(tensor)
    assert runtime.driver.calls == []


@each_launcher
def test_the_framework_says_the_stream_of_the_device(native: bool) -> None:
    runtime = Runtime(native, stream_exchange=API, stream_device=(2, 3), stream_callable=lambda _: 1 // 0)
    FRAMEWORK.asked.clear()
    runtime.launch(ExchangeTensor())
    assert runtime.hits(ExchangeTensor())
    assert FRAMEWORK.asked == [(2, 3)]
    assert runtime.driver.calls[0][2] == FRAMEWORK.stream
    assert current_stream(4, ExchangeTensor()) == FRAMEWORK.stream
    assert FRAMEWORK.asked[-1] == (2, 4)


@each_launcher
def test_a_stream_that_is_not_told_is_a_miss(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(native, stream_exchange=API)
    runtime.launch(ExchangeTensor())
    monkeypatch.setattr(FRAMEWORK, "stream_status", -1)
    assert not runtime.hits(ExchangeTensor())
    monkeypatch.setattr(FRAMEWORK, "stream_status", 0)
    assert runtime.hits(ExchangeTensor())


def test_only_version_1_with_its_functions_counts() -> None:
    framework = Framework()
    good, newer = framework.table(), framework.table(version=2)
    chained, incomplete = framework.table(version=2, previous=good), framework.table(reads=False)
    other_name = b"something_else"

    def api_of(attribute: Any) -> Any:
        return exchange_api(type("Array", (), {"__dlpack_c_exchange_api__": attribute}))

    found = api_of(capsule(good, CAPSULE_NAME))
    assert (found.read_address, found.stream_address) == (framework.read_address, framework.stream_address)
    assert api_of(capsule(framework.table(version=3 << 32 | 1), CAPSULE_NAME)) == found, "a minor version"
    assert api_of(capsule(chained, CAPSULE_NAME)) == found
    for refused in (
        capsule(newer, CAPSULE_NAME),
        capsule(incomplete, CAPSULE_NAME),
        capsule(good, other_name),
        7,
        None,
    ):
        assert api_of(refused) is None
    assert exchange_api(int) is None


@each_launcher
def test_reference_counts_stay(native: bool) -> None:
    runtime = Runtime(native, passed=(0, 1), stream_exchange=API)
    runtime.driver._launch = LAUNCH_TYPE(lambda *_: 0)
    tensor, broken = ExchangeTensor(), ExchangeTensor(status=-1)
    runtime.launch(tensor, tensor)
    watched = [tensor, broken, runtime.kernels[0]]
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(2000):
        runtime.launch(tensor, tensor)
        assert runtime.table.key((tensor, broken), {}) is None
    assert [sys.getrefcount(one) for one in watched] == before
    assert len(runtime.misses) == 1


@each_launcher
def test_variants_in_turn_each_launch_their_own(native: bool) -> None:
    runtime = Runtime(native, [("C", KeyFlag.CONSTEXPR)], passed=(0,))
    calls = [(3,), (5,), (3, 7), (3, 7.5), (3, ExchangeTensor())]
    for call in calls:
        runtime.launch(*call)
    for index in (0, 0, 1, 0, 2, 2, 3, 4, 3, 0):
        assert runtime.launch(*calls[index]) is runtime.kernels[index]


@each_launcher
def test_a_variant_that_left_is_not_launched_though_it_was_the_latest(native: bool) -> None:
    runtime = Runtime(native, [("C", KeyFlag.CONSTEXPR)])
    runtime.launch(3)
    assert runtime.hits(3)
    replacement = Kernel()
    runtime.table.add(Variant(replacement, runtime.driver.launch_address, 1, (1, 1, 1), 0, (0,)), (3,), {})
    assert runtime.launch(3) is replacement
    runtime.table.clear()
    assert not runtime.hits(3)
    assert runtime.hits(3)
    for value in range(10, 10 + VARIANT_LIMIT):
        runtime.table.add(Variant(replacement, runtime.driver.launch_address, 1, (1, 1, 1), 0, (0,)), (value,), {})
    assert not runtime.hits(3)


@pytest.mark.torch
@each_launcher
def test_every_kind_of_torch_tensor(native: bool) -> None:
    import torch

    runtime = Runtime(native, passed=())
    runtime.table.register_tensor_type(torch.Tensor)
    plain = torch.zeros(64)
    runtime.launch(plain)
    for same in (torch.ones(4, requires_grad=True), plain.expand(8, 64), plain.t(), plain.detach(), torch.zeros(0)):
        assert runtime.hits(same)
    for other in (plain.half(), plain.int(), plain[1:], plain.to("meta"), plain.to_sparse()):
        assert not runtime.hits(other)
    assert not runtime.hits(torch.nn.Parameter(plain)), "another class"
    for transform in (torch.vmap, torch.func.functionalize):
        transform(lambda row: (row, pytest.fail("hit") if runtime.hits(row) else None)[0])(torch.zeros(2, 4))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_tensors_without_memory_are_refused() -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from glueball.drivers.arrays import read_array

    with FakeTensorMode():
        fake = torch.zeros(4)
    with pytest.raises(TypeError, match="without memory"):
        read_array(fake)
    with pytest.raises(TypeError, match="without memory"):
        torch.func.functionalize(lambda x: (read_array(x), x)[1])(torch.zeros(4))
    assert read_array(torch.zeros(0)) is not None


def test_a_table_reads_by_attributes_where_there_is_no_api() -> None:
    table = VariantTable(lambda *_: None)
    for kind in (Tensor, ExchangeTensor):
        table.register_tensor_type(kind)
    assert table.key((Tensor(), ExchangeTensor()), {}) is not None
    with pytest.raises(TypeError):
        table.key((Tensor("text"),), {})
