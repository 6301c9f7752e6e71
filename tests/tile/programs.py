"""Small kernels in tile IR, built by hand."""

from __future__ import annotations

from collections.abc import Callable

from glueball.layouts import BlockedLayout, SliceLayout
from glueball.location import SourceLocation
from glueball.tile.ir import ArgumentFacts, Builder, Operation, Region, TileFunction, Value
from glueball.tile.types import (
    TileType,
    distributed_type,
    dtype,
    float32,
    int1,
    int32,
    pointer_type,
)

LINEAR = BlockedLayout([1], [32], [4], [0])
SQUARE = BlockedLayout([1, 2], [4, 8], [2, 2], [1, 0])


class Program:
    """A kernel under construction; every operation stands on a line of its own in `kernel.py`."""

    def __init__(self, name: str, arguments: dict[str, TileType]) -> None:
        self.arguments = {key: Value(kind, key) for key, kind in arguments.items()}
        self.function = TileFunction(
            name, list(self.arguments.values()), [ArgumentFacts() for _ in arguments], Region(), num_warps=4, lanes=32
        )
        self.builder = Builder(self.function.body)
        self.line = 0

    def operation(self, opcode: str, *operands: Value, gives: list[TileType], regions=(), **attributes) -> Operation:
        self.line += 1
        self.builder.location = SourceLocation("kernel.py", self.line, function=self.function.name)
        return self.builder.create(opcode, operands, gives, attributes, regions)

    def __call__(self, opcode: str, *operands: Value, to: TileType, name: str = "", **attributes) -> Value:
        result = self.operation(opcode, *operands, gives=[to], **attributes).result
        result.name = name
        return result

    def do(self, opcode: str, *operands: Value, **attributes) -> None:
        self.operation(opcode, *operands, gives=[], **attributes)

    def constant(self, value: object, kind: dtype = int32) -> Value:
        return self("constant", to=kind, value=value)

    def inside(self, arguments: list[Value], body: Callable[..., list[Value]]) -> Region:
        """A region that yields what `body` returns for its arguments."""
        outer, region = self.builder.region, Region(arguments)
        self.builder.region = region
        self.do("yield", *body(*arguments))
        self.builder.region = outer
        return region

    def offsets(self, extent: int, layout=LINEAR) -> Value:
        """`program_id(0) * extent + arange(0, extent)`."""
        kind = distributed_type(int32, (extent,), layout)
        start = self("mul", self("program_id", to=int32, axis=0), self.constant(extent), to=int32)
        lanes = self("make_range", to=kind, start=0, end=extent)
        return self("add", self("splat", start, to=kind), lanes, to=kind, name="offsets")

    def below(self, offsets: Value, limit: Value, name: str = "mask") -> Value:
        """`offsets < limit`."""
        limits = self("splat", limit, to=offsets.type)
        return self("compare", offsets, limits, to=offsets.type.with_element_ty(int1), name=name, predicate="lt")

    def pointers(self, base: Value, offsets: Value) -> Value:
        """`base + offsets`."""
        kind = offsets.type.with_element_ty(base.type)
        return self("pointer_add", self("splat", base, to=kind), offsets, to=kind)

    def load(self, base: Value, offsets: Value, *masks: Value, name: str = "") -> Value:
        return self(
            "load",
            self.pointers(base, offsets),
            *masks,
            to=offsets.type.with_element_ty(base.type.element_ty),
            name=name,
        )

    def finish(self) -> TileFunction:
        self.do("return")
        return self.function


def vector_add(element: dtype = float32, extent: int = 128, layout=LINEAR) -> TileFunction:
    """`out[i] = x[i] + y[i]` for `i < n`."""
    pointer = pointer_type(element)
    program = Program("vector_add", {"x": pointer, "y": pointer, "out": pointer, "n": int32})
    x, y, out, n = program.arguments.values()
    offsets = program.offsets(extent, layout)
    mask = program.below(offsets, n)
    left = program.load(x, offsets, mask, name="left")
    right = program.load(y, offsets, mask, name="right")
    total = program("add", left, right, to=left.type)
    program.do("store", program.pointers(out, offsets), total, mask)
    return program.finish()


def copy_2d(shape: tuple[int, int] = (16, 32)) -> TileFunction:
    """`out[i, j] = x[i, j]` with a stride per dimension and tensor; one program per tile."""
    pointer, kind = pointer_type(float32), distributed_type(int32, shape, SQUARE)
    scalars = ("rows", "columns", "x_row", "x_column", "out_row", "out_column")
    program = Program("copy_2d", {"x": pointer, "out": pointer, **dict.fromkeys(scalars, int32)})
    argument = program.arguments
    grids = []
    for axis in (0, 1):
        line = distributed_type(int32, (shape[axis],), SliceLayout(1 - axis, SQUARE))
        start = program("mul", program("program_id", to=int32, axis=axis), program.constant(shape[axis]), to=int32)
        index = program("make_range", to=line, start=0, end=shape[axis])
        index = program("add", program("splat", start, to=line), index, to=line)
        expanded = (shape[0], 1) if axis == 0 else (1, shape[1])
        index = program("expand_dims", index, to=distributed_type(int32, expanded, SQUARE), axis=1 - axis)
        grids.append(program("broadcast", index, to=kind))
    masks = [program.below(grid, argument[name]) for grid, name in zip(grids, ("rows", "columns"), strict=True)]
    mask = program("and", *masks, to=masks[0].type)

    def position(tensor: str) -> Value:
        row, column = (program("splat", argument[f"{tensor}_{name}"], to=kind) for name in ("row", "column"))
        parts = [program("mul", *pair, to=kind) for pair in zip(grids, (row, column), strict=True)]
        return program("add", *parts, to=kind)

    values = program.load(argument["x"], position("x"), mask)
    program.do("store", program.pointers(argument["out"], position("out")), values, mask)
    return program.finish()


def sum_blocks(extent: int = 128) -> TileFunction:
    """`out[i] = sum over k of x[k * extent + i]`, by a loop from `first` to `last` in steps of `step`."""
    pointer = pointer_type(float32)
    program = Program("sum_blocks", {"x": pointer, "out": pointer, "first": int32, "last": int32, "step": int32})
    x, out, *bounds = program.arguments.values()
    offsets = program.offsets(extent)
    kind = offsets.type.with_element_ty(float32)
    zero = program("splat", program.constant(0.0, float32), to=kind, name="zero")

    def body(block: Value, total: Value) -> list[Value]:
        start = program("splat", program("mul", block, program.constant(extent), to=int32), to=offsets.type)
        part = program.load(x, program("add", offsets, start, to=offsets.type))
        return [program("add", total, part, to=kind)]

    region = program.inside([Value(int32, "block"), Value(kind, "total")], body)
    loop = program.operation("for", *bounds, zero, gives=[kind], regions=[region])
    program.do("store", program.pointers(out, offsets), loop.result)
    return program.finish()


def choose(extent: int = 128) -> TileFunction:
    """`out[i] = x[i]` negated where `n > 10`, and `x[i]` otherwise."""
    pointer = pointer_type(int32)
    program = Program("choose", {"x": pointer, "out": pointer, "n": int32})
    x, out, n = program.arguments.values()
    offsets = program.offsets(extent)
    values = program.load(x, offsets, name="values")
    large = program("compare", n, program.constant(10), to=int1, name="large", predicate="gt")
    regions = [
        program.inside([], lambda: [program("negate", values, to=values.type)]),
        program.inside([], lambda: [values]),
    ]
    chosen = program.operation("if", large, gives=[values.type], regions=regions).result
    program.do("store", program.pointers(out, offsets), chosen)
    return program.finish()
