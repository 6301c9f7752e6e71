"""The gallery of wrong programs: every plain function of a module in `cases/` runs one and shows what its author sees.

`python -m tests.errors.gallery` writes the messages anew to `cases/*.txt`. Read the difference before you keep it: a
message says what is wrong, shows the author's line, shows both sides where two disagree, and says what would help.
"""

from __future__ import annotations

import importlib
import linecache
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import pytest

from glueball import knobs

FOLDER = Path(__file__).parent / "cases"
ROOT = FOLDER.parents[2]
GROUPS = sorted(path.stem for path in FOLDER.glob("*.py"))
_HEADING = re.compile(r"^## (\w+)\n", re.M)


@dataclass(frozen=True, slots=True)
class Case:
    """One wrong program of a module; `run` raises."""

    group: str
    name: str
    run: Callable[[], object]


def cases() -> list[Case]:
    """All of them, in the order in which they are written."""
    found = []
    for group in GROUPS:
        module = importlib.import_module(f"tests.errors.cases.{group}")
        found += [
            Case(group, name, value)
            for name, value in vars(module).items()
            if type(value) is FunctionType and value.__module__ == module.__name__ and name[0] != "_"
        ]
    return found


def message(case: Case, folder: Path) -> str:
    """What a case raises, paths given from the root of the project; `folder` is for the cache."""
    with pytest.MonkeyPatch.context() as patch:
        for knob in knobs.KNOBS:
            patch.delenv(knob.variable, raising=False)
        patch.setenv("GLUEBALL_CACHE_DIR", str(folder))
        patch.setenv("GLUEBALL_EXECUTOR", "sim")
        patch.setattr("glueball.drivers.cuda._probe", lambda: "there is no GPU")
        try:
            case.run()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if getattr(error, "location", None) is None:
                text = f"{_authors_line(error)}\n{text}"
            return text.replace(f"{ROOT}/", "")
    raise LookupError(f"{case.name} raises nothing")


def _authors_line(error: Exception) -> str:
    """The innermost line of the case's file in a traceback, which is what Python shows for an error of the host."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == FOLDER]
    place = frames[-1]
    return f"{place.filename}:{place.lineno}\n    {linecache.getline(place.filename, place.lineno or 0).strip()}"


def golden() -> dict[tuple[str, str], str]:
    """The messages as they were reviewed, by group and name."""
    texts = {}
    for group in GROUPS:
        _, *parts = _HEADING.split((FOLDER / f"{group}.txt").read_text())
        texts |= {(group, name): text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return texts


def write(folder: Path) -> None:
    """Writes the messages of now."""
    written = [(case, message(case, folder)) for case in cases()]
    for group in GROUPS:
        sections = [f"## {case.name}\n{text}\n" for case, text in written if case.group == group]
        (FOLDER / f"{group}.txt").write_text("\n".join(sections))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        write(Path(cache))
