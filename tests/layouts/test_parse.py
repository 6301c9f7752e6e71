"""Layouts from text: both spellings, and one clear error for everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    AMDWMMALayout,
    AutoLayout,
    BlockedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    PartitionedSharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
    TensorMemoryLayout,
)
from glueball.layouts.parse import parse_aliases, parse_layout
from glueball.layouts.representation import spelled

BLOCKED = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
MMA = NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
BLOCKED_TEXT = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
MMA_TEXT = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"

PYTHON = {
    "BlockedLayout([1,4],[8,4],[4,1],[1,0])": BLOCKED,
    "  gl.BlockedLayout((1, 4), (8, 4), warps_per_cta=[4, 1], order=[1, 0])\n": BLOCKED,
    "ttgl.SliceLayout(1, parent=ttgl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))": SliceLayout(1, BLOCKED),
    "DotOperandLayout(0, NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]), 2)": DotOperandLayout(0, MMA, 2),
    "NVMMASharedLayout(128, 16, transposed=True)": NVMMASharedLayout(128, 16, transposed=True),
    "gl.amd.AMDMFMALayout(3, [32, 32, 8], True, [2, 2])": AMDMFMALayout(3, [32, 32, 8], True, [2, 2]),
    "PaddedSharedLayout.with_identity_for([[32, 4]], [16, 64], [1, 0])": PaddedSharedLayout.with_identity_for(
        [[32, 4]], [16, 64], [1, 0]
    ),
    "PartitionedSharedLayout(2, 2, 0, SwizzledSharedLayout(1, 1, 1, [1, 0]))": PartitionedSharedLayout(
        2, 2, 0, SwizzledSharedLayout(1, 1, 1, [1, 0])
    ),
    "AutoLayout()": AutoLayout(),
}
ATTRIBUTES = {
    BLOCKED_TEXT: BLOCKED,
    BLOCKED_TEXT.replace("}>", ", CGALayout = [[1, 0]]}>"): BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0], [[1, 0]]),
    f"#ttg.slice<{{dim = 0, parent = {BLOCKED_TEXT}}}>": SliceLayout(0, BLOCKED),
    MMA_TEXT: MMA,
    f"#ttg.dot_op<{{opIdx = 1, parent = {MMA_TEXT}, kWidth = 2}}>": DotOperandLayout(1, MMA, 2),
    f"#ttg.dot_op<{{opIdx = 1, parent = {BLOCKED_TEXT}}}>": DotOperandLayout(1, BLOCKED, 0),
    "#ttg.linear<{register = [[0, 1]], lane = [[0, 2], [1, 0]], warp = [[2, 0]], block = []}>": DistributedLinearLayout(
        [[0, 1]], [[0, 2], [1, 0]], [[2, 0]], [], [4, 4]
    ),
    "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 4, order = [1, 0]}>": SwizzledSharedLayout(
        8, 1, 4, [1, 0]
    ),
    "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 16}>": NVMMASharedLayout(
        64, 16, transposed=True
    ),
    "#ttg.shared_linear<{offset = [[0, 1], [1, 0]], block = [[2, 0]]}, alignment = 32>": SharedLinearLayout(
        [[0, 1], [1, 0]], [[2, 0]], 32
    ),
    "#ttg.padded_shared<[32:+4, 64:+8] {order = [1, 0], shape = [16, 64]}>": PaddedSharedLayout.with_identity_for(
        [[32, 4], [64, 8]], [16, 64], [1, 0]
    ),
    "#ttg.padded_shared<[2:+1] {offset = [[0, 1], [1, 0]], block = [[2, 0]]}>": PaddedSharedLayout(
        [[2, 1]], [[0, 1], [1, 0]], [[1, 0]], [4, 2]
    ),
    "#ttg.amd_mfma<{version = 4, warpsPerCTA = [2, 2], instrShape = [16, 16, 32], isTransposed = true}>": (
        AMDMFMALayout(4, [16, 16, 32], True, [2, 2])
    ),
    "#ttg.amd_wmma<{version = 2, isTranspose = true, ctaLayout = {warp = [[0, 1]]}, instrShape = [16, 16, 16]}>": (
        AMDWMMALayout(2, True, [[0, 1]], [], [16, 16, 16])
    ),
    "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>": TensorMemoryLayout([128, 64], 1),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [*PYTHON.items(), *ATTRIBUTES.items()])
def test_both_spellings_are_read(text, expected):
    assert parse_layout(text) == expected


@pytest.mark.parametrize("layout", [*PYTHON.values(), *ATTRIBUTES.values()])
def test_what_a_layout_prints_is_read_back(layout):
    assert parse_layout(repr(layout)) == layout
    assert parse_layout(spelled(layout)) == layout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no layout"),
        ("Blocked", "no layout: 'Blocked'"),
        ("BlockedLayout([1,4],[8,4],[4,1],[1,0]", "never closed at column 14"),
        ("BlockedLayout([1, 4])", "missing a required argument: 'threads_per_warp'"),
        ("BlockedLayout([1], [32], [4], [0], size=3)", "unexpected keyword argument 'size'"),
        ("BlockedLayout([1.5], [32], [4], [0])", "'1.5'.*only layouts, lists, integers"),
        ("BlockedLayout([2 * 2], [32], [4], [0])", "only layouts, lists, integers"),
        ("BlockedLayout(*lists)", "only layouts, lists, integers"),
        ("BlockedLayout(**fields)", r"\*\* cannot stand here"),
        ("BlockedLayout([1], [32], [4, 1], [0])", "warps_per_cta .* must have 1 entries"),
        ("BlockLayout([1], [32], [4], [0])", "there is no layout BlockLayout; the layouts are .*BlockedLayout"),
        ("Layout()", "there is no layout Layout"),
        ("NVMMASharedLayout.get_default_for([64, 64], 16)", "there is no layout NVMMASharedLayout.get_default_for"),
        ("__import__('os').remove('x')", "only the name of a layout can stand here"),
        ("(lambda: BlockedLayout([1], [32], [4], [0]))()", "only the name of a layout can stand here"),
        ("[1, 2]", "not? layout but a value|no layout but a value"),
        ("(" * 5000, "no layout"),
        ("1" * 5000, "no layout"),
        ("\0", "no layout"),
        ("#ttg.blocked", "unknown layout alias #ttg.blocked"),
        ("#ttg.block<{}>", "unsupported layout attribute #ttg.block; the supported ones are #ttg.blocked"),
        ("#ttg.blocked<{order = [1, 0]}>", "#ttg.blocked needs the field sizePerThread"),
        (BLOCKED_TEXT.replace("}>", ", size = 3}>"), "#ttg.blocked has no field size"),
        (BLOCKED_TEXT[:-1], "the text ends too early|expected"),
        (BLOCKED_TEXT + " x", "more text follows at 'x'"),
        (BLOCKED_TEXT.replace("4]", "4;"), "unexpected character at ';"),
        (BLOCKED_TEXT.replace("= [1, 4]", "= four"), "'four' is no value"),
        ("#ttg.slice<{dim = 0, parent = 3}>", "parent of #ttg.slice must be the attribute of a layout in registers"),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = 1, elementBitWidth = 16}>", "must be true or false"),
        ("#ttg.linear<{register = [[1, 0], [1]]}>", "as many coordinates"),
        ("#ttg.linear<{}>", "as many coordinates"),
        ("#a<" * 100, "unsupported layout attribute #a"),
        ("#ttg.linear<{register = " + "[" * 100, "too deeply nested"),
    ],
)  # fmt: skip
def test_malformed_text_is_one_layout_error(text, message):
    with pytest.raises(LayoutError, match=message):
        parse_layout(text)


TOKENS = [
    "1",
    "-1",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "true",
    "=",
    ",",
    "#ttg.slice",
    "[[1]]",
    "dim",
    "(",
    ")",
    "'x'",
    "None",
]


@given(st.sampled_from([*PYTHON, *ATTRIBUTES]), st.data())
def test_damaged_text_is_a_layout_or_a_layout_error(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 6)))
    damaged = text[:start] + data.draw(st.sampled_from(["", *TOKENS])) + text[end:]
    try:
        layout = parse_layout(damaged)
    except LayoutError:
        return
    assert parse_layout(repr(layout)) == layout


def test_aliases_are_read_line_by_line():
    text = f"""
#blocked = {BLOCKED_TEXT}
#sliced = #ttg.slice<{{dim = 1, parent = #blocked}}>
module attributes {{"ttg.num-warps" = 4 : i32}} {{
"""
    found = parse_aliases(text)
    assert list(found) == ["#blocked", "#sliced"]
    assert found["#blocked"] == (BLOCKED_TEXT, BLOCKED)
    assert found["#sliced"][1] == SliceLayout(1, BLOCKED)
    assert parse_layout("#blocked", {"#blocked": BLOCKED}) == BLOCKED
    with pytest.raises(LayoutError, match="unknown layout alias #later"):
        parse_aliases("#one = #ttg.slice<{dim = 1, parent = #later}>\n#later = " + BLOCKED_TEXT)
