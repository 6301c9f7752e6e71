"""Matrix fragments: maps that were measured on the language's first implementation, and what instructions define."""

import numpy as np
import pytest

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    AMDWMMALayout,
    AutoLayout,
    BlockedLayout,
    CoalescedLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    SliceLayout,
)
from tests.layouts.test_worked_examples import parse

Blk = BlockedLayout
Dot = DotOperandLayout


def v2(*warps, cga=()):
    return NVMMADistributedLayout([2, 0], warps, [16, 8] if len(warps) == 2 else [1, 16, 8], cga)


def v3(warps, columns, cga=()):
    return NVMMADistributedLayout([3, 0], warps, [16, columns, 16], cga)


def mfma(shape, transposed=True, warps=(1, 1), version=4, bits=32, tiles=None):
    return AMDMFMALayout(version, shape, transposed, warps, bits, tiles)


def steps(axis, stop, rank=2, start=1):
    """`(0,1)(0,2)...` up to and without `stop`."""
    values = (start << bit for bit in range(20))
    return "".join(
        "(" + ",".join(str(value if index == axis else 0) for index in range(rank)) + ")"
        for value in values
        if value < stop
    )


M, M22 = v2(4, 1), v2(2, 2)
B1 = Blk([1, 1], [8, 4], [2, 2], [1, 0])
B2 = Blk([2, 4], [4, 8], [4, 1], [1, 0])
B3 = Blk([1, 1, 1], [1, 8, 4], [2, 2, 1], [2, 1, 0])
FRAGMENT = "(0,2)(0,4)(1,0)(2,0)(4,0)"
FRAGMENT3 = "(0,0,2)(0,0,4)(0,1,0)(0,2,0)(0,4,0)"
M1_R, M1_W = "(0,1)(8,0)(0,8)(0,16)(0,32)", "(16,0)(32,0)"
A16 = "(1,0)(2,0)(4,0)(8,0)(0,4)(0,8)"

EXAMPLES = {
    "M1": (M, [64, 64], M1_R, FRAGMENT, M1_W, "-"),
    "M2": (M22, [64, 64], "(0,1)(8,0)(0,16)(0,32)(32,0)", FRAGMENT, "(0,8)(16,0)", "-"),
    "M3": (M, [32, 32], "(0,1)(8,0)(0,8)(0,16)", FRAGMENT, "(16,0)(0,0)", "-"),
    "M4": (M, [16, 8], "(0,1)(8,0)", FRAGMENT, "(0,0)(0,0)", "-"),
    "M5": (M, [8, 8], "(0,1)(0,0)", FRAGMENT, "(0,0)(0,0)", "-"),
    "M6": (v2(2, 2, 1), [4, 32, 16], "(0,0,1)(0,8,0)(0,0,8)(2,0,0)", FRAGMENT3, "(0,16,0)(1,0,0)", "-"),
    "M7": (v3([4, 1], 64), [64, 64], M1_R, FRAGMENT, M1_W, "-"),
    "M8": (v3([4, 1], 128), [128, 128], M1_R + "(0,64)(64,0)", FRAGMENT, M1_W, "-"),
    "M9": (v3([8, 1], 64), [128, 64], M1_R, FRAGMENT, "(16,0)(32,0)(64,0)", "-"),
    "M10": (v3([4, 2], 32), [64, 64], "(0,1)(8,0)(0,8)(0,16)", FRAGMENT, "(16,0)(32,0)(0,32)", "-"),
    "M11": (v3([4, 1], 128), [64, 64], M1_R + "(0,0)", FRAGMENT, M1_W, "-"),
    "M12": (v3([4, 1], 64, [[1, 0]]), [128, 64], M1_R, FRAGMENT, M1_W, "(64,0)"),
    "N 32x16": (M22, [32, 16], "(0,1)(8,0)", FRAGMENT, "(0,8)(16,0)", "-"),
    "N 64x16": (M, [64, 16], "(0,1)(8,0)(0,8)", FRAGMENT, M1_W, "-"),
    "N rank 3": (v2(1, 2, 2), [2, 32, 32], "(0,0,1)(0,8,0)(0,0,16)(1,0,0)", FRAGMENT3, "(0,0,8)(0,16,0)", "-"),
    "N cluster": (v2(2, 2, cga=[[1, 0]]), [64, 32], "(0,1)(8,0)(0,16)", FRAGMENT, "(0,8)(16,0)", "(32,0)"),
    "N n64 128x64": (v3([4, 1], 64), [128, 64], M1_R + "(64,0)", FRAGMENT, M1_W, "-"),
    "N n64 128x128": (v3([4, 1], 64), [128, 128], M1_R + "(0,64)(64,0)", FRAGMENT, M1_W, "-"),
    "N n64 w[4,2]": (v3([4, 2], 64), [64, 128], M1_R, FRAGMENT, "(16,0)(32,0)(0,64)", "-"),
    "N n256": (v3([4, 1], 256), [64, 256], "(0,1)(8,0)" + steps(1, 256, start=8), FRAGMENT, M1_W, "-"),
    "N n8": (v3([4, 1], 8), [64, 8], "(0,1)(8,0)", FRAGMENT, M1_W, "-"),
    "N small": (v3([4, 1], 64), [32, 64], M1_R, FRAGMENT, "(16,0)(0,0)", "-"),
    "S11": (SliceLayout(1, v3([4, 1], 64)), [64], "8", "0 0 1 2 4", "16 32", "-"),
    "S12": (SliceLayout(0, v3([4, 1], 64)), [64], "1 8 16 32", "2 4 0 0 0", "0 0", "-"),
    "S13": (SliceLayout(1, Dot(0, M, 2)), [64], "8", "0 0 1 2 4", "16 32", "-"),
    "D1": (Dot(0, M, 2), [64, 32], "(0,1)(8,0)(0,8)(0,16)", FRAGMENT, M1_W, "-"),
    "D2": (
        Dot(1, M, 2),
        [32, 64],
        "(1,0)(8,0)(16,0)(0,8)(0,16)(0,32)",
        "(2,0)(4,0)(0,1)(0,2)(0,4)",
        "(0,0)(0,0)",
        "-",
    ),
    "D3": (Dot(0, M22, 2), [64, 32], "(0,1)(8,0)(0,8)(0,16)(32,0)", FRAGMENT, "(0,0)(16,0)", "-"),
    "D4": (Dot(1, M22, 2), [32, 64], "(1,0)(8,0)(16,0)(0,16)(0,32)", "(2,0)(4,0)(0,1)(0,2)(0,4)", "(0,8)(0,0)", "-"),
    "D5": (Dot(0, M, 4), [64, 64], "(0,1)(0,2)(8,0)(0,16)(0,32)", "(0,4)(0,8)(1,0)(2,0)(4,0)", M1_W, "-"),
    "D6": (Dot(0, M, 1), [64, 16], "(8,0)(0,4)(0,8)", "(0,1)(0,2)(1,0)(2,0)(4,0)", M1_W, "-"),
    "D7": (Dot(1, M, 1), [16, 16], "(4,0)(8,0)(0,8)", "(1,0)(2,0)(0,1)(0,2)(0,4)", "(0,0)(0,0)", "-"),
    "D8": (Dot(0, M, 8), [64, 32], "(0,1)(0,2)(0,4)(8,0)(0,0)", "(0,8)(0,16)(1,0)(2,0)(4,0)", M1_W, "-"),
    "D9": (Dot(0, B1, 0), [16, 16], "(0,1)(0,2)(0,4)(0,8)", "(0,0)(0,0)(1,0)(2,0)(4,0)", "(0,0)(8,0)", "-"),
    "D10": (Dot(1, B1, 0), [16, 16], "(1,0)(2,0)(4,0)(8,0)(0,8)", "(0,1)(0,2)(0,0)(0,0)(0,0)", "(0,4)(0,0)", "-"),
    "D11": (Dot(0, B2, 0), [32, 8], "(0,1)(0,2)(0,4)(1,0)", "(0,0)(0,0)(0,0)(2,0)(4,0)", "(8,0)(16,0)", "-"),
    "D12": (
        Dot(1, B2, 0),
        [8, 64],
        "(0,1)(0,2)(1,0)(2,0)(4,0)(0,32)",
        "(0,4)(0,8)(0,16)(0,0)(0,0)",
        "(0,0)(0,0)",
        "-",
    ),
    "D13": (
        Dot(0, B3, 0),
        [2, 16, 8],
        "(0,0,1)(0,0,2)(0,0,4)",
        "(0,0,0)(0,0,0)(0,1,0)(0,2,0)(0,4,0)",
        "(0,8,0)(1,0,0)",
        "-",
    ),
    "D14": (Dot(0, v2(4, 1, cga=[[0, 1]]), 2), [64, 32], "(0,1)(8,0)(0,8)(0,16)", FRAGMENT, M1_W, "(0,0)"),
    "A 16": (mfma([16, 16, 32], False), [16, 16], "(1,0)(2,0)", "(0,1)(0,2)(0,4)(0,8)(4,0)(8,0)", "-", "-"),
    "A 16 T": (mfma([16, 16, 32]), [16, 16], "(0,1)(0,2)", A16, "-", "-"),
    "A 32": (mfma([32, 32, 16], False), [32, 32], "(1,0)(2,0)(8,0)(16,0)", steps(1, 32) + "(4,0)", "-", "-"),
    "A 32 T": (mfma([32, 32, 16]), [32, 32], "(0,1)(0,2)(0,8)(0,16)", steps(0, 32) + "(0,4)", "-", "-"),
    "A 4x64": (mfma([4, 64, 4], False), [4, 64], "(1,0)(2,0)", steps(1, 64), "-", "-"),
    "A 4x64 T": (mfma([4, 64, 4]), [4, 64], "(0,1)(0,2)", "(1,0)(2,0)" + steps(1, 64, start=4), "-", "-"),
    "A 64x4": (mfma([64, 4, 4], False), [64, 4], "(1,0)(2,0)", "(0,1)(0,2)" + steps(0, 64, start=4), "-", "-"),
    "A 64x4 T": (mfma([64, 4, 4]), [64, 4], "(0,1)(0,2)", steps(0, 64), "-", "-"),
    "A f64": (
        mfma([16, 16, 4], False, bits=64),
        [16, 16],
        "(4,0)(8,0)",
        "(0,1)(0,2)(0,4)(0,8)(1,0)(2,0)",
        "-",
        "-",
    ),
    "A f64 T": (mfma([16, 16, 4], bits=64), [16, 16], "(0,4)(0,8)", "(1,0)(2,0)(4,0)(8,0)(0,1)(0,2)", "-", "-"),
    "A 2x2": (
        mfma([16, 16, 32], warps=[2, 2]),
        [128, 128],
        "(0,1)(0,2)(0,32)(0,64)(32,0)(64,0)",
        A16,
        "(0,16)(16,0)",
        "-",
    ),
    "A 4x1": (
        mfma([16, 16, 32], warps=[4, 1]),
        [128, 128],
        "(0,1)(0,2)(0,16)(0,32)(0,64)(64,0)",
        A16,
        "(16,0)(32,0)",
        "-",
    ),
    "A 1x4": (mfma([16, 16, 32], warps=[1, 4]), [64, 64], "(0,1)(0,2)(16,0)(32,0)", A16, "(0,16)(0,32)", "-"),
    "A tiles": (
        mfma([16, 16, 32], warps=[2, 2], tiles=[2, 2]),
        [128, 128],
        "(0,1)(0,2)(0,16)(0,64)(16,0)(64,0)",
        A16,
        "(0,32)(32,0)",
        "-",
    ),
    "A 256": (
        mfma([16, 16, 32], warps=[2, 2]),
        [256, 256],
        "(0,1)(0,2)(0,32)(0,64)(0,128)(32,0)(64,0)(128,0)",
        A16,
        "(0,16)(16,0)",
        "-",
    ),
    "A small": (mfma([16, 16, 32], warps=[2, 2]), [16, 16], "(0,1)(0,2)", A16, "(0,0)(0,0)", "-"),
    "W repeats": (
        AMDWMMALayout(3, True, [[0, 1], [1, 0]], [[0, 2], [2, 0]], [16, 16, 32]),
        [64, 64],
        "(0,1)(0,2)(0,4)(0,32)(32,0)",
        "(1,0)(2,0)(4,0)(8,0)(0,8)",
        "(0,16)(16,0)",
        "-",
    ),
    "W wraps": (
        AMDWMMALayout(3, True, [[0, 1], [1, 0]], [[0, 2], [2, 0]], [16, 16, 32]),
        [128, 128],
        "(0,1)(0,2)(0,4)(0,32)(32,0)(0,64)(64,0)",
        "(1,0)(2,0)(4,0)(8,0)(0,8)",
        "(0,16)(16,0)",
        "-",
    ),
    "W operand": (
        Dot(0, AMDWMMALayout(3, True, [[0, 1], [1, 0]], [[0, 2], [2, 0]], [16, 16, 32]), 8),
        [64, 32],
        "(0,1)(0,2)(0,4)(0,16)(32,0)",
        "(1,0)(2,0)(4,0)(8,0)(0,8)",
        "(0,0)(16,0)",
        "-",
    ),
    "W v2": (
        AMDWMMALayout(2, True, [[0, 1], [0, 2]]),
        [64, 64],
        "(0,1)(0,2)(0,4)(16,0)(32,0)",
        "(1,0)(2,0)(4,0)(8,0)(0,8)",
        "(0,16)(0,32)",
        "-",
    ),
    "W cluster": (
        AMDWMMALayout(2, True, [[0, 1], [1, 0]], cga_layout=[[1, 0]]),
        [64, 32],
        "(0,1)(0,2)(0,4)",
        "(1,0)(2,0)(4,0)(8,0)(0,8)",
        "(0,16)(16,0)",
        "(32,0)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_map_of_a_fragment(name: str) -> None:
    layout, shape, register, lane, warp, block = EXAMPLES[name]
    expected = {"register": register, "lane": lane, "warp": warp, "block": block}
    assert layout.linear(shape).bases == {key: parse(text, len(shape)) for key, text in expected.items()}


@pytest.mark.parametrize(
    ("width", "a_register", "a_lane", "b_register", "b_lane"),
    [
        (1, "(8,0)(0,4)(0,8)(0,16)(0,32)", "(0,1)(0,2)", "(4,0)(8,0)(16,0)(32,0)", "(1,0)(2,0)"),
        (2, "(0,1)(8,0)(0,8)(0,16)(0,32)", "(0,2)(0,4)", "(1,0)(8,0)(16,0)(32,0)", "(2,0)(4,0)"),
        (4, "(0,1)(0,2)(8,0)(0,16)(0,32)", "(0,4)(0,8)", "(1,0)(2,0)(16,0)(32,0)", "(4,0)(8,0)"),
        (8, "(0,1)(0,2)(0,4)(8,0)(0,32)", "(0,8)(0,16)", "(1,0)(2,0)(4,0)(32,0)", "(8,0)(16,0)"),
    ],
)
def test_operands_of_every_width(width, a_register, a_lane, b_register, b_lane):
    a, b = Dot(0, M22, width).linear([32, 64]).bases, Dot(1, M22, width).linear([64, 16]).bases
    assert a["register"] == parse(a_register, 2)
    assert a["lane"] == parse(a_lane + "(1,0)(2,0)(4,0)", 2)
    assert b["register"] == parse(b_register, 2)
    assert b["lane"] == parse(b_lane + "(0,1)(0,2)(0,4)", 2)
    assert (a["warp"], b["warp"]) == ([[0, 0], [16, 0]], [[0, 8], [0, 0]])


def test_elements_of_an_nvidia_accumulator():
    linear = v3([4, 1], 64).linear([64, 64])
    assert linear.apply(warp=2, lane=13, register=7) == (43, 11)
    assert M22.linear([64, 64]).apply(warp=3, lane=31, register=31) == (63, 63)
    for lane, register in ((0, 0), (13, 7), (31, 31)):
        group, thread = lane >> 2, lane & 3
        row = 16 * 2 + group + 8 * ((register >> 1) & 1)
        assert linear.apply(warp=2, lane=lane, register=register) == (
            row,
            2 * thread + (register & 1) + 8 * (register >> 2),
        )


def test_elements_of_an_mfma_accumulator():
    def held(layout, shape, lane):
        linear = layout.linear(shape)
        return [linear.apply(lane=lane, register=register) for register in range(linear.size("register"))]

    assert held(mfma([16, 16, 16], version=3), [16, 16], 37) == [(5, column) for column in (8, 9, 10, 11)]
    assert held(mfma([16, 16, 16], False), [16, 16], 37) == [(row, 5) for row in (8, 9, 10, 11)]
    assert held(mfma([32, 32, 8]), [32, 32], 37)[6] == (5, 14)
    assert held(mfma([32, 32, 8], False), [32, 32], 5)[15] == (27, 5)
    assert held(mfma([16, 16, 4], False, bits=64), [16, 16], 37) == [(row, 5) for row in (2, 6, 10, 14)]
    assert held(mfma([4, 64, 4]), [4, 64], 37) == [(1, column) for column in range(36, 40)]
    inverse = mfma([16, 16, 16]).linear([16, 16]).inverse()
    assert inverse.apply(dim0=9, dim1=6)[:2] == (2, 25)
    inverse = mfma([16, 16, 16], False).linear([16, 16]).inverse()
    assert inverse.apply(dim0=9, dim1=6)[:2] == (1, 38)
    large = mfma([16, 16, 32], warps=[2, 2]).linear([256, 256])
    assert [large.apply(warp=3, register=register) for register in (0, 4, 32)] == [(16, 16), (16, 48), (48, 16)]


MFMA_OPERANDS = [
    ([16, 16, 16], 4, 16),
    ([32, 32, 8], 4, 8),
    ([16, 16, 16], 8, 32),
    ([16, 16, 32], 8, 32),
    ([32, 32, 16], 8, 16),
    ([16, 16, 4], 1, 4),
    ([16, 16, 32], 4, 32),
    ([16, 16, 32], 8, 64),
    ([16, 16, 64], 16, 64),
    ([16, 16, 128], 32, 128),
    ([16, 16, 128], 16, 128),
    ([16, 16, 128], 16, 64),
    ([32, 32, 64], 32, 64),
    ([32, 32, 64], 16, 64),
]


@pytest.mark.parametrize(("shape", "width", "depth"), MFMA_OPERANDS)
def test_operands_of_mfma_follow_the_instruction(shape, width, depth):
    size = shape[0]
    groups = 64 // size
    lane, register = np.meshgrid(np.arange(64), np.arange(size * depth // 64), indexing="ij")
    k = width * (lane // size) + register % width + width * groups * (register // width)
    a = Dot(0, mfma(shape), width).linear([size, depth])
    assert np.array_equal(a.apply_flat(lane=lane, register=register), lane % size * depth + k)
    b = Dot(1, mfma(shape), width).linear([depth, size])
    assert np.array_equal(b.apply_flat(lane=lane, register=register), k * size + lane % size)


@pytest.mark.parametrize(
    ("version", "shape", "width", "depth", "k"),
    [
        (1, [16, 16, 16], 16, 16, lambda lane, r: r),
        (2, [16, 16, 16], 8, 16, lambda lane, r: r + 8 * (lane // 16)),
        (2, [16, 16, 16], 4, 16, lambda lane, r: r % 4 + 4 * (lane // 16) + 8 * (r // 4)),
        (3, [16, 16, 4], 2, 4, lambda lane, r: r + 2 * (lane // 16)),
        (3, [16, 16, 32], 8, 32, lambda lane, r: r % 8 + 8 * (lane // 16) + 16 * (r // 8)),
        (3, [16, 16, 64], 8, 64, lambda lane, r: r % 8 + 8 * (lane // 16) + 16 * (r // 8)),
        (3, [16, 16, 64], 16, 64, lambda lane, r: r % 16 + 16 * (lane // 16) + 32 * (r // 16)),
        (3, [16, 16, 128], 16, 128, lambda lane, r: r % 16 + 16 * (lane // 16) + 32 * (r // 16)),
    ],
)
def test_operands_of_wmma_follow_the_instruction(version, shape, width, depth, k):
    layout = AMDWMMALayout(version, False, [], [], shape)
    a = Dot(0, layout, width).linear([16, depth])
    b = Dot(1, layout, width).linear([depth, 16])
    lane, register = np.meshgrid(np.arange(32), np.arange(a.size("register")), indexing="ij")
    assert np.array_equal(a.apply_flat(lane=lane, register=register), lane % 16 * depth + k(lane, register))
    assert np.array_equal(b.apply_flat(lane=lane, register=register), k(lane, register) * 16 + lane % 16)


@pytest.mark.parametrize(
    ("version", "shape", "row"),
    [
        (1, [16, 16, 16], lambda lane, r: 2 * r + lane // 16),
        (2, [16, 16, 16], lambda lane, r: r + 8 * (lane // 16)),
        (3, [16, 16, 32], lambda lane, r: r + 8 * (lane // 16)),
        (3, [32, 16, 128], lambda lane, r: r % 8 + 8 * (lane // 16) + 16 * (r // 8)),
    ],
)
def test_accumulators_of_wmma_follow_the_instruction(version, shape, row):
    plain = AMDWMMALayout(version, False, [], [], shape).linear(shape[:2])
    exchanged = AMDWMMALayout(version, True, [], [], shape).linear(shape[1::-1])
    lane, register = np.meshgrid(np.arange(32), np.arange(shape[0] // 2), indexing="ij")
    rows, column = row(lane, register), lane % 16
    assert np.array_equal(plain.apply_flat(lane=lane, register=register), rows * 16 + column)
    assert np.array_equal(exchanged.apply_flat(lane=lane, register=register), column * shape[0] + rows)


def test_operands_of_the_asymmetric_wmma():
    layout = AMDWMMALayout(3, False, [], [], [32, 16, 64])
    a = Dot(0, layout, 16).linear([32, 64])
    lane, register = np.meshgrid(np.arange(32), np.arange(64), indexing="ij")
    k = register % 16 + 16 * (lane // 16) + 32 * (register // 16 % 2)
    assert np.array_equal(a.apply_flat(lane=lane, register=register), (lane % 16 + 16 * (register // 32)) * 64 + k)
    square = Dot(1, AMDWMMALayout(3, False, [], [], [16, 16, 64]), 16)
    assert Dot(1, layout, 16).linear([64, 16]) == square.linear([64, 16])
    exchanged = Dot(1, AMDWMMALayout(3, True, [], [], [32, 16, 64]), 16).linear([64, 16]).bases
    assert exchanged["register"] == [*square.linear([64, 16]).bases["register"], [0, 0]]


def test_spellings_compare_equal():
    assert v2(4, 1) == NVMMADistributedLayout((2, 0), (4, 1), (16, 8), [])
    assert hash(v2(4, 1)) == hash(NVMMADistributedLayout((2, 0), (4, 1), (16, 8)))
    assert mfma([16, 16, 32]) == AMDMFMALayout(4, (16, 16, 32), True, (1, 1), None, (1, 1))
    assert AMDWMMALayout(1, False, [[0, 1]]) == AMDWMMALayout(1, False, ((0, 1),), (), (16, 16, 16), (), 2)
    assert AutoLayout() == AutoLayout() != CoalescedLayout()
    layouts = [M, M22, Dot(0, M, 2), Dot(1, M, 2), Dot(0, M, 4), mfma([16, 16, 32]), mfma([16, 16, 16])]
    layouts += [mfma([16, 16, 32], False), AMDWMMALayout(1, False, []), AMDWMMALayout(1, False, [[0, 1]])]
    layouts += [AMDWMMALayout(1, False, [], [[0, 1]]), AutoLayout(), CoalescedLayout(), v2(4, 1, cga=[[0, 0]])]
    assert len({layout.mangle() for layout in layouts}) == len(layouts)
    assert all(layout.type == type(layout.type)(layout) for layout in layouts)
    for layout in layouts:
        assert eval(repr(layout)) == layout


def test_operands_know_their_parent():
    layout = Dot(1, v2(2, 2, cga=[[1, 1], [0, 2]]), 2)
    assert (layout.rank, layout.lanes, layout.warps, layout.ctas) == (2, 32, 4, 4)
    assert layout.cga_layout == ((0, 1), (0, 2))
    assert Dot(0, v2(2, 2, cga=[[1, 1], [0, 2]]), 2).cga_layout == ((1, 0), (0, 0))
    assert (mfma([16, 16, 32], warps=[2, 4]).lanes, mfma([16, 16, 32], warps=[2, 4]).warps) == (64, 8)
    assert AMDWMMALayout(2, True, [[0, 1], [1, 0], [2, 0]]).warps == 8


@pytest.mark.parametrize(
    ("make", "shape", "error", "message"),
    [
        (lambda: Dot(2, M, 2), [16, 16], RuntimeError, "operand_index must be 0 or 1"),
        (lambda: Dot(0, SliceLayout(0, M), 2), [16], LayoutError, "must be the layout of an accumulator"),
        (lambda: Dot(0, B1, 1), [16, 16], RuntimeError, "not supported when the parent is a blocked layout"),
        (lambda: Dot(0, Blk([1], [32], [4], [0]), 0), [16], LayoutError, "at least two dimensions"),
        (lambda: Dot(0, M, 3), [16, 16], LayoutError, "k_width is 3, which must be a power of two"),
        (lambda: Dot(1, v3([4, 1], 64), 2), [16, 64], RuntimeError, "operand_index must be 0 for a version 3 parent"),
        (lambda: v3([4, 1], 24), [64, 64], ValueError, "N must be a power of two between 8 and 256"),
        (lambda: v3([4, 1, 1], 64), [1, 64, 64], ValueError, "and the rank 2"),
        (lambda: NVMMADistributedLayout([2, 0], [4, 1], [16, 16]), [64, 64], ValueError, r"must be \[16, 8\]"),
        (lambda: NVMMADistributedLayout([5, 0], [4, 1], [16, 8]), [64, 64], ValueError, "version .* must be 2 or 3"),
        (lambda: NVMMADistributedLayout([2], [4, 1], [16, 8]), [64, 64], AssertionError, "major, minor"),
        (lambda: v2(3, 1), [64, 64], ValueError, "must be a power of two"),
        (lambda: v2(4, 1, cga=[[1]]), [64, 64], AssertionError, "basis rank mismatch"),
        (lambda: mfma([16, 16, 32], version=5), [16, 16], AssertionError, r"version must be in the \[1, 4\] range"),
        (lambda: mfma([16, 16]), [16, 16], AssertionError, r"must follow the \(M, N, K\) format"),
        (lambda: mfma([16, 32, 8]), [16, 16], AssertionError, "invalid intrinsic shape"),
        (lambda: mfma([16, 16, 8], bits=16), [16, 16], AssertionError, "element bitwidth must be 32 or 64"),
        (lambda: AMDMFMALayout(4, [16, 16, 32], True, [1, 1], cga_layout=[[1]]), [16, 16], AssertionError, "mismatch"),
        (lambda: AMDWMMALayout(4, True, []), [16, 16], AssertionError, r"version must be in the \[1, 3\] range"),
        (lambda: AMDWMMALayout(3, True, [[1]]), [16, 16], AssertionError, "rank mismatch"),
        (lambda: AMDWMMALayout(3, True, []), [16, 16], ValueError, "invalid WMMA v3 instruction shape"),
        (lambda: AMDWMMALayout(2, True, [[0, 2]]), [16, 64], ValueError, "expected to be surjective"),
        (lambda: Dot(0, AMDWMMALayout(2, True, []), 2), [16, 16], ValueError, "4 or 8 or 16, not 2"),
        (AutoLayout, [16], ValueError, "AutoLayout has no map"),
        (CoalescedLayout, [16], ValueError, "CoalescedLayout has no map"),
    ],
)  # fmt: skip
def test_mistakes(make, shape, error, message):
    with pytest.raises(error, match=message) as caught:
        make().linear(shape)
    assert isinstance(caught.value, LayoutError)


@pytest.mark.parametrize("layout", [AutoLayout(), CoalescedLayout()])
def test_placeholders_have_nothing_to_show(layout):
    for read in ("rank", "lanes", "warps", "cga_layout"):
        with pytest.raises(ValueError, match=f"{type(layout).__name__} has no"):
            getattr(layout, read)
    for view in (layout.format_tensor_view, layout.format_hardware_view):
        with pytest.raises(ValueError, match="cannot be visualized"):
            view([16])
