"""Conversions between register types: exact rounding, the same bits on every executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glueball import numerics
from glueball.thread.arithmetic import as_unsigned
from glueball.thread.ir import BITS, Attributes, Emitter, Instruction, Record
from glueball.thread.words import llvm_type

NUMPY = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": numerics.BFLOAT16,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def _to_attribute(_: Any, attributes: Attributes) -> tuple[str, ...]:
    return (attributes["to"],)


def _conversion(name: str, opcode: str, function: Callable[[Any, Attributes], Any]) -> Record:
    return Record(
        name=name,
        result_types=_to_attribute,
        llvm={"any": f"{{r}} = {opcode} {{t0}} {{0}} to {{t}}"},
        issue=lambda _, attributes, operand: function(operand, attributes),
    )


def _extend_unsigned(operand: Any, attributes: Attributes) -> Any:
    return as_unsigned(operand).astype(NUMPY[attributes["to"]])


def _astype(operand: Any, attributes: Attributes) -> Any:
    return np.asarray(operand).astype(NUMPY[attributes["to"]])


def _truncate(operand: Any, attributes: Attributes) -> Any:
    operand = np.asarray(operand)
    return (operand & operand.dtype.type(1)).astype(bool) if attributes["to"] == "i1" else _astype(operand, attributes)


def _bitcast(operand: Any, attributes: Attributes) -> Any:
    return np.asarray(operand).view(NUMPY[attributes["to"]])


SIGN_EXTEND = _conversion("sign_extend", "sext", _astype)
ZERO_EXTEND = _conversion("zero_extend", "zext", _extend_unsigned)
TRUNCATE = _conversion("truncate", "trunc", _truncate)
BITCAST = _conversion("bitcast", "bitcast", _bitcast)


def _emit_extension(instruction: Instruction, emitter: Emitter) -> None:
    """A bfloat16 is the upper half of a float: one that was taken out of a word need not be."""
    (operand,), (result,) = instruction.operands, instruction.results
    name = emitter.name(result)
    half = emitter.half_of(operand) if (operand.type, result.type) == ("bf16", "f32") else None
    if half is None:
        emitter.line(f"{name} = fpext {llvm_type(operand.type)} {emitter.name(operand)} to {llvm_type(result.type)}")
        return
    word, upper = half
    bits = emitter.fresh()
    emitter.line(f"{bits} = and i32 {word}, {UPPER_HALF}" if upper else f"{bits} = shl i32 {word}, 16")
    emitter.line(f"{name} = bitcast i32 {bits} to float")


UPPER_HALF = -1 << 16
FLOAT_EXTEND = Record(
    name="float_extend",
    result_types=_to_attribute,
    llvm={"any": _emit_extension},
    issue=lambda _, attributes, operand: _astype(operand, attributes),
)
FLOAT_TRUNCATE = _conversion(
    "float_truncate", "fptrunc", lambda operand, attributes: numerics.round_float(operand, NUMPY[attributes["to"]])
)


def _integer_to_float(name: str, opcode: str, signed: bool) -> Record:
    """Integer to float, rounded once: to narrow floats by way of a double that is exact or holds a sticky bit."""

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        (operand,) = instruction.operands
        (result,) = instruction.results
        text, name = emitter.name(operand), emitter.name(result)
        if BITS[result.type] >= 32:
            emitter.line(f"{name} = {opcode} {operand.type} {text} to {llvm_type(result.type)}")
            return
        if operand.type == "i64":
            text = _sticky(emitter, text, signed)
        wide = emitter.fresh()
        emitter.line(f"{wide} = {opcode} {operand.type} {text} to double")
        emitter.line(f"{name} = fptrunc double {wide} to {llvm_type(result.type)}")

    def issue(_: Any, attributes: Attributes, operand: Any) -> Any:
        return numerics.integer_to_float(operand if signed else as_unsigned(operand), NUMPY[attributes["to"]])

    return Record(name=name, result_types=_to_attribute, llvm={"any": emit}, issue=issue)


def _sticky(emitter: Emitter, text: str, signed: bool) -> str:
    """Where 53 bits do not hold an integer, its low 11 bits folded into one that later rounding can see."""
    low, some, bit, sticky, high, folded, magnitude, large, result = (emitter.fresh() for _ in range(9))
    emitter.line(f"{low} = and i64 {text}, 2047")
    emitter.line(f"{some} = icmp ne i64 {low}, 0")
    emitter.line(f"{bit} = zext i1 {some} to i64")
    emitter.line(f"{sticky} = shl i64 {bit}, 11")
    emitter.line(f"{high} = and i64 {text}, -2048")
    emitter.line(f"{folded} = or i64 {high}, {sticky}")
    if signed:
        emitter.line(f"{magnitude} = add i64 {text}, {1 << 53}")
        emitter.line(f"{large} = icmp ugt i64 {magnitude}, {1 << 54}")
    else:
        emitter.line(f"{magnitude} = lshr i64 {text}, 53")
        emitter.line(f"{large} = icmp ne i64 {magnitude}, 0")
    emitter.line(f"{result} = select i1 {large}, i64 {folded}, i64 {text}")
    return result


def _saturating(name: str, intrinsic: str, signed: bool) -> Record:
    """Float to integer toward zero; out of range saturates and NaN gives 0, on every executor."""

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        (operand,) = instruction.operands
        (result,) = instruction.results
        text, kind = emitter.name(operand), operand.type
        if BITS[kind] < 32:
            wide = emitter.fresh()
            emitter.line(f"{wide} = fpext {llvm_type(kind)} {text} to float")
            text, kind = wide, "f32"
        spelled = llvm_type(kind)
        symbol = f"@{intrinsic}.{result.type}.{kind}"
        emitter.declare(f"declare {result.type} {symbol}({spelled})")
        emitter.line(f"{emitter.name(result)} = call {result.type} {symbol}({spelled} {text})")

    def issue(_: Any, attributes: Attributes, operand: Any) -> Any:
        kind = NUMPY[attributes["to"]]
        target = kind if signed else np.dtype(f"u{kind.itemsize}")
        return numerics.float_to_integer(operand, target).view(kind)

    return Record(name=name, result_types=_to_attribute, llvm={"any": emit}, issue=issue)


SIGNED_TO_FLOAT = _integer_to_float("signed_to_float", "sitofp", signed=True)
UNSIGNED_TO_FLOAT = _integer_to_float("unsigned_to_float", "uitofp", signed=False)
FLOAT_TO_SIGNED = _saturating("float_to_signed", "llvm.fptosi.sat", signed=True)
FLOAT_TO_UNSIGNED = _saturating("float_to_unsigned", "llvm.fptoui.sat", signed=False)
