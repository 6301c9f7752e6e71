"""The author's own assembly, and what stands for it elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, SimulationError
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.test_reductions import run_on

LINE = gl.BlockedLayout([4], [32], [1], [0])


def average(*bytes_of):
    left, right = bytes_of[:4], bytes_of[4:]
    return tuple(((a.astype(np.int32) + b + 1) >> 1).astype(np.uint8) for a, b in zip(left, right, strict=True))


def add_and_subtract(x, y):
    return x + y, x - y


@glueball.jit
def elementwise_kernel(x, y, out, a, b, sums, differences, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    packed = gl.inline_asm_elementwise(
        "vavrg4.u32.u32.u32 $0, $1, $2, $2;",
        "=r,r,r", [gl.load(x + index), gl.load(y + index)], gl.uint8, True, 4, simulate=average,
    )  # fmt: skip
    gl.store(out + index, packed)
    total, difference = gl.inline_asm_elementwise(
        "add.s32 $0, $2, $3;\nsub.s32 $1, $2, $3;", "=&r,=&r,r,r", [gl.load(a + index), gl.load(b)],
        (gl.int32, gl.int32), False, 1, simulate=add_and_subtract,
    )  # fmt: skip
    gl.store(sums + index, total)
    gl.store(differences + index, difference)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_elementwise(executor, monkeypatch):
    x, y = random_array((128,), np.uint8), random_array((128,), np.uint8, 1)
    a, b = random_array((128,), np.int32, 2) // 4, random_array((1,), np.int32, 3) // 4
    out, sums, differences = np.zeros(128, np.uint8), np.zeros(128, np.int32), np.zeros(128, np.int32)
    run_on(executor, monkeypatch, "sm_90a", elementwise_kernel, x, y, out, a, b, sums, differences, LINE, num_warps=1)
    np.testing.assert_array_equal(out, (x.astype(np.int32) + y + 1) >> 1)
    np.testing.assert_array_equal(sums, a + b)
    np.testing.assert_array_equal(differences, a - b)


@glueball.constexpr_function
def reversing(outputs, inputs):
    return "\n".join(f"mov.b32 {to}, {source};" for to, source in zip(outputs, reversed(inputs), strict=True))


def turned_around(*registers):
    return tuple(reversed(registers))


@glueball.jit
def thread_kernel(x, out, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    values = gl.load(x + index)
    found = gl.inline_asm(reversing, ("=&r", "r"), (values,), values.type, simulate=turned_around)
    gl.store(out + index, found)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_all_registers_of_a_thread(executor, monkeypatch):
    x, out = random_array((128,), np.int32), np.zeros(128, np.int32)
    run_on(executor, monkeypatch, "sm_90a", thread_kernel, x, out, LINE, num_warps=1)
    np.testing.assert_array_equal(out.reshape(-1, 4), x.reshape(-1, 4)[:, ::-1])


@glueball.jit
def lonely_kernel(x):
    gl.store(x, gl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], gl.int32, False, 1))


@glueball.jit
def wrong_kernel(case: gl.constexpr, layout: gl.constexpr):
    tile = gl.arange(0, 128, layout)
    if case == "text":
        gl.inline_asm(5, "r", (tile,))
    elif case == "groups":
        gl.inline_asm("", ("=r", "r", "r"), (tile,), tile.type)
    elif case == "pack":
        gl.inline_asm_elementwise("", "=r,r", [tile], gl.int32, True, 8)
    else:
        gl.inline_asm("", "r", (tile,), simulate=3)


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_nothing_stands_for_it_unless_told(executor, monkeypatch):
    with pytest.raises(
        SimulationError,
        match=r"`inline_asm_elementwise` runs on a GPU only, since `mov.u32 \$0, %clock` .*: pass simulate=",
    ):
        run_on(executor, monkeypatch, "sm_90a", lonely_kernel, np.zeros(1, np.int32))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("text", "asm must be a compile-time string"),
        ("groups", "one constraint per output and input group: 2, not 3"),
        ("pack", "8 elements of a thread at a time, but each holds 4"),
        ("simulate", "simulate must be a Python function"),
    ],
)
def test_errors(case, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_kernel[(1,)](case, LINE, num_warps=1)


def test_assembly_of_the_target_comes_out():
    kernel = glueball.compile_only(thread_kernel, "*i32", "*i32", LINE, num_warps=1, target="sm_90a")
    assert kernel.asm["ptx"].count("mov.b32") >= 4
    kernel = glueball.compile_only(
        elementwise_kernel, "*u8", "*u8", "*u8", "*i32", "*i32", "*i32", "*i32", LINE, num_warps=1, target="sm_90a"
    )
    assert kernel.asm["ptx"].count("vavrg4.u32.u32.u32") == 1
