"""Launches through a graph, against functions that record; which launches go there, and which do not."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any

import pytest

from glueball.drivers.launch_graph import GraphFunctions, LaunchGraph
from glueball.errors import DriverError
from glueball.runtime.launcher import VARIANT_LIMIT, GraphSource, KeyFlag
from glueball.runtime.launcher_graph import GRAPH_AFTER
from glueball.runtime.launcher_native import native_supported
from tests.runtime.launcher_support import LAUNCH_TYPE, PATIENCE, Kernel, Runtime, in_switching_threads

pytestmark = pytest.mark.skipif(not native_supported(), reason="no native launcher here")

SET_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
GRAPH_LAUNCH_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
CAPTURING_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
HOME = 0x51


@dataclass
class Graphs:
    """The three functions: what they answer, and what they were given. `running` holds up a launch."""

    argument_count: int = 1
    set_result: int = 0
    launch_result: int = 0
    capture: tuple[int, int] = (0, 0)
    available: bool = True
    updates: list[tuple[Any, ...]] = field(default_factory=list)
    launches: list[tuple[Any, ...]] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    running: threading.Event | None = None

    def __post_init__(self) -> None:
        self._owned = SET_TYPE(self._set), GRAPH_LAUNCH_TYPE(self._launch), CAPTURING_TYPE(self._is_capturing)
        addresses = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._owned)
        self.source = GraphSource(GraphFunctions(*addresses), self._make)

    def _make(self) -> LaunchGraph | None:
        graph = LaunchGraph(0xE0 + len(self.made), 0xB0 + len(self.made)) if self.available else None
        self.made.append(None if graph is None else weakref.ref(graph))
        return graph

    def _set(self, executable: int, node: int, parameters: int) -> int:
        function, *numbers, pointers, extra, kern, context = struct.unpack(
            "<Q7I4xQQQQ", ctypes.string_at(parameters, 72)
        )
        addresses = (ctypes.c_void_p * self.argument_count).from_address(pointers)
        raw = [ctypes.string_at(address, 8) for address in addresses]
        assert (extra, kern, context) == (0, 0, 0)
        self.updates.append((executable, node, function, tuple(numbers), raw))
        return self.set_result

    def _launch(self, executable: int, stream: int | None) -> int:
        self.launches.append((executable, stream))
        self.started.set()
        if self.running is not None:
            assert self.running.wait(PATIENCE)
        return self.launch_result

    def _is_capturing(self, stream: int | None, slot: Any) -> int:
        slot[0] = self.capture[1]
        return self.capture[0]


class Repeated(Runtime):
    """A table whose variants may go through graphs, on a stream that tests choose."""

    def __init__(self, parameters: Any = (), passed: tuple[int, ...] | None = None, **variant: Any) -> None:
        self.graphs = Graphs()
        self.stream = HOME
        options = {"graph": self.graphs.source, "stream_callable": lambda _: self.stream} | variant
        super().__init__(True, parameters, passed, **options)

    def warm(self, *arguments: Any) -> Repeated:
        """Compiles and repeats a launch until the next one is due to go through a graph."""
        self.launch(*arguments)
        for _ in range(GRAPH_AFTER):
            assert self.hits(*arguments)
        return self

    def counts(self) -> tuple[int, int, int]:
        """Launches by the ordinary function, updates, launches of graphs."""
        return len(self.driver.calls), len(self.graphs.updates), len(self.graphs.launches)


def test_a_repeated_launch_goes_through_a_graph() -> None:
    runtime = Repeated().warm(7)
    assert runtime.graphs.made == []
    assert runtime.counts() == (GRAPH_AFTER, 0, 0)
    assert runtime.launch(9) is runtime.kernels[0]
    assert runtime.table.launcher((2**31 - 1, 65535, 5))(-11) is runtime.kernels[0]
    assert runtime.counts() == (GRAPH_AFTER, 2, 2)
    assert len(runtime.graphs.made) == 1
    assert runtime.graphs.updates == [
        (0xE0, 0xB0, 0xF00, (2, 3, 4, 128, 1, 1, 1024), [struct.pack("<q", 9)]),
        (0xE0, 0xB0, 0xF00, (2**31 - 1, 65535, 5, 128, 1, 1, 1024), [struct.pack("<q", -11)]),
    ]
    assert runtime.graphs.launches == [(0xE0, HOME)] * 2


def test_arguments_are_passed_in_the_order_of_the_kernel() -> None:
    runtime = Repeated([("a", KeyFlag.NORMAL), ("b", KeyFlag.NORMAL)], passed=(2, 0))
    runtime.graphs.argument_count = 2
    runtime.warm(7, None, 2.5)
    assert runtime.hits(9, None, -0.5)
    assert runtime.graphs.updates[0][4] == [struct.pack("<fi", -0.5, 0), struct.pack("<q", 9)]


def test_each_variant_has_its_own_graph() -> None:
    runtime = Repeated([("C", KeyFlag.CONSTEXPR), ("x", KeyFlag.NORMAL)], passed=(1,)).warm(1, 7).warm(2, 7)
    runtime.graphs.launches.clear()
    for constant in (1, 2, 2, 1):
        assert runtime.hits(constant, 7)
    assert [graph for graph, _ in runtime.graphs.launches] == [0xE0, 0xE1, 0xE1, 0xE0]


def test_the_default_stream_may_be_the_home() -> None:
    runtime = Repeated(stream_callable=None).warm(7)
    assert runtime.hits(7)
    assert runtime.graphs.launches == [(0xE0, None)]


def test_another_stream_is_launched_on_directly() -> None:
    runtime = Repeated().warm(7)
    assert runtime.hits(7)
    runtime.stream = 0x52
    assert runtime.hits(7)
    assert runtime.driver.calls[-1][2] == 0x52
    assert runtime.counts() == (GRAPH_AFTER + 1, 1, 1)
    runtime.stream = HOME
    assert runtime.hits(9)
    assert runtime.counts() == (GRAPH_AFTER + 1, 2, 2)


@pytest.mark.parametrize("capture", [(0, 1), (0, 2), (900, 0), (905, 1)])
def test_a_stream_being_captured_is_launched_on_directly(capture: tuple[int, int]) -> None:
    runtime = Repeated().warm(7)
    assert runtime.hits(7)
    runtime.graphs.capture = capture
    assert runtime.hits(7)
    assert runtime.counts() == (GRAPH_AFTER + 1, 1, 1)
    runtime.graphs.capture = (0, 0)
    assert runtime.hits(9)
    assert runtime.counts() == (GRAPH_AFTER + 1, 2, 2)


def test_no_graph_is_made_while_the_stream_is_being_captured() -> None:
    runtime = Repeated().warm(7)
    runtime.graphs.capture = (0, 1)
    for _ in range(GRAPH_AFTER):
        assert runtime.hits(7)
    assert runtime.graphs.made == []
    runtime.graphs.capture = (0, 0)
    assert runtime.hits(7)
    assert runtime.counts() == (2 * GRAPH_AFTER, 1, 1)


def test_a_graph_in_use_by_another_thread_is_left_alone() -> None:
    runtime = Repeated().warm(7)
    runtime.graphs.running = threading.Event()
    runtime.graphs.started.clear()
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(runtime.launch(7)))
    thread.start()
    assert runtime.graphs.started.wait(PATIENCE), "the interpreter is free while the driver works"
    assert runtime.hits(7)
    assert runtime.counts() == (GRAPH_AFTER + 1, 1, 1)
    runtime.graphs.running.set()
    thread.join(PATIENCE)
    assert results == runtime.kernels
    assert runtime.hits(9)
    assert runtime.counts() == (GRAPH_AFTER + 1, 2, 2)


def test_a_launch_as_the_one_before_needs_no_update() -> None:
    runtime = Repeated([("a", KeyFlag.NORMAL), ("b", KeyFlag.NORMAL)])
    runtime.graphs.argument_count = 2
    runtime.warm(7, 9)
    seen = []
    for arguments in ((7, 9), (7, 9), (7, 11), (7, 11), (5, 11), (7, 9), (7, 9)):
        assert runtime.hits(*arguments)
        seen.append(len(runtime.graphs.updates))
    assert seen == [1, 1, 2, 2, 3, 4, 4]
    other_grid = runtime.table.launcher((2, 3, 5))
    for _ in range(2):
        other_grid(7, 9)
    assert len(runtime.graphs.updates) == 5
    assert runtime.graphs.updates[-1][3][:3] == (2, 3, 5)
    assert len(runtime.graphs.launches) == 9


def test_a_refused_update_turns_the_graph_off() -> None:
    runtime = Repeated().warm(7)
    assert runtime.hits(7)
    runtime.graphs.set_result = 1
    assert runtime.hits(9)
    assert runtime.driver.calls[-1][3] == [struct.pack("<q", 9)]
    runtime.graphs.set_result = 0
    for _ in range(2 * GRAPH_AFTER):
        assert runtime.hits(7)
    assert runtime.counts() == (3 * GRAPH_AFTER + 1, 2, 1)
    assert len(runtime.graphs.made) == 1


def test_a_failed_launch_is_reported_and_the_graph_stays() -> None:
    def failed(code: int) -> object:
        raise DriverError(f"code {code}")

    runtime = Repeated(launch_failed=failed).warm(7)
    runtime.graphs.launch_result = 719
    for argument in (7, 9):
        with pytest.raises(DriverError, match="code 719"):
            runtime.launch(argument)
    runtime.graphs.launch_result = 0
    assert runtime.hits(7)
    assert runtime.counts() == (GRAPH_AFTER, 3, 3)


def test_where_no_graph_can_be_made_launches_stay_as_they_are() -> None:
    runtime = Repeated()
    runtime.graphs.available = False
    runtime.warm(7)
    for _ in range(2 * GRAPH_AFTER):
        assert runtime.hits(7)
    assert runtime.counts() == (3 * GRAPH_AFTER, 0, 0)
    assert len(runtime.graphs.made) == 1


def test_what_making_a_graph_raises_reaches_the_caller_once() -> None:
    def make() -> LaunchGraph | None:
        raise KeyboardInterrupt

    graphs = Graphs()
    runtime = Repeated(graph=GraphSource(graphs.source.functions, make)).warm(7)
    with pytest.raises(KeyboardInterrupt):
        runtime.launch(7)
    assert runtime.hits(7)


def test_a_variant_without_a_graph_never_gets_one() -> None:
    runtime = Repeated(graph=None).warm(7)
    assert runtime.hits(7)
    assert runtime.counts() == (GRAPH_AFTER + 1, 0, 0)
    assert runtime.graphs.made == []


def test_functions_without_an_address_are_refused() -> None:
    runtime = Repeated(graph=GraphSource(GraphFunctions(8, 0, 8), lambda: None))
    with pytest.raises(ValueError, match="three functions"):
        runtime.launch(7)


@pytest.mark.parametrize("how", ["clear", "evict", "replace"])
def test_a_graph_goes_with_its_variant(how: str) -> None:
    runtime = Repeated([("C", KeyFlag.CONSTEXPR)]).warm(7)
    assert runtime.hits(7)
    assert runtime.graphs.made[0]() is not None
    if how == "clear":
        runtime.table.clear()
    elif how == "replace":
        runtime.miss((1, 1, 1), (7,), {})
    else:
        for value in range(10, 10 + VARIANT_LIMIT):
            runtime.launch(value)
    assert runtime.graphs.made[0]() is None
    launches = len(runtime.graphs.launches)
    runtime.launch(7)
    assert runtime.hits(7)
    assert len(runtime.graphs.launches) == launches, "the new variant counts anew"


def test_a_graph_outlives_the_launch_that_is_under_way() -> None:
    runtime = Repeated().warm(7)
    runtime.graphs.running = threading.Event()
    runtime.graphs.started.clear()
    thread = threading.Thread(target=runtime.launch, args=(7,))
    thread.start()
    assert runtime.graphs.started.wait(PATIENCE)
    runtime.table.clear()
    gc.collect()
    assert runtime.graphs.made[0]() is not None
    runtime.graphs.running.set()
    thread.join(PATIENCE)
    assert runtime.graphs.made[0]() is None


def test_the_table_may_be_cleared_while_its_graph_is_made() -> None:
    graphs = Graphs()

    def make() -> LaunchGraph | None:
        runtime.table.clear()
        gc.collect()
        return graphs._make()

    runtime = Repeated(graph=GraphSource(graphs.source.functions, make)).warm(7)
    assert isinstance(runtime.launch(7), Kernel)
    assert len(graphs.launches) == 1
    assert graphs.made[0]() is None


def test_launches_through_a_graph_leave_reference_counts_alone() -> None:
    runtime = Repeated(passed=(0,), stream_callable=None).warm(12345)
    silent = SET_TYPE(lambda *_: 0), GRAPH_LAUNCH_TYPE(lambda *_: 0), CAPTURING_TYPE(lambda *_: 0)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in silent]
    runtime.variant["graph"] = GraphSource(GraphFunctions(*addresses), runtime.graphs._make)
    runtime.driver._launch = LAUNCH_TYPE(lambda *_: 0)
    runtime.table.clear()
    marker = object()
    runtime.launch(12345, option=marker)
    watched = [marker, runtime.kernels[1], None, runtime.variant["graph"]]
    before = [sys.getrefcount(one) for one in watched]
    blocks = sys.getallocatedblocks()
    for _ in range(5000):
        runtime.launch(12345, option=marker)
    assert len(runtime.graphs.made) == 1
    after = [sys.getrefcount(one) for one in watched]
    assert after[:2] + after[3:] == before[:2] + before[3:]
    assert abs(after[2] - before[2]) < 100, "None"
    assert sys.getallocatedblocks() - blocks < 500


def test_threads_share_a_graph() -> None:
    runtime = Repeated().warm(7)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(400):
                assert isinstance(runtime.launch(3 + 2 * (seed + 4 * step)), (Kernel, str))
                if step % 97 == 0 and seed == 0:
                    runtime.table.clear()
        except BaseException as error:
            failures.append(error)

    in_switching_threads(work)
    assert failures == []
    plain, updates, launches = runtime.counts()
    assert updates == launches > 0, "no two launches are alike"
    assert plain + launches + len(runtime.misses) - 1 == GRAPH_AFTER + 1600
