"""The developer checks find what they are there to find."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from scripts.check_budgets import Measured, find_violations, measure_functions
from scripts.folder_table import FolderTableContract


def test_functions_are_measured_to_their_last_line() -> None:
    source = "def outer():\n    def inner():\n        return 1\n\n    return inner\n"
    assert measure_functions(source, "m.py") == [Measured("m.py:1 outer", 5), Measured("m.py:2 inner", 2)]


@pytest.mark.parametrize(
    ("function_lines", "file_lines", "violations"),
    [([79] * 99 + [150], [900], 0), ([79] * 98 + [80] * 2, [1], 1), ([1] * 99 + [151], [1], 1), ([1], [901], 1)],
)
def test_budgets(function_lines: list[int], file_lines: list[int], violations: int) -> None:
    functions = [Measured("function", lines) for lines in function_lines]
    files = [Measured("file", lines) for lines in file_lines]
    assert len(find_violations(functions, files)) == violations


@pytest.mark.parametrize(
    ("importer", "imported", "violation"),
    [
        ("upper.a", "lower.b", None),
        ("upper.a", "errors", None),
        ("upper.a", "upper.b", None),
        ("lower.b", "upper.a", "p.lower.b imports p.upper.a (line 1): lower may not import upper"),
        ("errors", "lower.b", "p.errors imports p.lower.b (line 1): errors may not import lower"),
        ("report", "upper.a", None),
        ("report", "cli", "p.report imports p.cli (line 1): report may not import cli"),
        ("rogue", "lower.b", "rogue is not in the folder table"),
    ],
)
def test_folder_table(importer: str, imported: str, violation: str | None) -> None:
    graph = grimp.ImportGraph()
    graph.add_import(
        importer=f"p.{importer}", imported=f"p.{imported}", line_number=1, line_contents=f"import p.{imported}"
    )
    contract = FolderTableContract(
        name="folders",
        session_options={"root_packages": ["p"]},
        contract_options={"table": ["lower:", "upper: lower", "report: *", "cli: *"], "leaves": ["errors"]},
    )
    assert contract.check(graph, verbose=False).metadata["violations"] == ([violation] if violation else [])


@pytest.mark.parametrize("name", ["tour", "test"])
def test_readme_marks_its_commands(name: str) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8").splitlines()
    assert readme[readme.index(f"<!-- {name} command -->") + 1].startswith("```")
