"""What is known of a compiled kernel beside its code, and what hooks are told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glueball.gpu_target import GPUTarget


class KernelMetadata(NamedTuple):
    """What a kernel was compiled for and what it takes.

    `shared` is in bytes a block, `tmem_size` in columns of tensor memory; scratch memory is in bytes a program.
    """

    name: str
    hash: str
    target: GPUTarget
    arch: str
    backend_name: str
    glueball_version: str
    warp_size: int
    num_warps: int
    num_ctas: int
    num_stages: int
    maxnreg: int | None
    waves_per_eu: int | None
    debug: bool
    enable_fp_fusion: bool
    sanitize_overflow: bool
    launch_cooperative_grid: bool
    launch_pdl: bool
    instrumentation_mode: str
    disable_line_info: bool
    deterministic: bool
    shared: int
    tmem_size: int
    global_scratch_size: int
    global_scratch_align: int
    profile_scratch_size: int
    profile_scratch_align: int
    tensordesc_meta: tuple[Any, ...]


class CompileTimes(NamedTuple):
    """Microseconds that a compilation took: the tile IR, each later stage by name, and the disk cache."""

    ir_initialization: int
    lowering_stages: list[tuple[str, int]]
    store_results: int

    @property
    def total_lowering(self) -> int:
        """The stages after the tile IR together."""
        return sum(time for _, time in self.lowering_stages)

    @property
    def total(self) -> int:
        """All together."""
        return self.ir_initialization + self.total_lowering + self.store_results


@dataclass(slots=True)
class LazyDict:
    """What a launch hook gets: a dictionary that is made when `get` asks for it."""

    data: dict[str, Any]
    extras: list[tuple[Callable[..., Mapping[str, Any]], tuple[Any, ...]]] = field(default_factory=list)

    def add(self, func: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> None:
        """Adds what `func(*args)` will give."""
        self.extras.append((func, args))

    def get(self) -> dict[str, Any]:
        """The whole dictionary."""
        for func, args in self.extras:
            self.data = {**self.data, **func(*args)}
        self.extras.clear()
        return self.data
