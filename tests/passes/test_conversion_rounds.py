"""Conversions for which shared memory is short: pieces, barriers between them, and what other allocations leave."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glueball.layouts import BlockedLayout
from glueball.lower import lower
from glueball.sim import run
from glueball.targets import TARGETS, Target
from glueball.tile import reference
from glueball.tile.ir import ArgumentFacts, TileFunction
from glueball.tile.passes import expand_conversions, run_passes
from glueball.tile.types import distributed_type, float32, pointer_type
from glueball.tile.verifier import verify
from tests.tile.programs import Program

EXTENT = 64
BYTES = EXTENT * EXTENT * 4
FLAT = [BlockedLayout([1], [32], [4], [0]), BlockedLayout([16], [32], [4], [0])]


def short(shared_bytes: int) -> Target:
    return dataclasses.replace(TARGETS["sm_90a"], shared_bytes=shared_bytes)


def converting(taken: int = 0) -> TileFunction:
    """`y[i] = x[i]` for 4096 elements, loaded in one layout and stored in another, while `taken` bytes are in use."""
    pointer = pointer_type(float32)
    program = Program("convert", {"x": pointer, "y": pointer})
    program.function.facts = [ArgumentFacts(16), ArgumentFacts(16)]
    x, y = program.arguments.values()
    kinds = [distributed_type(float32, (EXTENT * EXTENT,), layout) for layout in FLAT]
    value = program.load(x, program.offsets(EXTENT * EXTENT, FLAT[0]))
    if taken:
        program.do("allocate_shared", name="own", bytes=taken, alignment=16)
        plan = {"allocation": "own", "plan": None}
        program.do("shared_store", value, **plan)
    converted = program("convert_layout", value, to=kinds[1])
    if taken:
        program("shared_load", to=kinds[0], **plan)
    program.do("store", program.pointers(y, program.offsets(EXTENT * EXTENT, FLAT[1])), converted)
    return program.finish()


def expanded(function: TileFunction) -> list[str]:
    kept = ("shared_store", "shared_load", "barrier")
    return [item.opcode for item in function.body.walk() if item.opcode in kept]


@pytest.mark.parametrize("rounds", [1, 2, 4, 8, 32])
def test_pieces_go_one_after_another_with_barriers_between(rounds: int) -> None:
    function, target = converting(), short(BYTES // rounds)
    run_passes(function, target, verify)
    one = ["shared_store", "barrier", "shared_load"]
    assert expanded(function) == one + ["barrier", *one] * (rounds - 1)
    assert function.shared_bytes == BYTES // rounds
    arrays = np.random.default_rng(0).random(EXTENT * EXTENT, np.float32), np.zeros(EXTENT * EXTENT, np.float32)
    run(lower(function, target), target, (1,), arrays)
    assert np.array_equal(*arrays)
    arrays[1][:] = 0
    reference.run(function, (1,), list(arrays))
    assert np.array_equal(*arrays)


def test_other_allocations_take_their_part() -> None:
    plans = []
    for taken in (0, 4096, BYTES // 2):
        function = converting(taken)
        expand_conversions(function, short(BYTES))
        (plan,) = {
            id(item.attributes["plan"]): item.attributes["plan"]
            for item in function.body.walk()
            if item.attributes.get("plan") is not None and item.opcode == "shared_store"
        }.values()
        plans.append(plan.rounds)
    assert plans == [1, 2, 2]
