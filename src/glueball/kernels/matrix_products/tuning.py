"""Plans measured on request, by the autotuner, on the arrays that are to be multiplied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import glueball
from glueball.kernels.ladder import Launch
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.launches import Arrays, launches
from glueball.kernels.matrix_products.plans import group_plans, plan_for, predicted, stages_for, table_key
from glueball.kernels.matrix_products.problems import Problem
from glueball.kernels.matrix_products.specialized import multiply_specialized
from glueball.kernels.matrix_products.tuned import tuned_plans
from glueball.targets import Target

CONSIDERED = 6
"""Tiles and splits of the least predicted time, of which every group, chunk and stage count below is measured."""
GROUPS = (4, 8, 16)
CHUNKS = (1, 2, 4)


def tuned_plan(problem: Problem, arrays: Arrays, target: Target, multiprocessors: int) -> Plan:
    """The best plan measured for this kind of problem, on these arrays if none is known yet.

    It is kept while the process lives. Where one row or plain loads are predicted to be best nothing is measured.
    """
    key = table_key(problem, target)
    expected = plan_for(problem, target, multiprocessors)
    if key in tuned_plans() or expected.kind != "specialized":
        return expected
    tuned_plans()[key] = best = measured_plan(
        problem, arrays, list(variants(problem, multiprocessors, expected.swapped))
    )
    return best


def variants(problem: Problem, multiprocessors: int, swapped: bool = False) -> Iterator[Plan]:
    """Plans to measure, of the product or of the transposed one."""
    plans = [plan for plan in group_plans(problem, multiprocessors) if plan.swapped == swapped]
    order = sorted(plans, key=lambda plan: predicted(problem, plan, multiprocessors))
    for plan in order[:CONSIDERED]:
        for group in GROUPS:
            for chunks in CHUNKS:
                if chunks == 1 or plan.block[1] // chunks >= 32:
                    changed = replace(plan, group=group, chunks=chunks)
                    yield replace(changed, stages=stages_for(problem, changed))


def measured_plan(problem: Problem, arrays: Arrays, plans: list[Plan]) -> Plan:
    """The plan that the autotuner finds best; operands are copied once, and the result is that of the last trial."""
    made = [launches(problem, plan, arrays) for plan in plans]
    for launch in made[0][:-1]:
        launch.run()
    products = [each[-1] for each in made]
    widest = max(products, key=lambda launch: launch.keywords["FORM"].splits)
    configs = [glueball.Config({"FORM": each.keywords["FORM"]}, pre_hook=blocks_of(each)) for each in products]
    grids = {each.keywords["FORM"]: each.grid for each in products}
    tuner = glueball.autotune(configs=configs, key=[])(multiply_specialized)
    first, last = made[0][-1].arguments[:-2], widest.arguments[-2:]
    tuner[lambda meta: grids[meta["FORM"]]](*first, *last)
    return plans[configs.index(tuner.best_config)]


def blocks_of(launch: Launch) -> Callable[[dict[str, Any]], None]:
    """A hook that gives the descriptors of a call the blocks that they have in this launch."""
    given = dict(zip(("a_desc", "b_desc", "c"), launch.arguments, strict=False))

    def set_blocks(arguments: dict[str, Any]) -> None:
        for name, descriptor in given.items():
            if hasattr(descriptor, "block_shape"):
                arguments[name].block_shape = list(descriptor.block_shape)
                arguments[name].layout = descriptor.layout

    return set_blocks
