"""Integer arithmetic that stops a debugged kernel where it wraps, against exact integers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import kernels
from glueball.errors import DeviceAssertionError
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.library import normal

EVERYWHERE = pytest.mark.parametrize("executor", EXECUTORS)
STOPPING = pytest.mark.parametrize("executor", ["reference", "sim"])
"""On a GPU a kernel that stops takes its process with it."""
LINE = gl.BlockedLayout([2], [32], [2], [0])
COUNT = 128


@glueball.jit
def arithmetic_kernel(x, y, out, NAME: gl.constexpr, CHECK: gl.constexpr, layout: gl.constexpr):
    place = gl.arange(0, 128, layout)
    left, right = gl.load(x + place), gl.load(y + place)
    if NAME == "add":
        result = gl.add(left, right, CHECK)
    elif NAME == "sub":
        result = gl.sub(left, right, sanitize_overflow=CHECK)
    elif NAME == "mul":
        result = gl.mul(left, right, sanitize_overflow=CHECK)
    else:
        result = -right
    gl.store(out + place, result)


EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "negate": lambda x, y: -y,
}


def launch(executor, monkeypatch, x, y, name, *, check=True, **options):
    """The result of one launch, with `debug` unless told otherwise."""
    out = np.zeros_like(x)
    options = {"num_warps": 2, "debug": True, **options}
    run(executor, monkeypatch, lambda *given: arithmetic_kernel[(1,)](*given, name, check, LINE, **options), x, y, out)
    return out


def operands(name, dtype, seed):
    """Operands whose exact result fits, and a place with a pair that does not, one beyond an end of the type."""
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    half = limits.bits // 2 - 1
    x, y = (random.integers(0, 1 << half, COUNT).astype(dtype) for _ in range(2))
    if name == "sub":
        y = np.minimum(x, y)
    if name == "negate" and limits.min == 0:
        y[:] = 0
    wrong = {
        "add": (limits.max, 1),
        "sub": (limits.min, 1),
        "mul": (1 << half + 1, 1 << limits.bits - half - 1 - (limits.min < 0)),
        "negate": (0, limits.min if limits.min < 0 else 1),
    }[name]
    return x, y, wrong


@STOPPING
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32], ids=lambda d: d.__name__
)
@pytest.mark.parametrize("name", list(EXACT))
def test_what_does_not_fit_stops_the_kernel(name, dtype, executor, monkeypatch):
    x, y, wrong = operands(name, dtype, 3)
    exact = EXACT[name](x.astype(object), y.astype(object))
    np.testing.assert_array_equal(launch(executor, monkeypatch, x, y, name), exact.astype(dtype))
    x[77], y[77] = wrong
    bits = np.iinfo(dtype).bits
    operation = "sub" if name == "negate" else name
    with pytest.raises(DeviceAssertionError, match=f"int{bits} overflow detected for operation {operation}") as caught:
        launch(executor, monkeypatch, x, y, name)
    assert "result = " in str(caught.value)
    wrapped = (EXACT[name](x.astype(np.int64), y.astype(np.int64))).astype(dtype)
    for options in ({"debug": False}, {"sanitize_overflow": False}):
        np.testing.assert_array_equal(launch(executor, monkeypatch, x, y, name, **options), wrapped)
    if name != "negate":
        np.testing.assert_array_equal(launch(executor, monkeypatch, x, y, name, check=False), wrapped)


@STOPPING
def test_integers_of_64_bits_wrap_unchecked(executor, monkeypatch):
    x = np.full(COUNT, np.iinfo(np.int64).max)
    np.testing.assert_array_equal(launch(executor, monkeypatch, x, x, "add"), x + x)


@glueball.jit
def masked_kernel(x, out, n, layout: gl.constexpr):
    place = gl.arange(0, 128, layout)
    value = gl.load(x + place, mask=place < n)
    gl.store(out + place, value - 1, mask=place < n)


@STOPPING
def test_elements_that_were_not_loaded_are_not_checked(executor, monkeypatch):
    x, out = np.zeros(COUNT, np.uint8), np.full(COUNT, 9, np.uint8)
    x[:100] = 5
    options = {"num_warps": 2, "debug": True}
    run(executor, monkeypatch, lambda *given: masked_kernel[(1,)](*given, 100, LINE, **options), x, out)
    np.testing.assert_array_equal(out, np.where(x > 0, 4, 9))
    with pytest.raises(DeviceAssertionError, match="int8 overflow detected for operation sub"):
        run(executor, monkeypatch, lambda *given: masked_kernel[(1,)](*given, 101, LINE, **options), x, out)


@glueball.jit
def folded_kernel(x, out, layout: gl.constexpr):
    place = gl.arange(0, 128, layout)
    total = gl.to_tensor(2147483647) + 1
    gl.store(out + place, gl.sum(gl.load(x + place), 0) + (total ^ total))


@STOPPING
def test_constants_and_reductions(executor, monkeypatch):
    """What is known at compile time is checked too; what a reduction combines wraps."""
    x, out = np.full(COUNT, 1 << 30, np.int32), np.zeros(COUNT, np.int32)

    def go(**options):
        run(executor, monkeypatch, lambda *given: folded_kernel[(1,)](*given, LINE, num_warps=2, **options), x, out)

    go(debug=True, sanitize_overflow=False)
    np.testing.assert_array_equal(out, np.zeros(COUNT, np.int32))
    with pytest.raises(DeviceAssertionError, match="int32 overflow detected for operation add") as caught:
        go(debug=True)
    assert "gl.to_tensor(2147483647) + 1" in str(caught.value)


@pytest.mark.parametrize(("target", "call"), [("sm_90a", "__assertfail"), ("gfx942", "s_trap")])
def test_checks_make_code_with_debug_only(target, call):
    lanes = 64 if target == "gfx942" else 32
    layout = gl.BlockedLayout([128 // lanes], [lanes], [1], [0])
    for debug in (False, True):
        arguments = ("*i32", "*i32", "*i32", "mul", True, layout)
        kernel = glueball.compile_only(arithmetic_kernel, *arguments, num_warps=1, debug=debug, target=target)
        assert (call in kernel.asm["ptx" if target == "sm_90a" else "amdgcn"]) == debug


def test_the_generator_of_dropout_wraps_on_purpose(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x = normal(1000)
    expected = kernels.dropout(x, 0.5, seed=1 << 40 | 3)
    kernel = kernels.elementwise.dropout_kernel
    monkeypatch.setattr(kernel, "debug", True)
    np.testing.assert_array_equal(kernels.dropout(x, 0.5, seed=1 << 40 | 3), expected)


SCRIPT = """
import torch
from tests.kernels.test_overflow_checks import LINE, arithmetic_kernel

x = torch.arange(128, dtype=torch.int32, device="cuda")
out = torch.zeros_like(x)
arithmetic_kernel[(1,)](x, x, out, "mul", True, LINE, num_warps=2, debug=True)
torch.cuda.synchronize()
print("squares", int(out.sum()))
x[77] = 65536
arithmetic_kernel[(1,)](x, x, out, "mul", True, LINE, num_warps=2, debug=True)
torch.cuda.synchronize()
print("not stopped")
"""


@pytest.mark.gpu
@pytest.mark.torch
def test_a_gpu_stops_too():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode != 0 and f"squares {sum(n * n for n in range(128))}" in done.stdout
    assert "not stopped" not in done.stdout
    assert "int32 overflow detected for operation mul" in done.stdout + done.stderr
