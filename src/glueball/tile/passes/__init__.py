"""The tile passes, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from glueball.targets import Target
from glueball.tile.ir import TileFunction
from glueball.tile.passes.barriers import insert_barriers
from glueball.tile.passes.conversions import expand_conversions
from glueball.tile.passes.indices import mark_indices
from glueball.tile.passes.placement import place_shared_memory

Pass = Callable[[TileFunction, Target], None]

PASSES: tuple[Pass, ...] = (mark_indices, expand_conversions, place_shared_memory, insert_barriers)

__all__ = ["expand_conversions", "insert_barriers", "mark_indices", "place_shared_memory", "run_passes"]


def run_passes(function: TileFunction, target: Target, after_each: Pass | None = None) -> None:
    """Brings a function from the frontend's form to the one that lowering takes, in place.

    `after_each` is called after every pass, with the verifier where the author asks for it.
    """
    for run in PASSES:
        run(function, target)
        if after_each is not None:
            after_each(function, target)
