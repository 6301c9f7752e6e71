"""Placement of scratch memory and the barriers around it."""

from __future__ import annotations

import dataclasses

import pytest

from glueball.errors import OutOfResources
from glueball.layouts import BlockedLayout
from glueball.targets import TARGETS
from glueball.tile.ir import ArgumentFacts, TileFunction, Value
from glueball.tile.passes import expand_conversions, place_shared_memory, run_passes
from glueball.tile.types import distributed_type, float32, int32, pointer_type
from tests.tile.programs import Program

TARGET = TARGETS["sm_90a"]
ROWS = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
COLUMNS = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


def there_and_back(extent: int, times: int) -> TileFunction:
    """A tile that is converted `times` times between two layouts, then stored."""
    pointer = pointer_type(float32)
    program = Program("convert", {"x": pointer, "y": pointer})
    x, y = program.arguments.values()
    program.function.facts = [ArgumentFacts(16), ArgumentFacts(16)]
    kinds = [distributed_type(float32, (extent, extent), layout) for layout in (ROWS, COLUMNS)]
    value = program("load", program("splat", x, to=kinds[0].with_element_ty(pointer)), to=kinds[0])
    for index in range(times):
        value = program("convert_layout", value, to=kinds[(index + 1) % 2])
    program.do("store", program("splat", y, to=kinds[times % 2].with_element_ty(pointer)), value)
    return program.finish()


def opcodes(function: TileFunction) -> list[str]:
    kept = ("shared_store", "shared_load", "barrier")
    return [item.opcode for item in function.body.walk() if item.opcode in kept]


def test_one_barrier_between_write_and_read():
    function = there_and_back(64, 1)
    run_passes(function, TARGET)
    assert opcodes(function) == ["shared_store", "barrier", "shared_load"]
    assert function.shared_bytes == 64 * 64 * 4


def test_scratch_space_is_used_again_behind_a_barrier():
    function = there_and_back(64, 2)
    run_passes(function, TARGET)
    assert function.shared_bytes == 64 * 64 * 4
    assert opcodes(function) == [
        "shared_store",
        "barrier",
        "shared_load",
        "barrier",
        "shared_store",
        "barrier",
        "shared_load",
    ]


def test_a_loop_waits_for_the_readers_of_the_last_round():
    pointer = pointer_type(float32)
    program = Program("loop", {"x": pointer, "n": int32})
    x, n = program.arguments.values()
    kinds = [distributed_type(float32, (64, 64), layout) for layout in (ROWS, COLUMNS)]
    first = program("load", program("splat", x, to=kinds[0].with_element_ty(pointer)), to=kinds[0])

    def body(_: Value, carried: Value) -> list[Value]:
        over = program("convert_layout", carried, to=kinds[1])
        return [program("convert_layout", over, to=kinds[0])]

    region = program.inside([Value(int32), Value(kinds[0])], body)
    program.operation("for", program.constant(0), n, program.constant(1), first, gives=[kinds[0]], regions=(region,))
    function = program.finish()
    run_passes(function, TARGET)
    assert opcodes(function) == ["barrier", "shared_store", "barrier", "shared_load"] * 2


def test_too_much_shared_memory_names_the_lines():
    function = there_and_back(128, 1)
    expand_conversions(function, TARGET)
    with pytest.raises(OutOfResources, match=r"65536 bytes at kernel\.py:"):
        place_shared_memory(function, dataclasses.replace(TARGET, shared_bytes=1024))
