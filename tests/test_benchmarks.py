"""The launches that benchmarks name can be made: plans and signatures of the library have not left them behind."""

from __future__ import annotations

import importlib

import pytest

from glueball.kernels.ladder import Launch


def test_every_launch_of_the_sanitizer_benchmark_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("benchmarks")
    # The module sets these itself; so they are as before after the test.
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    launches = {name: make() for name, make in importlib.import_module("sanitizer").KERNELS.items()}
    assert len(launches) >= 40
    assert all(isinstance(launch, Launch) for launch in launches.values())
