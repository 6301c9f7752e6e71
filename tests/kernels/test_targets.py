"""The ladder on every target: simulated with the target's own warps, and compiled for all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glueball
from glueball.kernels.ladder import RUNGS, Launch, Rung, tensors
from glueball.targets import TARGETS
from tests.kernels.harness import random_array

AMD = [target.name for target in TARGETS.values() if target.family == "amd"]
SIZES = [(256, 256), (33, 300), (1, 1)]
SMALL_SIZES = [(16, 128), (3, 67), (1, 1)]

every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))


def launch(rung: Rung, rows: int, columns: int, target: str) -> tuple[Launch, np.ndarray, np.ndarray]:
    """A launch with layouts for the target's lanes, its source and its destination."""
    seeds = iter(range(10))
    source, destination = tensors(rung.view, lambda shape: random_array(shape, np.float32, next(seeds)), rows, columns)
    return rung.launch(source, destination, TARGETS[target].lanes), source, destination


@pytest.mark.parametrize("target", AMD)
@every_rung
def test_rungs_copy_with_the_targets_lanes(rung: Rung, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", target)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    for rows, columns in SMALL_SIZES if rung.name == "a" else SIZES:
        copy, source, destination = launch(rung, rows, columns, target)
        kernel = copy.run()
        np.testing.assert_array_equal(destination.view(np.uint32), source.view(np.uint32))
        assert (kernel.metadata.arch, kernel.metadata.warp_size) == (target, TARGETS[target].lanes)
        assert kernel.report.global_stores.useful_bytes >= source.nbytes


@pytest.mark.parametrize("target", TARGETS)
@every_rung
def test_rungs_compile(rung: Rung, target: str) -> None:
    copy, _, _ = launch(rung, 256, 256, target)
    kernel = glueball.compile_only(copy.kernel, *copy.arguments, target=target, **copy.keywords)
    assert kernel.metadata.shared <= TARGETS[target].shared_bytes
    if TARGETS[target].family == "nvidia":
        ptx = kernel.asm["ptx"]
        assert f".target {target}" in ptx
        assert f".entry {kernel.name}(" in ptx
        assert "ld.global" in ptx
        assert "st.global" in ptx
    else:
        assembly = kernel.asm["amdgcn"]
        assert f"--{target}" in assembly
        assert "s_endpgm" in assembly
        assert "global_load" in assembly
        assert "global_store" in assembly
        assert "scratch_" not in assembly
