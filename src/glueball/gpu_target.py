"""Targets as programs name them: `GPUTarget("cuda", 90, 32)`, `GPUTarget("hip", "gfx950", 64)`."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.errors import TargetError
from glueball.targets import TARGETS, Target

_BACKENDS = {"nvidia": "cuda", "amd": "hip"}


@dataclass(frozen=True, slots=True)
class GPUTarget:
    """A backend (`cuda`, `hip`), an architecture (compute capability times ten, or a name), and the lanes of a warp."""

    backend: str
    arch: int | str
    warp_size: int


def described_target(target: Target) -> GPUTarget:
    """A target in the form that programs compare."""
    arch = target.generation if target.family == "nvidia" else target.name
    return GPUTarget(_BACKENDS[target.family], arch, target.lanes)


def target_of(described: GPUTarget) -> Target:
    """The target that is meant; `TargetError` where glueball does not compile for it. 8.x runs the code of `sm_80`."""
    arch = described.arch
    if described.backend == "cuda" and isinstance(arch, int) and arch // 10 == 8:
        arch = 80
    for target in TARGETS.values():
        found = described_target(target)
        if (found.backend, found.arch) == (described.backend, arch):
            if described.warp_size != target.lanes:
                raise TargetError(f"{target.name} has {target.lanes} lanes in a warp, not {described.warp_size}")
            return target
    known = ", ".join(str(described_target(target)) for target in TARGETS.values())
    raise TargetError(f"glueball does not compile for {described}; it does for {known}")
