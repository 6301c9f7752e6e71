"""What kernels on NVIDIA GPUs do about their neighbours in a stream, and ask of the machine: `gl.extra.cuda`.

With the launch option `launch_pdl` a kernel may start before the one before it has ended (PTX ISA, `griddepcontrol`).
"""

from __future__ import annotations

import time

import numpy as np

from glueball.language.assembly import inline_asm
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import constexpr
from glueball.language.core import num_warps
from glueball.language.features import require
from glueball.language.tensor import tensor
from glueball.tile.types import int32, int64

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "num_threads", "num_warps", "smid"]


@builtin
def num_threads(*, _builder: KernelBuilder = HIDDEN) -> constexpr:
    """How many threads a block of the program has, a compile-time integer."""
    return constexpr(_builder.num_warps * _builder.target.lanes)


@builtin
def smid(*, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Which multiprocessor the block runs on, an int32 scalar; 0 on the simulator. Errors: `TargetError` on AMD."""
    require(_builder, "nvidia", "smid", "an NVIDIA GPU")
    register = inline_asm(
        "mov.u32 $0, %smid;", "=r", (), int32, is_pure=True, simulate=lambda: np.int32(0), _builder=_builder
    )
    assert isinstance(register, tensor)
    return register


@builtin
def globaltimer(*, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The time in nanoseconds, an int64 scalar that each thread reads for itself. Errors: `TargetError` on AMD."""
    require(_builder, "nvidia", "globaltimer", "an NVIDIA GPU")
    register = inline_asm(
        "mov.u64 $0, %globaltimer;", "=l", (), int64, simulate=lambda: np.int64(time.time_ns()), _builder=_builder
    )
    assert isinstance(register, tensor)
    return register


@builtin
def gdc_wait(*, _builder: KernelBuilder = HIDDEN) -> None:
    """Waits until the kernels before this one in the stream have ended and what they wrote can be seen.

    A kernel launched without `launch_pdl` never has to wait. Errors: `TargetError` below sm_90.
    """
    require(_builder, "dependent_grids", "gdc_wait", "sm_90")
    _builder.create("grid_wait")


@builtin
def gdc_launch_dependents(*, _builder: KernelBuilder = HIDDEN) -> None:
    """Lets the next kernel of the stream start once all programs have come here or ended.

    It sees what this one has written after its own `gdc_wait` only. Errors: `TargetError` below sm_90.
    """
    require(_builder, "dependent_grids", "gdc_launch_dependents", "sm_90")
    _builder.create("grid_launch_dependents")
