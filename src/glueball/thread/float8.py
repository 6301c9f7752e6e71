"""Conversions of 8-bit floats. Registers hold them as the bits of an i8; the attribute `format` says which kind.

Toward them, what is beyond the greatest finite value becomes that value, infinities included. On NVIDIA targets that
have it, one instruction converts two values at once, with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball import numerics
from glueball.thread.ir import Attributes, Emitter, Instruction, Record


@dataclass(frozen=True, slots=True)
class Float8:
    """One kind: bits of the mantissa, bias of the exponent, code of the greatest finite value, and of NaN, if any.

    Where `infinity` is set, the code after the greatest one is infinity and all beyond are NaN. Where `signed_zero` is
    not, the code of negative zero is the NaN. `numpy` is the type of `ml_dtypes`, None where it has none.
    """

    mantissa: int
    bias: int
    greatest: int
    nan: int | None
    infinity: bool = False
    signed_zero: bool = True
    numpy: np.dtype[Any] | None = None

    @property
    def greatest_value(self) -> float:
        """The greatest finite value."""
        exponent, fraction = self.greatest >> self.mantissa, self.greatest & ((1 << self.mantissa) - 1)
        return float(np.ldexp(1.0 + fraction / (1 << self.mantissa), exponent - self.bias))


FORMATS: dict[str, Float8] = {
    "fp8e5": Float8(2, 15, 0x7B, 0x7F, infinity=True, numpy=numerics.FLOAT8_E5M2),
    "fp8e4nv": Float8(3, 7, 0x7E, 0x7F, numpy=numerics.FLOAT8_E4M3FN),
    "fp8e5b16": Float8(2, 16, 0x7F, 0x80, signed_zero=False, numpy=numerics.FLOAT8_E5M2FNUZ),
    "fp8e4b8": Float8(3, 8, 0x7F, 0x80, signed_zero=False, numpy=numerics.FLOAT8_E4M3FNUZ),
    "fp8e4b15": Float8(3, 15, 0x7F, None),
}
PAIRED = {"fp8e5": "e5m2x2", "fp8e4nv": "e4m3x2"}
"""Kinds that NVIDIA's instructions know, as their names spell them."""


def _literal(value: float) -> str:
    return f"0x{int(np.float64(value).view(np.uint64)):016X}"


class _Lines:
    """Emits instructions one by one, each in a register of its own."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter

    def __call__(self, text: str) -> str:
        name = self._emitter.fresh()
        self._emitter.line(f"{name} = {text}")
        return name


def _extend(instruction: Instruction, emitter: Emitter) -> None:
    """The bits moved to where float32 has them, times a power of two that makes up for the biases."""
    line, kind = _Lines(emitter), FORMATS[instruction.attributes["format"]]
    result = emitter.name(instruction.results[0])
    code = line(f"zext i8 {emitter.name(instruction.operands[0])} to i32")
    magnitude = line(f"and i32 {code}, 127")
    moved = line(f"bitcast i32 {line(f'shl i32 {magnitude}, {23 - kind.mantissa}')} to float")
    scaled = line(f"fmul float {moved}, {_literal(2.0 ** (127 - kind.bias))}")
    bits = line(f"bitcast float {scaled} to i32")
    if kind.infinity:
        beyond = line(f"icmp ugt i32 {magnitude}, {kind.greatest}")
        bits = line(f"select i1 {beyond}, i32 {0x7F800000}, i32 {bits}")
    if kind.signed_zero and kind.nan is not None:
        nan = line(f"icmp ugt i32 {magnitude}, {kind.greatest + kind.infinity}")
        bits = line(f"select i1 {nan}, i32 {0x7FC00000}, i32 {bits}")
    sign = line(f"and i32 {code}, 128")
    bits = line(f"or i32 {bits}, {line(f'shl i32 {sign}, 24')}")
    if not kind.signed_zero:
        nan = line(f"icmp eq i32 {code}, 128")
        bits = line(f"select i1 {nan}, i32 {0x7FC00000}, i32 {bits}")
    emitter.line(f"{result} = bitcast i32 {bits} to float")


def _round(instruction: Instruction, emitter: Emitter) -> None:
    """The mantissa rounded in place by integer arithmetic; denormals by adding a number with their spacing."""
    line, kind = _Lines(emitter), FORMATS[instruction.attributes["format"]]
    nearest, drop = instruction.attributes["rounding"] == "nearest", 23 - kind.mantissa
    operand = emitter.name(instruction.operands[0])
    bits = line(f"bitcast float {operand} to i32")
    whole = line(f"and i32 {bits}, {0x7FFFFFFF}")
    greatest = int(np.float32(kind.greatest_value).view(np.uint32))
    over = line(f"icmp ugt i32 {whole}, {greatest}")
    magnitude = line(f"select i1 {over}, i32 {greatest}, i32 {whole}")
    small = line(f"bitcast i32 {magnitude} to float")
    if nearest:
        odd = line(f"and i32 {line(f'lshr i32 {magnitude}, {drop}')}, 1")
        rounded = line(f"add i32 {line(f'add i32 {magnitude}, {(1 << (drop - 1)) - 1}')}, {odd}")
        magic = np.float32(2.0 ** (1 - kind.bias - kind.mantissa + 23))
        shifted = line(f"bitcast float {line(f'fadd float {small}, {_literal(float(magic))}')} to i32")
        denormal = line(f"sub i32 {shifted}, {int(magic.view(np.uint32))}")
    else:
        rounded = magnitude
        steps = line(f"fmul float {small}, {_literal(2.0 ** (kind.bias - 1 + kind.mantissa))}")
        inside = line(f"fcmp olt float {steps}, {_literal(256.0)}")
        denormal = line(f"fptoui float {line(f'select i1 {inside}, float {steps}, float 0.0')} to i32")
    normal = line(f"sub i32 {line(f'lshr i32 {rounded}, {drop}')}, {(127 - kind.bias) << kind.mantissa}")
    least = int(np.float32(2.0 ** (1 - kind.bias)).view(np.uint32))
    is_small = line(f"icmp ult i32 {magnitude}, {least}")
    code = line(f"select i1 {is_small}, i32 {denormal}, i32 {normal}")
    sign = line(f"and i32 {line(f'lshr i32 {bits}, 24')}, 128")
    if not kind.signed_zero:
        zero = line(f"icmp eq i32 {code}, 0")
        sign = line(f"select i1 {zero}, i32 0, i32 {sign}")
    code = line(f"or i32 {code}, {sign}")
    nan = line(f"icmp ugt i32 {whole}, {0x7F800000}")
    code = line(f"select i1 {nan}, i32 {0x7F if kind.nan is None else kind.nan}, i32 {code}")
    emitter.line(f"{emitter.name(instruction.results[0])} = trunc i32 {code} to i8")


def decode(codes: Any, kind: Float8) -> Any:
    """Bits (int8) to float32."""
    codes = np.asarray(codes)
    return numerics.decode_e4m3b15(codes) if kind.numpy is None else codes.view(kind.numpy).astype(np.float32)


def encode(values: Any, kind: Float8, rounding: str) -> Any:
    """Floats of any type to bits (int8), rounded once; every NaN gives the same code."""
    values = np.asarray(values)
    if kind.numpy is None:
        return numerics.encode_e4m3b15(values, rounding).view(np.int8)
    codes = numerics.round_float(values, kind.numpy, rounding).view(np.int8)
    return np.where(np.isnan(values), np.uint8(kind.nan or 0).view(np.int8), codes)


FLOAT8_EXTEND = Record(
    name="float8_extend",
    result_types=lambda _, __: ("f32",),
    llvm={"any": _extend},
    issue=lambda _, attributes, codes: decode(codes, FORMATS[attributes["format"]]),
)
FLOAT8_ROUND = Record(
    name="float8_round",
    result_types=lambda _, __: ("i8",),
    llvm={"any": _round},
    issue=lambda _, attributes, values: encode(values, FORMATS[attributes["format"]], attributes["rounding"]),
)


def _extend_pair(instruction: Instruction, emitter: Emitter) -> None:
    line = _Lines(emitter)
    low, high = (line(f"zext i8 {emitter.name(operand)} to i16") for operand in instruction.operands)
    both = line(f"or i16 {low}, {line(f'shl i16 {high}, 8')}")
    symbol = f"@llvm.nvvm.{PAIRED[instruction.attributes['format']]}.to.f16x2.rn"
    emitter.declare(f"declare <2 x half> {symbol}(i16)")
    pair = line(f"call <2 x half> {symbol}(i16 {both})")
    for index, result in enumerate(instruction.results):
        emitter.line(f"{emitter.name(result)} = extractelement <2 x half> {pair}, i32 {index}")


def _round_pair(instruction: Instruction, emitter: Emitter) -> None:
    line = _Lines(emitter)
    low, high = (emitter.name(operand) for operand in instruction.operands)
    symbol = f"@llvm.nvvm.ff.to.{PAIRED[instruction.attributes['format']]}.rn"
    emitter.declare(f"declare i16 {symbol}(float, float)")
    both = line(f"call i16 {symbol}(float {high}, float {low})")
    first, second = instruction.results
    emitter.line(f"{emitter.name(first)} = trunc i16 {both} to i8")
    emitter.line(f"{emitter.name(second)} = trunc i16 {line(f'lshr i16 {both}, 8')} to i8")


def _each(function: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(function(operand) for operand in operands)


def _issue_extend_pair(_: Any, attributes: Attributes, *codes: Any) -> tuple[Any, ...]:
    return _each(lambda each: decode(each, FORMATS[attributes["format"]]).astype(np.float16), codes)


def _issue_round_pair(_: Any, attributes: Attributes, *values: Any) -> tuple[Any, ...]:
    return _each(lambda each: encode(each, FORMATS[attributes["format"]], "nearest"), values)


FLOAT8_EXTEND_PAIR = Record(
    name="float8_extend_pair",
    result_types=lambda _, __: ("f16", "f16"),
    llvm={"nvidia": _extend_pair},
    issue=_issue_extend_pair,
    targets=frozenset({"float8_pairs"}),
)
FLOAT8_ROUND_PAIR = Record(
    name="float8_round_pair",
    result_types=lambda _, __: ("i8", "i8"),
    llvm={"nvidia": _round_pair},
    issue=_issue_round_pair,
    targets=frozenset({"float8_pairs"}),
)
