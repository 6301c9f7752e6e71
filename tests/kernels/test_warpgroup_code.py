"""What becomes of `warpgroup_mma` in machine code: its instructions, and nothing that moves accumulators."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.codegen import disassembly
from glueball.errors import PerformanceWarning
from glueball.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait
from tests.kernels.machine_code import needs_disassembler
from tests.kernels.matrices import BFLOAT16, E4M3, ELEMENTS, places
from tests.kernels.test_warpgroup import (
    HALF,
    SINGLE,
    SQUARE,
    SWIZZLED,
    WIDE,
    case,
    operand,
    product_kernel,
    split_kernel,
)


def opcodes(kernel):
    """The instructions without their predicates and operands."""
    lines = disassembly.line_table(kernel.asm["cubin"])
    return [re.sub(r"^@!?U?P\w+ ", "", line.text).split()[0] for line in lines]


def products(found):
    return [index for index, name in enumerate(found) if "GMMA" in name]


def signature(types):
    left, right, total = types
    return [f"*{ELEMENTS[kind].name}:16" for kind in (left, right, total, total)]


COUNTS = [
    ((HALF, HALF, SINGLE), (128, 128, 64), 128, [4, 1], "HGMMA.64x128x16.F32", 8),
    ((HALF, HALF, HALF), (64, 128, 64), 128, [4, 1], "HGMMA.64x128x16.F16", 4),
    ((BFLOAT16, BFLOAT16, SINGLE), (128, 256, 64), 256, [8, 1], "HGMMA.64x256x16.F32.BF16", 4),
    ((SINGLE, SINGLE, SINGLE), (64, 64, 32), 64, [4, 1], "HGMMA.64x64x8.F32.TF32", 4),
    ((E4M3, E4M3, SINGLE), (128, 128, 128), 128, [8, 1], "QGMMA.64x128x32.F32.E4M3.E4M3", 4),
    ((np.int8, np.int8, np.int32), (64, 64, 128), 64, [4, 1], "IGMMA.64x64x32.S8.S8", 4),
    ((np.uint8, np.uint8, np.int32), (64, 64, 128), 64, [4, 1], "IGMMA.64x64x32.U8.U8", 4),
]


@needs_disassembler
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(
    ("types", "shape", "columns", "warps", "name", "count"), COUNTS, ids=[case[4] for case in COUNTS]
)
def test_instructions(types, shape, columns, warps, name, count, registers):
    _, _, constants, number = case(*types, shape, columns, warps, registers=registers)
    kernel = glueball.compile_only(
        product_kernel, *signature(types), "i32", *constants, target="sm_90a", num_warps=number
    )
    found = opcodes(kernel)
    places = products(found)
    assert [found[place] for place in places] == [name] * count
    between = Counter(found[places[0] : places[-1] + 1])
    assert not [each for each in between if each.startswith(("MOV", "IMAD.MOV", "STL", "LDL", "R2UR"))], between
    assert kernel.n_spills == 0


@needs_disassembler
def test_zeros_cost_no_registers_to_clear():
    """A product with accumulators that are zero, or that are not to be added to, starts from nothing."""
    types = (HALF, HALF, SINGLE)
    _, _, constants, _ = case(*types, (64, 128, 64), 128, [4, 1], use=False)
    kernel = glueball.compile_only(product_kernel, *signature(types), "i32", *constants, target="sm_90a")
    assert "CS2R" not in opcodes(kernel)
    kernel = glueball.compile_only(zeros_kernel, *["*fp16:16"] * 2, "*fp32:16", SQUARE, WIDE, SWIZZLED, target="sm_90a")
    assert "CS2R" not in opcodes(kernel)
    assert "setp.ne.b32 add, 0, 0;" in kernel.asm["llir"]


@glueball.jit
def zeros_kernel(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    gl.store(out + places(64, 64, L), warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L)))


@needs_disassembler
def test_accumulators_stay_where_they_are_around_a_loop():
    arguments = (*["*fp16:16"] * 2, "*fp32:16", "i32", 2, SQUARE, WIDE, SWIZZLED)
    kernel = glueball.compile_only(split_kernel, *arguments, target="sm_90a")
    found = opcodes(kernel)
    places = products(found)
    assert len(places) == 16
    between = found[places[0] : places[-1] + 1]
    assert not [name for name in between if name.startswith(("MOV", "IMAD.MOV"))], Counter(between)
    assert kernel.n_spills == 0


@glueball.jit
def halves_kernel(a, b, out, n, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """Sums of 16 bits, each product waited for."""
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = gl.zeros([64, 64], gl.float16, L)
    for _ in range(n):
        total = warpgroup_mma_wait(0, deps=(warpgroup_mma(x, y, total, is_async=True),))
    gl.store(out + places(64, 64, L), total)


def test_accumulators_of_16_bits_stay_pairs():
    kernel = glueball.compile_only(halves_kernel, *["*fp16:16"] * 3, "i32", SQUARE, WIDE, SWIZZLED, target="sm_90a")
    (block,) = (text for text in re.split(r"\n\S+:\n", kernel.asm["llir"]) if "wgmma.wait_group" in text)
    assert "insertelement" not in block


@glueball.jit
def serialized_kernel(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """Uses a sum that is under way."""
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    fence_async_shared()
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    total = warpgroup_mma_wait(1, deps=(total,))
    total = warpgroup_mma(x, y, total * 2.0, is_async=True)
    gl.store(out + places(64, 64, L), warpgroup_mma_wait(0, deps=(total,)))


@needs_disassembler
def test_the_assembler_says_that_it_serializes():
    arguments = (*["*fp16:16"] * 2, "*fp32:16", SQUARE, WIDE, SWIZZLED)
    with pytest.warns(PerformanceWarning, match="wgmma.mma_async instructions are serialized due to"):
        assert glueball.compile_only(serialized_kernel, *arguments, target="sm_90a").asm["cubin"]
