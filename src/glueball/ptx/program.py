"""Assembly made ready to run: names resolved, rows of the table found, widths checked; and running it on arrays."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from glueball.ptx.constraints import Constraints, parse_constraints
from glueball.ptx.instruction import Form, Instruction, form_of
from glueball.ptx.table import instructions
from glueball.ptx.text import (
    Brace,
    Declaration,
    Immediate,
    Operand,
    Register,
    Several,
    Statement,
    operands,
    statements,
    written_float,
)
from glueball.ptx.types import TYPES, Array, RegisterType, Uninterpreted, register

Registers = MutableMapping[str, Array]


@dataclass(frozen=True, slots=True)
class Place:
    """A register: a name of its own, and its bits."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Source:
    """What an instruction reads: registers and constants, lowest bits first, as one value of a type."""

    type: RegisterType
    parts: tuple[Place | Array, ...]
    negated: bool = False

    def read(self, registers: Registers) -> Array:
        """The elements."""
        whole = register(self.type.bits)
        words = [registers[part.name] if isinstance(part, Place) else part for part in self.parts]
        bits, shift = np.asarray(words[0]).astype(whole, copy=False), 0
        for word, lower in zip(words[1:], words, strict=False):
            shift += lower.dtype.itemsize * 8
            bits = bits | word.astype(whole) << whole.type(shift)
        return self.type.values(~bits if self.negated else bits)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an instruction writes a value of a type: registers, lowest bits first; None for what goes nowhere."""

    type: RegisterType
    parts: tuple[Place | None, ...]

    def write(self, registers: Registers, values: Array, mask: Array | None) -> None:
        """Writes elements where a mask says so, everywhere without one. Wider registers get the sign of signed ones."""
        bits, share = self.type.pack(values), self.type.bits // len(self.parts)
        for index, place in enumerate(self.parts):
            if place is None:
                continue
            part = bits if not index else bits >> bits.dtype.type(index * share)
            if place.bits > self.type.bits and self.type.element.kind == "i":
                part = part.view(self.type.element).astype(f"i{place.bits // 8}")
            word = part.astype(register(place.bits), copy=False)
            if mask is not None:
                word = np.where(mask, word, registers.get(place.name, word.dtype.type(0)))
            registers[place.name] = word


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, ready to run."""

    instruction: Instruction
    form: Form
    guard: Source | None
    destinations: tuple[Destination, ...]
    sources: tuple[Source, ...]

    def run(self, registers: Registers) -> None:
        """Reads, computes, writes."""
        with np.errstate(all="ignore"):
            found = self.instruction.compute(self.form, *(source.read(registers) for source in self.sources))
        mask = None if self.guard is None else self.guard.read(registers)
        for destination, values in zip(
            self.destinations, found if isinstance(found, tuple) else (found,), strict=False
        ):
            destination.write(registers, values, mask)


@dataclass(frozen=True, slots=True)
class Program:
    """Assembly with its constraints."""

    constraints: Constraints
    steps: tuple[Step, ...]

    def run(self, words: Sequence[Array]) -> list[Array]:
        """The registers of the results, of those of the operands: arrays of unsigned integers that broadcast."""
        results, registers = len(self.constraints.results), {}
        for index, (word, bits) in enumerate(zip(words, self.constraints.operands, strict=True)):
            registers[f"${results + index}"] = word.astype(register(bits))
        for operand, result in self.constraints.tied:
            registers[f"${result}"] = registers[f"${results + operand}"]
        for step in self.steps:
            step.run(registers)
        return [registers[f"${index}"] for index in range(results)]


@lru_cache(maxsize=256)
def parse(assembly: str, constraints: str) -> Program:
    """Assembly made ready. Errors: `Uninterpreted` names what is not in the table of instructions."""
    parsed = parse_constraints(constraints)
    resolver = _Resolver(parsed)
    steps = []
    for each in statements(assembly):
        if isinstance(each, Brace):
            resolver.brace(each)
        elif isinstance(each, Declaration):
            resolver.declare(each)
        else:
            steps.append(resolver.step(each))
    resolver.finish()
    return Program(parsed, tuple(steps))


@dataclass(slots=True)
class _Resolver:
    """Names in scope, and which registers have been written."""

    constraints: Constraints
    scopes: list[dict[str, Place]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    declared: int = 0

    def __post_init__(self) -> None:
        results = self.constraints.results
        bits = (*results, *self.constraints.operands)
        self.scopes.append({f"${index}": Place(f"${index}", width) for index, width in enumerate(bits)})
        self.written |= {f"${len(results) + index}" for index in range(len(self.constraints.operands))}
        self.written |= {f"${result}" for _, result in self.constraints.tied}
        for operand, result in self.constraints.tied:
            self.scopes[0][f"${len(results) + operand}"] = Place(f"${result}", results[result])

    def brace(self, brace: Brace) -> None:
        if brace.opens:
            self.scopes.append({})
        elif len(self.scopes) == 1:
            raise Uninterpreted("`}` closes nothing")
        else:
            self.scopes.pop()

    def declare(self, declaration: Declaration) -> None:
        kind = TYPES.get(declaration.type)
        if kind is None:
            raise Uninterpreted(f"`.reg .{declaration.type}` is no type of registers")
        for name in declaration.names:
            self.declared += 1
            self.scopes[-1][name] = Place(f"{name} {self.declared}", kind.bits)

    def finish(self) -> None:
        if len(self.scopes) != 1:
            raise Uninterpreted("a `{` is not closed")
        for index in range(len(self.constraints.results)):
            if f"${index}" not in self.written:
                raise Uninterpreted(f"nothing writes `${index}`")

    def step(self, statement: Statement) -> Step:
        try:
            return self._step(statement)
        except Uninterpreted as error:
            raise Uninterpreted(f"`{statement.text}` is not interpreted: {error}") from None

    def _step(self, statement: Statement) -> Step:
        spelled = [each for each in instructions(statement.opcode) if each.matches(statement.opcode)]
        if not spelled:
            raise Uninterpreted(f"`{statement.opcode}` is not in the table of instructions")
        if not statement.operands:
            raise Uninterpreted("it has no operands")
        first, *rest = operands(statement.operands)
        given = first.parts if isinstance(first, Several) and not first.is_vector else (first,)
        form = form_of(statement.opcode)
        for instruction in spelled:
            destinations, sources = instruction.operand_types(form)
            if len(given) <= len(destinations) and len(rest) == len(sources):
                break
        else:
            raise Uninterpreted(f"`{statement.opcode}` has other operands")
        guard = None if statement.guard is None else self._source(statement.guard, TYPES["pred"])
        read = [self._source(each, kind, instruction.extends) for each, kind in zip(rest, sources, strict=True)]
        write = [
            self._destination(each, kind, instruction.extends) for each, kind in zip(given, destinations, strict=False)
        ]
        return Step(instruction, form, guard, tuple(write), tuple(read))

    def _destination(self, operand: Operand, kind: RegisterType, extends: bool) -> Destination:
        parts: list[Place | None] = []
        for part in operand.parts if isinstance(operand, Several) else (operand,):
            if not isinstance(part, Register) or part.negated:
                raise Uninterpreted("it has no register to write")
            parts.append(None if part.name == "_" else self._place(part.name))
        self._check([part.bits for part in parts if part is not None], len(parts), kind, extends)
        self.written |= {part.name for part in parts if part is not None}
        return Destination(kind, tuple(parts))

    def _source(self, operand: Operand, kind: RegisterType, extends: bool = False) -> Source:
        parts = operand.parts if isinstance(operand, Several) else (operand,)
        negated = isinstance(operand, Register) and operand.negated
        if negated and kind.bits != 1:
            raise Uninterpreted("only predicates are negated with `!`")
        resolved = [self._read(part, kind, len(parts)) for part in parts]
        widths = [part.bits for part in resolved if isinstance(part, Place)]
        self._check(widths, len(parts), kind, extends)
        return Source(kind, tuple(resolved), negated)

    def _read(self, operand: Operand, kind: RegisterType, count: int) -> Place | Array:
        if isinstance(operand, Immediate):
            return _constant(operand, kind if count == 1 else TYPES[f"b{kind.bits // count}"])
        assert isinstance(operand, Register)
        place = self._place(operand.name)
        if place.name not in self.written:
            raise Uninterpreted(f"nothing has written `{operand.name}`")
        return place

    def _place(self, name: str) -> Place:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name.startswith("%"):
            raise Uninterpreted(f"`{name}` is a special register, which exists on a GPU only")
        raise Uninterpreted(f"`{name}` is no register of it")

    def _check(self, widths: Sequence[int], count: int, kind: RegisterType, extends: bool) -> None:
        share = kind.bits // count
        fits: Callable[[int], bool] = share.__eq__
        if extends and count == 1 and not kind.is_float and kind.count == 1:
            fits = share.__le__
        if not all(map(fits, widths)):
            raise Uninterpreted(f"`{kind.name}` asks for registers of {share} bits, not of {max(widths)}")


def _constant(immediate: Immediate, kind: RegisterType) -> Array:
    """The bits of a constant as a type."""
    if kind.is_float and kind.count == 1 and not isinstance(immediate.number, float) and immediate.bits is None:
        raise Uninterpreted(f"`{immediate.number}` is no float")
    if kind.is_float and kind.count == 1:
        return kind.pack(np.asarray(written_float(immediate), kind.element))
    if isinstance(immediate.number, float) or immediate.bits not in (None, kind.bits):
        raise Uninterpreted(f"`{immediate.number}` is no integer of {kind.bits} bits")
    return np.asarray(immediate.number & (1 << kind.bits) - 1, register(kind.bits))
