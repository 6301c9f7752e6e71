"""Which values may be undefined on some thread, found before anything runs, so that only those carry poison along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glueball.thread.ir import Function, Instruction, Region, Value

LOADS = ("global_load", "shared_load", "remote_load", "atomic", "atomic_load", "shared_atomic")
SHARED_LOADS = ("shared_load", "remote_load")
CHECKED = ("add_no_wrap", "mul_no_wrap", "rem_of_run")
PRODUCT = "warpgroup_mma"
"""What gives accumulators that are undefined until a wait."""
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
        self._products = frozenset(
            numbers[id(instruction)] for instruction in function.body.walk() if instruction.record.name == PRODUCT
        )
        self._changed = bool(self._products) or any(map(makes_undefined, function.body.walk()))
        while self._changed:
            self._changed = False
            self._visit_region(function.body)

    def of(self, value: Value) -> Origins:
        """Instructions that may leave the value undefined; empty for most values."""
        return self._origins.get(id(value), _NONE)

    def in_flight(self, value: Value) -> Origins:
        """Products of warp groups that the value may be the accumulator of, with no wait between."""
        return self.of(value) & self._products

    def settled(self, value: Value) -> Origins:
        """The same as `of` once the value is known to be no such accumulator."""
        return self.of(value) - self._products

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
            case "if" | "partitions":
                for region in instruction.regions:
                    yielded = self._visit_region(region)
                    self._flow(yielded or results, results)
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
            case _ if name in LOADS or name == "load_matrix":
                self._visit_load(instruction)
            case "shared_store" | "store_matrix":
                stored = operands[2:] if instruction.attributes.get("masked") else operands[1:]
                found = self.shared.union(*(self.settled(value) for value in stored))
                self._changed |= found != self.shared
                self.shared = found
            case "float8_extend_pair" | "float8_round_pair":
                self._flow(operands, results)
            case "warpgroup_mma" | "warpgroup_wait":
                self._visit_product(instruction)
            case "where_defined":
                pass
            case _:
                own = frozenset((self._numbers[id(instruction)],)) if name in CHECKED else _NONE
                for result in results:
                    self._add(result, own, *(self.settled(operand) for operand in operands))

    def _visit_product(self, instruction: Instruction) -> None:
        operands, results = instruction.operands, instruction.results
        if instruction.record.name == PRODUCT:
            found = self.shared.union(*(self.of(operand) for operand in operands))
            for result in results:
                self._add(result, found, frozenset((self._numbers[id(instruction)],)))
            return
        for operand, result in zip(operands, results, strict=True):
            self._add(result, self.of(operand) if instruction.attributes["pending"] else self.settled(operand))

    def _visit_load(self, instruction: Instruction) -> None:
        name = instruction.record.name
        through = self.shared if name in (*SHARED_LOADS, "load_matrix") else _NONE
        first = 3 if name == "remote_load" else 2
        for index, result in enumerate(instruction.results):
            if leaves_undefined(instruction):
                self._add(result, through, frozenset((self._numbers[id(instruction)],)))
            elif instruction.attributes.get("masked"):
                self._add(result, through, self.of(instruction.operands[first + index]))
            else:
                self._add(result, through)

    def _flow(self, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._add(target, self.of(source))
