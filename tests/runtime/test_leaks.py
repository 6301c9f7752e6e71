"""Memory that launches and compilations leave behind."""

from __future__ import annotations

import ctypes
import gc
import linecache
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from tests.runtime import kernels
from tests.runtime.fake_gpu import FakeDriver
from tests.runtime.settings import fake_driver, fresh

LIMIT_BYTES = 50_000_000

pytestmark = [
    pytest.mark.usefixtures("own_settings"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process as Linux tells it"),
]


class SilentDriver(FakeDriver):
    """A driver whose launch function is C's and does nothing."""

    @property
    def launch_address(self) -> int:
        return ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value or 0


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_launches_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_driver(monkeypatch) as driver:
        driver.__class__ = SilentDriver
        monkeypatch.setattr(driver, "load", lambda *arguments: _without_handle(FakeDriver.load(driver, *arguments)))
        kernel = fresh(kernels.nothing)
        compiled = kernel.warmup(6)
        prepared = compiled.prepared_launch(6, grid=1)
        launches: list[Any] = [kernel[(1,)], compiled[(2,)], lambda _: prepared(), lambda n: kernel[(n % 7,)](n)]
        before = 0
        for count in (500, 25_000):
            for step in range(count):
                for launch in launches:
                    launch(6 + 2 * (step % 5))
            before, grown = resident_bytes(), resident_bytes() - before
        assert grown < LIMIT_BYTES // 10
        assert len(driver.launches) < 100


def _without_handle(loaded: Any) -> Any:
    """Handle 0, whose absolute value is the status of success."""
    return type(loaded)(**{name: getattr(loaded, name) for name in loaded.__slots__} | {"function": 0})


@pytest.mark.slow
def test_compilations_leave_no_memory_behind() -> None:
    def compile_one(number: int) -> None:
        name = f"<kernel {number}>"
        text = f"def kernel(y):\n    gl.store(y + gl.program_id(0), {number})\n"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"gl": gl, "__name__": "made"}
        exec(compile(text, name, "exec"), namespace)
        kernel = glueball.jit(namespace["kernel"])
        glueball.compile_only(kernel, "*i32", target="sm_90a")
        y = np.zeros(1, np.int32)
        kernel[(1,)](y)
        assert y[0] == number
        del linecache.cache[name]

    for number in range(50):
        compile_one(number)
    before = resident_bytes()
    for number in range(50, 550):
        compile_one(number)
    assert resident_bytes() - before < LIMIT_BYTES
