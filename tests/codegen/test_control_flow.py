"""Structured control flow, flattened: run on this machine, and compiled for every target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glueball import codegen
from glueball.targets import TARGETS
from glueball.thread import arithmetic, control, memory
from glueball.thread.ir import Region, Value
from tests.codegen.building import NVIDIA, Kernel
from tests.codegen.executing import run_on_host


def _store(kernel: Kernel, value: Value, offset: int = 0) -> None:
    kernel.emit(memory.GLOBAL_STORE, (kernel.y, value), type=value.type, count=1, offset=offset)


def summing(target: str, kind: str, negative: bool) -> Kernel:
    """y[0] = the sum of range(lower, upper, step), y[1] = its length."""
    kernel = Kernel(target, lower=kind, upper=kind, step=kind)
    builder = kernel.builder
    body = builder.new_region([kind] * 3)
    index, total, length = body.arguments
    with builder.inside(body, loop=True):
        builder.yield_values([builder.add(total, index), builder.add(length, builder.constant(kind, 1))])
    zero = builder.constant(kind, 0)
    operands = [*kernel.parameters.values(), zero, zero]
    results = builder.structured(control.FOR, operands, [body], (kind, kind), {"step_negative": negative})
    for position, result in enumerate(results):
        _store(kernel, result, 8 * position)
    return kernel


def halving(target: str) -> Kernel:
    """y[0] = how often `n` can be halved or, where odd, tripled and one added, before it is 1; y[1] = 1."""
    kernel = Kernel(target, n="i64")
    builder = kernel.builder
    one, zero = builder.constant("i64", 1), builder.constant("i64", 0)
    condition, body = builder.new_region(["i64"] * 2), builder.new_region(["i64"] * 2)
    (number, steps), (inner_number, inner_steps) = condition.arguments, body.arguments
    with builder.inside(condition, loop=True):
        builder.yield_values([builder.compare(arithmetic.COMPARE_SIGNED, "gt", number, one), number, steps])
    with builder.inside(body, loop=True):
        odd = builder.compare(arithmetic.COMPARE_SIGNED, "ne", builder.logical_and(inner_number, one), zero)
        tripled, halved = Region(), Region()
        with builder.inside(tripled, loop=False):
            builder.yield_values([builder.add(builder.mul(inner_number, builder.constant("i64", 3)), one)])
        with builder.inside(halved, loop=False):
            builder.yield_values([builder.shift_right(inner_number, 1)])
        (following,) = builder.structured(control.IF, (odd,), [tripled, halved], ("i64",))
        builder.yield_values([following, builder.add(inner_steps, one)])
    results = builder.structured(control.WHILE, (kernel.parameters["n"], zero), [condition, body], ("i64", "i64"))
    _store(kernel, results[1])
    _store(kernel, results[0], 8)
    return kernel


def leaving(target: str) -> Kernel:
    """y[i] = i + 1 for i in range(n), but the kernel ends where i is `stop`; then y[8] = 1."""
    kernel = Kernel(target, n="i64", stop="i64")
    builder, leave = kernel.builder, Region()
    body, one = builder.new_region(["i64"]), builder.constant("i64", 1)
    (index,) = body.arguments
    with builder.inside(body, loop=True):
        stops = builder.compare(arithmetic.COMPARE_SIGNED, "eq", index, kernel.parameters["stop"])
        with builder.inside(leave, loop=False):
            builder.emit(control.RETURN)
        builder.structured(control.IF, (stops,), [leave], ())
        place = builder.add(kernel.y, builder.mul(index, builder.constant("i64", 8)))
        kernel.emit(memory.GLOBAL_STORE, (place, builder.add(index, one)), type="i64", count=1, offset=0)
    builder.structured(control.FOR, (builder.constant("i64", 0), kernel.parameters["n"], one), [body], ())
    _store(kernel, one, 64)
    return kernel


def both_leave(target: str) -> Kernel:
    """Both ways of an `if` end the kernel; what follows never runs."""
    kernel = Kernel(target, n="i64")
    builder, ways = kernel.builder, [Region(), Region()]
    for number, way in enumerate(ways):
        with builder.inside(way, loop=False):
            _store(kernel, builder.constant("i64", number + 1))
            builder.emit(control.RETURN)
    is_zero = builder.compare(arithmetic.COMPARE_SIGNED, "eq", kernel.parameters["n"], builder.constant("i64", 0))
    builder.structured(control.IF, (is_zero,), ways, ())
    _store(kernel, builder.constant("i64", 3))
    return kernel


def _run(kernel: Kernel, **arguments: int) -> list[int]:
    y = np.zeros(9, np.int64)
    run_on_host(kernel, np.zeros(1), y, **arguments)
    return [int(number) for number in y]


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [(0, 10, 1), (0, 10, 3), (5, 5, 1), (7, 2, 1), (-4, 4, 2), (10, 0, -1), (10, -5, -4), (0, 3, -1)],
)
def test_for(kind: str, lower: int, upper: int, step: int) -> None:
    numbers = range(lower, upper, step)
    y = np.zeros(2, np.int64)
    run_on_host(summing("gfx950", kind, step < 0), np.zeros(1), y, lower=lower, upper=upper, step=step)
    read = y.view(np.int32)[::2] if kind == "i32" else y
    assert list(read) == [sum(numbers), len(numbers)]


@pytest.mark.parametrize(("n", "steps"), [(1, 0), (2, 1), (27, 111)])
def test_while_around_if(n: int, steps: int) -> None:
    assert _run(halving("gfx950"), n=n)[:2] == [steps, 1]


def test_return_inside_a_loop() -> None:
    assert _run(leaving("gfx950"), n=4, stop=-1) == [1, 2, 3, 4, 0, 0, 0, 0, 1]
    assert _run(leaving("gfx950"), n=4, stop=2) == [1, 2, 0, 0, 0, 0, 0, 0, 0]


def test_both_ways_return() -> None:
    assert _run(both_leave("gfx950"), n=0)[0] == 1
    assert _run(both_leave("gfx950"), n=5)[0] == 2


def masked(target: str) -> Kernel:
    """y[0..3] = x[0..3] where `use`, else 7 each; then stored again at y[4..7] where `use`."""
    kernel = Kernel(target, use="i1")
    use = kernel.parameters["use"]
    replaced = [kernel.builder.constant("i64", 7)] * 2
    for offset in (0, 16):
        attributes = {"type": "i64", "count": 2, "offset": offset, "masked": True}
        loaded = kernel.emit(memory.GLOBAL_LOAD, (kernel.x, use, *replaced), replaced=True, **attributes)
        kernel.emit(memory.GLOBAL_STORE, (kernel.y, *loaded), type="i64", count=2, offset=offset)
        kernel.emit(memory.GLOBAL_STORE, (kernel.y, use, *loaded), **{**attributes, "offset": offset + 32})
    return kernel


def test_masked_accesses_without_predicates() -> None:
    for use, expected in [(True, [1, 2, 3, 4, 1, 2, 3, 4, 0]), (False, [7, 7, 7, 7, 0, 0, 0, 0, 0])]:
        y = np.zeros(9, np.int64)
        run_on_host(masked("gfx950"), np.arange(1, 5), y, use=use)
        assert list(y) == expected


KERNELS: dict[str, Callable[[str], Kernel]] = {
    "for-i32": lambda target: summing(target, "i32", False),
    "for-i64-down": lambda target: summing(target, "i64", True),
    "while": halving,
    "return": leaving,
    "both": both_leave,
    "masked": masked,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_compiles(name: str, target: str) -> None:
    code = codegen.generate(KERNELS[name](target).function, TARGETS[target])
    if target in NVIDIA:
        assert codegen.assemble(code.assembly, TARGETS[target]).spills == 0
    else:
        assert "s_endpgm" in code.assembly
