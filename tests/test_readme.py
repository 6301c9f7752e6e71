"""What README and documents show is what is there: the kernel runs, pictures and generated parts are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import make_pictures, make_tables

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_readmes_kernel_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    (block,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text(block)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1250 sectors loaded\n"


@pytest.mark.parametrize("document", make_tables.DOCUMENTS)
def test_generated_parts_are_current(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    assert text.count("<!-- generated: ") == text.count("<!-- end of ") > 0
    assert make_tables.regenerate(text) == text


def test_pictures_are_current_and_shown() -> None:
    for path, text in make_pictures.draw().items():
        assert path.read_text(encoding="utf-8") == text
    for link in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (REPOSITORY / link).is_file()


def test_links_lead_somewhere() -> None:
    for document in (
        "README.md",
        "docs/ladder.md",
        "docs/layouts.md",
        "docs/index.md",
        "docs/errors.md",
        "docs/runtime.md",
    ):
        path = REPOSITORY / document
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (path.parent / link).exists(), f"{document}: {link}"


RESULTS = """{
 "device": "NVIDIA H200", "date": "2026-01-02", "versions": {"python": "3.12", "torch": "2.11"}, "shape": [64, 32],
 "rows": [
  {"name": "b1", "unit": "TB/s", "sides": {"glueball": {"median": 4.125, "spread": [4, 4.2], "samples": 3},
   "torch": {"median": 4.25, "spread": [4, 4.3], "samples": 3}}, "ratios": {"torch": 0.9706}},
  {"name": "e-plain", "unit": "TB/s", "sides": {"glueball": {"median": 3.5, "spread": [3, 4], "samples": 3}},
   "ratios": {}}
 ]}"""


def test_measurements_are_those_of_the_results_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_tables, "RESULTS", tmp_path / "memcpy.json")
    assert make_tables.measurements() == make_tables.NO_RESULTS
    (tmp_path / "memcpy.json").write_text(RESULTS)
    lines = make_tables.measurements().splitlines()
    assert lines[0].startswith("NVIDIA H200, 2026-01-02, 64 x 32 float32")
    assert lines[3:] == [
        "| rung | what | glueball, TB/s | torch `copy_`, TB/s | of torch `copy_` |",
        "|---|---|---|---|---|",
        "| b1 | 1-D tile, 1 a thread | 4.12 | 4.25 | 0.97 |",
        "| e-plain | every other row | 3.5 |  |  |",
    ]
