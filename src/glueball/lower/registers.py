"""Registers of one thread as numbers that mathematical functions are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glueball.thread import arithmetic, control, conversion, mathematics
from glueball.thread.builder import Builder
from glueball.thread.ir import Record, Value

Operand = Any
"""A `Register`, or a Python number that becomes a literal of the other operand's type."""


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A register with Python's operators; each is one instruction, or none where constants give it away."""

    builder: Builder
    value: Value

    def of(self, other: Operand) -> Value:
        """Another operand as a register of this one's type."""
        return other.value if isinstance(other, Register) else self.builder.constant(self.value.type, other)

    def _made(self, value: Value) -> Register:
        return Register(self.builder, value)

    def _arithmetic(self, left: Value, right: Value, integer: Callable[..., Value], record: Record) -> Register:
        if left.type[0] == "i":
            return self._made(integer(left, right))
        return self._made(self.builder.emit(record, (left, right))[0])

    def __add__(self, other: Operand) -> Register:
        return self._arithmetic(self.value, self.of(other), self.builder.add, arithmetic.FADD)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Register:
        return self._arithmetic(self.value, self.of(other), self.builder.sub, arithmetic.FSUB)

    def __rsub__(self, other: Operand) -> Register:
        return self._arithmetic(self.of(other), self.value, self.builder.sub, arithmetic.FSUB)

    def __mul__(self, other: Operand) -> Register:
        return self._arithmetic(self.value, self.of(other), self.builder.mul, arithmetic.FMUL)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Register:
        return self._made(self.builder.emit(arithmetic.FDIV, (self.value, self.of(other)))[0])

    def __rtruediv__(self, other: Operand) -> Register:
        return self._made(self.builder.emit(arithmetic.FDIV, (self.of(other), self.value))[0])

    def __neg__(self) -> Register:
        if self.value.type[0] == "i":
            return 0 - self
        return self._made(self.builder.emit(arithmetic.FNEG, (self.value,))[0])

    def __lshift__(self, other: Operand) -> Register:
        if isinstance(other, int):
            return self._made(self.builder.shift_left(self.value, other))
        return self._made(self.builder.binary(arithmetic.SHL, self.value, self.of(other)))

    def __rshift__(self, other: Operand) -> Register:
        return self._made(self.builder.binary(arithmetic.SHR_SIGNED, self.value, self.of(other)))

    def __and__(self, other: Operand) -> Register:
        return self._made(self.builder.logical_and(self.value, self.of(other)))

    __rand__ = __and__

    def __or__(self, other: Operand) -> Register:
        return self._made(self.builder.logical_or(self.value, self.of(other)))

    __ror__ = __or__

    def __xor__(self, other: Operand) -> Register:
        return self._made(self.builder.logical_xor(self.value, self.of(other)))

    def __invert__(self) -> Register:
        return self ^ (True if self.value.type == "i1" else -1)

    def _compared(self, predicate: str, other: Operand) -> Register:
        record = arithmetic.COMPARE_SIGNED if self.value.type[0] == "i" else arithmetic.COMPARE_FLOAT
        right = self.of(other)
        if self.value.type == "i1":
            same = self.builder.logical_xor(self.value, right)
            return ~self._made(same) if predicate == "eq" else self._made(same)
        return self._made(self.builder.compare(record, predicate, self.value, right))

    def __eq__(self, other: Operand) -> Register:  # type: ignore[override]  # elementwise, as for arrays
        return self._compared("eq", other)

    def __ne__(self, other: Operand) -> Register:  # type: ignore[override]  # elementwise, as for arrays
        return self._compared("ne", other)

    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise

    def __lt__(self, other: Operand) -> Register:
        return self._compared("lt", other)

    def __le__(self, other: Operand) -> Register:
        return self._compared("le", other)

    def __gt__(self, other: Operand) -> Register:
        return self._compared("gt", other)

    def __ge__(self, other: Operand) -> Register:
        return self._compared("ge", other)


@dataclass(frozen=True, slots=True)
class RegisterAlgebra:
    """The algebra of registers: what it computes it appends to the kernel."""

    builder: Builder

    def _number(self, operand: Operand, kind: str = "f64") -> Value:
        return operand.value if isinstance(operand, Register) else self.builder.constant(kind, operand)

    def _made(self, record: Record, *operands: Operand, kind: str = "f64") -> Register:
        values = [self._number(operand, kind) for operand in operands]
        return Register(self.builder, self.builder.emit(record, values)[0])

    def _converted(self, record: Record, x: Operand, kind: str) -> Register:
        return Register(self.builder, self.builder.convert(record, x.value, kind))

    def fma(self, x: Operand, y: Operand, z: Operand) -> Register:
        """One instruction."""
        return self._made(mathematics.FMA, x, y, z)

    def select(self, condition: Register, then: Operand, otherwise: Operand) -> Register:
        """One instruction."""
        kind = next((each.value.type for each in (then, otherwise) if isinstance(each, Register)), "f64")
        sides = (self._number(then, kind), self._number(otherwise, kind))
        return Register(self.builder, self.builder.select(condition.value, *sides))

    def bits(self, x: Register) -> Register:
        """No instruction on most machines."""
        return self._converted(conversion.BITCAST, x, "i64")

    def from_bits(self, x: Register) -> Register:
        """No instruction on most machines."""
        return self._converted(conversion.BITCAST, x, "f64")

    def to_integer(self, x: Register) -> Register:
        """Saturating."""
        return self._converted(conversion.FLOAT_TO_SIGNED, x, "i64")

    def to_number(self, x: Register) -> Register:
        """Rounded once."""
        return self._converted(conversion.SIGNED_TO_FLOAT, x, "f64")

    def round_even(self, x: Register) -> Register:
        """One instruction."""
        return self._made(mathematics.ROUND_EVEN, x)

    def square_root(self, x: Register) -> Register:
        """Correctly rounded."""
        return self._made(mathematics.SQRT, x)

    def high_product(self, x: Operand, y: Operand) -> Register:
        """Of unsigned numbers."""
        return self._made(mathematics.MUL_HIGH_UNSIGNED, x, y, kind="i64")

    def shift_logical(self, x: Register, amount: Operand) -> Register:
        """Without the sign."""
        return Register(self.builder, self.builder.binary(arithmetic.SHR_UNSIGNED, x.value, x.of(amount)))

    def below_unsigned(self, x: Register, y: Operand) -> Register:
        """An unsigned comparison."""
        return Register(self.builder, self.builder.compare(arithmetic.COMPARE_UNSIGNED, "lt", x.value, x.of(y)))

    def either(
        self, condition: Register, rare: Callable[[], Sequence[Register]], usual: Callable[[], Sequence[Register]]
    ) -> Sequence[Register]:
        """An `if`; threads of a warp that need the rare side make the others wait."""
        regions, kinds = [], []
        for side in (rare, usual):
            region = self.builder.new_region()
            with self.builder.inside(region):
                values = [register.value for register in side()]
                self.builder.yield_values(values)
            regions.append(region)
            kinds = [value.type for value in values]
        results = self.builder.structured(control.IF, (condition.value,), regions, kinds)
        return [Register(self.builder, result) for result in results]
