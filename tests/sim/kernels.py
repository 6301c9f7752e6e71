"""Hand-built thread IR: every instruction gets the line that was last set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from glueball.location import SourceLocation
from glueball.sim import Report, run
from glueball.targets import TARGETS
from glueball.thread.builder import Builder
from glueball.thread.control import FOR, IF, WHILE
from glueball.thread.ir import Function, Parameter, Region, SharedAllocation, Value
from glueball.thread.table import INSTRUCTIONS


class Kernel(Builder):
    """A kernel under construction."""

    def __init__(self, num_warps: int = 1, target: str = "sm_90a") -> None:
        self.body = Region()
        super().__init__(self.body)
        self.function = Function("kernel", [], self.body, num_warps, TARGETS[target])
        self.threads = num_warps * TARGETS[target].lanes
        self.at(1)

    def at(self, line: int) -> None:
        """The line of what follows."""
        self.location = SourceLocation("kernel.py", line, function="kernel")

    def pointer(self, name: str, pointee: str = "float32") -> Value:
        return self._parameter("i64", name, pointee)

    def scalar(self, name: str, kind: str = "i32") -> Value:
        return self._parameter(kind, name, None)

    def _parameter(self, kind: str, name: str, pointee: str | None) -> Value:
        value = self.new_value(kind)
        self.function.parameters.append(Parameter(value, name, pointee))
        return value

    def allocate(self, name: str, size: int) -> None:
        offset = self.function.shared_bytes
        self.function.allocations[name] = SharedAllocation(name, size, 16, offset)
        self.function.shared_bytes += size

    def do(self, record: str, *operands: Value | int, **attributes: Any) -> Any:
        """Any instruction; integers stand for `i32` literals. One result comes alone, several as a tuple."""
        values = [self.i32(operand) if isinstance(operand, int) else operand for operand in operands]
        results = self.emit(INSTRUCTIONS[record], values, attributes)
        return results[0] if len(results) == 1 else results

    def i32(self, number: int) -> Value:
        return self.constant("i32", number)

    def lane(self) -> Value:
        value: Value = self.do("lane_id")
        return value

    def thread(self) -> Value:
        """Index of the thread in its block."""
        return self.add(self.mul(self.do("warp_id"), self.i32(self.function.target.lanes)), self.lane())

    def place(self, block: int) -> Value:
        """Index of the thread in the grid where blocks are `block` elements apart."""
        return self.add(self.mul(self.program_id(0), self.i32(block)), self.thread())

    def address(self, pointer: Value, index: Value | int, size: int = 4) -> Value:
        index = self.i32(index) if isinstance(index, int) else index
        wide = index if index.constant is None else self.constant("i64", index.constant)
        if wide.type != "i64":
            wide = self.do("sign_extend", wide, to="i64")
        return self.add(pointer, self.mul(wide, self.constant("i64", size)))

    def less(self, left: Value | int, right: Value | int) -> Value:
        value: Value = self.do("compare_signed", left, right, predicate="lt")
        return value

    def load(self, address: Value, mask: Value | None = None, other: Sequence[Value] = (), space: str = "global",
             kind: str = "f32", count: int = 1, **attributes: Any) -> Any:  # fmt: skip
        operands = [address, *([] if mask is None else [mask]), *other]
        options = {"type": kind, "count": count, "offset": 0, "masked": mask is not None, "replaced": bool(other)}
        return self.do(f"{space}_load", *operands, **{**options, **attributes})

    def store(self, address: Value, values: Value | Sequence[Value], mask: Value | None = None, space: str = "global",
              kind: str = "f32", **attributes: Any) -> None:  # fmt: skip
        values = [values] if isinstance(values, Value) else values
        operands = [address, *([] if mask is None else [mask]), *values]
        options = {"type": kind, "count": len(values), "offset": 0, "masked": mask is not None}
        self.do(f"{space}_store", *operands, **{**options, **attributes})

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """An `if` without results."""
        then, otherwise = Region(), Region()
        with self.inside(then):
            yield
            self.yield_values(())
        with self.inside(otherwise):
            self.yield_values(())
        self.structured(IF, (condition,), (then, otherwise), ())

    def choose(self, condition: Value, then: Any, otherwise: Any, kinds: Sequence[str]) -> tuple[Value, ...]:
        """An `if` whose branches are functions that give values."""
        regions = []
        for branch in (then, otherwise):
            region = Region()
            with self.inside(region):
                self.yield_values(branch())
            regions.append(region)
        return self.structured(IF, (condition,), regions, kinds)

    def loop(self, lower: Value | int, upper: Value | int, step: Value | int, initial: Sequence[Value], body: Any,
             negative: bool = False) -> tuple[Value, ...]:  # fmt: skip
        """A `for`; `body(induction, *carried)` gives the next values."""
        bounds = [self.i32(bound) if isinstance(bound, int) else bound for bound in (lower, upper, step)]
        region = Region([self.new_value("i32"), *(self.new_value(value.type) for value in initial)])
        with self.inside(region):
            self.yield_values(body(*region.arguments))
        kinds = [value.type for value in initial]
        return self.structured(FOR, (*bounds, *initial), (region,), kinds, {"step_negative": negative})

    def spin(self, initial: Sequence[Value], condition: Any, body: Any) -> tuple[Value, ...]:
        """A `while`; `condition(*values)` gives the condition, `body(*values)` the next values."""
        kinds = [value.type for value in initial]
        regions = [Region([self.new_value(kind) for kind in kinds]) for _ in range(2)]
        with self.inside(regions[0]):
            arguments = regions[0].arguments
            self.yield_values((condition(*arguments), *arguments))
        with self.inside(regions[1]):
            self.yield_values(body(*regions[1].arguments))
        return self.structured(WHILE, initial, regions, kinds)

    def run(self, grid: Sequence[int], *arguments: Any, **options: Any) -> Report:
        return run(self.function, self.function.target, grid, arguments, **options)
