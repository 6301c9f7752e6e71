"""The operations that random kernels are drawn from: each gives the text of one value, or None where nothing fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import glueball.language as gl
from tests.kernels.random_programs import (
    EXACT_FUNCTIONS,
    FLOATS,
    INTEGERS,
    LITERALS,
    NAMES,
    NUMPY_TYPES,
    SHAPES,
    Value,
    promoted,
)

if TYPE_CHECKING:
    from tests.kernels.random_kernels import Generator

COMPUTING = [kind for kind in NUMPY_TYPES if kind != "int1"]
SIGNS = {
    "any": ["+", "-", "*"],
    "divide": ["/", "%"],
    "integer": ["&", "|", "^", "<<", ">>", "//"],
    "compare": ["<", "<=", ">", ">=", "==", "!="],
}


def binary(random: Generator, left: Value | None = None) -> Value | None:
    """Arithmetic, bits or a comparison on two operands, which broadcast."""
    left = left or random.tile()
    right: Any = random.pick(LITERALS) if random.chance(0.3) else random.shaped_like(left)
    group = str(random.pick(["any", "any", "divide", "integer", "compare", "extreme"]))
    whole = isinstance(right, Value) and "float" in right.kind
    if group == "integer" and ("float" in left.kind or whole or isinstance(right, float)):
        return None
    symbol = str(random.pick(SIGNS.get(group, [""])))
    if symbol == ">>" and not isinstance(right, Value) and right < 0:
        return None
    element = promoted(left, right, dividing=symbol in ("/", "%", "//"))
    if element is None:
        return None
    shape = right.shape if isinstance(right, Value) and len(right.shape) > len(left.shape) else left.shape
    text = right.text if isinstance(right, Value) else literal(right)
    if group == "extreme":
        return extreme(random, left, text, NAMES[element])
    kind = "int1" if group == "compare" else NAMES[element]
    if symbol == "/" and "float" not in kind:
        kind = "float32"
    return Value(f"({left.text} {symbol} {text})", kind, shape, left.layout)


def literal(number: bool | int | float) -> str:
    return 'float("inf")' if number == math.inf else f"({number!r})"


def extreme(random: Generator, left: Value, right: str, kind: str) -> Value:
    propagate = ", propagate_nan=ALL" if random.chance(0.3) else ""
    return left.with_text(f"gl.{random.pick(['minimum', 'maximum'])}({left.text}, {right}{propagate})", kind)


def unary(random: Generator) -> Value:
    value = random.tile()
    if "float" not in value.kind and random.chance(0.5):
        return value.with_text(f"(~{value.text})")
    return value.with_text(str(random.pick([f"(-{value.text})", f"gl.abs({value.text})"])))


def function(random: Generator) -> Value:
    value = random.tile(["float32", "float64"])
    return value.with_text(f"{random.pick(EXACT_FUNCTIONS)}({value.text})")


def function_of_two(random: Generator) -> Value | None:
    value = random.tile(["float32", "float64"])
    other = random.shaped_like(value, [value.kind])
    names = ["libdevice.pow", "libdevice.atan2", "libdevice.hypot", "gl.fdiv"]
    names += ["gl.div_rn"] if value.kind == "float32" else []
    return value.with_text(f"{random.pick(names)}({value.text}, {other.text})")


def fused(random: Generator) -> Value:
    value = random.tile(FLOATS)
    others = [random.shaped_like(value, [value.kind]).text for _ in range(2)]
    return value.with_text(f"gl.fma({value.text}, {others[0]}, {others[1]})")


def high_product(random: Generator) -> Value:
    value = random.tile(["int32", "uint32", "int64", "uint64"])
    return value.with_text(f"gl.umulhi({value.text}, {random.shaped_like(value, [value.kind]).text})")


def clamped(random: Generator) -> Value:
    value = random.tile([*FLOATS, *INTEGERS])
    return value.with_text(f"gl.clamp({value.text}, 1, {random.pick([1, 5, 100])})")


def chosen(random: Generator) -> Value | None:
    value = random.tile()
    other, condition = random.shaped_like(value), random.shaped_like(value, ["int1"])
    element = promoted(value, other)
    if element is None:
        return None
    return value.with_text(f"gl.where({condition.text}, {value.text}, {other.text})", NAMES[element])


def cast(random: Generator) -> Value:
    return random.cast(random.tile(), str(random.pick([*NUMPY_TYPES])))


def small_float(random: Generator) -> Value:
    """There and back through the 8-bit float that NumPy does not have."""
    value = random.tile(FLOATS)
    return value.with_text(f"({value.text}).to(gl.float8e4b15).to(gl.{value.kind})")


def bits(random: Generator) -> Value:
    """The same bits as another type. A NaN has no bits that every executor agrees on."""
    value = random.tile(COMPUTING)
    width = value.element.primitive_bitwidth
    kinds = [kind for kind in COMPUTING if getattr(gl, kind).primitive_bitwidth == width]
    text = value.text
    if "float8" in value.kind:
        return value
    if "float" in value.kind:
        text = f"gl.where({text} == {text}, {text}, 0.0)"
    kind = str(random.pick(kinds))
    return value.with_text(f"({text}).to(gl.{kind}, bitcast=True)", kind)


def converted(random: Generator) -> Value:
    value = random.tile()
    layout = random.layout(value.shape)
    return Value(f"gl.convert_layout({value.text}, {layout})", value.kind, value.shape, layout)


def broadcast(random: Generator) -> Value | None:
    narrow = random.tiles(lambda value: 1 in value.shape)
    if not narrow:
        return None
    value = random.pick(narrow)
    shape = tuple(4 if extent == 1 else extent for extent in value.shape)
    return Value(f"{value.text}.broadcast_to({', '.join(map(str, shape))})", value.kind, shape, value.layout)


def expanded(random: Generator) -> Value:
    """A line along one dimension of a tile, or across it."""
    shape = random.pick([shape for shape in SHAPES if len(shape) == 2])
    axis, layout = int(random.pick([0, 1])), random.layout(shape)
    line = random.loaded((shape[1 - axis],))
    sliced = f"gl.SliceLayout({axis}, {layout})"
    text = f"gl.expand_dims(gl.convert_layout({line.text}, {sliced}), {axis})"
    extents = (1, shape[1]) if axis == 0 else (shape[0], 1)
    return Value(text, line.kind, extents, layout)


def reshaped(random: Generator) -> Value | None:
    """Another shape, in the layout that follows, brought to one of a name."""
    value = random.tile()
    count = math.prod(value.shape)
    shapes = [shape for shape in SHAPES if math.prod(shape) == count and shape != value.shape]
    if not shapes:
        return None
    shape = random.pick(shapes)
    layout = random.layout(shape)
    text = f"gl.ravel({value.text})" if len(shape) == 1 else f"gl.reshape({value.text}, {list(shape)})"
    return Value(f"gl.convert_layout({text}, {layout})", value.kind, shape, layout)


def permuted(random: Generator) -> Value | None:
    tiles = random.tiles(lambda value: len(value.shape) > 1)
    if not tiles:
        return None
    value = random.pick(tiles)
    order = [int(axis) for axis in random.random.permutation(len(value.shape))]
    shape = tuple(value.shape[axis] for axis in order)
    layout = random.layout(shape)
    return Value(f"gl.convert_layout(gl.permute({value.text}, {order}), {layout})", value.kind, shape, layout)


def joined(random: Generator) -> Value | None:
    value = random.tile()
    other = random.shaped_like(value, [value.kind])
    if len(value.shape) > 2 or math.prod(value.shape) > 128:
        return None
    shape = (*value.shape, 2)
    layout = random.layout(shape)
    text = f"gl.convert_layout(gl.join({value.text}, {other.text}), {layout})"
    return Value(text, value.kind, shape, layout)


def unpacked(random: Generator) -> Value | None:
    """Floats of four bits, two in each byte along an axis."""
    value = random.tile(["uint8", "int8"])
    if math.prod(value.shape) > 128:
        return None
    axis, kind = int(random.pick(range(len(value.shape)))), str(random.pick(["float16", "bfloat16"]))
    shape = (*value.shape[:axis], 2 * value.shape[axis], *value.shape[axis + 1 :])
    layout = random.layout(shape)
    text = f"gl.convert_layout(gl.fp4_to_fp({value.text}, gl.{kind}, {axis}), {layout})"
    return Value(text, kind, shape, layout)


def halved(random: Generator) -> Value:
    """One half of a tile and another, of the two that it was joined from."""
    value = random.tile()
    first = f"gl.split(gl.join({value.text}, {random.shaped_like(value, [value.kind]).text}))[{random.pick([0, 1])}]"
    return Value(f"gl.convert_layout({first}, {value.layout})", value.kind, value.shape, value.layout)


def reduced(random: Generator) -> Value:
    """A sum, an extreme or bits along one axis or all of them."""
    value = random.tile()
    axis = random.pick([None, *range(len(value.shape))])
    names = ["sum", "max", "min"] + (["xor_sum"] if "float" not in value.kind else [])
    name = str(random.pick(names))
    kind = {"sum": sum_kind, "max": extreme_kind, "min": extreme_kind}.get(name, str)(value.kind)
    keep = axis is not None and random.chance(0.5)
    arguments = f"{value.text}, {axis}{', keep_dims=True' if keep else ''}"
    if name in ("max", "min") and random.chance(0.4):
        part = int(random.pick([0, 1]))
        text, kind = f"gl.{name}({arguments}, return_indices=True)[{part}]", "int32" if part else kind
    else:
        text = f"gl.{name}({arguments})"
    return along(value, axis, keep, text, kind)


def along(value: Value, axis: int | None, keep: bool, text: str, kind: str) -> Value:
    """The result of a reduction."""
    if axis is None or (len(value.shape) == 1 and not keep):
        return Value(text, kind)
    if keep:
        return Value(text, kind, (*value.shape[:axis], 1, *value.shape[axis + 1 :]), value.layout)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    return Value(text, kind, shape, f"gl.SliceLayout({axis}, {value.layout})")


def reduced_pair(random: Generator) -> Value:
    """Least and greatest sums of pairs, by a function of the kernel's own."""
    value = random.tile([*FLOATS, *INTEGERS])
    other = random.shaped_like(value, [value.kind])
    if other.shape != value.shape:
        other = value
    axis, part = int(random.pick(range(len(value.shape)))), int(random.pick([0, 1]))
    if random.chance(0.5):
        text = f"gl.reduce(({value.text}, {other.text}), {axis}, affine)[{part}]"
        return along(value, axis, False, text, value.kind)
    reverse = random.pick(["", ", reverse=True"])
    return value.with_text(f"gl.associative_scan(({value.text}, {other.text}), {axis}, affine{reverse})[{part}]")


def scanned(random: Generator) -> Value:
    value = random.tile()
    axis = int(random.pick(range(len(value.shape))))
    text = f"gl.{random.pick(['cumsum', 'cumprod'])}({value.text}, {axis}{random.pick(['', ', reverse=True'])})"
    return value.with_text(text, sum_kind(value.kind))


def sum_kind(kind: str) -> str:
    if kind in ("int8", "int16"):
        return "int32"
    return "uint32" if kind in ("int1", "uint8", "uint16") else kind


def extreme_kind(kind: str) -> str:
    if getattr(gl, kind).primitive_bitwidth >= 32:
        return kind
    return "float32" if "float" in kind else "int32"


def gathered(random: Generator) -> Value:
    value = random.tile()
    axis = int(random.pick(range(len(value.shape))))
    index = random.tile(["int32", "int16", "uint8", "int64"], len(value.shape))
    if index.shape != value.shape:
        index = random.loaded(value.shape, "int32")
    text = f"gl.gather({value.text}, {index.text} & {value.shape[axis] - 1}, {axis})"
    return Value(text, value.kind, value.shape, index.layout)


def counted(random: Generator) -> Value:
    value = random.tile(["int32", "uint8", "int64"], 1)
    bins = int(random.pick([16, 64]))
    layout = random.layout((bins,))
    mask = f", mask={random.shaped_like(value, ['int1']).text}" if random.chance(0.4) else ""
    return Value(f"gl.histogram({value.text} & {bins - 1}, {bins}{mask}, layout={layout})", "int32", (bins,), layout)


def mapped(random: Generator) -> Value:
    value = random.tile(["int32", "int64", "float32", "int16"])
    other = random.shaped_like(value, [value.kind])
    if value.kind in ("int32", "int64") and random.chance(0.5):
        text = f"gl.map_elementwise(steps, {value.text}, {other.text})[{random.pick([0, 1])}]"
        return value.with_text(text)
    return value.with_text(f"gl.map_elementwise(least_two, {value.text}, {other.text})")


def filled(random: Generator) -> Value:
    """One number in every element, or a scalar's value."""
    shape = random.pick(SHAPES)
    layout, kind = random.layout(shape), str(random.pick([*FLOATS, *INTEGERS]))
    scalars = [value for value in random.scope if not value.shape]
    number = random.pick(["3", "0", random.cast(random.pick(scalars), kind).text])
    return Value(f"gl.full({list(shape)}, {number}, gl.{kind}, {layout})", kind, shape, layout)


def masked(random: Generator) -> Value:
    """A load whose masked elements are never looked at."""
    value = random.loaded(random.pick(SHAPES), str(random.pick([*FLOATS, *INTEGERS])))
    offsets = random.offsets(value.shape, value.layout)
    load = f"gl.load(x_{value.kind} + {offsets}, {offsets} < n)"
    return value.with_text(f"gl.where({offsets} < n, {load}, 0)")


def helped(random: Generator) -> Value:
    """A function that returns early, on a condition of the whole program; or one value or another."""
    value = random.tile([*FLOATS, *INTEGERS])
    other = random.shaped_like(value, [value.kind])
    condition = f"{random.bound_scalar()} > 1"
    if other.shape == value.shape and random.chance(0.5):
        return value.with_text(f"({value.text} if {condition} else {other.text})")
    return value.with_text(f"either({value.text}, {value.text} + 1, {condition})[{random.pick([0, 1])}]")


def scalar(random: Generator) -> Value | None:
    """Arithmetic on scalars."""
    value = random.pick([value for value in random.scope if not value.shape])
    choice = int(random.pick(range(4)))
    if choice == 0:
        return random.cast(value, str(random.pick([*NUMPY_TYPES])))
    if choice == 1:
        return value.with_text(f"gl.abs(-({value.text}))")
    return binary(random, value)


def numbered(random: Generator) -> Value:
    """Indices and what is computed of them, of which the compiler knows strides and divisors."""
    shape = random.pick(SHAPES)
    layout = random.layout(shape)
    text = random.offsets(shape, layout)
    for _ in range(int(random.pick([1, 2, 3]))):
        symbol = str(random.pick(["+", "-", "*", "//", "%", "<<", ">>", "&", "^"]))
        other = str(random.pick([1, 2, 3, 7, 8, 16, 64, "n", "pid * 16"]))
        text = f"({text} {symbol} ({other}))" if random.chance(0.8) else f"(({other}) {symbol} {text})"
    return random.cast(Value(text, "int32", shape, layout), str(random.pick(["int32", *INTEGERS, "float32"])))


def known(random: Generator) -> Value:
    """A scalar that the compiler knows."""
    kind = str(random.pick([*INTEGERS, *FLOATS]))
    return Value(f"gl.to_tensor({random.pick([0, 1, -1, 3, 100, 128])}).to(gl.{kind})", kind)


OPERATIONS: list[Callable[[Generator], Value | None]] = [
    *[binary] * 8, *[cast] * 3, *[reduced] * 4, *[converted] * 2, unary, unary, function, function_of_two, fused,
    high_product, clamped, chosen, chosen, small_float, bits, broadcast, expanded, reshaped, permuted, joined, halved,
    unpacked, reduced_pair, scanned, gathered, counted, mapped, filled, masked,
    helped, scalar, scalar,
    numbered, numbered, known, known,
]  # fmt: skip
