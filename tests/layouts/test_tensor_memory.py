"""Tensor memory: maps measured on the language's first implementation."""

import pytest

from glueball.errors import LayoutError
from glueball.layouts import (
    TensorMemoryLayout,
    TensorMemoryLinearLayout,
    TensorMemoryScalesLayout,
    tensor_memory_register_layout,
)
from tests.layouts.test_matrix_layouts import steps
from tests.layouts.test_worked_examples import parse

T = TensorMemoryLayout
S = TensorMemoryScalesLayout
ALL = steps(0, 128)
HALF = "(1,0)(2,0)(4,0)(8,0){}(16,0)(32,0)"
QUARTER = "(1,0)(2,0)(4,0)(8,0)(16,0)(0,0)(0,0)"

EXAMPLES = {
    "one block": (T((128, 128), 1), [128, 128], ALL, steps(1, 128), "-"),
    "blocks across": (T((128, 64), 1), [128, 256], ALL, steps(1, 256), "-"),
    "blocks down": (T((128, 64), 1), [256, 64], ALL, steps(1, 64) + "(128,0)", "-"),
    "blocks both ways": (T((128, 64), 1), [256, 256], ALL, steps(1, 64) + "(128,0)(0,64)(0,128)", "-"),
    "64 rows": (T((64, 64), 1), [64, 64], HALF.format("(0,0)"), steps(1, 64), "-"),
    "64 rows across": (T((64, 64), 1), [64, 128], HALF.format("(0,64)"), steps(1, 64), "-"),
    "64 rows down": (T((64, 64), 1), [128, 128], HALF.format("(64,0)"), steps(1, 128), "-"),
    "unpacked": (T((128, 64), 2), [128, 64], ALL, "(0,0)" + steps(1, 64), "-"),
    "two CTAs": (T((128, 128), 1, [[1, 0]], True), [256, 128], ALL, steps(1, 128), "(128,0)"),
    "two CTAs, 64 rows": (T((64, 128), 1, [[1, 0]], True), [128, 128], steps(0, 64) + "(0,64)", steps(1, 64), "(64,0)"),
    "fp4": (T((128, 64), 1, fp4_padded=True), [128, 64], ALL, "(0,0)" + steps(1, 64), "-"),
    "scales 128x4": (S(), [128, 4], QUARTER, "(0,1)(0,2)(32,0)(64,0)", "-"),
    "scales 128x8": (S(), [128, 8], QUARTER, "(0,1)(0,2)(32,0)(64,0)(0,4)", "-"),
    "scales 256x4": (S(), [256, 4], QUARTER, "(0,1)(0,2)(32,0)(64,0)(128,0)", "-"),
    "scales 64x4": (S(), [64, 4], QUARTER, "(0,1)(0,2)(32,0)", "-"),
    "scales 32x4": (S(), [32, 4], QUARTER, "(0,1)(0,2)(0,0)", "-"),
    "scales 256x8": (S(), [256, 8], QUARTER, "(0,1)(0,2)(32,0)(64,0)(128,0)(0,4)", "-"),
    "scales along K": (S(block_rep_order="kThenMn"), [256, 8], QUARTER, "(0,1)(0,2)(32,0)(64,0)(0,4)(128,0)", "-"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_map_of_a_layout(name: str) -> None:
    layout, shape, row, column, block = EXAMPLES[name]
    linear = layout.linear(shape)
    assert linear.bases == {"row": parse(row, 2), "column": parse(column, 2), "block": parse(block, 2)}
    if block == "-":
        explicit = TensorMemoryLinearLayout(linear.bases["row"], linear.bases["column"], shape)
        assert explicit.linear(shape) == linear
        assert (explicit.rank, explicit.cga_layout) == (2, ())


def test_spellings_compare_equal():
    layouts = [layout for layout, *_ in EXAMPLES.values()]
    layouts.append(TensorMemoryLinearLayout([[1]], [[2]], [4]))
    assert len({layout.mangle() for layout in layouts}) == len(set(layouts))
    assert T([64, 64], 1, []) == T((64, 64), 1)
    for layout in layouts:
        assert eval(repr(layout)) == layout
        assert layout.rank in (1, 2)
    assert T((128, 64), 1, [[1, 0]]).ctas == 2


@pytest.mark.parametrize(
    ("make", "shape", "error", "message"),
    [
        (lambda: T((32, 64), 1), [32, 64], AssertionError, "must be 64 or 128"),
        (lambda: T((64,), 1), [64, 64], AssertionError, r"must be \(M, N\)"),
        (lambda: T((64, 48), 1), [64, 64], AssertionError, "N of block must be a power of two"),
        (lambda: T((64, 1024), 1), [64, 64], AssertionError, "at most 512"),
        (lambda: T((64, 64), 3), [64, 64], AssertionError, "col_stride must be a power of two"),
        (lambda: T((128, 64), 1), [64, 64], ValueError, "fewer rows than one block"),
        (lambda: T((128, 64), 1), [2, 128, 64], ValueError, "has rank 3, its layout 2"),
        (lambda: S(block_rep_order="rows"), [128, 4], AssertionError, "block_rep_order must be"),
        (lambda: TensorMemoryLinearLayout([[1]], [[2]], [4]), [8], ValueError, "one of a tensor of"),
    ],
)
def test_mistakes(make, shape, error, message):
    with pytest.raises(error, match=message) as caught:
        make().linear(shape)
    assert isinstance(caught.value, LayoutError)


WIDE, NARROW = T((128, 64), 1), T((64, 64), 1)
ROW, FRAGMENT = "(1,0)(2,0)(4,0)", "(0,2)(0,4)(1,0)(2,0)(4,0)"
PAIR = "(32,0)(64,0)"


@pytest.mark.parametrize(
    ("layout", "shape", "warps", "variant", "register", "lane", "warp"),
    [
        (WIDE, [128, 64], 4, "32x32b", steps(1, 64), steps(0, 32), PAIR),
        (WIDE, [128, 64], 8, "32x32b", steps(1, 32), steps(0, 32), PAIR + "(0,32)"),
        (WIDE, [128, 64], 4, "16x64b", steps(1, 64, start=2) + "(16,0)", "(8,0)(0,1)" + ROW, PAIR),
        (WIDE, [128, 64], 4, "16x128b", "(8,0)" + steps(1, 64, start=4) + "(16,0)", "(0,1)(0,2)" + ROW, PAIR),
        (WIDE, [128, 64], 4, "16x256b", "(0,1)(8,0)" + steps(1, 64, start=8) + "(16,0)", FRAGMENT, PAIR),
        (NARROW, [64, 64], 4, "32x32b", steps(1, 32), ROW + "(8,0)(0,32)", "(16,0)(32,0)"),
        (NARROW, [64, 128], 4, "32x32b", steps(1, 64), ROW + "(8,0)(0,64)", "(16,0)(32,0)"),
        (WIDE, [128, 64], 8, "32x32b_splitn", steps(1, 16) + "(0,32)", steps(0, 32), PAIR + "(0,16)"),
        (WIDE, [256, 64], 4, "32x32b", steps(1, 64) + "(128,0)", steps(0, 32), PAIR),
    ],
)
def test_register_layouts(layout, shape, warps, variant, register, lane, warp):
    found = tensor_memory_register_layout(layout, shape, 32, warps, variant).linear(shape)
    expected = {"register": register, "lane": lane, "warp": warp, "block": "-"}
    assert found.bases == {name: parse(text, 2) for name, text in expected.items()}


def test_register_layouts_of_narrow_elements_and_clusters():
    packed = tensor_memory_register_layout(WIDE, [128, 64], 16, 4, "16x64b").linear([128, 64]).bases
    assert packed["register"][:2] == [[0, 1], [0, 4]]
    assert packed["lane"][1] == [0, 2]
    spread = tensor_memory_register_layout(T((128, 64), 2), [128, 64], 16, 4).linear([128, 64])
    assert spread.bases["register"] == parse(steps(1, 64), 2)
    both = tensor_memory_register_layout(T((128, 128), 1, [[1, 0]], True), [256, 128], 32, 4).linear([256, 128])
    assert both.bases["block"] == [[128, 0]]
    assert both.is_injective()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([128, 64], 32, 4, "16x32bx2"), "cannot be requested explicitly"),
        (([128, 64], 32, 4, "16x32b"), "unknown instr_variant"),
        (([128, 64], 32, 4, "16x64b_splitn"), "unknown instr_variant"),
        (([128, 64], 32, 2, "32x32b"), "num_warps must be a power of two and >= 4"),
        (([128, 4], 32, 4, "16x256b"), "TMEM layout '16x256b' unsupported for shape"),
        (([128, 2], 32, 16, "32x32b"), "TMEM layout '32x32b' unsupported for shape"),
    ],
)
def test_accesses_that_do_not_exist(arguments, message):
    with pytest.raises(LayoutError, match=message):
        tensor_memory_register_layout(WIDE, *arguments)
