"""What random kernels are made of: values with their types, statements, and a kernel with its text and inputs."""

from __future__ import annotations

import dataclasses
import linecache
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import glueball.language as gl
from glueball.language.promotion import check_literal, literal_type, promote
from glueball.tile.types import dtype

NUMPY_TYPES = {
    "int1": np.dtype(np.bool_),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
    "float8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
NAMES = {getattr(gl, name): name for name in NUMPY_TYPES}
INTEGERS = [name for name in NUMPY_TYPES if "int" in name and name != "int1"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SHAPES = [(64,), (128,), (16,), (2,), (8, 16), (16, 8), (4, 32), (32, 2), (1, 64), (64, 1), (4, 4, 8), (2, 8, 4)]
INPUT_LENGTH = 1024
PROGRAMS = 2

PRELUDE = '''"""A random kernel."""

from glueball.layouts import *
from tests.kernels.random_prelude import *

'''

APPROXIMATE = {
    # clamp from, clamp to, relative bound, absolute bound
    "exp": (-8.0, 8.0, 2.0**-19, 0.0),
    "exp2": (-8.0, 8.0, 2.0**-20, 0.0),
    "log": (2.0, 1e6, 2.0**-20, 0.0),
    "log2": (2.0, 1e6, 2.0**-20, 0.0),
    "sin": (-6.0, 6.0, 0.0, 2.0**-19),
    "cos": (-6.0, 6.0, 0.0, 2.0**-19),
    "sqrt": (1e-6, 1e6, 2.0**-21, 0.0),
    "rsqrt": (1e-6, 1e6, 2.0**-21, 0.0),
}
EXACT_FUNCTIONS = ["gl.floor", "gl.ceil", "gl.erf"] + [
    f"libdevice.{name}"
    for name in (
        "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "atan", "sinh", "cosh",
        "tanh", "cbrt", "rsqrt", "sqrt", "trunc", "rint",
    )
]  # fmt: skip
LITERALS = [0, 1, 2, 3, 7, -1, -5, 100, True, 0.5, -1.5, 3.0, 1e-3, 65536.0, math.inf]


@dataclass(frozen=True, slots=True)
class Value:
    """What a name or an expression holds; a scalar has no layout."""

    text: str
    kind: str
    shape: tuple[int, ...] = ()
    layout: str = ""

    @property
    def element(self) -> dtype:
        return getattr(gl, self.kind)

    def with_text(self, text: str, kind: str | None = None) -> Value:
        return Value(text, kind or self.kind, self.shape, self.layout)


@dataclass(slots=True)
class Statement:
    """One line, and for a loop or a branch the statements in it."""

    text: str
    bodies: list[tuple[str, list[Statement]]] = field(default_factory=list)
    needed: bool = False

    def lines(self, indent: int) -> Iterator[str]:
        if self.text:
            yield "    " * indent + self.text
        for head, body in self.bodies:
            yield "    " * indent + head
            yield from rendered(body, indent + 1)


def rendered(body: list[Statement], indent: int) -> Iterator[str]:
    """The lines of a body, at least one."""
    lines = [line for statement in body for line in statement.lines(indent)]
    yield from lines or ["    " * indent + "pass"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Elements of the float32 output from `start` on are of an approximate function and may be off by this much.

    The arguments of the function are elements of the same output, from `argument` on.
    """

    function: str
    start: int
    size: int
    relative: float
    absolute: float
    argument: int


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel's text, how it is launched, and what its outputs are."""

    seed: int
    target: str
    warps: int
    n: int
    output_sizes: dict[str, int]
    bounds: list[Bound]
    source: str

    def build(self) -> Any:
        """The jitted function."""
        text = self.source
        filename = f"<random kernel {self.seed}.{zlib.crc32(text.encode()):08x}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {"__name__": filename}
        exec(compile(text, filename, "exec"), namespace)
        return namespace["kernel"]

    def inputs(self, variant: int = 0) -> dict[str, np.ndarray]:
        """The inputs by element type, the same for one seed and variant."""
        random = np.random.default_rng([self.seed, variant])
        return {kind: random_values(random, kind) for kind in NUMPY_TYPES}

    def outputs(self) -> dict[str, np.ndarray]:
        """Zeroed outputs by element type."""
        return {kind: np.zeros(size, NUMPY_TYPES[kind]) for kind, size in self.output_sizes.items()}

    def facts(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; `Program.from_facts` reads it."""
        return dataclasses.asdict(self) | {"source": self.source.splitlines()}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Program:
        """The program that `facts` told of."""
        fields = {field.name: facts[field.name] for field in dataclasses.fields(cls)}
        bounds = [Bound(**bound) for bound in facts["bounds"]]
        return cls(**fields | {"bounds": bounds, "source": "\n".join(facts["source"]) + "\n"})


@dataclass(slots=True)
class RandomKernel:
    """A kernel as a tree of statements."""

    seed: int
    target: str
    warps: int
    n: int
    constants: dict[str, Any]
    statements: list[Statement]
    output_sizes: dict[str, int]
    bounds: list[Bound]

    def program(self) -> Program:
        """The kernel as text."""
        sizes = dict(self.output_sizes)
        return Program(self.seed, self.target, self.warps, self.n, sizes, list(self.bounds), self.source())

    def source(self) -> str:
        """The whole module, as it could stand in a file."""
        body = "\n".join(rendered(self.statements, 1))
        used = [(name, value) for name, value in self.constants.items() if re.search(rf"\b{name}\b", body)]
        lines = [f"{name} = gl.constexpr({value!r})" for name, value in used]
        inputs = [f"x_{kind}" for kind in NUMPY_TYPES]
        parameters = ", ".join([*inputs, *(f"o_{kind}" for kind in self.output_sizes), "n"])
        return PRELUDE + "\n".join([*lines, "", "", "@glueball.jit", f"def kernel({parameters}):", body, ""])


def random_values(random: np.random.Generator, kind: str) -> np.ndarray:
    """Small numbers, random bits and what lies at the ends of the type."""
    numpy_type = NUMPY_TYPES[kind]
    if kind == "int1":
        return random.integers(0, 2, INPUT_LENGTH).astype(bool)
    bits = random.integers(0, 256, INPUT_LENGTH * numpy_type.itemsize, dtype=np.uint8).view(numpy_type)
    with np.errstate(all="ignore"):
        small = (random.standard_normal(INPUT_LENGTH) * 4).astype(np.float32)
        small = small.astype(numpy_type) if "u" not in kind else np.abs(small).astype(numpy_type)
        ends = [0, 1, 127] + ([] if kind.startswith("u") else [-1])
        ends = ends if numpy_type.kind in "iu" else [*ends, -0.0, math.inf, -math.inf, math.nan, 1e-40, 0.5]
        special = np.array(ends, np.float64 if numpy_type.kind not in "iu" else np.int64).astype(numpy_type)
    values = np.where(random.random(INPUT_LENGTH) < 0.7, small, bits)
    return np.where(
        random.random(INPUT_LENGTH) < 0.1, special[random.integers(len(special), size=INPUT_LENGTH)], values
    )


def promoted(left: Value, right: Value | Any, dividing: bool = False) -> dtype | None:
    """The type in which two operands compute, or None where they do not mix."""
    try:
        if isinstance(right, Value):
            return promote(left.element, right.element, dividing=dividing)
        element = promote(left.element, literal_type(right), right_literal=True, dividing=dividing)
        check_literal(right, element)
    except (TypeError, ValueError):
        return None
    return element
