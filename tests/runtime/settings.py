"""What the runtime's tests set up alike: clean knobs, an own cache, a device that runs nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glueball import knobs
from glueball.codegen import Binary
from glueball.runtime.jit import JITFunction
from tests.runtime.fake_gpu import FakeDriver, fake_gpu


@contextlib.contextmanager
def clean_knobs(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[None]:
    """No variable set but the cache's folder, no hook, and no GPU."""
    for knob in knobs.KNOBS:
        for variable in filter(None, (knob.variable, knob.alias)):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(cache))
    monkeypatch.setattr("glueball.drivers.cuda._probe", lambda: "there is no GPU")
    with knobs.runtime.scope(), knobs.compilation.scope():
        yield


@contextlib.contextmanager
def fake_driver(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[FakeDriver]:
    """Two devices of compute capability 9.0 that load anything, and an assembler that makes nothing."""
    monkeypatch.setattr("glueball.runtime.compiler.assemble", lambda *_: Binary(b"cubin", "cubin", 40, 0))
    with fake_gpu(monkeypatch, **options) as driver:
        yield driver


def fresh(function: JITFunction, **options: Any) -> JITFunction:
    """The function as if never launched."""
    return JITFunction(function.fn, **options)
