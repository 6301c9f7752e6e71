"""Floating-point functions of one instruction: exact ones, and the hardware's approximations of float32.

An approximation says how far it may be off. The simulator rounds the true value, so results differ between executors
within that bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball import numerics
from glueball.thread.ir import BITS, Attributes, Emitter, Instruction, Record, Template
from glueball.thread.words import llvm_type


def _same(types: Any, _: Attributes) -> tuple[str, ...]:
    return (types[0],)


def _call(emitter: Emitter, instruction: Instruction, symbol: str) -> None:
    """One call of a function of operands and result of one type."""
    result = instruction.results[0]
    spelled = llvm_type(result.type)
    operands = ", ".join(f"{spelled} {emitter.name(operand)}" for operand in instruction.operands)
    emitter.declare(f"declare {spelled} {symbol}({', '.join([spelled] * len(instruction.operands))})")
    emitter.line(f"{emitter.name(result)} = call {spelled} {symbol}({operands})")


def _intrinsic(name: str) -> Template:
    return lambda instruction, emitter: _call(emitter, instruction, f"@llvm.{name}.{instruction.results[0].type}")


def _exact(name: str, function: Callable[..., Any], llvm: Mapping[str, Template]) -> Record:
    return Record(
        name=name, result_types=_same, llvm=llvm, issue=lambda _, __, *operands: np.asarray(function(*operands))
    )


FMA = _exact("fma", numerics.fused_multiply_add, {"any": _intrinsic("fma")})
SQRT = _exact("sqrt", np.sqrt, {"any": _intrinsic("sqrt")})
ROUND_EVEN = _exact("round_even", np.rint, {"any": _intrinsic("rint")})
FLOOR = _exact("floor", np.floor, {"any": _intrinsic("floor")})
CEIL = _exact("ceil", np.ceil, {"any": _intrinsic("ceil")})
ROUND_TO_ZERO = _exact("round_to_zero", np.trunc, {"any": _intrinsic("trunc")})
ABSOLUTE = _exact("absolute", np.abs, {"any": _intrinsic("fabs")})


def _high_product(signed: bool) -> Template:
    """The product in twice the width, shifted down."""

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        kind = instruction.results[0].type
        wide, extend = f"i{2 * BITS[kind]}", "sext" if signed else "zext"
        left, right, product, high = (emitter.fresh() for _ in range(4))
        for text, operand in zip((left, right), instruction.operands, strict=True):
            emitter.line(f"{text} = {extend} {kind} {emitter.name(operand)} to {wide}")
        emitter.line(f"{product} = mul {wide} {left}, {right}")
        emitter.line(f"{high} = lshr {wide} {product}, {BITS[kind]}")
        emitter.line(f"{emitter.name(instruction.results[0])} = trunc {wide} {high} to {kind}")

    return emit


def _high_unsigned(x: Any, y: Any) -> Any:
    x, y = (np.asarray(operand) for operand in (x, y))
    kind = f"u{x.dtype.itemsize}"
    return numerics.high_product(x.view(kind), y.view(kind)).view(x.dtype)


MUL_HIGH_SIGNED = _exact("mul_high_signed", numerics.high_product, {"any": _high_product(signed=True)})
MUL_HIGH_UNSIGNED = _exact("mul_high_unsigned", _high_unsigned, {"any": _high_product(signed=False)})


def _remainder(instruction: Instruction, emitter: Emitter) -> None:
    """Long division of whole mantissas, a few bits of quotient a round: exact, whatever the exponents."""
    _Remainder(instruction, emitter).emit()


@dataclass(slots=True)
class _Remainder:
    """`frem` in LLVM text: mantissa and exponent of both, `r = r * 2^s mod m` until the exponents meet, scale back."""

    instruction: Instruction
    emitter: Emitter

    def emit(self) -> None:
        kind = self.instruction.results[0].type
        fraction, least = (23, 149) if kind == "f32" else (52, 1074)
        word, spelled = f"i{BITS[kind]}", llvm_type(kind)
        left, right = (self.emitter.name(operand) for operand in self.instruction.operands)
        bits = self._line(f"bitcast {spelled} {left} to {word}")
        sign = self._line(f"and {word} {bits}, {-(1 << (BITS[kind] - 1))}")
        mantissas, exponents = [], []
        for operand in (left, right):
            mantissa, exponent = self._parts(operand, kind, fraction)
            mantissas.append(mantissa)
            exponents.append(exponent)
        zero = self._line(f"icmp eq i64 {mantissas[1]}, 0")
        divisor = self._line(f"select i1 {zero}, i64 1, i64 {mantissas[1]}")
        distance = self._line(f"sub i64 {exponents[0]}, {exponents[1]}")
        rest = self._loop(mantissas[0], divisor, distance, 63 - fraction)
        value = self._line(f"uitofp i64 {rest} to {spelled}")
        # Two exact steps: the scale itself may be too small for a float.
        exponent = self._line(f"sub i64 {exponents[1]}, {least}")
        half = self._line(f"ashr i64 {exponent}, 1")
        for part in (half, self._line(f"sub i64 {exponent}, {half}")):
            value = self._line(f"fmul {spelled} {value}, {self._power(part, kind, fraction)}")
        self._finish(value, sign, kind, (left, right), distance)

    def _line(self, text: str) -> str:
        name = self.emitter.fresh()
        self.emitter.line(f"{name} = {text}")
        return name

    def _parts(self, operand: str, kind: str, fraction: int) -> tuple[str, str]:
        """Whole mantissa, and exponent such that the least denormal's is 0, both i64."""
        word = f"i{BITS[kind]}"
        bits = self._line(f"bitcast {llvm_type(kind)} {operand} to {word}")
        if word != "i64":
            bits = self._line(f"zext {word} {bits} to i64")
        field = (1 << (BITS[kind] - 1 - fraction)) - 1
        biased = self._line(f"and i64 {self._line(f'lshr i64 {bits}, {fraction}')}, {field}")
        low = self._line(f"and i64 {bits}, {(1 << fraction) - 1}")
        normal = self._line(f"icmp ne i64 {biased}, 0")
        whole = self._line(f"or i64 {low}, {1 << fraction}")
        mantissa = self._line(f"select i1 {normal}, i64 {whole}, i64 {low}")
        less = self._line(f"sub i64 {biased}, 1")
        return mantissa, self._line(f"select i1 {normal}, i64 {less}, i64 0")

    def _loop(self, mantissa: str, divisor: str, distance: str, step: int) -> str:
        emitter, before = self.emitter, self.emitter.block()
        suffix = emitter.fresh().removeprefix("%")
        header, body, done = (f"{role}.{suffix}" for role in ("divide", "step", "divided"))
        first = self._line(f"urem i64 {mantissa}, {divisor}")
        lower = self._line(f"icmp slt i64 {distance}, 0")
        start = self._line(f"select i1 {lower}, i64 {mantissa}, i64 {first}")
        emitter.line(f"br label %{header}")
        emitter.open_block(header)
        rest, left, next_rest, next_left = (emitter.fresh() for _ in range(4))
        emitter.line(f"{rest} = phi i64 [ {start}, %{before} ], [ {next_rest}, %{body} ]")
        emitter.line(f"{left} = phi i64 [ {distance}, %{before} ], [ {next_left}, %{body} ]")
        more = self._line(f"icmp sgt i64 {left}, 0")
        emitter.line(f"br i1 {more}, label %{body}, label %{done}")
        emitter.open_block(body)
        short = self._line(f"icmp slt i64 {left}, {step}")
        amount = self._line(f"select i1 {short}, i64 {left}, i64 {step}")
        shifted = self._line(f"shl i64 {rest}, {amount}")
        emitter.line(f"{next_rest} = urem i64 {shifted}, {divisor}")
        emitter.line(f"{next_left} = sub i64 {left}, {amount}")
        emitter.line(f"br label %{header}")
        emitter.open_block(done)
        return rest

    def _power(self, exponent: str, kind: str, fraction: int) -> str:
        """Two to the power of a normal exponent."""
        bias = (1 << (BITS[kind] - 2 - fraction)) - 1
        bits = self._line(f"shl i64 {self._line(f'add i64 {exponent}, {bias}')}, {fraction}")
        if kind == "f32":
            bits = self._line(f"trunc i64 {bits} to i32")
        return self._line(f"bitcast i{BITS[kind]} {bits} to {llvm_type(kind)}")

    def _finish(self, value: str, sign: str, kind: str, operands: tuple[str, str], distance: str) -> None:
        """The dividend's sign; the dividend itself where it is the smaller; NaN where there is no remainder."""
        word, spelled = f"i{BITS[kind]}", llvm_type(kind)
        signed = self._line(f"or {word} {self._line(f'bitcast {spelled} {value} to {word}')}, {sign}")
        result = self._line(f"bitcast {word} {signed} to {spelled}")
        smaller = self._line(f"icmp slt i64 {distance}, 0")
        result = self._line(f"select i1 {smaller}, {spelled} {operands[0]}, {spelled} {result}")
        # x - x is NaN for infinities and NaN.
        nothing = self._line(f"fsub {spelled} {operands[0]}, {operands[0]}")
        invalid = self._line(f"fcmp une {spelled} {nothing}, 0.0")
        zero = self._line(f"fcmp ueq {spelled} {operands[1]}, 0.0")
        bad = self._line(f"or i1 {invalid}, {zero}")
        name = self.emitter.name(self.instruction.results[0])
        self.emitter.line(f"{name} = select i1 {bad}, {spelled} 0x7FF8000000000000, {spelled} {result}")


REM_FLOAT = _exact("rem_float", numerics.remainder_float, {"any": _remainder})


def _approximation(name: str, function: Callable[..., Any], nvidia: Template, amd: Template) -> Record:
    """A function of float32: `function` of float64, rounded once, stands for any value within the bound."""

    def issue(_: Any, __: Attributes, *operands: Any) -> Any:
        return np.asarray(function(*(np.asarray(operand).astype(np.float64) for operand in operands))).astype(
            np.float32
        )

    return Record(name=name, result_types=_same, llvm={"nvidia": nvidia, "amd": amd}, issue=issue)


def _named(symbol: str) -> Template:
    return lambda instruction, emitter: _call(emitter, instruction, symbol)


def _rsqrt_amd(instruction: Instruction, emitter: Emitter) -> None:
    """The instruction takes denormals for zero, so those are scaled."""
    small, scale, scaled, root, back = (emitter.fresh() for _ in range(5))
    operand, result = emitter.name(instruction.operands[0]), emitter.name(instruction.results[0])
    emitter.line(f"{small} = fcmp olt float {operand}, 0x3810000000000000")
    emitter.line(f"{scale} = select i1 {small}, float 0x4170000000000000, float 1.0")
    emitter.line(f"{scaled} = fmul float {operand}, {scale}")
    emitter.declare("declare float @llvm.amdgcn.rsq.f32(float)")
    emitter.line(f"{root} = call float @llvm.amdgcn.rsq.f32(float {scaled})")
    emitter.line(f"{back} = select i1 {small}, float 4096.0, float 1.0")
    emitter.line(f"{result} = fmul float {root}, {back}")


EXP2_APPROXIMATE = _approximation("exp2_approximate", np.exp2, _named("@llvm.nvvm.ex2.approx.f"), _intrinsic("exp2"))
LOG2_APPROXIMATE = _approximation("log2_approximate", np.log2, _named("@llvm.nvvm.lg2.approx.f"), _intrinsic("log2"))
SIN_APPROXIMATE = _approximation("sin_approximate", np.sin, _named("@llvm.nvvm.sin.approx.f"), _intrinsic("sin"))
COS_APPROXIMATE = _approximation("cos_approximate", np.cos, _named("@llvm.nvvm.cos.approx.f"), _intrinsic("cos"))
SQRT_APPROXIMATE = _approximation("sqrt_approximate", np.sqrt, _named("@llvm.nvvm.sqrt.approx.f"), _intrinsic("sqrt"))
RSQRT_APPROXIMATE = _approximation(
    "rsqrt_approximate", lambda x: 1.0 / np.sqrt(x), _named("@llvm.nvvm.rsqrt.approx.f"), _rsqrt_amd
)
DIVIDE_APPROXIMATE = _approximation(
    "divide_approximate", np.divide, _named("@llvm.nvvm.div.full"), "{r} = fdiv {t} {0}, {1}"
)
