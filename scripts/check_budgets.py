"""Check the size budgets: 99 % of functions under 80 lines, none over 150, no file over 900 lines.

Usage: ``python scripts/check_budgets.py [FOLDER ...]``. Exit status 1 when a budget is exceeded.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_FOLDERS = ("src", "tests", "scripts", "benchmarks", "examples")
FUNCTION_USUAL, FUNCTION_LIMIT, FILE_LIMIT = 80, 150, 900
SHARE_PER_MILLE = 990
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """A function or a file and its length in lines."""

    where: str
    lines: int


def measure_functions(source: str, where: str) -> list[Measured]:
    """Measure every function of a module, nested ones too, from its ``def`` line to its last line."""
    return [
        Measured(f"{where}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(source, where))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def find_violations(functions: list[Measured], files: list[Measured]) -> list[str]:
    """Say which budgets are exceeded, one sentence each."""
    violations = [f"{f.where}: {f.lines} lines, over {FUNCTION_LIMIT}" for f in functions if f.lines > FUNCTION_LIMIT]
    violations += [f"{f.where}: {f.lines} lines, over {FILE_LIMIT}" for f in files if f.lines > FILE_LIMIT]
    short = sum(f.lines < FUNCTION_USUAL for f in functions)
    if short * 1000 < SHARE_PER_MILLE * len(functions):
        violations.append(f"only {short} of {len(functions)} functions are under {FUNCTION_USUAL} lines")
    return violations


def main(folders: list[str]) -> int:
    """Measure all Python files of the folders, print the longest, and give the exit status."""
    functions: list[Measured] = []
    files: list[Measured] = []
    for folder in folders or DEFAULT_FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            where = str(path.relative_to(REPOSITORY))
            functions += measure_functions(source, where)
            files.append(Measured(where, len(source.splitlines())))
    for kind, measured in (("functions", functions), ("files", files)):
        longest = sorted(measured, key=lambda m: -m.lines)[:SHOWN]
        print(f"{len(measured)} {kind}; the longest:")
        for item in longest:
            print(f"  {item.lines:4d}  {item.where}")
    violations = find_violations(functions, files)
    for violation in violations:
        print(f"over budget: {violation}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
