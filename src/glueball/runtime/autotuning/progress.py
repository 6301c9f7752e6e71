"""A progress bar for tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(name: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar on a terminal's standard error that takes what is done and what is best; no bar where `rich` is missing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda done, best: None
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[best]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"tuning {name}", total=total, best="")
        yield lambda done, best: bar.update(task, completed=done, best=best)
