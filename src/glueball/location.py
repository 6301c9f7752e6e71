"""Where something stands in the author's source: operations, instructions, reports and errors carry one of these."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A span of one source line and the call that led there.

    `line` counts from 1, `column` and `end_column` from 0; `first_line` is the line of the function's `def`, so that
    messages can also count from there. `caller` is the call site in the function that called this one, if any.
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = "<unknown>"
    first_line: int = 1
    caller: SourceLocation | None = None

    def chain(self) -> Iterator[SourceLocation]:
        """This location, then the call sites outwards."""
        location: SourceLocation | None = self
        while location is not None:
            yield location
            location = location.caller

    def text(self) -> str:
        """The source line itself without its newline; empty where the source is not at hand."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> str:
        """The source line with carets under the span."""
        text = self.text()
        if not text.strip():
            return ""
        indent = len(text) - len(text.lstrip())
        start = max(self.column, indent)
        width = max(1, min(self.end_column, len(text)) - start)
        return f"    {text[indent:]}\n    {' ' * (start - indent)}{'^' * width}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


UNKNOWN_LOCATION = SourceLocation("<unknown>", 0)
