"""docs/language.md is current, names everything that the language has, and each test that it names is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import glueball.language as gl
from scripts import make_checklist
from scripts.checklist_features import FEATURES

ROOT = Path(__file__).parents[1]


def test_the_page_is_current() -> None:
    assert make_checklist.page() == make_checklist.PAGE.read_text()


def test_every_name_has_a_row() -> None:
    rows = {row for family in make_checklist.families().values() for row in family}
    features = " ".join(feature for group in FEATURES.values() for feature in group)
    names = [name for name in gl.__all__ if not isinstance(getattr(gl, name), ModuleType)]
    missing = [name for name in names if f"gl.{name}" not in rows and not re.search(rf"`gl\.{name}\b", features)]
    assert missing == []


def test_every_operation_is_ticked_on_both_host_executors() -> None:
    ticks, _, _ = make_checklist.recorded()
    rows = [row for family in make_checklist.families().values() for row in family]
    missing = {row: sorted(ticks.get(row, {})) for row in rows if not {"reference", "sim"} <= set(ticks.get(row, {}))}
    assert missing == {}


def test_every_test_that_is_named_is_there_and_ran() -> None:
    ticks, ran, _ = make_checklist.recorded()
    rows = [row for family in make_checklist.families().values() for row in family]
    first = {make_checklist.first_test(ticks[row]) for row in rows if row in ticks}
    shown = [
        make_checklist.full_name(test)
        for group in FEATURES.values()
        for each in group.values()
        for test in each.split()
    ]
    for test in sorted({*first, *shown}):
        path, _, function = test.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(), re.MULTILINE), test
    assert [test for test in shown if test not in ran] == []


@pytest.mark.parametrize("path", sorted(make_checklist.RESULTS.glob("language*.json")), ids=lambda path: path.stem)
def test_results_hold_nothing_but_passed_tests(path: Path) -> None:
    content = json.loads(path.read_text())
    named = {test for rows in content["operations"].values() for each in rows.values() for test in each.values()}
    assert named <= set(content["tests"])
