"""The text of a report: source lines, and costs beside the right ones."""

from __future__ import annotations

import re

import pytest

import glueball
import glueball.language as gl
from glueball.explain import ArrayDescription, explain, render
from glueball.explain.text import layout_text, number, percent
from glueball.location import SourceLocation

FOUR = gl.BlockedLayout([4], [32], [4], [0])
ONE = gl.BlockedLayout([1], [32], [4], [0])


@glueball.jit
def load_shifted(x_ptr, offsets):
    return gl.load(x_ptr + offsets) + gl.load(x_ptr + 8 + offsets)


@glueball.jit
def convert(x_ptr, y_ptr, first: gl.constexpr, second: gl.constexpr, BLOCK: gl.constexpr):
    value = load_shifted(x_ptr, gl.arange(0, BLOCK, layout=first))
    value = gl.convert_layout(value, second)
    gl.store(y_ptr + gl.arange(0, BLOCK, layout=second), value)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    arrays = (ArrayDescription(gl.float32, (1024,)),) * 2
    keywords = {"first": FOUR, "second": ONE, "BLOCK": 512}
    return render(explain(convert, arrays, keywords, target="sm_90a", grid=3)).splitlines()


def test_the_kernel_comes_first_then_what_it_calls(lines: list[str]) -> None:
    assert lines[0] == "convert  for sm_90a, 4 warps of 32 lanes, grid 3 x 1 x 1"
    numbers = [match[1] for line in lines if (match := re.match(r" {0,4}(\d+)  ", line))]
    first, callee = convert.source.first_line, load_shifted.source.first_line
    assert numbers == [str(line) for line in (*range(first, first + 4), *range(callee, callee + 2))]


def test_one_access_on_a_line_stands_beside_it(lines: list[str]) -> None:
    (store,) = (line for line in lines if "gl.store" in line)
    assert store.split()[-4:] == ["4", "4", "100", "%"]


def test_several_accesses_on_a_line_stand_below_it(lines: list[str]) -> None:
    index = next(index for index, line in enumerate(lines) if "return gl.load" in line)
    assert lines[index].rstrip().endswith("offsets)")
    loads = [line for line in lines if "- load x_ptr: fp32 [512], strides 1" in line]
    assert [line.split()[-4:] for line in loads] == [["16", "16", "100", "%"]] * 2


def test_conversions_and_totals_are_told(lines: list[str]) -> None:
    index = next(index for index, line in enumerate(lines) if "gl.convert_layout" in line)
    assert lines[index + 1].split() == ["-", "convert", "fp32", "[512]"]
    text = "\n".join(lines)
    assert "from BlockedLayout([4], [32], [4], [0])" in text and "to BlockedLayout([1], [32], [4], [0])" in text
    assert "loads   24 requests, 384 sectors in all, efficiency 100 %" in lines
    assert "stores  48 requests, 192 sectors in all, efficiency 100 %" in lines


def test_locations_are_the_authors(lines: list[str]) -> None:
    arrays = (ArrayDescription(gl.float32, (1024,)),) * 2
    report = explain(convert, arrays, {"first": FOUR, "second": ONE, "BLOCK": 512}, target="sm_90a")
    calls = [list(row.location.chain()) for row in report.accesses]
    assert [[place.function for place in chain] for chain in calls] == [["load_shifted", "convert"]] * 2 + [["convert"]]
    assert isinstance(report.location, SourceLocation)
    assert render(report).startswith("convert  for sm_90a, 4 warps of 32 lanes\n")


@pytest.mark.parametrize(
    ("value", "text"), [(4.0, "4"), (4.5, "4.50"), (1234567, "1,234,567"), (12345.678, "12,345.68")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_shares_and_layouts() -> None:
    assert percent(1.0) == "100 %" and percent(0.125) == "12.5 %"
    assert layout_text(gl.SliceLayout(1, FOUR)) == "SliceLayout(1, BlockedLayout([4], [32], [4], [0]))"
