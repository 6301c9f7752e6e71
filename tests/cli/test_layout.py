"""`glueball layout` and `glueball tensor-layout`."""

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

from glueball.cli import layouts
from glueball.cli.commands import commands
from glueball.layouts import BlockedLayout, NVMMASharedLayout, SliceLayout, SwizzledSharedLayout

TEXT = "BlockedLayout([1,4],[8,4],[4,1],[1,0])"
LAYOUT = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
ATTRIBUTE = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"


def run(*arguments: str, fails: bool = False) -> str:
    result = CliRunner().invoke(commands, list(arguments))
    assert result.exit_code == (1 if fails else 0), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr if fails else result.stdout


def test_the_views_are_those_of_the_methods():
    tensor, hardware = LAYOUT.format_tensor_view([32, 16]), LAYOUT.format_hardware_view([32, 16])
    for view, expected in (("tensor", tensor), ("hardware", hardware), ("both", f"{tensor}\n{hardware}")):
        output = run("layout", TEXT, "--shape", "32x16", "--view", view)
        assert output.startswith(expected + "\nregisters ")
        assert "\x1b" not in output
    shared = "SwizzledSharedLayout(4, 1, 4, [1, 0])"
    output = run("layout", shared, "--shape", "8x16", "--view", "both")
    swizzled = SwizzledSharedLayout(4, 1, 4, [1, 0])
    assert output.startswith(f"{swizzled.format_tensor_view([8, 16])}\n{swizzled.format_hardware_view([8, 16])}\n")


def test_facts_follow_the_picture():
    lines = run("layout", TEXT, "--shape", "32x16", "--width", "16").splitlines()
    assert lines[-3:] == [
        "registers      4 elements a thread, 2 registers of 32 bits",
        "copies         none: every element is held once",
        "global access  8 bytes a lane, 1 request a warp, 8 sectors a request, 100 % of their bytes used",
    ]
    assert (
        run("layout", TEXT, "--shape", "32x16", "--memory", "col")
        .splitlines()[-1]
        .endswith("4 bytes a lane, 4 requests a warp, 4 sectors a request, 100 % of their bytes used")
    )
    strided = run("layout", TEXT, "--shape", "32x16", "--memory", "64,4").splitlines()[-1]
    assert strided.endswith("32 sectors a request, 12.5 % of their bytes used")


def test_a_conversion_is_planned_and_counted():
    other = "BlockedLayout([4,1],[4,8],[1,4],[0,1])"
    output = run("layout", TEXT, "--shape", "64x64", "--convert-to", other)
    assert "\nconversion     through 16384 bytes of shared memory: " in output
    assert "\nits cost       " in output
    assert run("layout", TEXT, "--shape", "64x64", "--convert-to", ATTRIBUTE).endswith(
        "conversion     free: both layouts are the same map\n"
        "difference     they are the same layout: every element lies in the same place\n"
    )
    shared = run("layout", "NVMMASharedLayout(128, 16)", "--shape", "8x64", "--convert-to", "NVMMASharedLayout(0, 16)")
    assert "\ndifference     offset 64 holds (1, 8) in the first and (1, 0) in the second" in shared


def test_conflicts_are_counted_from_either_side():
    columns, dense = "BlockedLayout([1,1],[32,1],[1,4],[0,1])", "SwizzledSharedLayout(1,1,1,[1,0])"
    expected = "4 bytes a lane, 8 accesses in 256 wavefronts a warp: bank conflicts, 8 would do without\n"
    for first, second in ((columns, dense), (dense, columns)):
        output = run("layout", first, "--shape", "32x32", "--convert-to", second)
        assert output.endswith(f"shared access  {expected}")
        assert "shared memory  4096 bytes a CTA, aligned to 16\n" in output
    padded = "PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])"
    assert run("layout", padded, "--shape", "32x32", "--convert-to", columns) == (
        "shared memory  4220 bytes a CTA, aligned to 16\n"
        "shared access  4 bytes a lane, 8 accesses in 8 wavefronts a warp: no bank conflicts\n"
    )


def test_the_elements_width_is_the_layouts_own():
    shared = NVMMASharedLayout(128, 16)
    output = run("layout", "NVMMASharedLayout(128, 16)", "--shape", "8x64")
    assert output == f"{shared.format_tensor_view([8, 64])}\nshared memory  1024 bytes a CTA, aligned to 1024\n"


def test_pictures_and_pages_are_written(tmp_path: Path):
    picture, page = tmp_path / "layout.svg", tmp_path / "layout.html"
    run("layout", TEXT, "--shape", "32x16", "--svg", str(picture), "--html", str(page))
    assert len(ElementTree.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}g")) == 512
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    run("layout", TEXT, "--shape", "8x16", "--view", "hardware", "--svg", str(picture))
    assert ">warp 3<" in picture.read_text(encoding="utf-8")
    missing = tmp_path / "nowhere" / "layout.svg"
    assert "layout.svg cannot be written: No such file" in run(
        "layout", TEXT, "--shape", "8x16", "--svg", str(missing), fails=True
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TEXT[:-1], "--shape", "32x16"), "Error: this is no layout: "),
        (("Blocked", "--shape", "32x16"), "only layouts, lists"),
        ((TEXT, "--shape", "32"), "has rank 1, its layout 2"),
        ((TEXT, "--shape", "12x16"), "must be a power of two"),
        ((TEXT, "--shape", "1099511627776x16"), "elements are too many to show"),
        ((f"BlockedLayout([1,1],[1,{1 << 70}],[4,1],[1,0])", "--shape", "32x16"), "threads are too many to show"),
        ((TEXT, "--shape", "32y16"), "--shape should be extents such as 32x16, not '32y16'"),
        ((TEXT, "--shape", "32x16", "--memory", "diagonal"), "--memory should be row, col or strides"),
        ((TEXT, "--shape", "32x16", "--memory", "1,2,3"), "3 strides given for a tensor of rank 2"),
        ((TEXT, "--shape", "32x16", "--target", "gfx942"), "gfx942 has warps of 64 lanes, .* made for 32"),
        ((TEXT, "--shape", "32x16", "--convert-to", "BlockedLayout([1,4],[8,8],[4,1],[1,0])"), "32 and of 64 lanes"),
        (("AutoLayout()", "--shape", "32x16"), "AutoLayout has no map"),
        (("TensorMemoryLayout([64, 2], 1)", "--shape", "64x2"), "TensorMemoryLayout cannot be visualized"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: tuple[str, ...], message: str):
    error = run("layout", *arguments, fails=True)
    assert error.startswith("Error: ")
    assert re.search(message, error), error


def test_terminals_see_the_warps_in_colour():
    console = Console(force_terminal=True, color_system="standard", width=40, record=True, file=io.StringIO())
    question = layouts.read_question(TEXT, "32x16", None, "row", None, None)
    layouts.print_layout(question, "both", console)
    shown = console.export_text(styles=True, clear=False)
    assert "\x1b[34mT31:3\x1b[0m" in shown
    assert "\x1b[35mT32:0\x1b[0m" in shown
    assert "\x1b[1;33mWarp2:\x1b[0m" in shown
    plain = console.export_text()
    assert plain.startswith(LAYOUT.format_tensor_view([32, 16]))
    shared = layouts.read_question("SwizzledSharedLayout(4, 1, 4, [1, 0])", "8x16", None, "row", None, None)
    layouts.print_layout(shared, "tensor", console)
    assert "\x1b[35m(1: 4)\x1b[0m" in console.export_text(styles=True)


def test_attributes_are_printed_as_by_the_compilers_tool(tmp_path: Path):
    header = f"Print layout attribute: {ATTRIBUTE}\n"
    assert run("tensor-layout", "-l", ATTRIBUTE, "-t", "tensor<32x16xf16>") == header + LAYOUT.format_tensor_view(
        [32, 16]
    )
    expected = header + LAYOUT.format_hardware_view([32, 16])
    output = tmp_path / "text"
    assert run("tensor-layout", "-l", ATTRIBUTE, "-t", "tensor<32x16xf16>", "-use-hw-view", "-o", str(output)) == ""
    assert output.read_text() == expected
    source = tmp_path / "aliases.mlir"
    sliced = "#ttg.slice<{dim = 1, parent = #blocked}>"
    source.write_text(f"#blocked = {ATTRIBUTE}\n#sliced = {sliced}\nmodule {{}}\n")
    view = SliceLayout(1, LAYOUT).format_tensor_view([32])
    named = f"Print layout attribute: #sliced = {sliced}\n{view}\n"
    common = ("tensor-layout", "-i", str(source), "-t", "tensor<32xf32>", "-alias-names=sliced")
    assert run(*common) == named
    assert run(*common, "-l", f"SliceLayout(1, {TEXT})") == (
        f"{named}Print layout attribute: SliceLayout(1, {TEXT})\n{view}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-l", ATTRIBUTE), "a tensor type is needed"),
        (("-t", "tensor<4x4xf16>"), "a layout is needed"),
        (("-l", ATTRIBUTE, "-t", "tensor<4x4>"), "'tensor<4x4>' is no tensor type"),
        (("-l", ATTRIBUTE, "-t", "tensor<4x4xq16>"), "is no tensor type"),
        (("-l", "#ttg.blocked<{", "-t", "tensor<4x4xf16>"), "malformed layout attribute"),
        (("-l", "#ttg.what<{}>", "-t", "tensor<4x4xf16>"), "unsupported layout attribute"),
        (("-i", "/nowhere/file", "-t", "tensor<4x4xf16>"), "cannot be read"),
    ],
)
def test_the_tools_errors_are_on_stderr(arguments: tuple[str, ...], message: str):
    assert message in run("tensor-layout", *arguments, fails=True)


def test_unknown_aliases_are_named(tmp_path: Path):
    source = tmp_path / "aliases.mlir"
    source.write_text(f"#blocked = {ATTRIBUTE}\n")
    error = run("tensor-layout", "-i", str(source), "-t", "tensor<4x4xf16>", "-alias-names", "other", fails=True)
    assert "defines no layout #other, only #blocked" in error
