"""What the launcher keeps alive, what it lets go, and threads."""

from __future__ import annotations

import gc
import struct
import sys
import threading
import weakref
from typing import Any

import pytest

from glueball.runtime.launcher import KeyFlag, VariantTable
from glueball.runtime.launcher_native import native_supported
from tests.runtime.launcher_support import (
    LAUNCH_TYPE,
    PATIENCE,
    Kernel,
    Runtime,
    Tensor,
    each_launcher,
    in_switching_threads,
)


@each_launcher
def test_launches_leave_reference_counts_alone(native: bool) -> None:
    runtime = Runtime(native, passed=(0, 1, 2), stream_callable=lambda _: 2**40, stream_argument="stream")
    # A C function that returns 0 and touches nothing, so that nothing is recorded.
    silent = LAUNCH_TYPE(lambda *_: 0)
    tensor, number, fraction, marker = Tensor(dtype=object()), 12345, 2.5, object()
    runtime.driver._launch = silent
    runtime.launch(tensor, number, fraction, marker, option=marker)
    watched = [tensor, number, fraction, marker, tensor.dtype, runtime.kernels[0]]
    runtime.misses.clear()
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(2000):
        runtime.launch(tensor, number, fraction, marker, option=marker)
    assert [sys.getrefcount(one) for one in watched] == before
    assert runtime.misses == []


@each_launcher
def test_failures_leave_reference_counts_alone(native: bool) -> None:
    def miss(grid: Any, arguments: Any, keywords: Any) -> object:
        raise LookupError

    table = VariantTable(miss, native=native)
    table.register_tensor_type(Tensor)
    launch = table.launcher((1, 1, 1))
    marker, broken, homeless = object(), Tensor("text", object()), Tensor(dtype=object(), device="text")
    watched = [marker, broken, broken.dtype, homeless, homeless.dtype]
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(1000):
        with pytest.raises(LookupError):
            launch(marker, x=marker)
        for tensor in (broken, homeless):
            with pytest.raises(TypeError):
                launch(marker, tensor, x=marker)
            with pytest.raises(TypeError):
                table.key((marker, tensor), {"x": marker})
    del tensor
    gc.collect()
    assert [sys.getrefcount(one) for one in watched] == before


def test_memory_does_not_grow_over_many_launches() -> None:
    runtime = Runtime(native_supported())
    runtime.driver._launch = LAUNCH_TYPE(lambda *_: 0)
    tensor = Tensor()
    runtime.launch(tensor, 3, 2.5, option=4)
    runtime.launch(tensor, 3, 2.5, option=4)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(100_000):
        runtime.launch(tensor, 3, 2.5, option=4)
    assert len(runtime.misses) == 1
    assert sys.getallocatedblocks() - before < 500


@each_launcher
def test_a_variant_keeps_what_its_key_names_alive(native: bool) -> None:
    class Dtype:
        pass

    runtime = Runtime(native, passed=())
    dtype, marker = Dtype(), Dtype()
    watched = [weakref.ref(dtype), weakref.ref(marker)]
    runtime.launch(Tensor(dtype=dtype), marker)
    runtime.misses.clear()
    del dtype, marker
    gc.collect()
    assert all(reference() is not None for reference in watched)
    runtime.table.clear()
    gc.collect()
    assert all(reference() is None for reference in watched)


@each_launcher
def test_a_dtype_made_anew_at_each_access_never_matches_by_accident(native: bool) -> None:
    class Fresh(Tensor):
        @property
        def dtype(self) -> object:  # type: ignore[override]
            return object()

        @dtype.setter
        def dtype(self, value: object) -> None:
            pass

    runtime = Runtime(native, passed=())
    runtime.table.register_tensor_type(Fresh)
    assert not any(runtime.hits(Fresh()) for _ in range(50))


@each_launcher
def test_a_table_in_a_cycle_is_collected(native: bool) -> None:
    runtime = Runtime(native)
    runtime.launch(7)
    kernel = weakref.ref(runtime.kernels[0])
    launch = runtime.launch
    del runtime
    gc.collect()
    assert kernel() is not None, "the launcher keeps its table"
    del launch
    gc.collect()
    assert kernel() is None


@each_launcher
def test_the_table_may_be_cleared_while_a_launch_is_under_way(native: bool) -> None:
    def stream_of(_: object) -> int:
        runtime.table.clear()
        runtime.kernels.clear()
        gc.collect()
        return 5

    runtime = Runtime(native, stream_callable=stream_of)
    for round_number in range(5):
        runtime.launch(7)
        assert isinstance(runtime.launch(7), Kernel)
        assert len(runtime.driver.calls) == round_number + 1


@each_launcher
def test_threads_share_a_table(native: bool) -> None:
    runtime = Runtime(native, [("C", KeyFlag.CONSTEXPR), ("x", KeyFlag.NORMAL)], passed=(1,))
    runtime.driver.argument_count = 1
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(400):
                constant = (seed + step) % 8
                result = runtime.launch(constant, 3 + 2 * seed)
                assert result == "missed" or isinstance(result, Kernel)
                if step % 97 == 0:
                    runtime.table.clear()
        except BaseException as error:
            failures.append(error)

    in_switching_threads(work)
    assert failures == []
    assert len(runtime.driver.calls) + len(runtime.misses) == 1600
    assert {call[3][0] for call in runtime.driver.calls} <= {struct.pack("<q", 3 + 2 * seed) for seed in range(4)}


def test_a_launch_that_blocks_lets_other_threads_run() -> None:
    runtime = Runtime(native_supported())
    started, released = threading.Event(), threading.Event()

    def block(*_: Any) -> int:
        started.set()
        return 0 if released.wait(PATIENCE) else 1

    blocking = LAUNCH_TYPE(block)
    runtime.driver._launch = blocking
    runtime.launch(7)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(runtime.launch(7)))
    thread.start()
    assert started.wait(PATIENCE)
    released.set()
    thread.join(PATIENCE)
    assert results == runtime.kernels
