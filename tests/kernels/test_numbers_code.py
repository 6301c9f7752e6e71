"""What functions of numbers become on every target: it compiles, and says its rounding."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.language.extra import libdevice
from glueball.targets import TARGETS
from tests.kernels.test_numbers_functions import OWN, apply, apply_two

OF_TWO = ("pow", "atan2", "hypot", "ldexp")


def layout_for(target):
    return gl.BlockedLayout([2], [TARGETS[target].lanes], [4], [0])


@glueball.jit
def of_two_types(x, y, LAYOUT: gl.constexpr, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    gl.store(y + index, gl.load(x + index))


def compiled(target, kernel, *arguments):
    binary = glueball.compile_only(kernel, *arguments, target=target)
    return binary.asm["ptx" if TARGETS[target].family == "nvidia" else "amdgcn"]


PORTABLE = [("sm_90a", name) for name in (*OWN, *OF_TWO)] + [("gfx1250", name) for name in ("exp", "sin", "pow", "erf")]


@pytest.mark.parametrize(("target", "name"), PORTABLE)
def test_own_functions_compile(target, name):
    x = np.zeros(512, np.float32)
    function = getattr(libdevice, name)
    second = [x.astype(np.int32) if name == "ldexp" else x] if name in OF_TWO else []
    text = compiled(target, apply_two if second else apply, x, *second, x, function, 512)
    assert not re.search(r"\b(add|sub|mul)\.f(16|32|64)|\.ftz|call\.uni", text)
    assert "scratch_" not in text


EXPECTED = {
    "exp": "ex2.approx.f32", "exp2": "ex2.approx.f32", "log": "lg2.approx.f32", "log2": "lg2.approx.f32",
    "sin": "sin.approx.f32", "cos": "cos.approx.f32", "sqrt": "sqrt.approx.f32", "rsqrt": "rsqrt.approx.f32",
    "sqrt_rn": "sqrt.rn.f32", "floor": "cvt.rmi.f32.f32", "ceil": "cvt.rpi.f32.f32", "abs": "and.b32",
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_instructions_of_float32(name):
    x = np.zeros(1024, np.float32)
    text = compiled("sm_90a", apply, x, x, getattr(gl, name), 1024)
    assert EXPECTED[name] in text
    assert ".ftz" not in text


def test_quotients():
    x = np.zeros(1024, np.float32)
    assert "div.rn.f32" in compiled("sm_90a", apply_two, x, x, x, gl.div_rn, 1024)
    assert "div.full.f32" in compiled("sm_90a", apply_two, x, x, x, libdevice.fast_dividef, 1024)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_conversions_of_eight_bits(kind, target):
    narrow, half, wide = (np.zeros(1024, dtype) for dtype in (getattr(ml_dtypes, kind), np.float16, np.float32))
    layout = layout_for(target)
    rounded = compiled(target, of_two_types, wide, narrow, layout, 1024)
    extended = compiled(target, of_two_types, narrow, half, layout, 1024)
    name = {"float8_e4m3fn": "e4m3x2", "float8_e5m2": "e5m2x2"}.get(kind)
    paired = TARGETS[target].supports("float8_pairs") and name is not None
    assert (f"cvt.rn.satfinite.{name}.f32" in rounded) == paired
    assert (f"cvt.rn.f16x2.{name}" in extended) == paired
