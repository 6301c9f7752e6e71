"""Scales of block-scaled products and partitioned operands: maps measured on the language's first implementation."""

import itertools

import pytest

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    AMDWMMALayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    PaddedSharedLayout,
    mfma_scale_layout,
    partitioned_matrix_layouts,
    wmma_scale_layout,
)
from tests.layouts.test_worked_examples import parse

MFMA = AMDMFMALayout(4, [16, 16, 128], True, [2, 2])
LARGE = AMDMFMALayout(4, [32, 32, 64], True, [2, 2])
WMMA = AMDWMMALayout(3, True, [[0, 1], [1, 0]], [], [16, 16, 128])
ROWS = "(1,0)(2,0)(4,0)(8,0)"


@pytest.mark.parametrize(
    ("make", "parent", "index", "shape", "factor", "register", "lane", "warp"),
    [
        (mfma_scale_layout, MFMA, 0, [32, 4], 32, "-", ROWS + "(0,1)(0,2)", "(0,0)(16,0)"),
        (mfma_scale_layout, MFMA, 0, [256, 8], 32, "(0,4)(32,0)(64,0)(128,0)", ROWS + "(0,1)(0,2)", "(0,0)(16,0)"),
        (mfma_scale_layout, MFMA, 1, [128, 8], 32, "(0,4)(32,0)(64,0)", ROWS + "(0,1)(0,2)", "(16,0)(0,0)"),
        (mfma_scale_layout, LARGE, 0, [64, 4], 32, "(0,2)", ROWS + "(16,0)(0,1)", "(0,0)(32,0)"),
        (wmma_scale_layout, WMMA, 0, [32, 4], 32, "(0,1)(0,2)", ROWS + "(0,0)", "(0,0)(16,0)"),
        (wmma_scale_layout, WMMA, 0, [32, 8], 16, "(0,1)(0,2)(0,4)", ROWS + "(0,0)", "(0,0)(16,0)"),
        (wmma_scale_layout, WMMA, 0, [64, 8], 32, "(0,1)(0,2)(0,4)", ROWS + "(32,0)", "(0,0)(16,0)"),
        (wmma_scale_layout, WMMA, 1, [128, 4], 32, "(0,1)(0,2)(64,0)", ROWS + "(32,0)", "(16,0)(0,0)"),
    ],
)
def test_scale_layouts(make, parent, index, shape, factor, register, lane, warp):
    found = make(DotOperandLayout(index, parent, 16), shape, factor)
    expected = {"register": register, "lane": lane, "warp": warp, "block": "-"}
    assert found.linear(shape).bases == {name: parse(text, 2) for name, text in expected.items()}


@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("block", [(128, 64), (256, 256), (256, 128)])
@pytest.mark.parametrize("instruction", [[16, 16, 128], [32, 16, 128]])
@pytest.mark.parametrize("result_transposed", [False, True])
def test_partitioned_products_cover_every_tile_once(num_warps, block, instruction, result_transposed):
    depth = 128
    shared = (
        PaddedSharedLayout.with_identity_for([[depth, 16]], [block[0] // 2, depth], [1, 0]),
        PaddedSharedLayout.with_identity_for([[depth, 16]], [depth, block[1] // 2], [0, 1]),
    )
    a, b, layout = partitioned_matrix_layouts(
        block, shared, num_warps, instruction, result_transposed=result_transposed
    )
    tile = layout.tile_shape()
    bases = [*layout.warp_bases, *layout.reg_bases]
    covered = set()
    for chosen in itertools.product((0, 1), repeat=len(bases)):
        at = [0, 0]
        for taken, basis in zip(chosen, bases, strict=True):
            at = [at[0] ^ taken * basis[0], at[1] ^ taken * basis[1]]
        covered.add(tuple(at))
    assert len(covered) == 1 << len(bases) == (block[0] // tile[0]) * (block[1] // tile[1])
    assert layout.linear(block).is_injective()
    assert layout.warps == num_warps
    assert (a.num_partitions, a.num_groups, a.partition_dim) == (2, 1, 0)
    assert (b.num_partitions, b.num_groups, b.partition_dim) == (2, 1, 1)
    assert a.linear([block[0], depth]).is_injective()
    assert b.linear([depth, block[1]]).is_injective()
    # The two halves of the warps read different partitions of A.
    warps = DotOperandLayout(0, layout, 16).linear([block[0], depth]).bases["warp"]
    assert warps[0][0] == block[0] // 2


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: mfma_scale_layout(DotOperandLayout(0, MFMA, 16), [32, 4], 16), "Only scale factor 32"),
        (lambda: mfma_scale_layout(DotOperandLayout(0, WMMA, 16), [32, 4]), "need an AMDMFMALayout"),
        (lambda: wmma_scale_layout(DotOperandLayout(0, WMMA, 16), [32, 4], 64), "is 16 or 32, not 64"),
        (
            lambda: wmma_scale_layout(DotOperandLayout(0, NVMMADistributedLayout([2, 0], [4, 1], [16, 8]), 2), [32, 4]),
            "need an AMDWMMALayout",
        ),
        (lambda: partitioned_matrix_layouts((128, 128), (None, None), 2, [16, 16, 128]), "Only 4 or 8 warps"),
        (lambda: partitioned_matrix_layouts((32, 128), (None, None), 4, [16, 16, 128]), "fewer than 4 x 2"),
    ],
)
def test_mistakes(operation, message):
    with pytest.raises(LayoutError, match=message):
        operation()
