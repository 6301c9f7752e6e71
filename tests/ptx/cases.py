"""What instructions are, one opcode after the other, of single numbers: Python's integers, and floats as exact numbers.

Each case is an opcode and a function of its decoded sources. Rounding, flushing and saturation are the same for all
floats and applied where results are encoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from glueball.ptx.instruction import form_of
from glueball.ptx.table import instructions
from tests.ptx.numbers import FORMATS, INFINITE, NAN, Number, add, divide, multiply, negate, number, root

PACKED = {
    **{name: (name.removesuffix("x2"), 16) for name in ("f16x2", "bf16x2", "u16x2", "s16x2")},
    **{name: (name.removesuffix("x2"), 8) for name in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2")},
    "f32x2": ("f32", 32),
    "e2m1x2": ("e2m1", 4),
    "ue8m0x2": ("u8", 8),
}
"""Types of two elements: the type of one, and how far the upper one is up."""


@dataclass(frozen=True)
class Case:
    """An opcode, what it does, values of sources that are constants, and by how much (relatively) it may be off."""

    opcode: str
    define: Callable[..., Any]
    constants: Mapping[int, int] = field(default_factory=dict)
    tolerance: float = 0.0

    @property
    def modifiers(self) -> list[str]:
        return self.opcode.split(".")[1:]

    def types(self):
        form, arity = form_of(self.opcode), self.arity
        for row in (each for each in instructions(self.opcode) if each.matches(self.opcode)):
            destinations, sources = row.operand_types(form)
            if arity is None or arity == len(sources):
                return row, [kind.name for kind in destinations], [kind.name for kind in sources]
        raise AssertionError(self.opcode)

    @property
    def arity(self):
        return getattr(self.define, "arity", None)

    def expected(self, sources: list[int]) -> list[int]:
        """The bits of the destinations."""
        _, outs, ins = self.types()
        both = [kind in PACKED and PACKED[kind][0] in FORMATS for kind in (*outs, *ins)]
        if all(kind in PACKED for kind in (*outs[:1], *ins)) and (all(both) or outs[0] == ins[0] or len(ins) == 1):
            lanes = [self._lane(lane, outs[0], ins, sources) for lane in (0, 1)]
            return [lanes[0] | lanes[1] << PACKED[outs[0]][1]]
        found = self.define(*(self._decode(kind, bits) for kind, bits in zip(ins, sources, strict=True)))
        found = found if isinstance(found, tuple) else (found,)
        if outs[0] in PACKED:
            high, low = (self._encode(PACKED[outs[0]][0], each) for each in found)
            return [low | high << PACKED[outs[0]][1]]
        return [self._encode(kind, each) for kind, each in zip(outs, found, strict=False)]

    def _lane(self, lane: int, out: str, ins: list[str], sources: list[int]) -> int:
        parts = [
            self._decode(PACKED[kind][0], bits >> lane * PACKED[kind][1])
            for kind, bits in zip(ins, sources, strict=True)
        ]
        return self._encode(PACKED[out][0], self.define(*parts))

    def _decode(self, kind: str, bits: int) -> Any:
        if kind in FORMATS:
            found = FORMATS[kind].decode(bits & (1 << FORMATS[kind].bits) - 1)
            return self._flush(kind, found)
        if kind in PACKED:
            element, shift = PACKED[kind]
            return self._decode(element, bits), self._decode(element, bits >> shift)
        width = 1 if kind == "pred" else int(kind[1:])
        whole = bits & (1 << width) - 1
        return whole - (1 << width) if kind[0] == "s" and whole >> (width - 1) else whole

    def _flush(self, kind: str, found: Number) -> Number:
        least = FORMATS[kind].magnitude(1 << FORMATS[kind].fraction)
        small = "ftz" in self.modifiers and kind != "f64" and found.finite and found.magnitude < least
        return Number(found.negative, Fraction(0)) if small else found

    def _encode(self, kind: str, found: Any) -> int:
        if kind not in FORMATS:
            # Signed bytes go into a wider register, with their sign.
            width = 1 if kind == "pred" else 32 if kind == "s8" else int(kind[1:])
            return int(found) & (1 << width) - 1
        modifiers, target = self.modifiers, FORMATS[kind]
        if "sat" in modifiers:
            found = number(0) if found.nan or found.negative else found
            found = number(1) if not found.finite or found.magnitude > 1 else found
        if "relu" in modifiers and not found.nan and found.negative:
            found = number(0)
        rounding = next((each for each in modifiers if each in ("rn", "rz", "rm", "rp", "rna")), "rn")
        bits = target.encode(found, rounding, "satfinite" in modifiers)
        if kind == "tf32":
            return 0x7FFFFFFF if found.nan else bits << 13
        return target.encode(self._flush(kind, target.decode(bits)))


def cases(opcodes: str, define: Callable[..., Any], **more: Any) -> list[Case]:
    return [Case(opcode, define, **more) for opcode in opcodes.split()]


def of(arity: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of so many sources, where opcodes are spelled alike with others."""
    found = partial(function)
    found.arity = arity
    return found


def quotient(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x if y == 0 else x - quotient(x, y) * y


def clipped(x: int, kind: str) -> int:
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(x, low), high)


def shifted(x: int, amount: int, width: int) -> int:
    return x << amount if amount < width else 0


def extract(width: int, signed: bool) -> Callable[..., int]:
    """The pseudocode of the ISA, bit by bit."""

    def define(x: int, place: int, length: int) -> int:
        place, length, msb = place & 255, length & 255, width - 1
        sign = 0 if not signed or length == 0 else x >> min(place + length - 1, msb) & 1
        return sum(((x >> place + i & 1) if i < length and place + i <= msb else sign) << i for i in range(width))

    return define


def insert(width: int) -> Callable[..., int]:
    def define(x: int, y: int, place: int, length: int) -> int:
        place, length = place & 255, length & 255
        for i in range(length):
            if place + i < width:
                y = y & ~(1 << place + i) | (x >> i & 1) << place + i
        return y

    return define


def find(width: int, shift: bool) -> Callable[[int], int]:
    def define(x: int) -> int:
        x = ~x if x < 0 else x
        return -1 if x == 0 else width - x.bit_length() if shift else x.bit_length() - 1

    return define


def funnel(left: bool, wraps: bool) -> Callable[..., int]:
    def define(low: int, high: int, amount: int) -> int:
        amount = amount & 31 if wraps else min(amount, 32)
        return (high << 32 | low) << amount >> 32 if left else (high << 32 | low) >> amount

    return define


PERMUTATIONS = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}
"""The table of the ISA: bytes of the result, the highest first, for each selector."""


def permute(mode: str | None) -> Callable[..., int]:
    def define(x: int, y: int, selector: int) -> int:
        octets = (y << 32 | x).to_bytes(8, "little")
        if mode:
            return int.from_bytes(bytes(octets[int(each)] for each in PERMUTATIONS[mode][selector & 3]), "big")
        chosen = []
        for place in range(4):
            nibble = selector >> 4 * place & 15
            octet = octets[nibble & 7]
            chosen.append((0xFF if octet & 0x80 else 0) if nibble & 8 else octet)
        return int.from_bytes(bytes(chosen), "little")

    return define


def parts(word: int, width: int, signed: bool) -> list[int]:
    kind = ("s" if signed else "u") + str(width)
    return [Case("", None)._decode(kind, word >> place) for place in range(0, 32, width)]


def dot4(signed_x: bool, signed_y: bool) -> Callable[..., int]:
    return lambda x, y, z: z + sum(map(int.__mul__, parts(x, 8, signed_x), parts(y, 8, signed_y)))


def dot2(signed_x: bool, signed_y: bool, high: bool) -> Callable[..., int]:
    return lambda x, y, z: (
        z + sum(map(int.__mul__, parts(x, 16, signed_x), parts(y, 8, signed_y)[2 * high : 2 * high + 2]))
    )


def bits_of(x: int, y: int, z: int, table: int) -> int:
    return sum((table >> (4 * (x >> i & 1) + 2 * (y >> i & 1) + (z >> i & 1)) & 1) << i for i in range(32))


def product_and_sum(rounding: str) -> Callable[..., Number]:
    return lambda x, y, z: add(multiply(x, y), z, rounding)


def lesser(*given: Number, sign: int = 1) -> Number:
    """The least of numbers that are no NaN, -0 before 0; of their negatives for the greatest."""
    some = [each for each in given if not each.nan]
    return min(some, key=lambda x: (sign * x.ordered(), -sign * x.negative), default=NAN)


def greater(*given: Number) -> Number:
    return lesser(*given, sign=-1)


def spreading(choose: Callable[..., Number]) -> Callable[..., Number]:
    return lambda *given: NAN if any(each.nan for each in given) else choose(*given)


def of_magnitudes(choose: Callable[..., Number]) -> Callable[..., Number]:
    def define(x: Number, y: Number) -> Number:
        found = choose(Number(False, x.magnitude, x.nan), Number(False, y.magnitude, y.nan))
        return Number(x.negative != y.negative, found.magnitude, found.nan)

    return define


def through_floats(function: Callable[[float], float]) -> Callable[[Number], Number]:
    """A function of floats, with infinities and NaN."""

    def define(x: Number) -> Number:
        if x.nan:
            return NAN
        value = math.inf if x.magnitude is INFINITE else float(x.magnitude)
        found = function(-value if x.negative else value)
        if math.isnan(found):
            return NAN
        negative = math.copysign(1, found) < 0
        return Number(negative, INFINITE) if math.isinf(found) else number(Fraction(found), negative)

    return define


def power_of_two(x: float) -> float:
    return math.inf if x > 1023 else math.exp2(x)


def logarithm(x: float) -> float:
    return math.nan if x < 0 else -math.inf if x == 0 else math.log2(x)


def of_finite(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.nan if math.isinf(x) else function(x)


def divide_approximately(x: Number, y: Number) -> Number:
    return divide(x, Number(y.negative, INFINITE) if y.finite and y.magnitude > 2**126 else y)


def reciprocal_root(x: Number) -> Number:
    return divide(number(1), root(x))


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    **dict.fromkeys(("lt", "lo"), lambda x, y: x < y),
    **dict.fromkeys(("le", "ls"), lambda x, y: x <= y),
    **dict.fromkeys(("gt", "hi"), lambda x, y: x > y),
    **dict.fromkeys(("ge", "hs"), lambda x, y: x >= y),
}
COMBINE = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}


def compare(name: str) -> Callable[[Any, Any], bool]:
    def define(x: Any, y: Any) -> bool:
        if isinstance(x, int):
            return COMPARE[name](x, y)
        if name in ("num", "nan") or x.nan or y.nan:
            return (x.nan or y.nan) == (name not in COMPARE and name != "num")
        return COMPARE[name.removesuffix("u")](x.ordered(), y.ordered())

    return define


def predicates(name: str, combination: str | None = None) -> Callable[..., Any]:
    def define(x: Any, y: Any, *other: int) -> tuple[int, int]:
        found = int(compare(name)(x, y))
        pair = found, 1 - found
        return tuple(COMBINE[combination](each, *other) for each in pair) if combination else pair

    return of(3 if combination else 2, define)


def packed_predicates(name: str) -> Callable[..., Any]:
    return lambda x, y: tuple(int(compare(name)(one, other)) for one, other in zip(x, y, strict=True))


def word(name: str, single: bool, combination: str | None = None) -> Callable[..., Any]:
    def define(x: Any, y: Any, *other: int) -> Any:
        found = predicates(name, combination)(x, y, *other)[0]
        return number(found) if single else -found

    return of(3 if combination else 2, define)


WHOLE = {
    "rni": lambda x: math.floor(x + Fraction(1, 2)) - (x % 2 == Fraction(1, 2)),
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def whole(mode: str) -> Callable[[Number], Number]:
    return lambda x: number(WHOLE[mode](x.value), x.negative) if x.finite else x


def to_integer(opcode: str) -> Case:
    mode, kind, source = (opcode.split(".")[index] for index in (1, -2, -1))

    def define(x: Number) -> int:
        if x.nan:
            return 1 << int(kind[1:]) - 1 if source == "f64" or kind in ("s64", "u64") else 0
        if x.magnitude is INFINITE:
            return clipped((-1 if x.negative else 1) << 80, kind)
        return clipped(WHOLE[mode](x.value), kind)

    return Case(opcode, define)


def scale(up: bool, finite: bool) -> Callable[[Number], int]:
    """The code of a power of two."""

    def define(x: Number) -> int:
        if x.nan:
            return 255
        if not x.finite:
            return 254 if finite else 255
        powers = (code for code in range(255) if Fraction(2) ** (code - 127) >= x.magnitude)
        code = next(powers, 255)
        if up:
            return min(code, 254) if finite else code
        return max(code - (code == 255 or Fraction(2) ** (code - 127) != x.magnitude), 0)

    return define


def of_scale(code: int) -> Number:
    return NAN if code == 255 else number(Fraction(2) ** (code - 127))


def packed(kind: str) -> Callable[..., int]:
    bits = int(kind[1:])

    def define(high: int, low: int, above: int = 0) -> int:
        halves = [clipped(each, kind) & (1 << bits) - 1 for each in (high, low)]
        return above << 16 | halves[0] << bits | halves[1]

    return define


def test_class(name: str, least: Fraction) -> Callable[[Number], bool]:
    return {
        "finite": lambda x: x.finite,
        "infinite": lambda x: not x.finite and not x.nan,
        "number": lambda x: not x.nan,
        "notanumber": lambda x: x.nan,
        "normal": lambda x: x.finite and x.magnitude >= least,
        "subnormal": lambda x: x.finite and 0 < x.magnitude < least,
    }[name]


MOVES = [
    *cases("mov.pred mov.b16 mov.b32 mov.b64 mov.u16 mov.s32 mov.b64", lambda x: x),
    *cases("and.b32 and.b64 and.b16 and.pred", lambda x, y: x & y),
    *cases("or.b32 or.b64 or.pred", lambda x, y: x | y),
    *cases("xor.b32 xor.b16 xor.pred", lambda x, y: x ^ y),
    *cases("not.b32 not.b64 not.pred", lambda x: ~x),
    *cases("cnot.b32 cnot.b16", lambda x: x == 0),
    *(Case("lop3.b32", bits_of, {3: table}) for table in (0xCA, 0xEA, 0x96, 0x00, 0xFF, 0x1B)),
    *(Case(f"shl.b{bits}", lambda x, n, w=bits: shifted(x, n, w)) for bits in (16, 32, 64)),
    *cases("shr.b32 shr.u16 shr.u64 shr.s16 shr.s32 shr.s64", lambda x, n: x >> min(n, 64)),
    *(
        Case(f"shf.{'l' if left else 'r'}.{'wrap' if wraps else 'clamp'}.b32", funnel(left, wraps))
        for left in (True, False)
        for wraps in (True, False)
    ),
    Case("prmt.b32", permute(None)),
    *(Case(f"prmt.b32.{mode}", permute(mode)) for mode in PERMUTATIONS),
]
INTEGER_CASES = [
    *cases("add.s32 add.u16 add.u64 add.s16x2", lambda x, y: x + y),
    Case("add.sat.s32", lambda x, y: clipped(x + y, "s32")),
    *cases("sub.s32 sub.s16 sub.s64", lambda x, y: x - y),
    Case("sub.sat.s32", lambda x, y: clipped(x - y, "s32")),
    *cases("mul.lo.s32 mul.lo.u16 mul.lo.u64", lambda x, y: x * y),
    *(
        Case(f"mul.hi.{kind}", lambda x, y, w=int(kind[1:]): x * y >> w)
        for kind in ("s16", "u16", "s32", "u32", "s64", "u64")
    ),
    *cases("mul.wide.s16 mul.wide.u16 mul.wide.s32 mul.wide.u32", lambda x, y: x * y),
    *cases("mad.lo.s32 mad.lo.u64", lambda x, y, z: x * y + z),
    *(Case(f"mad.hi.{kind}", lambda x, y, z, w=int(kind[1:]): (x * y >> w) + z) for kind in ("s32", "u32", "s64")),
    *cases("mad.wide.s16 mad.wide.u32 mad.wide.s32", lambda x, y, z: x * y + z),
    *cases("sad.s32 sad.u32 sad.u16", lambda x, y, z: z + abs(x - y)),
    *cases("div.s32 div.u32 div.s64 div.u16", quotient),
    *cases("rem.s32 rem.u32 rem.u64 rem.s16", remainder),
    *cases("abs.s32 abs.s16 abs.s64", abs),
    *cases("neg.s32 neg.s16 neg.s64", lambda x: -x),
    *cases("min.s32 min.u32 min.s64 min.u16x2 min.s16x2", min),
    *cases("min.relu.s32 min.relu.s16x2", lambda x, y: max(min(x, y), 0)),
    *cases("max.s32 max.u32 max.u64 max.s16x2", max),
    *cases("max.relu.s32 max.relu.s16x2", lambda x, y: max(x, y, 0)),
    *cases("popc.b32 popc.b64", lambda x: x.bit_count()),
    *(Case(f"clz.b{bits}", lambda x, w=bits: w - x.bit_length()) for bits in (32, 64)),
    *(Case(f"bfind.{kind}", find(int(kind[1:]), False)) for kind in ("u32", "s32", "u64", "s64")),
    *(Case(f"bfind.shiftamt.{kind}", find(int(kind[1:]), True)) for kind in ("u32", "s32", "s64")),
    *(Case(f"brev.b{bits}", lambda x, w=bits: int(f"{x:0{w}b}"[::-1], 2)) for bits in (32, 64)),
    *(Case(f"bfe.{kind}", extract(int(kind[1:]), kind[0] == "s")) for kind in ("u32", "s32", "u64", "s64")),
    *(Case(f"bfi.b{bits}", insert(bits)) for bits in (32, 64)),
    *(Case(f"dp4a.{x}32.{y}32", dot4(x == "s", y == "s")) for x in "us" for y in "us"),
    *(
        Case(f"dp2a.{half}.{x}32.{y}32", dot2(x == "s", y == "s", half == "hi"))
        for half in ("lo", "hi")
        for x in "us"
        for y in "us"
    ),
]


def roundings(spelled: str, define: Callable[[str], Callable[..., Number]]) -> list[Case]:
    return [Case(spelled.replace("RND", each), define(each)) for each in ("rn", "rz", "rm", "rp")]


def sums(kind: str, roundings_of: str) -> list[Case]:
    """Sum, difference, product."""
    found = []
    for each in roundings_of.split():
        found += [
            Case(f"add.{each}.{kind}", lambda x, y, r=each: add(x, y, r)),
            Case(f"sub.{each}.{kind}", lambda x, y, r=each: add(x, negate(y), r)),
            Case(f"mul.{each}.{kind}", multiply),
        ]
    return found


ONE = number(1)
FLOAT_CASES = [
    *sums("f32", "rn rz rm rp"),
    *sums("ftz.f32", "rn rz"),
    *sums("sat.f32", "rn"),
    *sums("f64", "rn rz rm rp"),
    *sums("f32x2", "rn rz"),
    *sums("ftz.f32x2", "rn"),
    *sums("f16", "rn"),
    *sums("ftz.sat.f16x2", "rn"),
    *sums("bf16", "rn"),
    *sums("bf16x2", "rn"),
    *cases("mul.f32 mul.ftz.f32 mul.f64 mul.f32x2 mul.f16x2 mul.bf16", multiply),
    *roundings("fma.RND.f32", product_and_sum),
    *roundings("fma.RND.ftz.sat.f32", product_and_sum),
    *roundings("fma.RND.f64", product_and_sum),
    *roundings("fma.RND.f32x2", product_and_sum),
    *roundings("mad.RND.f32", product_and_sum),
    *roundings("mad.RND.f64", product_and_sum),
    *cases("fma.rn.f16 fma.rn.f16x2 fma.rn.ftz.relu.f16 fma.rn.relu.bf16x2 fma.rn.bf16", product_and_sum("rn")),
    *roundings("div.RND.f32", lambda _: divide),
    *roundings("div.RND.ftz.f32", lambda _: divide),
    *roundings("div.RND.f64", lambda _: divide),
    *cases("div.approx.f32 div.approx.ftz.f32", divide_approximately, tolerance=2.0**-21),
    *cases("div.full.f32 div.full.ftz.f32", divide, tolerance=2.0**-21),
    *roundings("rcp.RND.f32", lambda _: partial(divide, ONE)),
    *roundings("rcp.RND.f64", lambda _: partial(divide, ONE)),
    *cases("rcp.approx.f32 rcp.approx.ftz.f32", partial(divide, ONE), tolerance=2.0**-22),
    *roundings("sqrt.RND.f32", lambda _: root),
    *roundings("sqrt.RND.f64", lambda _: root),
    *cases("sqrt.approx.f32 sqrt.approx.ftz.f32", root, tolerance=2.0**-22),
    *cases("rsqrt.approx.f32 rsqrt.approx.ftz.f32", reciprocal_root, tolerance=2.0**-22),
    *cases("ex2.approx.f32 ex2.approx.ftz.f32", through_floats(power_of_two), tolerance=2.0**-21),
    *cases("ex2.approx.f16 ex2.approx.f16x2", through_floats(power_of_two), tolerance=2.0**-9),
    *cases("ex2.approx.ftz.bf16 ex2.approx.ftz.bf16x2", through_floats(power_of_two), tolerance=2.0**-6),
    *cases("lg2.approx.f32 lg2.approx.ftz.f32", through_floats(logarithm), tolerance=2.0**-21),
    *cases("sin.approx.f32 sin.approx.ftz.f32", through_floats(of_finite(math.sin)), tolerance=2.0**-20),
    *cases("cos.approx.f32 cos.approx.ftz.f32", through_floats(of_finite(math.cos)), tolerance=2.0**-20),
    *cases("tanh.approx.f32", through_floats(math.tanh), tolerance=2.0**-10),
    *cases("tanh.approx.f16 tanh.approx.f16x2", through_floats(math.tanh), tolerance=2.0**-9),
    *cases("tanh.approx.bf16 tanh.approx.bf16x2", through_floats(math.tanh), tolerance=2.0**-6),
    *cases("neg.f32 neg.ftz.f32 neg.f64 neg.f16 neg.f16x2 neg.bf16 neg.bf16x2", negate),
    *cases("abs.f32 abs.ftz.f32 abs.f64 abs.f16 abs.f16x2 abs.bf16x2", lambda x: Number(False, x.magnitude, x.nan)),
    *cases("min.f32 min.ftz.f32 min.f64 min.f16 min.f16x2 min.bf16 min.bf16x2", of(2, lesser)),
    *cases("max.f32 max.ftz.f32 max.f64 max.f16 max.f16x2 max.bf16 max.bf16x2", of(2, greater)),
    *cases("min.NaN.f32 min.ftz.NaN.f32 min.NaN.f16x2 min.NaN.bf16x2", of(2, spreading(lesser))),
    *cases("max.NaN.f32 max.ftz.NaN.f32 max.NaN.f16 max.NaN.bf16x2", of(2, spreading(greater))),
    *cases("min.xorsign.abs.f32 min.xorsign.abs.f16 min.xorsign.abs.bf16x2", of(2, of_magnitudes(lesser))),
    *cases("max.xorsign.abs.f32 max.xorsign.abs.bf16x2", of(2, of_magnitudes(greater))),
    *cases("max.NaN.xorsign.abs.bf16x2 max.ftz.NaN.xorsign.abs.f32", of(2, of_magnitudes(spreading(greater)))),
    *cases("min.f32", of(3, lesser)),
    *cases("max.NaN.f32 max.ftz.NaN.f32", of(3, spreading(greater))),
    Case("max.abs.f32", of(3, lambda *given: greater(*(Number(False, x.magnitude, x.nan) for x in given)))),
    *cases("copysign.f32 copysign.f64", lambda sign, x: Number(sign.negative, x.magnitude, x.nan)),
]
COMPARISON_CASES = [
    *(
        Case(f"setp.{name}.{kind}", predicates(name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for kind in ("s32", "u32", "s16", "f32", "f64", "f16", "bf16")
    ),
    *(Case(f"setp.{name}.{kind}", predicates(name)) for name in ("lo", "ls", "hi", "hs") for kind in ("u32", "u64")),
    *(Case(f"setp.{name}.f32", predicates(name)) for name in ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")),
    *(Case(f"setp.eq.{kind}", predicates("eq")) for kind in ("b32", "b64", "b16")),
    Case("setp.lt.ftz.f32", predicates("lt")),
    *(Case(f"setp.lt.{name}.s32", predicates("lt", name)) for name in ("and", "or", "xor")),
    *(Case(f"setp.geu.{name}.ftz.f32", predicates("geu", name)) for name in ("and", "or", "xor")),
    *(Case(f"setp.gt.{name}.f16", predicates("gt", name)) for name in ("and", "or", "xor")),
    *(Case(f"setp.{name}.{kind}", packed_predicates(name)) for name in ("lt", "neu") for kind in ("f16x2", "bf16x2")),
    *cases("set.gt.u32.f32 set.gt.s32.s32 set.gt.u32.u64", word("gt", False)),
    Case("set.leu.ftz.f32.f32", word("leu", True)),
    Case("set.lt.or.u32.s32", word("lt", False, "or")),
    Case("set.lt.and.f32.f32", word("lt", True, "and")),
    *cases("selp.b32 selp.f32 selp.s64 selp.u16 selp.f64", lambda x, y, chooser: x if chooser else y),
    *cases("slct.u32.s32 slct.b64.s32", lambda x, y, chooser: x if chooser >= 0 else y),
    *cases(
        "slct.f32.f32 slct.ftz.u32.f32",
        lambda x, y, chooser: x if not chooser.nan and (chooser.zero or not chooser.negative) else y,
    ),
    *(
        Case(f"testp.{name}.{kind}", test_class(name, FORMATS[kind].magnitude(1 << FORMATS[kind].fraction)))
        for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
        for kind in ("f32", "f64")
    ),
]
CONVERSION_CASES = [
    *cases("cvt.u32.u8 cvt.s32.s8 cvt.u16.u32 cvt.s64.s32 cvt.u64.s16 cvt.u8.u32 cvt.s32.u64", lambda x: x),
    *(
        Case(f"cvt.sat.{to}.{source}", lambda x, k=to: clipped(x, k))
        for to, source in (("s8", "s32"), ("u8", "s32"), ("u16", "s32"), ("s16", "u32"), ("u32", "s64"), ("s64", "u64"))
    ),
    *(
        to_integer(f"cvt.{mode}.{to}.{source}")
        for mode in WHOLE
        for to, source in (
            *(("s32", "f32"), ("u32", "f32"), ("s64", "f32"), ("u64", "f64"), ("s32", "f64")),
            *(("s32", "f16"), ("u8", "f32"), ("s16", "f16"), ("s32", "bf16"), ("u64", "f16")),
        )
    ),
    to_integer("cvt.rzi.ftz.s32.f32"),
    *(
        Case(f"cvt.{mode}.{to}.{source}", number)
        for mode in ("rn", "rz", "rm", "rp")
        for to, source in (
            *(("f32", "s32"), ("f32", "u64"), ("f32", "s64"), ("f64", "s64"), ("f64", "u32"), ("f16", "s32")),
            *(("f16", "u64"), ("f32", "u8"), ("bf16", "s32"), ("f16", "s16")),
        )
    ),
    *cases("cvt.rn.sat.f32.s32", number),
    *cases("cvt.f32.f16 cvt.f32.bf16 cvt.f64.f32 cvt.f64.f16 cvt.sat.f32.f16 cvt.ftz.f64.f32", lambda x: x),
    *(
        Case(f"cvt.{mode}.{pair}", lambda x: x)
        for mode in ("rn", "rz", "rm", "rp")
        for pair in ("f16.f32", "f16.f64", "bf16.f64", "f32.f64", "f16.bf16", "bf16.f16", "ftz.f16.f32", "sat.f32.f64")
    ),
    *(
        Case(f"cvt.{mode}{more}.{to}.f32", lambda x: x)
        for mode in ("rn", "rz")
        for more in ("", ".relu", ".satfinite", ".relu.satfinite")
        for to in ("bf16", "f16")
    ),
    *(Case(f"cvt.{mode}.{kind}.{kind}", whole(mode)) for mode in WHOLE for kind in ("f32", "f64", "f16")),
    *cases("cvt.f32.f32 cvt.sat.f32.f32 cvt.ftz.f32.f32 cvt.ftz.sat.f32.f32 cvt.f64.f64", lambda x: x),
    *cases("cvt.rna.tf32.f32 cvt.rn.tf32.f32 cvt.rz.relu.tf32.f32 cvt.rn.satfinite.tf32.f32", lambda x: x),
    *(
        Case(f"cvt.{mode}{more}.{to}.f32", lambda high, low: (high, low))
        for mode in ("rn", "rz")
        for more in ("", ".relu", ".satfinite")
        for to in ("f16x2", "bf16x2")
    ),
    *(
        Case(f"cvt.rn.satfinite{more}.{to}.f32", lambda high, low: (high, low))
        for more in ("", ".relu")
        for to in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
    ),
    *cases("cvt.rn.satfinite.e4m3x2.f16x2 cvt.rn.satfinite.relu.e5m2x2.f16x2", lambda x: x),
    *(
        Case(f"cvt.rn{more}.f16x2.{source}", lambda x: x)
        for more in ("", ".relu")
        for source in ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
    ),
    *(
        Case(f"cvt.{mode}{more}.ue8m0x2.f32", lambda high, low, f=code: (f(high), f(low)))
        for mode in ("rz", "rp")
        for more in ("", ".satfinite")
        for code in [scale(mode == "rp", bool(more))]
    ),
    Case("cvt.rp.satfinite.ue8m0x2.bf16x2", scale(True, True)),
    Case("cvt.rn.bf16x2.ue8m0x2", of_scale),
    *(Case(f"cvt.pack.sat.{kind}.s32", of(2, packed(kind))) for kind in ("u16", "s16")),
    *(Case(f"cvt.pack.sat.{kind}.s32.b32", of(3, packed(kind))) for kind in ("u8", "s8")),
]
CASES = [*MOVES, *INTEGER_CASES, *FLOAT_CASES, *COMPARISON_CASES, *CONVERSION_CASES]
