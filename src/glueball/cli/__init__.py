"""The `glueball` command."""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("click", "rich")


def main() -> int:
    """Runs the command; the exit status. Without the extra `cli` it says so in one line."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"glueball: the command needs {' and '.join(missing)}: pip install 'glueball[cli]'",
            file=sys.stderr,
        )
        return 1
    from glueball.cli.commands import commands

    commands(prog_name="glueball")
    return 0
