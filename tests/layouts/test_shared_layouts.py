"""Shared-memory layouts: maps measured on the language's first implementation, and the formulas behind them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    BlockedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    PartitionedSharedLayout,
    SharedLinearLayout,
    SwizzledSharedLayout,
    permute_shared_layout,
    reshape_shared_layout,
    to_shared_linear,
)
from tests.layouts.strategies import split_bits
from tests.layouts.test_matrix_layouts import steps
from tests.layouts.test_worked_examples import parse

Swz = SwizzledSharedLayout
NV = NVMMASharedLayout
Padded = PaddedSharedLayout


def columns(stop, start=1):
    return steps(1, stop, start=start)


def rows(stop, start=1):
    return steps(0, stop, start=start)


H5 = columns(64) + "(1,8)(2,16)(4,32)(8,0)"
N1 = H5 + "(16,0)(32,0)"
FP4 = "(0,1)(0,2)(0,4)(0,0)(0,8)(0,16)(0,32)(1,8)(2,16)(4,32)(8,0)"

EXAMPLES = {
    "H1": (Swz(1, 1, 1, [1, 0]), [4, 8], columns(8) + rows(4), "-", 16),
    "H2": (Swz(1, 1, 1, [0, 1]), [4, 8], rows(4) + columns(8), "-", 16),
    "H3": (Swz(8, 4, 2, [1, 0]), [16, 16], columns(16) + "(1,0)(2,0)(4,8)(8,0)", "-", 16),
    "H4": (Swz(4, 2, 4, [1, 0]), [32, 32], columns(32) + "(1,0)(2,4)(4,8)(8,0)(16,0)", "-", 16),
    "H5": (Swz(8, 1, 8, [1, 0]), [16, 64], H5, "-", 16),
    "H6": (Swz(8, 1, 8, [0, 1]), [64, 16], rows(64) + "(8,1)(16,2)(32,4)(0,8)", "-", 16),
    "H7": (Swz(8, 1, 8, [1, 0]), [4, 64], columns(64) + "(1,8)(2,16)", "-", 16),
    "H8": (Swz(8, 1, 8, [1, 0]), [16, 16], columns(16) + "(1,8)(2,0)(4,0)(8,0)", "-", 16),
    "H9": (Swz(8, 1, 16, [1, 0]), [16, 64], H5, "-", 16),
    "H10": (
        Swz(4, 1, 4, [2, 1, 0]),
        [2, 8, 16],
        "(0,0,1)(0,0,2)(0,0,4)(0,0,8)(0,1,4)(0,2,8)(0,4,0)(1,0,0)",
        "-",
        16,
    ),
    "H11": (Swz(8, 1, 8, [1, 0], [[1, 0]]), [32, 64], H5, "(16,0)", 16),
    "N1": (NV(128, 16), [64, 64], N1, "-", 1024),
    "N2": (NV(128, 16), [16, 128], H5 + "(0,64)", "-", 1024),
    "N3": (NV(64, 16), [16, 32], columns(32) + "(1,0)(2,8)(4,16)(8,0)", "-", 512),
    "N4": (NV(32, 16), [16, 16], columns(16) + "(1,0)(2,0)(4,8)(8,0)", "-", 256),
    "N5": (NV(0, 16), [16, 16], columns(16) + rows(16), "-", 128),
    "N6": (NV(128, 8), [16, 128], columns(128) + "(1,16)(2,32)(4,64)(8,0)", "-", 1024),
    "N7": (NV(128, 32), [16, 32], columns(32) + "(1,4)(2,8)(4,16)(8,0)", "-", 1024),
    "N8": (NV(128, 64), [8, 16], columns(16) + "(1,2)(2,4)(4,8)", "-", 1024),
    "N9": (NV(64, 8), [16, 128], columns(64) + "(1,0)(2,16)(4,32)(8,0)(0,64)", "-", 512),
    "N10": (NV(128, 8, fp4_padded=True), [16, 64], FP4, "-", 1024),
    "N11": (NV(128, 16, transposed=True), [64, 64], rows(64) + "(8,1)(16,2)(32,4)(0,8)(0,16)(0,32)", "-", 1024),
    "N12": (
        NV(128, 16, rank=3),
        [2, 8, 64],
        steps(2, 64, rank=3) + "(0,1,8)(0,2,16)(0,4,32)(1,0,0)",
        "-",
        1024,
    ),
    "N13": (
        NV(128, 16, rank=3, transposed=True),
        [64, 2, 8],
        steps(0, 64, rank=3) + "(8,0,2)(16,0,4)(32,1,0)(0,0,1)",
        "-",
        1024,
    ),
    "N14": (NV(128, 16, cga_layout=[[1, 0]]), [128, 64], N1, "(64,0)", 1024),
    "N15": (NV(128, 16, cga_layout=[[0, 0]]), [64, 64], N1, "(0,0)", 1024),
    "N16": (NV(0, 16, rank=1), [128], "1 2 4 8 16 32 64", "-", 128),
    "W0": (NV(0, 16), [64, 128], columns(128) + rows(64), "-", 128),
    "W0 boxes": (NV(0, 8), [512, 512], columns(256) + rows(256) + "(0,256)(256,0)", "-", 128),
    "W0 wide": (NV(0, 16), [128, 512], columns(256) + rows(128) + "(0,256)", "-", 128),
    "W32 b8": (NV(32, 8), [64, 128], columns(32) + "(1,0)(2,0)(4,16)(8,0)(16,0)(32,0)(0,32)(0,64)", "-", 256),
    "W32 b16": (NV(32, 16), [64, 128], columns(16) + "(1,0)(2,0)(4,8)" + rows(64, 8) + columns(128, 16), "-", 256),
    "W32 b32": (NV(32, 32), [64, 128], columns(8) + "(1,0)(2,0)(4,4)" + rows(64, 8) + columns(128, 8), "-", 256),
    "W64 b16": (NV(64, 16), [64, 128], columns(32) + "(1,0)(2,8)(4,16)" + rows(64, 8) + columns(128, 32), "-", 512),
    "W64 b32": (NV(64, 32), [64, 128], columns(16) + "(1,0)(2,4)(4,8)" + rows(64, 8) + columns(128, 16), "-", 512),
    "W128 b32": (
        NV(128, 32),
        [128, 128],
        columns(32) + "(1,4)(2,8)(4,16)" + rows(128, 8) + columns(128, 32),
        "-",
        1024,
    ),
    "W128 tall": (NV(128, 16), [512, 128], columns(64) + "(1,8)(2,16)(4,32)" + rows(512, 8) + "(0,64)", "-", 1024),
    "W128 T": (
        NV(128, 16, transposed=True),
        [128, 128],
        rows(64) + "(8,1)(16,2)(32,4)" + columns(128, 8) + "(64,0)",
        "-",
        1024,
    ),
    "W64 T": (
        NV(64, 16, transposed=True),
        [64, 128],
        rows(32) + "(0,1)(8,2)(16,4)" + columns(128, 8) + "(32,0)",
        "-",
        512,
    ),
    "W32 T": (
        NV(32, 16, transposed=True),
        [64, 128],
        rows(16) + "(0,1)(0,2)(8,4)" + columns(128, 8) + "(16,0)(32,0)",
        "-",
        256,
    ),
    "W fp4": (NV(128, 8, fp4_padded=True), [64, 64], FP4 + "(16,0)(32,0)", "-", 1024),
    "W cluster": (NV(128, 16, cga_layout=[[1, 0], [0, 1]]), [128, 128], N1, "(64,0)(0,64)", 1024),
    "W copies": (NV(128, 16, cga_layout=[[1, 0], [0, 0]]), [128, 64], N1, "(64,0)(0,0)", 1024),
    "W rank 3": (
        NV(128, 16, rank=3),
        [4, 16, 128],
        steps(2, 64, rank=3) + "(0,1,8)(0,2,16)(0,4,32)(0,8,0)(1,0,0)(2,0,0)(0,0,64)",
        "-",
        1024,
    ),
    "W rank 3 T": (
        NV(128, 16, rank=3, transposed=True),
        [64, 16, 32],
        steps(0, 64, rank=3) + "(8,0,16)(16,1,0)(32,2,0)(0,4,0)(0,8,0)(0,0,1)(0,0,2)(0,0,4)(0,0,8)",
        "-",
        1024,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_map_of_a_layout(name: str) -> None:
    layout, shape, offset, block, alignment = EXAMPLES[name]
    linear = layout.linear(shape)
    assert linear.bases == {"offset": parse(offset, len(shape)), "block": parse(block, len(shape))}
    assert layout.alignment == alignment
    explicit = to_shared_linear(layout, shape)
    assert explicit.linear(shape) == linear
    assert (explicit.alignment, explicit.shape) == (alignment, tuple(shape))


@pytest.mark.parametrize(
    ("layout", "shape", "bits", "point", "byte"),
    [
        (NV(128, 16), [128, 128], 16, (3, 17), 402),
        (NV(128, 16), [128, 128], 16, (9, 70), 17564),
        (NV(64, 16), [64, 128], 16, (6, 5), 442),
        (NV(32, 16), [64, 128], 16, (4, 3), 150),
        (NV(128, 8), [64, 128], 8, (5, 100), 692),
        (NV(128, 8, fp4_padded=True), [64, 64], 8, (2, 9), 305),
    ],
)
def test_addresses_of_elements(layout, shape, bits, point, byte):
    inverse = layout.linear(shape).pseudo_inverse()
    offset, _ = inverse.apply(dim0=point[0], dim1=point[1])
    assert offset * bits // 8 == byte


@st.composite
def swizzles(draw):
    order = draw(st.permutations([0, 1]))
    parameters = [1 << draw(st.integers(0, 4)) for _ in range(3)]
    return Swz(*parameters, order), split_bits(draw, draw(st.integers(0, 9)), 2)


@settings(max_examples=60, deadline=None)
@given(swizzles())
def test_swizzles_follow_their_formula(drawn):
    layout, shape = drawn
    linear = layout.linear(shape)
    column, row = layout.order
    for offset in range(linear.size("offset")):
        r, c = divmod(offset, shape[column])
        c ^= layout.vec * (r // layout.per_phase % layout.max_phase) % shape[column]
        point = linear.apply(offset=offset)
        assert (point[row], point[column]) == (r, c)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([32, 64, 128]), st.sampled_from([8, 16, 32]), st.integers(3, 6), st.integers(0, 2), st.booleans()
)
def test_bulk_tiles_follow_their_formula(width, bits, row_bits, chunks, transposed):
    element_bytes = bits // 8
    per_row, height = width // element_bytes, 1 << row_bits
    shape = [height, per_row << chunks]
    layout = NV(width, bits, transposed=transposed)
    linear = layout.linear(shape[::-1] if transposed else shape)
    shift, mask = {128: (0, 7), 64: (1, 3), 32: (2, 1)}[width]
    for offset in range(linear.size("offset")):
        r, c = linear.apply(offset=offset)[:: -1 if transposed else 1]
        x = c % per_row * element_bytes
        byte = c // per_row * height * width + r * width + (x ^ ((r >> shift & mask) << 4))
        assert byte == offset * element_bytes


class Type:
    """An element type, as far as layouts look at it."""

    def __init__(self, bits):
        self.primitive_bitwidth = bits


@pytest.mark.parametrize(
    ("shape", "bits", "options", "swizzle"),
    [
        ([128, 64], 16, {}, 128),
        ([128, 32], 16, {}, 64),
        ([128, 16], 16, {}, 32),
        ([128, 8], 16, {}, 0),
        ([4, 64], 16, {}, 0),
        ([64, 128], 16, {"transposed": True}, 128),
        ([32, 128], 16, {"transposed": True}, 64),
        ([128, 128], 8, {}, 128),
        ([128, 64], 32, {}, 128),
        ([128], 16, {}, 0),
        ([2, 4, 64], 16, {}, 128),
        ([128, 64], 8, {"fp4_padded": True}, 128),
        ([128, 64], 16, {"cga_layout": [[0, 1]]}, 64),
        ([256, 256], 8, {}, 128),
        ([8, 256], 64, {}, 128),
        ([2, 64, 128], 16, {"transposed": True}, 0),
    ],
)
def test_default_swizzles(shape, bits, options, swizzle):
    layout = NV.get_default_for(shape, Type(bits), **options)
    assert layout == NV(swizzle, bits, len(shape), **options)


def test_padding():
    layout = Padded.with_identity_for([[32, 4]], [16, 64], [1, 0])
    assert layout.linear([16, 64]).bases["offset"] == parse(columns(64) + rows(16), 2)
    transposed = Padded.with_identity_for([[32, 4]], [16, 64], [0, 1])
    assert transposed.linear([16, 64]).bases["offset"] == parse(rows(16) + columns(64), 2)
    split = Padded.with_identity_for([[32, 4]], [16, 64], [1, 0], [[1, 0]])
    assert split.linear([16, 64]).bases == {"offset": parse(columns(64) + rows(8), 2), "block": [[8, 0]]}
    assert [layout.address(offset) for offset in (0, 31, 32, 33, 64, 1023)] == [0, 31, 36, 37, 72, 1023 + 31 * 4]


def laid_out(layout, shape):
    """The order of elements in memory, `None` where there is padding."""
    linear = layout.linear(shape)
    memory = [None] * layout.allocated_elements()
    for offset in range(linear.size("offset")):
        memory[layout.address(offset)] = linear.apply(offset=offset)
    return memory


def test_padding_between_permuted_rows():
    memory = laid_out(Padded([[8, 1]], [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], [], [8, 4]), [8, 4])
    assert [point[0] for point in memory if point] == [x for x in (0, 2, 4, 6, 1, 3, 5, 7) for _ in range(4)]
    assert [index for index, point in enumerate(memory) if point is None] == [8, 17, 26]


def test_padding_of_two_intervals():
    memory = laid_out(Padded.with_identity_for([[2, 1], [4, 2]], [8], [0]), [8])
    text = "".join("p" if point is None else str(point[0]) for point in memory)
    assert text == "01p23ppp45p67"


@pytest.mark.parametrize(
    ("shape", "pairs", "element_bytes", "allocated"),
    [
        ([64, 32], [[32, 4]], 4, 9200),
        ([128, 64], [[512, 16]], 2, 16864),
        ([128, 64], [[1024, 16], [2048, 32]], 2, 16800),
        ([128, 64], [[64, 8]], 2, 18416),
    ],
)
def test_padded_sizes(shape, pairs, element_bytes, allocated):
    assert Padded.with_identity_for(pairs, shape, [1, 0]).allocated_elements() * element_bytes == allocated


def test_partitions():
    inner = Swz(2, 1, 4, [1, 0])
    layout = PartitionedSharedLayout(2, 2, 0, inner)
    linear = layout.linear([64, 16])
    piece = inner.linear([16, 16])
    assert (layout.pieces, layout.rank, layout.alignment, layout.cga_layout) == (4, 2, 16, ())
    for partition in range(2):
        for group in range(2):
            for offset in range(256):
                row, column = piece.apply(offset=offset)
                found = linear.apply(offset=offset + 256 * group, partition=partition)
                assert found == (row + 16 * (partition + 2 * group), column)


def test_explicit_layouts():
    assert SharedLinearLayout([[3, 1], [1, 0], [0, 1]]).shape == (4, 2)
    assert SharedLinearLayout([[4]]).shape == (8,)
    layout = SharedLinearLayout([[0, 1], [1, 0]], [[2, 0]], 32)
    assert layout.cga_layout == ((1, 0),)
    assert layout.linear([4, 2]).bases == {"offset": [[0, 1], [1, 0]], "block": [[2, 0]]}
    assert layout != SharedLinearLayout([[0, 1], [1, 0]], [[2, 0]])


def test_views():
    reshaped = reshape_shared_layout(NV(128, 16), [64, 64], [4096])
    bases = [[1], [2], [4], [8], [16], [32], [72], [144], [288], [512], [1024], [2048]]
    assert reshaped == SharedLinearLayout(bases, [], 1024)
    assert reshape_shared_layout(NV(128, 16), [64, 64], [8, 8, 64]) == NV(128, 16, 3)
    assert reshape_shared_layout(NV(128, 16), [64, 64], [1, 64, 64]) == NV(128, 16, 3)
    assert isinstance(reshape_shared_layout(Swz(1, 1, 1, [1, 0]), [4, 8], [8, 4]), SharedLinearLayout)
    with pytest.raises(LayoutError, match="not linear"):
        reshape_shared_layout(Padded.with_identity_for([[4, 1]], [8], [0]), [8], [2, 4])


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        (Swz(8, 1, 8, [1, 0], [[1, 0]]), [32, 64], Swz(8, 1, 8, [0, 1], [[0, 1]])),
        (NV(128, 16), [64, 64], NV(128, 16, transposed=True)),
        (NV(128, 16, rank=3), [2, 8, 64], None),
        (Padded.with_identity_for([[32, 4]], [16, 64], [1, 0]), [16, 64], None),
        (SharedLinearLayout([[0, 1], [1, 0], [2, 0]]), [4, 2], SharedLinearLayout([[1, 0], [0, 1], [0, 2]])),
    ],
)
def test_permuted_views(layout, shape, expected):
    order = [len(shape) - 1, *range(len(shape) - 1)]
    permuted = permute_shared_layout(layout, order, shape)
    assert expected is None or permuted == expected
    assert permute_shared_layout(layout, sorted(order), shape) is layout
    found = permuted.linear([shape[axis] for axis in order])
    for name, bases in layout.linear(shape).bases.items():
        assert found.bases[name] == [[basis[axis] for axis in order] for basis in bases]


def test_spellings_compare_equal():
    assert Swz(8, 1, 8, (1, 0), ()) == Swz(8, 1, 8, [1, 0])
    assert NV(128, 16, 2, False, False, []) == NV(128, 16)
    assert Padded([(8, 1)], ((1,), (2,)), (), (4,)) == Padded([[8, 1]], [[1], [2]], [], [4])
    layouts = [Swz(8, 1, 8, [1, 0]), Swz(8, 1, 4, [1, 0]), NV(128, 16), NV(128, 16, transposed=True), NV(64, 16)]
    layouts += [Padded.with_identity_for([[8, 1]], [16], [0]), Padded.with_identity_for([[8, 2]], [16], [0])]
    layouts += [
        SharedLinearLayout([[1]]),
        SharedLinearLayout([[1]], [], 32),
        PartitionedSharedLayout(2, 1, 0, NV(0, 8)),
    ]
    layouts += [PartitionedSharedLayout(1, 2, 0, NV(0, 8))]
    assert len({layout.mangle() for layout in layouts}) == len(layouts) == len({hash(layout) for layout in layouts})
    for layout in layouts:
        assert eval(repr(layout)) == layout
        assert layout.type == eval(repr(layout)).type


def test_views_as_text():
    layout = Swz(2, 1, 4, [1, 0])
    rows_of_text = layout.format_tensor_view([4, 8]).splitlines()
    assert "(1:2),(1:3),(1:0),(1:1),(1:6),(1:7),(1:4),(1:5)" in rows_of_text[1]
    lines = layout.format_hardware_view([4, 8]).splitlines()
    assert lines[0] == "Block: 0:"
    assert lines[9] == "Offset: 8 -> (1,2)"
    for unseen in (Padded.with_identity_for([[8, 1]], [16], [0]), PartitionedSharedLayout(2, 1, 0, NV(0, 8, 1))):
        for view in (unseen.format_tensor_view, unseen.format_hardware_view):
            with pytest.raises(ValueError, match=f"{type(unseen).__name__} cannot be visualized"):
                view([16])


@pytest.mark.parametrize(
    ("make", "shape", "error", "message"),
    [
        (lambda: Swz(8, 1, 8, [1, 1]), [4, 8], RuntimeError, "order must be a permutation"),
        (lambda: Swz(0, 1, 8, [1, 0]), [4, 8], RuntimeError, "must be positive"),
        (lambda: Swz(8, 1, 8, [1, 0], [[1]]), [4, 8], AssertionError, "rank mismatch"),
        (lambda: Swz(8, 1, 8, [1, 0]), [4, 12], ValueError, "must be a power of two"),
        (lambda: Swz(8, 1, 8, [1, 0]), [8], ValueError, "has rank 1, its layout 2"),
        (lambda: Swz(8, 1, 8, [1, 0], [[2, 0]]), [8, 8], ValueError, "expected to be surjective"),
        (lambda: NV(16, 16), [64, 64], AssertionError, "swizzle_byte_width must be 0, 32, 64 or 128"),
        (lambda: NV(128, 4), [64, 64], AssertionError, "element_bitwidth must be 8, 16, 32 or 64"),
        (lambda: NV(64, 8, fp4_padded=True), [64, 64], AssertionError, "fp4_padded needs"),
        (lambda: NV(128, 16, cga_layout=[[1]]), [64, 64], AssertionError, "rank mismatch"),
        (lambda: NV(128, 16), [4, 64], ValueError, "Illegal shared layout"),
        (lambda: NV(128, 16), [64, 32], ValueError, "invalid block shape for TMA operation"),
        (lambda: NV(128, 16, 1), [64], ValueError, "rank 1 cannot be swizzled"),
        (lambda: NV(0, 16, 3, True), [8, 8, 8], ValueError, "needs a swizzle"),
        (lambda: NV.get_default_for([128, 32], Type(8), fp4_padded=True), [], AssertionError, "fp4_padded needs"),
        (lambda: NV.get_default_for([9, 64], Type(8), cga_layout=[[1, 0]]), [], AssertionError, "is not divisible by"),
        (lambda: Padded([], [[1]], [], [2]), [2], AssertionError, "at least one interval-padding pair"),
        (lambda: Padded([[6, 1]], [[1]], [], [2]), [2], AssertionError, "must all be power of two"),
        (lambda: Padded([[4, 1], [4, 2]], [[1]], [], [2]), [2], AssertionError, "must be unique"),
        (lambda: Padded([[4, 1]], [[1, 0]], [], [2]), [2], AssertionError, "rank mismatch"),
        (lambda: Padded([[4, 1]], [[1]], [], [2]), [4], RuntimeError, "Mismatch in expected shape for dimension"),
        (lambda: Padded.with_identity_for([[4, 1]], [6], [0]), [6], ValueError, "must be a power of two"),
        (lambda: Padded.with_identity_for([[4, 1]], [4, 4], [0]), [4, 4], AssertionError, "as many entries"),
        (lambda: Padded.with_identity_for([[4, 1]], [4, 4], [0, 0]), [4, 4], ValueError, "must be a permutation"),
        (lambda: SharedLinearLayout([]), [2], AssertionError, "must not be empty"),
        (lambda: SharedLinearLayout([[]]), [2], AssertionError, "at least one coordinate"),
        (lambda: SharedLinearLayout([[1], [1, 2]]), [2], AssertionError, "must have 1 coordinates"),
        (lambda: SharedLinearLayout([[1]], [], 12), [2], AssertionError, "positive power of two"),
        (lambda: SharedLinearLayout([[1]]), [4], ValueError, r"one of a tensor of \[2\], not of \[4\]"),
        (lambda: SharedLinearLayout([[3]]), [4], ValueError, "expected to be surjective"),
        (lambda: PartitionedSharedLayout(3, 1, 0, NV(0, 8)), [8, 8], AssertionError, "num_partitions must be a power"),
        (lambda: PartitionedSharedLayout(2, 1, -1, NV(0, 8)), [8, 8], AssertionError, "must be non-negative"),
        (lambda: PartitionedSharedLayout(2, 1, 2, NV(0, 8)), [8, 8], LayoutError, "must be less than the rank"),
        (lambda: PartitionedSharedLayout(4, 4, 0, NV(0, 8)), [8, 8], LayoutError, "cannot be cut into 16 pieces"),
        (lambda: PartitionedSharedLayout(2, 1, 0, BlockedLayout([1], [32], [1], [0])), [8], AssertionError, "a Shared"),
        (lambda: permute_shared_layout(NV(0, 8), [0, 0], [8, 8]), [], LayoutError, "not a permutation"),
        (lambda: to_shared_linear(Padded([[4, 1]], [[1]], [], [2]), [2]), [], LayoutError, "are not linear"),
    ],
)  # fmt: skip
def test_mistakes(make, shape, error, message):
    with pytest.raises(error, match=message) as caught:
        make().linear(shape)
    assert isinstance(caught.value, LayoutError)
