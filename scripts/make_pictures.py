"""Draw the pictures of layouts in ``docs/pictures``.

Usage: ``python scripts/make_pictures.py [--check]``. With ``--check`` nothing is written, and the exit status is 1
where a picture is not the one that would be drawn.
"""

from __future__ import annotations

import sys
from pathlib import Path

from glueball.layouts import BlockedLayout, SliceLayout, SwizzledSharedLayout, svg

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
ROWS = BlockedLayout([1, 2], [4, 8], [2, 1], [1, 0])
COLUMNS = BlockedLayout([2, 1], [4, 8], [1, 2], [0, 1])
WARP = BlockedLayout([1, 2], [4, 8], [1, 1], [1, 0])
DENSE = SwizzledSharedLayout(1, 1, 1, [1, 0])
SWIZZLED = SwizzledSharedLayout(1, 1, 8, [1, 0])
FEW_BANKS = 8
"""Pictures of shared memory are drawn with eight banks, so that a row of all banks fits a page."""


def draw() -> dict[Path, str]:
    """Give the text of every picture by its path."""
    pictures = {
        "rows": svg(ROWS, [8, 16]),
        "columns": svg(COLUMNS, [8, 16]),
        "one-warp": svg(WARP, [4, 16], color_by="lane"),
        "one-warp-hardware": svg(BlockedLayout([1, 2], [2, 4], [1, 1], [1, 0]), [4, 8], view="hardware"),
        "repeated": svg(ROWS, [8, 32]),
        "replicated": svg(ROWS, [4, 16]),
        "slice": svg(SliceLayout(1, ROWS), [8]),
        "dense": svg(DENSE, [8, 8], banks=FEW_BANKS),
        "swizzled": svg(SWIZZLED, [8, 8], banks=FEW_BANKS),
    }
    return {FOLDER / f"{name}.svg": text for name, text in pictures.items()}


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
