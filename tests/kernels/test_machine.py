"""What kernels ask of the NVIDIA GPU that they run on: `gl.extra.cuda`."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.extra.cuda import globaltimer, num_threads, num_warps, smid
from tests.kernels.harness import EXECUTORS, run


@glueball.jit
def ask(threads, processors, times):
    program = gl.program_id(0)
    THREADS: gl.constexpr = num_threads()
    lanes = gl.arange(0, THREADS, gl.BlockedLayout([1], [THREADS // num_warps()], [num_warps()], [0]))
    gl.store(threads + lanes, lanes)
    gl.store(processors + program, smid())
    start = globaltimer()
    while globaltimer() - start < 1000:
        pass
    gl.store(times + program, globaltimer() - start)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_threads_processor_and_time(executor, monkeypatch):
    threads, processors, times = np.zeros(64, np.int32), np.full(3, -1, np.int32), np.zeros(3, np.int64)
    run(executor, monkeypatch, lambda *arguments: ask[(3,)](*arguments, num_warps=2), threads, processors, times)
    assert threads.tolist() == list(range(64))
    assert (processors >= 0).all() and (times >= 1000).all()


@glueball.jit
def ask_for(x, NAME: gl.constexpr):
    gl.store(x, getattr(gl.extra.cuda, NAME)())


@pytest.mark.parametrize("name", ["smid", "globaltimer"])
def test_amd_has_other_registers(name):
    with pytest.raises(CompilationError, match=f"`{name}` needs an NVIDIA GPU, and .* compiled for gfx950"):
        glueball.compile_only(ask_for, np.zeros(1, np.int64), name, target="gfx950")
    ptx = glueball.compile_only(ask_for, np.zeros(1, np.int64), name, target="sm_80").asm["ptx"]
    assert f"%{name};" in ptx
