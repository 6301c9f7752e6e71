"""The tile passes, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from glueball.targets import Target
from glueball.tile.ir import TileFunction
from glueball.tile.passes.atomics import expand_atomics
from glueball.tile.passes.barriers import insert_barriers
from glueball.tile.passes.clusters import insert_cluster_barriers, localise_stores
from glueball.tile.passes.conversions import expand_conversions
from glueball.tile.passes.descriptors import place_descriptors
from glueball.tile.passes.gathers import expand_gathers
from glueball.tile.passes.indices import mark_indices
from glueball.tile.passes.layouts import resolve_layouts
from glueball.tile.passes.ordering import order_reductions
from glueball.tile.passes.placement import place_shared_memory
from glueball.tile.passes.reductions import expand_reductions

Pass = Callable[[TileFunction, Target], None]

PASSES: tuple[Pass, ...] = (
    mark_indices,
    place_descriptors,
    expand_atomics,
    expand_reductions,
    expand_gathers,
    localise_stores,
    expand_conversions,
    place_shared_memory,
    insert_cluster_barriers,
    insert_barriers,
)
__all__ = [
    "expand_atomics",
    "expand_conversions",
    "expand_gathers",
    "expand_reductions",
    "insert_barriers",
    "insert_cluster_barriers",
    "localise_stores",
    "mark_indices",
    "order_reductions",
    "place_descriptors",
    "place_shared_memory",
    "resolve_layouts",
    "run_passes",
]


def run_passes(function: TileFunction, target: Target, after_each: Pass | None = None) -> None:
    """Brings a function from the frontend's form to the one that lowering takes, in place.

    `after_each` is called after every pass, with the verifier where the author asks for it.
    """
    for run in PASSES:
        run(function, target)
        if after_each is not None:
            after_each(function, target)
