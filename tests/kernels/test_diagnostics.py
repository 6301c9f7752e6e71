"""Printing and assertions in a running kernel."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, DeviceAssertionError
from tests.kernels.test_reductions import run_on

SQUARE = gl.BlockedLayout([1, 1], [4, 8], [1, 1], [1, 0])


@glueball.jit
def print_kernel(x, layout: gl.constexpr):
    rows = gl.arange(0, 2, gl.SliceLayout(1, layout))
    columns = gl.arange(0, 16, gl.SliceLayout(0, layout))
    tile = gl.load(x + rows[:, None] * 16 + columns[None, :])
    gl.device_print("tile", tile)
    print("half: ", tile.to(gl.float16), rows)
    gl.device_print("", gl.program_id(0) - 3, hex=True)
    gl.device_print("100% done")
    gl.device_print("small", rows.to(gl.int8) - 1, hex=True)


def printed(executor, monkeypatch, capfd):
    x = np.arange(32, dtype=np.int64) - 4
    run_on(executor, monkeypatch, "sm_90a", print_kernel, x, SQUARE, num_warps=1)
    return x, sorted(capfd.readouterr().out.splitlines())


def test_lines(monkeypatch, capfd):
    x, lines = printed("sim", monkeypatch, capfd)
    places = [(row, column) for row in range(2) for column in range(16)]
    wanted = [f"pid (0, 0, 0) idx ({row}, {column:2}) tile: {x[row * 16 + column]}" for row, column in places]
    wanted += [
        f"pid (0, 0, 0) idx ({row}, {column:2}) half: (operand 0) {float(x[row * 16 + column]):f}"
        for row, column in places
    ]
    wanted += [f"pid (0, 0, 0) idx ({row}) half: (operand 1) {row}" for row in range(2)]
    wanted += ["pid (0, 0, 0) idx (): 0xfffffffd", "pid (0, 0, 0) 100% done"]
    wanted += ["pid (0, 0, 0) idx (0) small: 0xff", "pid (0, 0, 0) idx (1) small: 0x00"]
    assert lines == sorted(wanted)


def test_lines_with_their_lanes(monkeypatch, capfd):
    monkeypatch.setenv("GLUEBALL_PRINT_LANES", "1")
    x, lines = printed("sim", monkeypatch, capfd)
    places = [(row, column) for row in range(2) for column in range(16)]
    wanted = [
        f"pid (0, 0, 0) idx ({row}, {column:2}) tile: {x[row * 16 + column]} "
        f"[warp 0, lane {8 * row + column % 8}, register {column // 8}]"
        for row, column in places
    ]
    assert [line for line in lines if " tile: " in line] == sorted(wanted)
    assert "pid (0, 0, 0) 100% done [warp 0, lane 0, register 0]" in lines


def test_arrays_on_the_reference(monkeypatch, capfd):
    x = np.arange(32, dtype=np.int64) - 4
    run_on("reference", monkeypatch, "sm_90a", print_kernel, x, SQUARE, num_warps=1)
    first = print_kernel.source.first_line + 4
    start = f"pid (0, 0, 0) {__file__}:"
    wanted = f"{start}{first} tile: int64[2, 16] in {SQUARE}\n{x.reshape(2, 16)}\n"
    wanted += f"{start}{first + 1} half: (operand 0) fp16[2, 16] in {SQUARE}\n{x.reshape(2, 16).astype(np.float32)}\n"
    wanted += f"{start}{first + 1} half: (operand 1) int32[2] in {gl.SliceLayout(1, SQUARE)}\n[0 1]\n"
    wanted += f"{start}{first + 2}: int32 0xfffffffd\n"
    wanted += f"{start}{first + 3} 100% done\n"
    wanted += f"{start}{first + 4} small: int8[2] in {gl.SliceLayout(1, SQUARE)}\n[0xff 0x00]\n"
    assert capfd.readouterr().out == wanted


@glueball.jit
def masked_kernel(x, n, layout: gl.constexpr):
    index = gl.arange(0, 4, layout)
    if gl.program_id(0) == 1:
        print("x", gl.load(x + index, mask=index < n))
        print("hex", gl.load(x + index, mask=index < n), hex=True)


def test_values_never_loaded_are_marked(monkeypatch, capfd):
    x = np.array([5, 6, 7, 8], np.int32)
    layout = gl.BlockedLayout([1], [32], [1], [0])
    for executor in ("reference", "sim"):
        monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
        masked_kernel[(2,)](x, 2, layout, num_warps=1)
        text = capfd.readouterr().out
        assert "pid (0, 0, 0)" not in text
        if executor == "reference":
            assert text.splitlines()[1::2] == ["[5 6 -- --]", "[0x00000005 0x00000006 -- --]"]
        else:
            assert "pid (1, 0, 0) idx (1) x: 6" in text.splitlines()
            assert "pid (1, 0, 0) idx (2) x: --" in text.splitlines()


def test_a_gpu_prints_by_the_same_formats():
    kernel = glueball.compile_only(print_kernel, "*i64", SQUARE, num_warps=1, target="sm_90a")
    text = kernel.asm["llir"]
    assert "pid (%u, %u, %u) idx (%1u, %2u) tile: %lli\\0A\\00" in text
    assert "pid (%u, %u, %u) 100%% done\\0A\\00" in text
    assert "vprintf" in kernel.asm["ptx"]


@glueball.jit
def assert_kernel(x, n, layout: gl.constexpr):
    index = gl.arange(0, 64, layout)
    values = gl.load(x + index)
    assert n > 0, "n must be positive"
    gl.device_assert(values < 10, "too large", mask=index < n)
    gl.expect_zero(values, index < 4)
    gl.expect_zero(values, (index < 5) & (n == 17))


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_assertions(executor, monkeypatch):
    x = np.arange(64, dtype=np.int32) // 4
    layout = gl.BlockedLayout([2], [32], [1], [0])
    run_on(executor, monkeypatch, "sm_90a", assert_kernel, x, 64, layout, num_warps=1)
    run_on(executor, monkeypatch, "sm_90a", assert_kernel, x, 40, layout, num_warps=1, debug=True)
    with pytest.raises(DeviceAssertionError, match="too large"):
        run_on(executor, monkeypatch, "sm_90a", assert_kernel, x, 41, layout, num_warps=1, debug=True)
    with pytest.raises(DeviceAssertionError, match="expected zero"):
        run_on(executor, monkeypatch, "sm_90a", assert_kernel, x, 17, layout, num_warps=1, debug=True)
    with pytest.raises(DeviceAssertionError, match="n must be positive") as caught:
        run_on(executor, monkeypatch, "sm_90a", assert_kernel, x, -1, layout, num_warps=1, debug=True)
    assert "assert n > 0" in str(caught.value)


@pytest.mark.parametrize(("target", "call"), [("sm_90a", "__assertfail"), ("gfx942", "s_trap")])
def test_assertions_make_code_with_debug_only(target, call):
    layout = gl.BlockedLayout([2], [64 if target == "gfx942" else 32], [1], [0])
    kind = "ptx" if target == "sm_90a" else "amdgcn"
    for debug in (False, True):
        kernel = glueball.compile_only(assert_kernel, "*i32", "i32", layout, num_warps=1, debug=debug, target=target)
        assert (call in kernel.asm[kind]) == debug


@glueball.jit
def wrong_kernel(x, case: gl.constexpr):
    if case == "prefix":
        gl.device_print("é", x)
    elif case == "number":
        gl.device_print(5, 6)
    else:
        gl.device_assert(True, 7)


@pytest.mark.parametrize(
    ("case", "message"),
    [("prefix", "must be printable"), ("number", "compile-time string"), ("message", "message of device_assert")],
)
def test_errors(case, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_kernel[(1,)](np.zeros(1, np.int32), case, debug=True)
