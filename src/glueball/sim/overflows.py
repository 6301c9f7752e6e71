"""Index arithmetic that must not wrap or fall below zero: where it did, and the report once the result is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball import numerics
from glueball.errors import IntegerOverflowError
from glueball.sim.masks import Array, Booleans
from glueball.sim.poison import CHECKED
from glueball.thread.ir import BITS, Instruction

if TYPE_CHECKING:
    from glueball.sim.threads import Thread, Threads


@dataclass(frozen=True, slots=True)
class Overflow:
    """Threads in which an instruction wrapped, and its operands there, all broadcastable to `[cta, warp, lane]`."""

    threads: Booleans
    left: Array
    right: Array

    def threads_hold(self, index: tuple[Any, ...]) -> bool:
        """Whether a thread is among them."""
        return bool(_element(self.threads, index))

    def first(self) -> tuple[Any, ...]:
        """The first of the threads."""
        return np.unravel_index(int(self.threads.argmax()), self.threads.shape)

    def at(self, index: tuple[Any, ...]) -> tuple[int, int]:
        """The operands in a thread."""
        return int(_element(self.left, index)), int(_element(self.right, index))

    def over(self, earlier: Overflow) -> Overflow:
        """This one, and the earlier one where this one has no thread."""
        left, right = (
            np.where(self.threads, new, old) for new, old in ((self.left, earlier.left), (self.right, earlier.right))
        )
        return Overflow(np.asarray(self.threads | earlier.threads), left, right)


class Overflows:
    """For each instruction of a partition that wrapped, where it did and of which operands."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.found: dict[int, Overflow] = {}

    def compute(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Signed arithmetic whose result is undefined where it wraps; the machine is told where it does.

        That is a fault once an active thread uses the result, not before: lanes that are masked off later may wrap.
        """
        self.threads.overflow = None
        result = function(left, right)
        ends = np.iinfo(result.dtype)
        lefts, rights = _range(left), _range(right)
        corners = [function(a, b) for a in lefts for b in rights]
        if min(corners) < ends.min or max(corners) > ends.max:
            self._find(function, left, right, result)
        return result

    def _find(self, function: Callable[[Any, Any], Any], left: Any, right: Any, result: Any) -> None:
        wide = np.dtype(object) if result.dtype.itemsize == 8 else np.dtype(np.int64)
        exact = function(np.asarray(left).astype(wide), np.asarray(right).astype(wide))
        self._note(np.asarray(exact != np.asarray(result).astype(wide), bool), left, right)

    def remainder_of_run(self, left: Any, right: Any) -> Any:
        """The remainder of the first index of a run: 0 below zero, where the next ones are negative, is undefined."""
        self.threads.overflow = None
        result = numerics.remainder(left, right)
        wrong = np.logical_and(np.less(left, 0), np.equal(result, 0))
        if wrong.any():
            self._note(wrong, left, right)
        return result

    def _note(self, wrong: Booleans, left: Any, right: Any) -> None:
        """Remembers the threads in which the current instruction has no defined result."""
        threads = self.threads
        for mask in (threads.active, None if threads.ignored is None else ~threads.ignored):
            wrong = wrong if mask is None else wrong & mask
        if wrong.any():
            threads.overflow = wrong
            wrong = np.broadcast_to(wrong, np.broadcast_shapes((1, 1, 1), wrong.shape))
            found = Overflow(wrong, np.asarray(left), np.asarray(right))
            earlier = self.found.get(threads.at)
            self.found[threads.at] = found if earlier is None else found.over(earlier)

    def check(self, origins: Sequence[int], index: tuple[Any, ...], role: str, thread: Thread) -> None:
        """Reports the overflow that a thread's undefined value comes from, if it comes from one.

        Where the value has moved between threads and no load can have left it undefined, another thread overflowed.
        """
        wrapped = {origin: self.found[origin] for origin in origins if origin in self.found}
        values = {origin: found.at(index) for origin, found in wrapped.items() if found.threads_hold(index)}
        if not values and all(self.threads.instructions[origin].record.name in CHECKED for origin in origins):
            values = {origin: found.at(found.first()) for origin, found in wrapped.items()}
        if not values:
            return
        origin, (left, right) = next(iter(values.items()))
        instruction, here = self.threads.instructions[origin], self.threads.location
        place = instruction.location
        used = "" if (here.file, here.line) == (place.file, place.line) else f" at {here}"
        reason, advice = _explained(instruction, left, right)
        raise IntegerOverflowError(
            f"{reason}, and {role}{used} depends on it ({thread}){advice}",
            place,
            values=(left, right),
            used=here,
            **thread.details(),
        )


def _explained(instruction: Instruction, left: int, right: int) -> tuple[str, str]:
    """Why the result of two operands is undefined, and what to do about it."""
    name, bits = instruction.record.name, BITS[instruction.results[0].type]
    if name == "rem_of_run":
        reason = f"indices from {left} on are taken modulo {right}, which gives 0 and then negative numbers"
        return reason, f"; keep them from falling below zero, for example by adding {abs(right)} first"
    verb = "sum" if name == "add_no_wrap" else "product"
    advice = "" if bits == 64 else "; compute it in 64 bits, for example with `.to(gl.int64)` on an operand"
    return f"the {verb} of {left} and {right} does not fit {bits} bits", advice


def _element(array: Array, index: tuple[Any, ...]) -> Any:
    """An element of an array that is broadcast to an index of more or longer dimensions."""
    shape = (1,) * (len(index) - array.ndim) + array.shape
    return array.reshape(shape)[tuple(0 if extent == 1 else i for i, extent in zip(index, shape, strict=True))]


def _range(operand: Any) -> tuple[int, int]:
    operand = np.asarray(operand)
    return int(operand.min()), int(operand.max())
