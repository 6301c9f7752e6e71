"""What kernels on NVIDIA GPUs do about their neighbours in a stream: `gl.extra.cuda`.

With the launch option `launch_pdl` a kernel may start before the one before it has ended (PTX ISA, `griddepcontrol`).
"""

from __future__ import annotations

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.features import require

__all__ = ["gdc_launch_dependents", "gdc_wait"]


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
