"""What the LLVM text of a record computes is what its `issue` computes, bit for bit, edge cases included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glueball import numerics
from glueball.thread import control, conversion, memory
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import BITS, Record, Value
from glueball.thread.table import INSTRUCTIONS
from tests.codegen.building import Kernel
from tests.codegen.executing import run_on_host
from tests.codegen.test_records import CASES

# What needs other threads or a GPU; and the host has no library for floats of 16 bits.
SKIPPED = {
    "program_id", "num_programs", "lane_id", "warp_id", "barrier", "order_shared", "commit_group", "shuffle",
    "wait_group", "constant", "float8_extend_pair", "float8_round_pair", "known_multiple", "assume", "pure_assembly",
    "cta_rank", "mma_sync",
}  # fmt: skip
NARROW = {"f16", "bf16"}
CHECKED = [
    pytest.param(name, kinds, attributes, id="-".join(map(str, [name, *kinds, *attributes.values()])))
    for name in CASES
    if INSTRUCTIONS[name].pure and name not in SKIPPED and not name.endswith("_approximate")
    for kinds, attributes in CASES[name]
    if not NARROW & {*kinds, attributes.get("to")}
]


class Machine:
    """As much of a simulator as pure instructions need."""

    @staticmethod
    def checked(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return function(left, right)

    @staticmethod
    def remainder_of_run(left: Any, right: Any) -> Any:
        return numerics.remainder(left, right)


def _edge_values(kind: str) -> np.ndarray:
    dtype = NUMPY[kind]
    if kind == "i1":
        return np.array([False, True])
    if kind[0] == "i":
        least, greatest, bits = np.iinfo(dtype).min, np.iinfo(dtype).max, BITS[kind]
        return np.array([0, 1, -1, 2, -2, 7, bits - 1, bits, bits + 1, least, least + 1, greatest, greatest - 1], dtype)
    numbers = [0.0, -0.0, 1.0, -1.0, 1.5, -2.75, 3e9, -3e9, 1e19, 1e-42, 127.9, -128.9, math.inf, -math.inf, math.nan]
    return np.array(numbers, dtype)


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _looping_kernel(record: Record, kinds: tuple[str, ...], attributes: dict[str, Any]) -> Kernel:
    """Reads operands, 8 bytes apart, applies the record and writes the result, for as many rows as `count` says."""
    kernel = Kernel("gfx942", count="i64")
    builder = kernel.builder
    body = builder.new_region(["i64"])
    (index,) = body.arguments
    with builder.inside(body, loop=True):
        row = builder.add(kernel.x, builder.mul(index, builder.constant("i64", 8 * len(kinds))))
        operands: list[Value] = []
        for position, kind in enumerate(kinds):
            stored = "i8" if kind == "i1" else kind
            (loaded,) = kernel.emit(memory.GLOBAL_LOAD, (row,), type=stored, count=1, offset=8 * position)
            operands.append(builder.convert(conversion.TRUNCATE, loaded, "i1") if kind == "i1" else loaded)
        (result,) = kernel.emit(record, operands, **attributes)
        if result.type == "i1":
            result = builder.convert(conversion.ZERO_EXTEND, result, "i8")
        place = builder.add(kernel.y, builder.mul(index, builder.constant("i64", 8)))
        kernel.emit(memory.GLOBAL_STORE, (place, result), type=result.type, count=1, offset=0)
    zero, one = builder.constant("i64", 0), builder.constant("i64", 1)
    builder.structured(control.FOR, (zero, kernel.parameters["count"], one), [body], ())
    return kernel


@pytest.mark.parametrize(("name", "kinds", "attributes"), CHECKED)
def test_text_and_issue_agree(name: str, kinds: tuple[str, ...], attributes: dict[str, Any]) -> None:
    record = INSTRUCTIONS[name]
    operands = [grid.reshape(-1) for grid in np.meshgrid(*map(_edge_values, kinds), indexing="ij")]
    with np.errstate(all="ignore"):
        expected = np.asarray(record.issue(Machine, attributes, *operands))
        if name.endswith("no_wrap"):  # what wraps is undefined
            exact = {"add": np.add, "mul": np.multiply}[name[:3]](*(operand.astype(object) for operand in operands))
            operands = [operand[exact == expected] for operand in operands]
            expected = expected[exact == expected]
    count = len(expected)
    x, y = np.zeros((count, len(kinds), 8), np.uint8), np.zeros((count, 8), np.uint8)
    for position, operand in enumerate(operands):
        x[:, position, : operand.dtype.itemsize] = operand.view(np.uint8).reshape(count, -1)
    run_on_host(_looping_kernel(record, kinds, attributes), x, y, count=count)
    actual = np.ascontiguousarray(y[:, : expected.dtype.itemsize]).view(expected.dtype)[:, 0]
    assert expected.dtype == NUMPY[record.result_types(kinds, attributes)[0]]
    same = actual.view(np.uint8).reshape(count, -1) == expected.view(np.uint8).reshape(count, -1)
    agree = same.all(axis=1) | (_is_nan(actual) & _is_nan(expected))
    wrong = np.flatnonzero(~agree)
    assert not len(wrong), [(*(o[i] for o in operands), actual[i], expected[i]) for i in wrong[:5]]


def test_every_bfloat16_of_a_word_is_extended() -> None:
    kernel = Kernel("gfx942")
    builder = kernel.builder
    body = builder.new_region(["i64"])
    with builder.inside(body, loop=True):
        place = builder.mul(body.arguments[0], builder.constant("i64", 4))
        halves = kernel.emit(memory.GLOBAL_LOAD, (builder.add(kernel.x, place),), type="bf16", count=2, offset=0)
        wide = [builder.convert(conversion.FLOAT_EXTEND, half, "f32") for half in halves]
        to = builder.add(kernel.y, builder.mul(place, builder.constant("i64", 2)))
        kernel.emit(memory.GLOBAL_STORE, (to, *wide), type="f32", count=2, offset=0)
    bounds = (builder.constant("i64", number) for number in (0, 1 << 15, 1))
    builder.structured(control.FOR, tuple(bounds), [body], ())
    x, y = np.arange(1 << 16, dtype=np.uint16), np.zeros(1 << 16, np.uint32)
    run_on_host(kernel, x, y)
    np.testing.assert_array_equal(y, x.astype(np.uint32) << 16)
