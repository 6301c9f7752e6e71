"""Why two layouts differ, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.errors import LayoutError
from glueball.layouts.base import Layout
from glueball.layouts.linear import Coordinates, LinearLayout

INPUT_NAMES = {"register": "register", "lane": "lane", "warp": "warp", "block": "CTA"}


def explain_difference(first: Layout, second: Layout, shape: Sequence[int]) -> str:
    """One sentence: the first place at which two layouts of a tensor of `shape` hold different elements, or that none.

    Raises LayoutError where either does not fit the shape, or one is of registers and the other of memory.
    """
    one, two = first.linear(shape), second.linear(shape)
    if set(one.inputs) != set(two.inputs):
        raise LayoutError(f"a map from {', '.join(one.inputs)} does not compare to one from {', '.join(two.inputs)}")
    difference = one.first_difference(two)
    if difference is None:
        spelling = "the same layout" if first == second else "two spellings of the same map"
        return f"they are {spelling}: every element lies in the same place"
    [(name, index)] = difference[0].items()
    _, held, other = difference
    noun = INPUT_NAMES.get(name, name)
    if held is None or other is None:
        lacking, ordinal, point = (one, "first", other) if held is None else (two, "second", held)
        missing = f"the {ordinal} has only {_count(lacking.size(name), noun)}"
        return f"{missing}, so {noun} {index}, which holds {_point(point)} in the other one, does not exist there"
    bit = index.bit_length() - 1
    return (
        f"{noun} {index} holds {_point(held)} in the first and {_point(other)} in the second, which are the bases of "
        f"bit {bit} of the {noun} index{_elsewhere(two, held)}"
    )


def _elsewhere(two: LinearLayout, point: Coordinates) -> str:
    """Where the second layout holds an element that the first one holds where they differ."""
    inverse = two.pseudo_inverse()
    places = inverse.apply(**dict(zip(inverse.inputs, point, strict=True)))
    names = [
        f"{INPUT_NAMES.get(name, name)} {value}" for name, value in zip(inverse.outputs, places, strict=True) if value
    ]
    return f"; {_point(point)} lies in {' of '.join(names) or 'place 0'} there"


def _point(point: Coordinates | None) -> str:
    return "(" + ", ".join(map(str, point or ())) + ")"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
