"""Random kernels as Python text: typed, so that each is valid, and a tree of statements, so that it can be reduced.

Every value has an element type, a shape and a layout, named by an expression of the kernel's module. What no executor
defines is avoided: the bits of a NaN (a NaN never becomes an integer by its bits, nor gives its sign), elements that a
mask leaves out, indices out of range. Functions that hardware approximates are only stored, never computed with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import glueball.language as gl
from glueball import layouts
from tests.kernels import random_layouts, random_operations
from tests.kernels.random_programs import (
    APPROXIMATE,
    FLOATS,
    INTEGERS,
    NUMPY_TYPES,
    PROGRAMS,
    SHAPES,
    Bound,
    RandomKernel,
    Statement,
    Value,
)


class Generator:
    """Draws statements one after another; what it knows is which names hold what."""

    def __init__(self, seed: int, gpu: bool = False) -> None:
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.lanes, self.target = (32, "sm_90a") if gpu or self.random.integers(4) else (64, "gfx942")
        self.warps = 1 << int(self.random.integers(4))
        self.constants: dict[str, Any] = {}
        self.layouts: dict[tuple[int, ...], list[str]] = {}
        self.scope: list[Value] = [Value("n", "int32"), Value("pid", "int32")]
        self.buffers: list[tuple[str, Value]] = []
        self.sliceable: dict[str, bool] = {}
        self.fixed: set[str] = {"n", "pid"}
        self.count = 0
        self.outputs: dict[str, int] = {}
        self.bounds: list[Bound] = []
        self.body: list[Statement] = []

    def kernel(self) -> RandomKernel:
        """A kernel of about fifteen statements, and the stores of what they give."""
        self.body.append(Statement("pid = gl.program_id(0)"))
        self.bind(self.loaded(self.pick(SHAPES)))
        self.bind(self.loaded(self.pick(SHAPES)))
        for _ in range(int(self.random.integers(7, 15))):
            self.statement(depth=0)
        stored = [value for value in self.scope if value.text not in ("n", "pid")]
        for value in [*self.random.permutation(np.array(stored[:-4], object)), *stored[-4:]][-14:]:
            self.store(value)
        return RandomKernel(
            self.seed, self.target, self.warps, int(self.pick([2, 7, 16, 50, 131])), self.constants, self.body,
            self.outputs, self.bounds,
        )  # fmt: skip

    # choices

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, prefix: str, value: Any) -> str:
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def layout(self, shape: tuple[int, ...]) -> str:
        """A layout of a shape: one that there is, or a new one."""
        known = self.layouts.setdefault(shape, [])
        if not known or (len(known) < 3 and self.chance(0.4)):
            known.append(self.constant("L", self.new_layout(shape)))
        return str(self.pick(known))

    def new_layout(self, shape: tuple[int, ...]) -> Any:
        rank, kind = len(shape), int(self.random.integers(6))
        if kind < 2:
            return random_layouts.linear(self.random, self.lanes, self.warps, shape)
        if kind == 2:
            return random_layouts.units(self.random, self.lanes, self.warps, shape)
        if kind == 3 and rank < 3:
            axis = int(self.random.integers(rank + 1))
            return layouts.SliceLayout(axis, self.new_layout((*shape[:axis], 2, *shape[axis:])))
        if kind == 4 and rank == 2 and self.lanes == 32:
            fragment = layouts.NVMMADistributedLayout([2, 0], [self.warps, 1], [16, 8])
            operand = int(self.random.integers(3))
            return fragment if operand == 2 else layouts.DotOperandLayout(operand, fragment, self.pick([1, 2]))

        def split(total: int) -> list[int]:
            parts = [1] * rank
            for _ in range(total.bit_length() - 1):
                parts[int(self.random.integers(rank))] *= 2
            return parts

        registers = [1 << int(self.random.integers(3)) for _ in range(rank)]
        order = [int(axis) for axis in self.random.permutation(rank)]
        return layouts.BlockedLayout(registers, split(self.lanes), split(self.warps), order)

    # values

    def tiles(self, accept: Callable[[Value], bool] = lambda _: True) -> list[Value]:
        return [value for value in self.scope if value.shape and accept(value)]

    def tile(self, kinds: Sequence[str] | None = None, rank: int | None = None) -> Value:
        """A tile of one of the element types: one that there is, or one converted or loaded."""
        fits = self.tiles(lambda value: rank is None or len(value.shape) == rank)
        exact = [value for value in fits if kinds is None or value.kind in kinds]
        if exact and self.chance(0.85):
            return self.pick(exact[-6:])
        if fits and self.chance(0.5) and kinds is not None:
            return self.cast(self.pick(fits), str(self.pick(kinds)))
        shapes = [shape for shape in SHAPES if rank is None or len(shape) == rank]
        return self.loaded(self.pick(shapes), None if kinds is None else str(self.pick(kinds)))

    def loaded(self, shape: tuple[int, ...], kind: str | None = None, layout: str = "") -> Value:
        """Elements of an input, often with a mask."""
        kind = kind or str(self.pick([*NUMPY_TYPES, *FLOATS, *INTEGERS]))
        layout = layout or self.layout(shape)
        offsets = self.offsets(shape, layout)
        start = int(self.random.integers(200))
        pointer = f"x_{kind} + pid * 300 + {start} + {offsets}"
        if self.chance(0.6):
            return Value(f"gl.load({pointer})", kind, shape, layout)
        other = {"int1": "False"}.get(kind, str(self.pick([0, 1, 3])))
        if kind.startswith("float8"):
            other = "0.0"
        return Value(f"gl.load({pointer}, {offsets} < n, {other})", kind, shape, layout)

    def offsets(self, shape: tuple[int, ...], layout: str) -> str:
        return f"offsets_{len(shape)}({', '.join(map(str, shape))}, {layout})"

    def cast(self, value: Value, kind: str) -> Value:
        """Another element type; between 8-bit floats and integers by way of float32."""
        if value.kind == kind:
            return value
        text = value.text
        if {value.kind[:6], kind[:6]} >= {"float8"} and not (value.kind in FLOATS or kind in FLOATS):
            text = f"({text}).to(gl.float32)"
        narrows = value.kind in FLOATS and kind in [*FLOATS, *(each for each in NUMPY_TYPES if "float8" in each)]
        if narrows and value.element.primitive_bitwidth > getattr(gl, kind).primitive_bitwidth and self.chance(0.2):
            return value.with_text(f'({text}).to(gl.{kind}, fp_downcast_rounding="rtz")', kind)
        return value.with_text(f"({text}).to(gl.{kind})", kind)

    def placed(self, value: Value, layout: str) -> Value:
        if value.layout == layout or not value.shape:
            return value
        return Value(f"gl.convert_layout({value.text}, {layout})", value.kind, value.shape, layout)

    def shaped_like(self, like: Value, kinds: Sequence[str] | None = None) -> Value:
        """A value that broadcasts with another one, placed alike."""

        def fits(value: Value) -> bool:
            if kinds is not None and value.kind not in kinds:
                return False
            if not value.shape:
                return True
            pairs = zip(value.shape, like.shape, strict=False)
            return len(value.shape) == len(like.shape) and all(a in (1, b) for a, b in pairs)

        found = [value for value in self.scope if fits(value)]
        if found and self.chance(0.75):
            return self.placed(self.pick(found[-5:]), like.layout)
        if not like.shape:
            return self.cast(Value("n", "int32"), like.kind if kinds is None else str(self.pick(kinds)))
        return self.placed(self.loaded(like.shape, None if kinds is None else str(self.pick(kinds))), like.layout)

    # statements

    def bind(self, value: Value, prefix: str = "v") -> Value:
        name = self.name(prefix)
        self.body.append(Statement(f"{name} = {value.text}"))
        bound = value.with_text(name)
        self.scope.append(bound)
        return bound

    def store(self, value: Value) -> int:
        """The elements go to an output of their own; where it starts."""
        size = math.prod(value.shape)
        start = self.outputs.get(value.kind, 0)
        self.outputs[value.kind] = start + PROGRAMS * size
        place = f"o_{value.kind} + {start} + pid * {size}"
        if value.shape:
            place += " + " + self.offsets(value.shape, value.layout)
        self.body.append(Statement(f"gl.store({place}, {value.text})"))
        return start

    def store_some(self) -> None:
        """The elements that a mask lets through, converted to the output's type."""
        value = self.tile()
        kind = str(self.pick([*FLOATS, *INTEGERS])) if "float8" not in value.kind else value.kind
        size, start = math.prod(value.shape), self.outputs.get(kind, 0)
        self.outputs[kind] = start + PROGRAMS * size
        place = f"o_{kind} + {start} + pid * {size} + {self.offsets(value.shape, value.layout)}"
        self.body.append(Statement(f"gl.store({place}, {value.text}, {self.shaped_like(value, ['int1']).text})"))

    def count_atomically(self) -> None:
        """Atomic changes of an output, each of an element of its own or all of integers to a few."""
        value = self.tile(["int32", "uint32", "int64", "uint64"])
        size, start = math.prod(value.shape), self.outputs.get(value.kind, 0)
        self.outputs[value.kind] = start + PROGRAMS * size
        place = f"o_{value.kind} + {start} + pid * {size} + {self.offsets(value.shape, value.layout)}"
        if self.chance(0.5):
            place = f"o_{value.kind} + {start} + pid * {size} + ({self.offsets(value.shape, value.layout)} & 3)"
            names = ["add", "max", "min", "xor"]
            self.body.append(Statement(f"gl.atomic_{self.pick(names)}({place}, {value.text})"))
            return
        names = ["add", "max", "min", "and", "or", "xor", "xchg"]
        self.bind(value.with_text(f"gl.atomic_{self.pick(names)}({place}, {value.text})"))

    def statement(self, depth: int) -> None:
        """One more statement."""
        if depth < 2 and self.chance(0.15):
            self.pick([self.for_loop, self.branch, self.while_loop, self.unrolled])(depth)
            return
        if self.buffers and self.chance(0.15):
            self.use_buffer()
            return
        if depth == 0 and self.chance(0.07):
            self.pick([self.new_buffer, self.new_buffers])()
            return
        if self.chance(0.12) and depth == 0:
            self.pick([self.approximate, self.store_some, self.count_atomically])()
            return
        if depth > 0 and self.chance(0.6):
            self.assign()
            return
        self.bind(self.operation())

    def operation(self) -> Value:
        """The text of any operation that gives one value."""
        while True:
            value = self.pick(random_operations.OPERATIONS)(self)
            if value is not None:
                return value

    def assign(self) -> None:
        """A name that is there takes another value of its type, as a loop carries it."""
        targets = [value for value in self.scope if value.text not in self.fixed]
        if not targets:
            return
        target = self.pick(targets)
        result = self.binary_like(target)
        self.body.append(Statement(f"{target.text} = {result.text}"))

    def binary_like(self, target: Value) -> Value:
        for _ in range(40):
            value = random_operations.binary(self, target)
            if value is not None and value.shape == target.shape:
                return self.cast(value, target.kind)
        return target

    def inner(self, depth: int, count: int) -> list[Statement]:
        """The statements of a body; names bound in it are gone after it."""
        outer, scope, self.body = self.body, list(self.scope), []
        self.assign()
        for _ in range(count):
            self.statement(depth + 1)
        body, self.body, self.scope = self.body, outer, scope
        return body

    def bound_scalar(self) -> str:
        """A small run-time integer."""
        scalars = [value for value in self.scope if not value.shape and value.kind in INTEGERS and value.kind[0] != "u"]
        return f"(({self.pick(scalars).text}).to(gl.int32) & 3)"

    def for_loop(self, depth: int) -> None:
        index, wide = self.name("i"), str(self.pick(["int32", "int32", "uint32", "int64", "uint8", "int16"]))
        start = f"({self.bound_scalar()}).to(gl.{wide})"
        # Literal bounds are int32, to which narrower ones promote.
        kind = wide if wide in ("uint32", "int64") else "int32"
        ranges = [f"range({start}, 4)", f"range({start}, 4, 2)"]
        if wide == "int32":
            ranges += [f"range({start})", f"range({start}, -1, -1)", "range(1, 6, 2)", "range(3)"]
        self.scope.append(Value(index, kind))
        self.fixed.add(index)
        body = self.inner(depth, int(self.random.integers(1, 4)))
        self.scope = [value for value in self.scope if value.text != index]
        self.body.append(Statement("", [(f"for {index} in {self.pick(ranges)}:", body)]))

    def unrolled(self, depth: int) -> None:
        body = self.inner(depth, 1)
        self.body.append(Statement("", [(f"for {self.name('i')} in gl.static_range({self.pick([1, 2, 3])}):", body)]))

    def while_loop(self, depth: int) -> None:
        """A loop that a counter of its own ends, and maybe a value before that."""
        counter = self.name("c")
        limit = self.bound_scalar()
        self.fixed.add(counter)
        step = Statement(f"{counter} += 1", needed=True)
        body = [step, *self.inner(depth, int(self.random.integers(1, 3)))]
        self.body += [Statement(f"{counter} = {limit}"), Statement("", [(f"while {counter} < 4:", body)])]

    def branch(self, depth: int) -> None:
        scalars = [value for value in self.scope if not value.shape and not value.kind.startswith("float8")]
        conditions = [f"{self.pick(scalars).text} {self.pick(['<', '>=', '==', '!='])} {self.pick([0, 1, 3])}"]
        conditions += [f"{self.bound_scalar()} > 1", f"pid == 0 and {self.bound_scalar()} < 2"]
        bodies = [(f"if {self.pick(conditions)}:", self.inner(depth, int(self.random.integers(1, 3))))]
        if self.chance(0.5):
            bodies.append(("else:", self.inner(depth, int(self.random.integers(1, 3)))))
        self.body.append(Statement("", bodies))

    def new_buffer(self) -> None:
        """Shared memory with a tile in it."""
        value = self.tile([kind for kind in NUMPY_TYPES if kind != "int1"])
        shared = self.constant("S", self.shared_layout(value))
        name = self.name("b")
        shape = ", ".join(map(str, value.shape))
        text = f"{name} = gl.allocate_shared_memory(gl.{value.kind}, [{shape}], {shared}, {value.text})"
        self.body.append(Statement(text))
        self.buffers.append((name, value))
        self.sliceable[name] = getattr(self.constants[shared], "max_phase", 2) == 1

    def shared_layout(self, value: Value) -> Any:
        rank = len(value.shape)
        order = [int(axis) for axis in self.random.permutation(rank)]
        if rank == 2 and self.chance(0.7):
            if self.chance(0.5):
                vector = self.pick([1, 2])
                return layouts.SwizzledSharedLayout(vector, self.pick([1, 2]), self.pick([1, 2, 4]), order)
            pairs = [[int(self.pick([16, 32])), int(self.pick([2, 4, 8]))]]
            return layouts.PaddedSharedLayout.with_identity_for(pairs, list(value.shape), order)
        return layouts.SwizzledSharedLayout(1, 1, 1, order)

    def new_buffers(self) -> None:
        """Two or three buffers, one found by a run-time index."""
        shape, kind = self.pick(SHAPES), str(self.pick([kind for kind in NUMPY_TYPES if kind != "int1"]))
        shared = self.constant("S", self.shared_layout(Value("", kind, shape)))
        name, count = self.name("b"), int(self.pick([2, 3]))
        text = f"{name} = gl.allocate_shared_memory(gl.{kind}, {[count, *shape]}, {shared})"
        self.body.append(Statement(text))
        for index in range(count):
            self.body.append(Statement(f"{name}.index({index}).store({self.loaded(shape, kind).text})"))
        place = f"{self.bound_scalar()} & 1"
        self.buffers.append((f"{name}.index({place})", self.loaded(shape, kind)))
        self.sliceable[self.buffers[-1][0]] = False

    def gather_buffer(self) -> None:
        """Elements of shared memory by run-time indices."""
        name, held = self.pick(self.buffers)
        axis = int(self.random.integers(len(held.shape)))
        index = self.loaded(held.shape, str(self.pick(["int32", "int64", "uint8"])))
        text = f"{name}.gather({index.text} & {held.shape[axis] - 1}, {axis})"
        self.bind(Value(text, held.kind, held.shape, index.layout))

    def use_buffer(self) -> None:
        if self.chance(0.2):
            self.gather_buffer()
            return
        name, held = self.pick(self.buffers)
        if self.chance(0.5):
            value = self.cast(self.shaped_like(held), held.kind)
            if value.shape == held.shape:
                self.body.append(Statement(f"{name}.store({value.text})"))
                return
        view, shape = name, held.shape
        if len(shape) == 2 and self.chance(0.4):
            view, shape = f"{name}.permute((1, 0))", (shape[1], shape[0])
        if self.chance(0.3):
            axis = int(self.random.integers(len(shape)))
            part = max(shape[axis] // 2, 1)
            sliced = (*shape[:axis], part, *shape[axis + 1 :])
            if self.sliceable[name]:
                view, shape = f"{view}.slice({self.pick([0, shape[axis] - part])}, {part}, {axis})", sliced
        layout = self.layout(shape)
        self.bind(Value(f"{view}.load({layout})", held.kind, shape, layout))

    def approximate(self) -> None:
        """A function of float32 as the hardware approximates it, where its bound is a plain one, and its argument."""
        value = self.tile(["float32"])
        name = str(self.pick([*APPROXIMATE]))
        low, high, relative, absolute = APPROXIMATE[name]
        inside = self.bind(value.with_text(f"gl.clamp({value.text}, {low}, {high})"))
        argument = self.store(inside)
        start = self.store(inside.with_text(f"gl.{name}({inside.text})"))
        size = PROGRAMS * math.prod(value.shape)
        self.bounds.append(Bound(name, start, size, relative, absolute, argument))
