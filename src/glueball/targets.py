"""The machines glueball compiles for, as values."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.errors import TargetError


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture.

    `shared_bytes` is the most one block may use, `registers` the 32-bit registers of one multiprocessor,
    `registers_per_thread` what the instruction set can name. `family` chooses lowering and code generation.
    """

    name: str
    family: str
    lanes: int
    shared_bytes: int
    shared_banks: int
    registers: int
    registers_per_thread: int
    threads_per_block: int
    generation: int
    features: frozenset[str] = frozenset()

    def supports(self, feature: str) -> bool:
        """Whether the target has a feature, such as `async_copy`, or is of a family, such as `nvidia`."""
        return feature in {self.family, self.name} or feature in self.features


def _nvidia(name: str, shared_bytes: int, generation: int, *features: str) -> Target:
    return Target(
        name=name,
        family="nvidia",
        lanes=32,
        shared_bytes=shared_bytes,
        shared_banks=32,
        registers=65536,
        registers_per_thread=255,
        threads_per_block=1024,
        generation=generation,
        features=frozenset(("async_copy", "cache_priorities", "load_matrix", "warp_specialize", *features)),
    )


def _amd(name: str, lanes: int, shared_bytes: int, shared_banks: int, generation: int) -> Target:
    return Target(
        name=name,
        family="amd",
        lanes=lanes,
        shared_bytes=shared_bytes,
        shared_banks=shared_banks,
        registers=131072 if lanes == 64 else 98304,
        registers_per_thread=512,
        threads_per_block=1024,
        generation=generation,
    )


SINCE_HOPPER = (
    "dependent_grids", "register_reallocation", "bulk_copy", "store_matrix", "float8_pairs", "bfloat16_fma",
)  # fmt: skip
"""Features that every NVIDIA target from generation 90 on has."""

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _nvidia("sm_80", 166912, 80),
        _nvidia("sm_90a", 232448, 90, "cluster", "warpgroup_mma", *SINCE_HOPPER),
        _nvidia("sm_100a", 232448, 100, "cluster", *SINCE_HOPPER),
        _nvidia("sm_120a", 101376, 120, *SINCE_HOPPER),
        _amd("gfx942", 64, 65536, 32, 942),
        _amd("gfx950", 64, 163840, 64, 950),
        _amd("gfx1250", 32, 327680, 64, 1250),
    )
}

DEFAULT_TARGET = TARGETS["sm_90a"]


def target_named(name: str) -> Target:
    """The target of that name; `TargetError` with the list of known ones otherwise."""
    try:
        return TARGETS[name]
    except KeyError:
        raise TargetError(f"unknown target {name!r}; the known ones are {', '.join(TARGETS)}") from None
