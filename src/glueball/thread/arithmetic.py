"""Arithmetic, comparison and selection: exact, so every executor gives equal bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glueball import numerics
from glueball.thread.ir import BITS, Attributes, Emitter, Instruction, Record
from glueball.thread.words import llvm_type


def _same(types: Sequence[str], _: Attributes) -> tuple[str, ...]:
    return (types[0],)


def _boolean(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ("i1",)


def as_unsigned(array: Any) -> Any:
    """Integers of a register reinterpreted as unsigned."""
    array = np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "i" else array


def _as_signed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of unsigned integers as one of signed arrays."""

    def apply(left: Any, right: Any) -> Any:
        result = np.asarray(function(as_unsigned(left), as_unsigned(right)))
        return result.view(f"i{result.dtype.itemsize}") if result.dtype.kind == "u" else result

    return apply


def _binary(name: str, function: Callable[[Any, Any], Any], **llvm: Any) -> Record:
    return Record(
        name=name,
        result_types=_same,
        llvm=llvm,
        issue=lambda _, __, left, right: function(left, right),
    )


def _integer(name: str, function: Callable[[Any, Any], Any], opcode: str = "") -> Record:
    return _binary(name, function, any=f"{{r}} = {opcode or name} {{t}} {{0}}, {{1}}")


def _checked(name: str, function: Callable[[Any, Any], Any], opcode: str) -> Record:
    """Signed arithmetic that must not wrap where its result is used: LLVM assumes so, the simulator checks it."""
    return Record(
        name=name,
        result_types=_same,
        llvm={"any": f"{{r}} = {opcode} nsw {{t}} {{0}}, {{1}}"},
        issue=lambda machine, _, left, right: machine.checked(function, left, right),
    )


ADD = _integer("add", operator.add)
SUB = _integer("sub", operator.sub)
MUL = _integer("mul", operator.mul)
ADD_NO_WRAP = _checked("add_no_wrap", operator.add, "add")
MUL_NO_WRAP = _checked("mul_no_wrap", operator.mul, "mul")
AND = _integer("and", operator.and_)
OR = _integer("or", operator.or_)
XOR = _integer("xor", operator.xor)


def _shift(name: str, function: Callable[[Any, Any], Any], opcode: str) -> Record:
    """A shift that is defined for every amount; LLVM's is not for amounts of the width or more."""

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        operand, amount = instruction.operands
        kind, left, right = operand.type, emitter.name(operand), emitter.name(amount)
        result, width = emitter.name(instruction.results[0]), BITS[kind]
        if amount.constant is not None and 0 <= int(amount.constant) < width:
            emitter.line(f"{result} = {opcode} {kind} {left}, {right}")
            return
        inside = emitter.fresh()
        emitter.line(f"{inside} = icmp ult {kind} {right}, {width}")
        if opcode == "ashr":
            limited = emitter.fresh()
            emitter.line(f"{limited} = select i1 {inside}, {kind} {right}, {kind} {width - 1}")
            emitter.line(f"{result} = ashr {kind} {left}, {limited}")
        else:
            shifted = emitter.fresh()
            emitter.line(f"{shifted} = {opcode} {kind} {left}, {right}")
            emitter.line(f"{result} = select i1 {inside}, {kind} {shifted}, {kind} 0")

    return _binary(name, function, any=emit)


def _division(name: str, function: Callable[[Any, Any], Any], opcode: str) -> Record:
    """A quotient or remainder defined for every divisor: LLVM leaves 0, and -1 under the least integer, undefined."""
    signed, quotient = opcode[0] == "s", opcode.endswith("div")

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        dividend, divisor = instruction.operands
        kind, left, right = dividend.type, emitter.name(dividend), emitter.name(divisor)
        result = emitter.name(instruction.results[0])
        if divisor.constant is not None and int(divisor.constant) not in (0, -1):
            emitter.line(f"{result} = {opcode} {kind} {left}, {right}")
            return
        special, safe, divided = emitter.fresh(), emitter.fresh(), emitter.fresh()
        emitter.line(f"{special} = icmp eq {kind} {right}, 0")
        excluded = special
        if signed:
            negative, excluded = emitter.fresh(), emitter.fresh()
            emitter.line(f"{negative} = icmp eq {kind} {right}, -1")
            emitter.line(f"{excluded} = or i1 {special}, {negative}")
        emitter.line(f"{safe} = select i1 {excluded}, {kind} 1, {kind} {right}")
        emitter.line(f"{divided} = {opcode} {kind} {left}, {safe}")
        if signed and quotient:
            negated, chosen = emitter.fresh(), emitter.fresh()
            emitter.line(f"{negated} = sub {kind} 0, {left}")
            emitter.line(f"{chosen} = select i1 {negative}, {kind} {negated}, {kind} {divided}")
            divided = chosen
        emitter.line(f"{result} = select i1 {special}, {kind} {'-1' if quotient else left}, {kind} {divided}")

    return _binary(name, function, any=emit)


SHL = _shift("shl", numerics.shift_left, "shl")
SHR_SIGNED = _shift("shr_signed", numerics.shift_right, "ashr")
SHR_UNSIGNED = _shift("shr_unsigned", _as_signed(numerics.shift_right), "lshr")
DIV_SIGNED = _division("div_signed", numerics.divide, "sdiv")
DIV_UNSIGNED = _division("div_unsigned", _as_signed(numerics.divide), "udiv")
REM_SIGNED = _division("rem_signed", numerics.remainder, "srem")
REM_UNSIGNED = _division("rem_unsigned", _as_signed(numerics.remainder), "urem")
REM_OF_RUN = replace(
    REM_SIGNED, name="rem_of_run", issue=lambda machine, _, left, right: machine.remainder_of_run(left, right)
)
"""The remainder of the first index of a run, which tells the others: the simulator checks that it does."""


def _intrinsic(name: str, intrinsic: str, function: Callable[[Any, Any], Any]) -> Record:
    def emit(instruction: Instruction, emitter: Emitter) -> None:
        kind = instruction.results[0].type
        symbol = f"@{intrinsic}.{kind}"
        spelled = llvm_type(kind)
        left, right = (emitter.name(value) for value in instruction.operands)
        emitter.declare(f"declare {spelled} {symbol}({spelled}, {spelled})")
        result = emitter.name(instruction.results[0])
        emitter.line(f"{result} = call {spelled} {symbol}({spelled} {left}, {spelled} {right})")

    return _binary(name, function, any=emit)


MIN_SIGNED = _intrinsic("min_signed", "llvm.smin", np.minimum)
MAX_SIGNED = _intrinsic("max_signed", "llvm.smax", np.maximum)
MIN_UNSIGNED = _intrinsic("min_unsigned", "llvm.umin", _as_signed(np.minimum))
MAX_UNSIGNED = _intrinsic("max_unsigned", "llvm.umax", _as_signed(np.maximum))
MIN_FLOAT = _intrinsic("min_float", "llvm.minimumnum", numerics.minimum_number)
MAX_FLOAT = _intrinsic("max_float", "llvm.maximumnum", numerics.maximum_number)


def _rounded(name: str, function: Callable[[Any, Any], Any]) -> Record:
    """Float arithmetic rounded to nearest even: without flags LLVM contracts nothing and PTX spells the rounding."""
    return _binary(name, function, any=f"{{r}} = {name} {{t}} {{0}}, {{1}}")


FADD = _rounded("fadd", numerics.rounding_once(operator.add))
FSUB = _rounded("fsub", numerics.rounding_once(operator.sub))
FMUL = _rounded("fmul", numerics.rounding_once(operator.mul))
FDIV = _rounded("fdiv", numerics.rounding_once(numerics.divide_float))
FNEG = Record(
    name="fneg",
    result_types=_same,
    llvm={"any": "{r} = fneg {t} {0}"},
    issue=lambda _, __, operand: np.negative(operand),
)

PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _comparison(name: str, opcode: str, spell: dict[str, str], unsigned: bool = False) -> Record:
    def emit(instruction: Instruction, emitter: Emitter) -> None:
        left, right = instruction.operands
        spelled = llvm_type(left.type)
        predicate = spell[instruction.attributes["predicate"]]
        result = emitter.name(instruction.results[0])
        emitter.line(f"{result} = {opcode} {predicate} {spelled} {emitter.name(left)}, {emitter.name(right)}")

    def issue(_: Any, attributes: Attributes, left: Any, right: Any) -> Any:
        function = PREDICATES[attributes["predicate"]]
        return _as_signed(function)(left, right) if unsigned else function(left, right)

    return Record(name=name, result_types=_boolean, llvm={"any": emit}, issue=issue)


_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
COMPARE_SIGNED = _comparison("compare_signed", "icmp", _SIGNED)
COMPARE_UNSIGNED = _comparison(
    "compare_unsigned", "icmp", {key: text.replace("s", "u", 1) for key, text in _SIGNED.items()}, unsigned=True
)
COMPARE_FLOAT = _comparison("compare_float", "fcmp", {key: "une" if key == "ne" else f"o{key}" for key in PREDICATES})

SELECT = Record(
    name="select",
    result_types=lambda types, _: (types[1],),
    llvm={"any": "{r} = select i1 {0}, {t} {1}, {t} {2}"},
    issue=lambda _, __, condition, left, right: np.where(condition, left, right),
)
