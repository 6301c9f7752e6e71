"""What kernels and the functions that run at compile time are told about the target."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.language.target_info import current_target
from tests.kernels.harness import EXECUTORS, run


@glueball.constexpr_function
def lanes_of_amd(otherwise):
    """Asks from a function that runs at compile time."""
    target = gl.target_info.current_target()
    return target.warp_size if target.backend == "hip" else otherwise


@glueball.jit
def tell(x):
    """Stores the lanes of AMD's warps, elsewhere the compute capability."""
    gl.store(x, lanes_of_amd(current_target().arch))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_kernel_knows_its_target(executor, monkeypatch):
    x = np.zeros(1, np.int32)
    run(executor, monkeypatch, tell[(1,)], x)
    assert x[0] == current_target().arch


@pytest.mark.parametrize(("target", "told"), [("sm_80", 80), ("sm_100a", 100), ("gfx950", 64), ("gfx1250", 32)])
def test_it_is_that_of_the_kernel_being_compiled(target, told):
    compiled = glueball.compile_only(tell, np.zeros(1, np.int32), target=target)
    assert f"{{value = {told}}}" in compiled.asm["tile"]


def test_outside_of_kernels_it_is_where_they_would_run(monkeypatch):
    active = glueball.runtime.driver.active
    assert current_target() == active.get_current_target()
    monkeypatch.setattr(active, "get_current_target", lambda: glueball.GPUTarget("hip", "gfx950", 64))
    assert (current_target().arch, lanes_of_amd(1)) == ("gfx950", 64)
