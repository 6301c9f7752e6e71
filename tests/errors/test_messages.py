"""Wrong programs end in the messages of the gallery, all in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.errors import gallery

CASES = gallery.cases()
GOLDEN = gallery.golden()


def test_every_case_has_its_message():
    assert [(case.group, case.name) for case in CASES] == list(GOLDEN)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.group}-{case.name}")
def test_message(case: gallery.Case, tmp_path: Path):
    assert gallery.message(case, tmp_path) == GOLDEN[case.group, case.name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.group}-{case.name}")
def test_message_shows_where(case: gallery.Case):
    """Every message shows a line of the case's own file, and errors of a kernel mark what is wrong in it."""
    text = GOLDEN[case.group, case.name]
    assert f"tests/errors/cases/{case.group}.py:" in text
    if case.group != "launches":
        assert "^" in text
