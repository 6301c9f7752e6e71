"""Draw the pictures of layouts in ``docs/pictures``.

Usage: ``python scripts/make_pictures.py [--check]``. With ``--check`` nothing is written, and the exit status is 1
where a picture is not the one that would be drawn.
"""

from __future__ import annotations

import sys
from pathlib import Path

from glueball.layouts import BlockedLayout, svg

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SHAPE = (8, 16)
PICTURES = {
    "rows": BlockedLayout([1, 2], [4, 8], [2, 1], [1, 0]),
    "columns": BlockedLayout([2, 1], [4, 8], [1, 2], [0, 1]),
}
"""Two ways in which two warps of 32 lanes share a tile of 8 x 16: neighbours along a row, neighbours along a column."""


def draw() -> dict[Path, str]:
    """Give the text of every picture by its path."""
    return {FOLDER / f"{name}.svg": svg(layout, SHAPE, color_by="warp") for name, layout in PICTURES.items()}


def main(arguments: list[str]) -> int:
    """Write or check all pictures; the exit status."""
    status = 0
    for path, text in draw().items():
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not current; run python scripts/make_pictures.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
