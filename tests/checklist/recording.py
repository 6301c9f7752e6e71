"""Which operations of the language the tests run, on which executor and for which element type.

`pytest --record-language FILE` writes it: an operation is ticked for an executor and an element type where a test ran a
kernel that uses it through `harness.run` and passed. Random kernels tick nothing. `docs/language.md` is made of such
files in `tests/results` by `scripts/make_checklist.py`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import pytest

OPTION = "--record-language"
HOST = "host"
"""Stands for the executor of a test that runs no kernel."""
WITHOUT_TICKS = frozenset({"test_random_kernels"})
CHOSEN_BY = {"gl.where": 1}
"""Which argument's element type an operation is ticked for, where it is not that of the first tensor."""

ACCESSES = ("gl.load", "gl.store", "gl.atomic_")
"""Operations on pointers that are ticked for what those point to."""
POINTER = "pointer"

Use = tuple[str, str]
"""The row of an operation, and a short name of an element type or nothing."""


class Recorder:
    """Watches kernels being built, and the launches of the test that is running."""

    def __init__(self) -> None:
        self.building: set[Use] | None = None
        self.built: dict[int, tuple[Any, set[Use]]] = {}
        self.compiled: list[tuple[str, Any]] | None = None
        self.ticks: set[tuple[str, str, str]] = set()

    @contextlib.contextmanager
    def launch(self) -> Iterator[None]:
        """Ticks what the kernels launched inside the block use."""
        self.compiled = []
        try:
            yield
            for executor, kernel in self.compiled:
                for row, element in self.uses_of(kernel):
                    self.ticks.add((row, executor, element))
        finally:
            self.compiled = None

    def uses_of(self, kernel: Any) -> set[Use]:
        """What a compiled kernel's source uses."""
        tile = kernel.source_tile
        if id(tile) not in self.built:
            return set()
        return self.built[id(tile)][1]

    def note(self, name: str, arguments: list[Any], result: Any) -> None:
        """One use of an operation in the kernel being built."""
        if self.building is None:
            return
        given, given_back = flattened(arguments[CHOSEN_BY.get(name, 0) :]), flattened([result])
        for value in (*given, *given_back):
            layout, element = layout_of(value), element_of(value)
            if layout is not None and element is not None:
                self.building.add((f"gl.{type(layout).__name__}", element))
            if element is not None:
                self.building.add((long_name(element), element))
        memory = name.startswith(ACCESSES)
        elements = [element for element in (element_of(value, memory) for value in given) if element][:1]
        if not elements or name == "gl.cast":
            elements += [element for element in map(element_of, given_back) if element][:1]
        self.building.update((name, element) for element in elements or [""])


def flattened(values: list[Any]) -> list[Any]:
    """Arguments with the elements of tuples among them."""
    found: list[Any] = []
    for value in values:
        inner = getattr(value, "values", None)
        found += flattened(inner) if isinstance(inner, list) else [value]
    return found


def element_of(value: Any, pointed_to: bool = False) -> str | None:
    """The short name of the element type of a tensor or view: `pointer`, or what it points to, for a pointer."""
    element = getattr(getattr(getattr(value, "handle", None), "type", None), "scalar", None)
    if hasattr(element, "element_ty"):
        return str(element.element_ty.name) if pointed_to else POINTER
    return None if element is None else str(element.name)


def layout_of(value: Any) -> Any:
    return getattr(getattr(getattr(value, "handle", None), "type", None), "layout", None)


def long_name(element: str) -> str:
    if element == POINTER:
        return "gl.pointer_type"
    from glueball.tile.types import DTYPES

    return next(f"gl.{each.long_name}" for each in DTYPES.values() if each.name == element)


def row_of(function: Any) -> str:
    """The row of an operation: `gl.name`, `libdevice.name`, a view's `v.name()` or a tensor's `x.name()`."""
    import glueball.language as gl
    from glueball.language.extra import libdevice

    function = function.__func__ if isinstance(function, MethodType) else function
    name = function.__name__
    if getattr(gl, name, None) is function and name in gl.__all__:
        return f"gl.{name}"
    if getattr(libdevice, name, None) is function:
        return f"libdevice.{name}"
    return f"{'v' if function.__qualname__.startswith('shared_memory_descriptor') else 'x'}.{name}()"


RECORDER: Recorder | None = None
"""The recorder of this process; None where nothing is recorded."""


@contextlib.contextmanager
def launch() -> Iterator[None]:
    """Around each launch through the harness."""
    with contextlib.nullcontext() if RECORDER is None else RECORDER.launch():
        yield


class Plugin:
    """Collects the ticks of tests that passed, also those of other processes, and writes them."""

    def __init__(self, path: Path, writes: bool) -> None:
        self.path, self.writes = path, writes
        self.failed: set[str] = set()
        self.ticks: dict[tuple[str, str, str], set[str]] = {}
        self.tests: dict[str, set[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        assert RECORDER is not None
        RECORDER.ticks.clear()
        yield
        ticks = [] if item.path.stem in WITHOUT_TICKS else sorted(RECORDER.ticks)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        item.user_properties.append(("ticks", ticks))
        item.user_properties.append(("executor", parameters.get("executor", HOST)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0]
        if report.failed:
            self.failed.add(name)
        if report.when != "call" or not report.passed:
            return
        for key, value in report.user_properties:
            if key == "executor":
                self.tests.setdefault(name, set()).add(str(value))
            elif key == "ticks":
                assert isinstance(value, list)
                for tick in value:
                    self.ticks.setdefault((*tick,), set()).add(name)

    def pytest_sessionfinish(self) -> None:
        """Write the ticks of tests that never failed, each with the first test by name."""
        if not self.writes:
            return
        operations: dict[str, dict[str, dict[str, str]]] = {}
        for (row, executor, element), names in self.ticks.items():
            if sound := names - self.failed:
                operations.setdefault(row, {}).setdefault(executor, {})[element] = min(sound)
        content = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "operations": operations,
            "tests": {name: sorted(found) for name, found in self.tests.items() if name not in self.failed},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write which operations of the language the tests ran")


def pytest_configure(config: pytest.Config) -> None:
    global RECORDER  # noqa: PLW0603 - one for each process, where asked for
    path = config.getoption(OPTION)
    if path is None:
        return
    from tests.checklist.watching import watch_authors, watch_kernels

    RECORDER = Recorder()
    watch_authors(RECORDER)
    watch_kernels(RECORDER)
    config.pluginmanager.register(Plugin(Path(path), not hasattr(config, "workerinput")))
