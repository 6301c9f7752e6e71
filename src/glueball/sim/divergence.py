"""Whether blocks of a kernel with partitions may run as one: not where they wait at different places."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import Function, Instruction, Region, Value

ALIKE = ("lane_id", "warp_id", "num_programs", "elect")
WAITS = ("mbarrier_wait",)
"""What a partition may wait at for another one."""


def waits_differ_between_blocks(function: Function) -> bool:
    """Whether some block may wait where another one does not, other than by a loop that ends earlier.

    Blocks that run as one go on when the wait of each is over. That is safe as long as all of them come to the same
    waits in the same order, some of them perhaps leaving a loop before the others.
    """
    return _Divergence(function).waits_differ()


class _Divergence:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._varying: set[int] = set()
        self._changed = True
        while self._changed:
            self._changed = False
            self._visit_region(function.body)

    def waits_differ(self) -> bool:
        return any(self._differs(instruction) for instruction in self._function.body.walk())

    def _differs(self, instruction: Instruction) -> bool:
        match instruction.record.name:
            case "if":
                return self._varies(instruction.operands) and _has_waits(instruction)
            case "while":
                return self._varies(instruction.regions[0].instructions[-1].operands[:1]) and _has_waits(instruction)
            case "mbarrier_wait":
                return self._varies(instruction.operands[2:])
        return False

    def _varies(self, values: Sequence[Value]) -> bool:
        return any(id(value) in self._varying for value in values)

    def _mark(self, values: Sequence[Value]) -> None:
        for value in values:
            if id(value) not in self._varying:
                self._varying.add(id(value))
                self._changed = True

    def _flow(self, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            if self._varies([source]):
                self._mark([target])

    def _visit_region(self, region: Region) -> Sequence[Value]:
        """Visits a region; what it yields."""
        for instruction in region.instructions:
            if instruction.record.name == "yield":
                return instruction.operands
            self._visit(instruction)
        return ()

    def _visit(self, instruction: Instruction) -> None:
        operands, results, regions = instruction.operands, instruction.results, instruction.regions
        match instruction.record.name:
            case "if":
                for region in regions:
                    self._flow(self._visit_region(region) or results, results)
                if self._varies(operands):
                    self._mark(results)
            case "for":
                body = regions[0]
                if self._varies(operands[:3]):
                    self._mark([*body.arguments, *results])
                self._flow(operands[3:], body.arguments[1:])
                self._flow(self._visit_region(body), body.arguments[1:])
                self._flow(body.arguments[1:], results)
            case "while":
                self._flow(operands, regions[0].arguments)
                goes_on, *values = self._visit_region(regions[0])
                self._flow(values, regions[1].arguments)
                self._flow(values, results)
                self._flow(self._visit_region(regions[1]), regions[0].arguments)
                if self._varies([goes_on]):
                    self._mark(results)
            case "partitions":
                self._flow(operands, [argument for worker in regions[1:] for argument in worker.arguments])
                for worker in regions[1:]:
                    self._visit_region(worker)
                self._flow(self._visit_region(regions[0]), results)
            case name:
                own = name not in ALIKE and (not instruction.record.pure or name == "program_id")
                if own or self._varies(operands):
                    self._mark(results)


def _has_waits(instruction: Instruction) -> bool:
    return any(each.record.name in WAITS for region in instruction.regions for each in region.walk())
