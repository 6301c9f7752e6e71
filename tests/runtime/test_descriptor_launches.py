"""Launches with tensor descriptors: what the driver gets, and that fields changed meanwhile are seen."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.drivers import tensor_maps
from glueball.language.nvidia.hopper import tma
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime import descriptors, device
from glueball.runtime.ast_source import GluonASTSource
from glueball.runtime.launcher import KeyFlag, Variant, VariantTable, part_index
from glueball.tensor_map import TensorMap
from tests.runtime.fake_gpu import FakeDriver, fake_gpu
from tests.runtime.launcher_support import LAUNCH_TYPE

LAYOUT = gl.NVMMASharedLayout(64, 16)
MAP_BYTES = 128


class Memory:
    """An array that claims to be on a device, and counts how often it is asked for its address."""

    device = type("Device", (), {"id": 0})

    def __init__(self) -> None:
        storage = np.zeros(64 * 64 + 8, np.float16)
        start = -storage.ctypes.data % 16 // 2
        self.host = storage[start : start + 64 * 64].reshape(64, 64)

    def data_ptr(self) -> int:
        return self.host.ctypes.data

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3}


def fake_map(tensor_map: TensorMap) -> bytes:
    """As many bytes as a tensor map, from which its address, extents and box can be read."""
    numbers = (tensor_map.base, *tensor_map.shape, *tensor_map.strides, *tensor_map.box)
    return struct.pack(f"<{len(numbers)}Q", *numbers).ljust(MAP_BYTES, b"\0")


@glueball.jit
def kernel(a, n, b, BLOCK: gl.constexpr):
    view = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    tma.async_store(a, [n, b.shape[0]], view)


class Calls:
    """A launch function that reads every parameter of `kernel`."""

    def __init__(self) -> None:
        self.found: list[list[bytes]] = []
        self._launch = LAUNCH_TYPE(self._record)
        self.address = ctypes.cast(self._launch, ctypes.c_void_p).value or 0

    def _record(self, *arguments: Any) -> int:
        pointers = arguments[-2]
        sizes = [MAP_BYTES, 8, 8, 8, 8, 8, MAP_BYTES, 8, 8, 8, 8]
        self.found.append([ctypes.string_at(pointers[index], size) for index, size in enumerate(sizes)])
        return 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Calls]:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    for module in (descriptors, device):
        monkeypatch.setattr(module, "encoded", fake_map)
    descriptors._slot.cache_clear()
    found = Calls()
    monkeypatch.setattr(FakeDriver, "launch_address", property(lambda _: found.address))
    with fake_gpu(monkeypatch) as driver:
        found.driver = driver  # type: ignore[attr-defined] # for tests that ask what came from Python
        kernel._kernels.clear()
        kernel.__dict__.pop("_table", None)
        kernel._launchers.clear()
        yield found
    descriptors._slot.cache_clear()
    kernel._kernels.clear()
    kernel.__dict__.pop("_table", None)
    kernel._launchers.clear()


def from_python(calls: Calls) -> int:
    """How many launches went the slow way so far."""
    launches: list[Any] = calls.driver.launches  # type: ignore[attr-defined]
    return len(launches)


def described(memory: Memory, block: tuple[int, int] = (16, 32)) -> TensorDescriptor:
    return TensorDescriptor(memory, [64, 64], [64, 1], list(block), LAYOUT)


def expected(descriptor: TensorDescriptor, memory: Memory) -> list[bytes]:
    """What the kernel gets of a descriptor."""
    numbers = [*descriptor.shape, *descriptor.strides]
    first = struct.pack("<7Q", memory.data_ptr(), *numbers, *descriptor.block_shape).ljust(MAP_BYTES, b"\0")
    return [first, *(struct.pack("<q", number) for number in numbers)]


def test_repeated_launches_are_native(calls: Calls) -> None:
    first, second = Memory(), Memory()
    a, b = described(first), described(second)
    for n in (32, 48, 64):
        kernel[(4,)](a, n, b, 64)
    assert from_python(calls) == 1
    assert len(calls.found) == 2
    assert calls.found[-1] == [*expected(a, first), struct.pack("<q", 64), *expected(b, second)]


def test_keywords_and_equal_descriptors(calls: Calls) -> None:
    """Another object of the same kind is launched by the same variant."""
    first, second = Memory(), Memory()
    kernel[(4,)](described(first), 32, b=described(second), BLOCK=64)
    kernel[(4,)](described(second), 32, b=described(first), BLOCK=64)
    assert from_python(calls) == 1
    assert calls.found[-1][0] == expected(described(second), second)[0]


@pytest.mark.parametrize("change", ["base", "address", "shape", "shape in place", "strides", "padding"])
def test_changed_fields_are_seen(calls: Calls, change: str) -> None:
    """By the same compiled kernel, without Python's whole way."""
    first, second, third = Memory(), Memory(), Memory()
    a, b = described(first), described(second)
    for _ in range(2):
        kernel[(4,)](a, 32, b, 64)
    now = first
    match change:
        case "base":
            a.base = now = third
        case "address":
            first.host = third.host
        case "shape":
            a.shape = [40, 64]
        case "shape in place":
            a.shape[0] = 40
        case "strides":
            a.strides = (32, 1)  # type: ignore[assignment] # as some programs write it
        case "padding":
            a.padding = "nan"
    kernel[(4,)](a, 32, b, 64)
    assert from_python(calls) == 1
    assert calls.found[-1] == [*expected(a, now), struct.pack("<q", 32), *expected(b, second)]


def test_another_block_is_another_kernel(calls: Calls) -> None:
    a, b = described(Memory()), described(Memory())
    kernels = [kernel[(4,)](a, 32, b, 64)]
    a.block_shape = [32, 32]
    kernels.append(kernel[(4,)](a, 32, b, 64))
    a.block_shape[0] = 16
    kernels.append(kernel[(4,)](a, 32, b, 64))
    assert kernels[0] is kernels[2]
    assert kernels[0] is not kernels[1]
    assert from_python(calls) == 2


def test_what_the_hardware_refuses_is_refused_at_the_launch(calls: Calls) -> None:
    a, b = described(Memory()), described(Memory())
    for _ in range(2):
        kernel[(4,)](a, 32, b, 64)
    a.strides = [63, 1]
    with pytest.raises(AssertionError, match=r"parameter `a`: .*strides must be 16-byte aligned"):
        kernel[(4,)](a, 32, b, 64)
    a.strides = [64, 1]
    kernel[(4,)](a, 32, b, 64)
    assert from_python(calls) == 1


def test_compiled_kernels_and_prepared_launches(calls: Calls) -> None:
    first, second = Memory(), Memory()
    a, b = described(first), described(second)
    compiled = kernel[(4,)](a, 32, b, 64)
    for _ in range(3):
        compiled[(2,)](a, 48, b, 64)
    assert from_python(calls) == 2
    assert calls.found[-1] == [*expected(a, first), struct.pack("<q", 48), *expected(b, second)]
    repeat = compiled.prepared_launch(b, 16, a, 64, grid=(2,))
    for _ in range(2):
        repeat()
    assert from_python(calls) == 2
    assert calls.found[-1] == [*expected(b, second), struct.pack("<q", 16), *expected(a, first)]


@pytest.mark.parametrize("native", [True, False])
def test_parts_of_what_a_reader_gives(native: bool) -> None:
    class Pair:
        pass

    content, token = struct.pack("<3q", 1, 2, 3), object()
    given: list[tuple[bytes, object] | None] = [(content, token)]
    found: list[list[int]] = []

    def record(*arguments: Any) -> int:
        pointers = arguments[-2]
        found.append([int.from_bytes(ctypes.string_at(pointers[index], 8), "little") for index in range(3)])
        return 0

    launch = LAUNCH_TYPE(record)
    address = ctypes.cast(launch, ctypes.c_void_p).value or 0
    table = VariantTable(lambda *_: "missed", [("pair", KeyFlag.NORMAL), ("n", KeyFlag.NORMAL)], native=native)
    table.register_reader(Pair, lambda _: given[0])
    variant = Variant("kernel", address, 1, (32, 1, 1), 0, (part_index(0, 16), 1, part_index(0, 0)))
    assert table.add(variant, (Pair(), 7), {})
    run = table.launcher((1, 1, 1))
    assert run(Pair(), 7) == "kernel"
    assert found == [[3, 7, 1]]
    given[0] = None
    assert run(Pair(), 7) == "missed"
    given[0] = (content, object())
    assert run(Pair(), 7) == "missed"


@glueball.jit
def makes(x, n, layout: gl.constexpr):
    made = tma.make_tensor_descriptor(x, [n, 64], [64, 1], [16, 32], layout)
    view = gl.allocate_shared_memory(made.dtype, made.block_shape, made.layout)
    tma.async_store(made, [0, 0], view)


def test_scratch_memory_comes_from_the_allocator(calls: Calls) -> None:
    memory = Memory()
    asked: list[tuple[int, int, int | None]] = []

    class Buffer:
        def data_ptr(self) -> int:
            return 0x7000

    def allocate(size: int, alignment: int, stream: int | None) -> Buffer:
        asked.append((size, alignment, stream))
        return Buffer()

    with pytest.raises(RuntimeError, match="needs 768 bytes of global scratch memory, but no allocator was set"):
        makes[(2, 3)](memory, 33, LAYOUT)
    glueball.set_allocator(allocate)
    try:
        for _ in range(2):
            compiled = makes[(2, 3)](memory, 33, LAYOUT)
    finally:
        glueball.set_allocator(None)
    assert [each[:2] for each in asked] == [(6 * 128, 128)] * 2
    assert compiled.metadata.global_scratch_size == 128
    launches = calls.driver.launches  # type: ignore[attr-defined]
    assert launches[-1][-1][-1] == struct.pack("<Q", 0x7000)


def test_descriptors_in_a_signature() -> None:
    kind = f"tensordesc<fp16[16, 32],{LAYOUT!r}>"
    source = GluonASTSource(kernel, {"a": kind, "n": "i32", "b": kind, "BLOCK": "constexpr"}, {"BLOCK": 64})
    compiled = glueball.compile(source, "sm_90a")
    assert compiled.src.signature["a"] == kind.replace(", 32", ",32")
    assert "cp.async.bulk.tensor.2d.global" in compiled.asm["ptx"]


@pytest.mark.gpu
@pytest.mark.torch
def test_the_driver_encodes_what_a_tensor_map_says() -> None:
    """Equal maps are equal bytes, and every field changes some."""
    torch = pytest.importorskip("torch")
    x = torch.zeros(64, 64, device="cuda", dtype=torch.float32)
    base = {
        "base": x.data_ptr(), "shape": (64, 64), "strides": (64, 1), "element": "float32", "box": (16, 16),
        "swizzle": 64,
    }  # fmt: skip
    changes: list[dict[str, Any]] = [
        {}, {"shape": (63, 64)}, {"box": (8, 16)}, {"swizzle": 128}, {"fill": "nan"}, {"element": "tfloat32"},
        {"element": "int32"}, {"base": x.data_ptr() + 1024}, {"strides": (128, 1)},
    ]  # fmt: skip
    encoded = [tensor_maps.encoded(TensorMap(**{**base, **change})) for change in changes]
    assert len(set(encoded)) == len(changes)
    assert all(len(each) == MAP_BYTES for each in encoded)
