"""Bringing the values of two branches together: names, and what the function returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from glueball.frontend.frame import Frame, Outcome, Undefined, name_handles
from glueball.language.aggregate import aggregate_value
from glueball.language.broadcasting import to_operand, type_difference
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import constexpr
from glueball.language.conversion import convert
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_value, types_agree
from glueball.tile.ir import Region, Value
from glueball.tile.types import int64, pointer_type, shared_memory_descriptor_type, tensor_descriptor_type

T = TypeVar("T")
Names = dict[str, base_value | Undefined]


@dataclass(slots=True)
class Branch:
    """One side of a run-time condition: its operations, its names at the end, and how it ended."""

    region: Region
    names: Names
    outcome: Outcome = field(default_factory=lambda: Outcome(returned=False))


def run_branch(frame: Frame, names: Names, body: Callable[[], Outcome]) -> Branch:
    """Run code into a region of its own, on a copy of the names."""
    branch = Branch(Region(), dict(names))
    extend_branch(frame, branch, body)
    return branch


def extend_branch(frame: Frame, branch: Branch, body: Callable[[], Outcome]) -> None:
    """Run more code at the end of a branch."""
    outer_region, outer_names = frame.builder.region, frame.names
    frame.builder.region, frame.names = branch.region, branch.names
    branch.outcome = body()
    branch.names = frame.names
    frame.builder.region, frame.names = outer_region, outer_names


class Joined:
    """Pairs of values, one of each branch, that become the results of one `if` operation."""

    def __init__(self, builder: KernelBuilder, then: Branch, otherwise: Branch) -> None:
        self.builder = builder
        self.branches = (then, otherwise)
        self.pairs: list[tuple[base_value, base_value]] = []

    def add(self, first: base_value, second: base_value) -> None:
        """Join a value of the first branch with one of the second."""
        self.pairs.append((first, second))

    def emit(self, condition: tensor) -> Iterator[base_value]:
        """Create the operation; gives the joined values in the order they were added."""
        for side, branch in enumerate(self.branches):
            handles = [handle for pair in self.pairs for handle in pair[side].flatten()]
            self.within(branch, functools.partial(self.builder.create, "yield", handles))
        regions = [branch.region for branch in self.branches]
        types = [handle.type for first, _ in self.pairs for handle in first.flatten()]
        operation = self.builder.create("if", [condition.handle], types, regions=regions)
        results = iter(operation.results)
        return iter([first.rebuild(results) for first, _ in self.pairs])

    def within(self, branch: Branch, action: Callable[[], T]) -> T:
        """Do something with the builder at the end of a branch."""
        outer = self.builder.region
        self.builder.region = branch.region
        result = action()
        self.builder.region = outer
        return result


def placeholder(value: base_value, builder: KernelBuilder) -> base_value:
    """A value of the same type for a path on which nobody looks at it."""

    def zeros() -> Iterator[Value]:
        for handle in value.flatten():
            if isinstance(handle.type, shared_memory_descriptor_type):
                yield builder.create("view_none", [], [handle.type]).result
                continue
            if isinstance(handle.type, tensor_descriptor_type):
                yield builder.create("descriptor_none", [], [handle.type]).result
                continue
            element = handle.type.scalar
            if isinstance(element, pointer_type):
                scalar = convert(builder.constant(0, int64), element, builder)
            else:
                scalar = builder.constant(0, element)
            yield builder.splat(scalar, handle.type).handle

    return value.rebuild(zeros())


def merge_names(frame: Frame, joined: Joined) -> Callable[[Iterator[base_value]], Names]:
    """Add the names that differ between the branches to what is joined; gives the names after the `if` from the rest.

    A branch in which the function has returned for sure has no say. Errors: `AssertionError` for a name that was live
    before, or bound in both branches, and whose types differ.
    """
    then, otherwise = joined.branches
    before, after, order = frame.names, dict(frame.names), []
    for name in dict.fromkeys((*then.names, *otherwise.names)):
        first, second = then.names.get(name), otherwise.names.get(name)
        if first is second and first is not None:
            after[name] = first
            continue
        settled = _settle(joined, name, before.get(name), first, second)
        if isinstance(settled, tuple):
            joined.add(*settled)
            order.append(name)
        else:
            after[name] = settled

    def names_from(values: Iterator[base_value]) -> Names:
        for name, value in zip(order, values, strict=True):
            after[name] = value
            name_handles(value, name)
        return after

    return names_from


def _settle(
    joined: Joined,
    name: str,
    before: base_value | Undefined | None,
    first: base_value | Undefined | None,
    second: base_value | Undefined | None,
) -> tuple[base_value, base_value] | base_value | Undefined:
    """A pair to join, or what a name is after the `if` without joining."""
    then, otherwise = joined.branches
    if then.outcome.returned is True or otherwise.outcome.returned is True:
        returned, living = (then, second) if then.outcome.returned is True else (otherwise, first)
        if living is None or isinstance(living, Undefined):
            return living or Undefined("it has no value on the way here")
        if living is before:
            return living
        stand_in = joined.within(returned, lambda: placeholder(living, joined.builder))
        return (stand_in, living) if returned is then else (living, stand_in)
    if not isinstance(first, base_value) or not isinstance(second, base_value):
        return Undefined("it is bound in one branch only of an `if` on a run-time condition")
    if types_agree(first.type, second.type):
        return (first, second)
    if isinstance(before, tensor | language_tuple | aggregate_value | shared_memory_descriptor):
        changed = second if types_agree(first.type, before.type) else first
        raise AssertionError(
            f"initial value for `{name}` is of type {before.type}, but one branch of the `if` makes it {changed.type}; "
            f"a variable keeps its type where a run-time condition decides{type_difference(before.type, changed.type)}"
        )
    if isinstance(first, constexpr) or isinstance(second, constexpr):
        return Undefined(
            f"it is {first!r} in one branch and {second!r} in the other of an `if` on a run-time condition, where only "
            "run-time values of one type can meet"
        )
    raise AssertionError(
        f"Mismatched type for {name} between then block ({first.type}) and else block ({second.type})"
        f"{type_difference(first.type, second.type)}"
    )


def unify_returns(joined: Joined, first: base_value, second: base_value) -> tuple[base_value, base_value]:
    """The returned values of two branches brought to one type.

    Equal compile-time values stay; others become run-time scalars; tuples element by element. Errors: `TypeError`
    where types differ.
    """
    if types_agree(first.type, second.type):
        return first, second
    if (
        isinstance(first, language_tuple)
        and isinstance(second, language_tuple)
        and len(first.values) == len(second.values)
    ):
        pairs = [unify_returns(joined, *pair) for pair in zip(first.values, second.values, strict=True)]
        return (
            language_tuple([pair[0] for pair in pairs], first.fields),
            language_tuple([pair[1] for pair in pairs], first.fields),
        )
    then, otherwise = joined.branches
    left, right = _run_time(joined, then, first), _run_time(joined, otherwise, second)
    if not types_agree(left.type, right.type):
        raise TypeError(
            f"Return type mismatch: {left.type} and {right.type}; where a run-time condition decides, every `return` "
            "gives a value of one type"
        )
    return left, right


def _run_time(joined: Joined, branch: Branch, value: base_value) -> base_value:
    if not isinstance(value, constexpr) or not isinstance(value.value, bool | int | float):
        return value
    return joined.within(branch, lambda: to_operand(value, joined.builder))
