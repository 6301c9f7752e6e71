"""Small hand-made kernels in thread IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glueball.location import SourceLocation
from glueball.targets import target_named
from glueball.thread import conversion, memory
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Function, Parameter, Record, Region, SharedAllocation, Value

NVIDIA = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]
AMD = ["gfx942", "gfx950", "gfx1250"]
KERNEL = SourceLocation("/project/kernels.py", 10, 4, 20, "kernel", 8)


class Kernel:
    """A kernel with pointers `x` and `y` and parameters of other types as asked for."""

    def __init__(self, target: str, shared_bytes: int = 0, **parameters: str) -> None:
        body = Region()
        self.builder = Builder(body)
        self.builder.location = KERNEL
        self.x, self.y = self.builder.new_value("i64", 16), self.builder.new_value("i64", 16)
        self.parameters = {name: self.builder.new_value(kind) for name, kind in parameters.items()}
        listed = [Parameter(self.x, "x", "fp32"), Parameter(self.y, "y", "fp32")]
        listed += [Parameter(value, name) for name, value in self.parameters.items()]
        self.function = Function("kernel", listed, body, 4, target_named(target), location=KERNEL)
        self._stored = 0
        if shared_bytes:
            self.function.allocations["buffer"] = SharedAllocation("buffer", shared_bytes, 16, 0)
            self.function.shared_bytes = shared_bytes

    def emit(self, record: Record, operands: Sequence[Value] = (), **attributes: Any) -> tuple[Value, ...]:
        return self.builder.emit(record, operands, attributes)

    def load(self, kind: str, count: int = 1, **attributes: Any) -> tuple[Value, ...]:
        self._stored += 16
        return self.emit(memory.GLOBAL_LOAD, (self.x,), type=kind, count=count, offset=self._stored, **attributes)

    def keep(self, *values: Value) -> None:
        """Stores values, so that nothing drops what computed them."""
        for value in values:
            stored = self.builder.convert(conversion.ZERO_EXTEND, value, "i8") if value.type == "i1" else value
            self._stored += 16
            self.emit(memory.GLOBAL_STORE, (self.y, stored), type=stored.type, count=1, offset=self._stored)

    def operand(self, kind: str) -> Value:
        """A value nobody can fold."""
        if kind != "i1":
            return self.load(kind)[0]
        return self.builder.convert(conversion.TRUNCATE, self.load("i8")[0], "i1")


def counts_of(kind: str) -> list[int]:
    """Every vector length of up to 16 bytes."""
    return [1 << shift for shift in range(5) if BITS[kind] << shift <= 128]


def attributes_of(kind: str, count: int, **more: Any) -> Mapping[str, Any]:
    return {"type": kind, "count": count, "offset": 0, **more}
