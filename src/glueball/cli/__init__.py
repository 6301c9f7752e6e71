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

    try:
        commands(prog_name="glueball")
    except OSError as error:
        print(f"glueball: {error}", file=sys.stderr)
        return 1
    return 0
