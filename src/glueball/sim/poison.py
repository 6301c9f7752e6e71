"""Which values may be undefined on some thread, found before anything runs, so that only those carry poison along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glueball.thread.ir import Function, Instruction, Region, Value

LOADS = ("global_load", "shared_load", "atomic", "atomic_load", "shared_atomic")
CHECKED = ("add_no_wrap", "mul_no_wrap")
Origins = frozenset[int]
_NONE: Origins = frozenset()


def leaves_undefined(instruction: Instruction) -> bool:
    """Whether an instruction is a masked load without replacements."""
    attributes = instruction.attributes
    return instruction.record.name in LOADS and bool(attributes.get("masked")) and not attributes.get("replaced")


def makes_undefined(instruction: Instruction) -> bool:
    """Whether some result may be undefined although all operands are not: what was not loaded, or overflowed."""
    return leaves_undefined(instruction) or instruction.record.name in CHECKED


class PoisonAnalysis:
    """For each value that may be undefined, the indices of the loads and the arithmetic that it may come from.

    Data goes through shared memory as through one cell: what some store puts there, any load may get.
    """

    def __init__(self, function: Function, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers
        self._origins: dict[int, Origins] = {}
        self.shared: Origins = _NONE
        self._changed = any(makes_undefined(instruction) for instruction in function.body.walk())
        while self._changed:
            self._changed = False
            self._visit_region(function.body)

    def of(self, value: Value) -> Origins:
        """Instructions that may leave the value undefined; empty for most values."""
        return self._origins.get(id(value), _NONE)

    def _add(self, value: Value, *origins: Origins) -> None:
        known = self.of(value)
        found = known.union(*origins)
        if found != known:
            self._origins[id(value)] = found
            self._changed = True

    def _visit_region(self, region: Region) -> tuple[Value, ...]:
        """Visits a region; what it yields."""
        yielded: tuple[Value, ...] = ()
        for instruction in region.instructions:
            if instruction.record.name == "yield":
                yielded = tuple(instruction.operands)
            else:
                self._visit(instruction)
        return yielded

    def _visit(self, instruction: Instruction) -> None:
        name, operands, results = instruction.record.name, instruction.operands, instruction.results
        match name:
            case "if":
                for region in instruction.regions:
                    self._flow(self._visit_region(region), results)
            case "for":
                (body,) = instruction.regions
                self._flow(operands[3:], body.arguments[1:])
                self._flow(self._visit_region(body), body.arguments[1:])
                self._flow(body.arguments[1:], results)
            case "while":
                condition, body = instruction.regions
                self._flow(operands, condition.arguments)
                values = self._visit_region(condition)[1:]
                self._flow(values, body.arguments)
                self._flow(values, results)
                self._flow(self._visit_region(body), condition.arguments)
            case "global_load" | "shared_load" | "atomic" | "atomic_load" | "shared_atomic":
                self._visit_load(instruction)
            case "load_matrix":
                for result in results:
                    self._add(result, self.shared)
            case "shared_store" | "store_matrix":
                stored = operands[2:] if instruction.attributes.get("masked") else operands[1:]
                found = self.shared.union(*(self.of(value) for value in stored))
                self._changed |= found != self.shared
                self.shared = found
            case "float8_extend_pair" | "float8_round_pair":
                self._flow(operands, results)
            case _:
                own = frozenset((self._numbers[id(instruction)],)) if name in CHECKED else _NONE
                for result in results:
                    self._add(result, own, *(self.of(operand) for operand in operands))

    def _visit_load(self, instruction: Instruction) -> None:
        through = self.shared if instruction.record.name == "shared_load" else _NONE
        for index, result in enumerate(instruction.results):
            if leaves_undefined(instruction):
                self._add(result, through, frozenset((self._numbers[id(instruction)],)))
            elif instruction.attributes.get("masked"):
                self._add(result, through, self.of(instruction.operands[2 + index]))
            else:
                self._add(result, through)

    def _flow(self, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._add(target, self.of(source))
