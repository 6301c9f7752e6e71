"""A walk that goes through loops turn by turn, so that values carried from one turn to the next are followed too.

That is what rings of buffers need: which slot and which part of a tensor a copy is about depends on the turn in ways
that no sum of strides says. All programs go side by side, each as long as it has turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from glueball.explain.affine import UNBOUNDED, Affine, Array, Number
from glueball.explain.pointers import Known, Loop, Walker, trips_of, truth
from glueball.tile.ir import Operation, Region, Value
from glueball.tile.passes.contiguity import step_of

MOST_TURNS = 1 << 15
"""Turns of one loop, in the program that has most, up to which they are walked one by one."""


class TurnWalker(Walker):
    """As `Walker`, turn by turn; what is known of a visit is then about one turn."""

    def structured(
        self, operation: Operation, operands: list[Known], chosen: Array | None, loops: tuple[Loop, ...]
    ) -> None:
        """Walks through the regions of an operation, those of a loop as often as any program does."""
        match operation.opcode:
            case "if":
                self._branches(operation, operands, chosen, loops)
            case "for" if chosen is not None and (turns := self._turns(operands, chosen)) is not None:
                self._for(operation, operands, turns, (chosen, loops))
            case "while" if chosen is not None:
                self._while(operation, operands, chosen, loops)
            case "warp_specialize":
                super().structured(operation, operands, chosen, loops)
                self._bind(operation.results, self._yielded(operation.regions[0]))
            case _:
                super().structured(operation, operands, chosen, loops)

    def _branches(
        self, operation: Operation, operands: list[Known], chosen: Array | None, loops: tuple[Loop, ...]
    ) -> None:
        super().structured(operation, operands, chosen, loops)
        taken = truth(operands[0])
        then, otherwise = map(self._yielded, operation.regions)
        self._bind(operation.results, [_choice(taken, *pair) for pair in zip(then, otherwise, strict=True)])

    def _turns(self, operands: list[Known], chosen: Array) -> Array | None:
        """Turns that each program takes of a loop with such bounds; `None` where not known or too many."""
        if not all(isinstance(operand, Affine) for operand in operands[:3]):
            return None
        trips = trips_of(*cast("list[Affine]", operands[:3]))
        if trips is None:
            return None
        turns = np.where(chosen > 0, trips, 0)
        return turns if int(turns.max(initial=0)) <= MOST_TURNS else None

    def _for(
        self,
        operation: Operation,
        operands: list[Known],
        turns: Array,
        around: tuple[Array, tuple[Loop, ...]],
    ) -> None:
        """A body without a turn is walked once, for nobody, so that its operations are known."""
        chosen, loops = around
        (body,) = operation.regions
        lower, _, step = cast("list[Affine]", operands[:3])
        assert lower.base.values is not None and step.base.values is not None
        divisibility = min(lower.base.divisibility, step.base.divisibility)
        induction, *arguments = body.arguments
        carried = operands[3:]
        for turn in range(max(1, int(turns.max(initial=0)))):
            active = turn < turns
            values = np.asarray(lower.base.values + turn * step.base.values)
            self.known[induction] = Affine(Number(values, None, divisibility))
            self._bind(arguments, carried)
            self.region(body, chosen * active, loops)
            yielded = self._yielded(body)
            carried = [_choice(active, *pair) for pair in zip(yielded, carried, strict=True)]
        self._bind(operation.results, carried)

    def _while(self, operation: Operation, operands: list[Known], chosen: Array, loops: tuple[Loop, ...]) -> None:
        condition, body = operation.regions
        active, carried = np.asarray(chosen > 0), operands
        results: list[Known] = [None] * len(operation.results)
        for turn in range(MOST_TURNS):
            self._bind(condition.arguments, carried)
            self.region(condition, chosen * active, loops)
            held, *passed = self._yielded(condition)
            holds = truth(held)
            self._bind(body.arguments, passed)
            if holds is None:
                break
            left, active = active & (holds == 0), active & (holds != 0)
            results = passed if turn == 0 else [_choice(left, *pair) for pair in zip(passed, results, strict=True)]
            if not active.any():
                if turn == 0:
                    self.region(body, chosen * 0, loops)
                self._bind(operation.results, results)
                return
            self.region(body, chosen * active, loops)
            carried = [_choice(active, *pair) for pair in zip(self._yielded(body), carried, strict=True)]
        self.region(body, None, loops)
        self._bind(operation.results, [None] * len(results))

    def _yielded(self, region: Region) -> list[Known]:
        last = region.operations[-1:]
        return [self.known.get(value) for value in last[0].operands] if last and last[0].opcode == "yield" else []

    def _bind(self, values: Sequence[Value], known: Sequence[Known]) -> None:
        for value, found in zip(values, known, strict=True):
            self.known[value] = self._with_facts(value, found)

    def _with_facts(self, value: Value, found: Known) -> Known:
        """What is found of a value together with what the compiler knows of it in every turn, or on every path."""
        if not isinstance(found, Affine):
            return found
        runs, divisibility = self.runs.get(value), 1
        if runs is not None:
            longest = max(runs.contiguity, default=UNBOUNDED)
            divisibility = min(runs.divisibility, longest * step_of(value))
        return Affine(Number(found.base.values, None, divisibility), found.strides, found.steps, found.argument)


def _choice(taken: Array | None, then: Known, otherwise: Known) -> Known:
    """A value for the programs that take a path, another one for the rest."""
    if taken is not None and bool(np.all(taken)):
        return then
    if taken is None or not isinstance(then, Affine) or not isinstance(otherwise, Affine):
        return None
    one, other = then.base.values, otherwise.base.values
    if one is None or other is None or (then.strides, then.steps) != (otherwise.strides, otherwise.steps):
        return None
    values = np.asarray(np.where(taken, one, other))
    return Affine(Number(values), then.strides, then.steps, then.argument or otherwise.argument)
