"""Ways through the basic blocks of a kernel's assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

LABEL = r"^(\$L__BB\w+):"
JUMP = r"^\s*(@\S+\s+)?bra(?:\.uni)?\s+(\$L__BB\w+);"
END = r"^\s*(?:ret|exit);"


def turns(ptx: str, marker: str) -> list[str]:
    """For each basic block that a pattern is found in, the text of the shortest way from it to itself."""
    start, *rest = re.split(LABEL, ptx, flags=re.MULTILINE)
    texts = {"": start} | dict(zip(rest[::2], rest[1::2], strict=True))
    followed = dict(zip(texts, list(texts)[1:], strict=False))
    ways = {}
    for name, text in texts.items():
        jumps = re.findall(JUMP, text, re.MULTILINE)
        stops = re.search(END, text, re.MULTILINE) or any(not condition for condition, _ in jumps)
        ways[name] = [target for _, target in jumps] + ([] if stops else [followed[name]])
    return [_shortest_turn(name, texts, ways) for name in texts if re.search(marker, texts[name])]


def _shortest_turn(start: str, texts: Mapping[str, str], ways: Mapping[str, Sequence[str]]) -> str:
    paths = [[start]]
    for path in paths:
        for name in ways[path[-1]]:
            if name == start:
                return "".join(texts[each] for each in path)
            if all(name not in known for known in paths):
                paths.append([*path, name])
    return ""
