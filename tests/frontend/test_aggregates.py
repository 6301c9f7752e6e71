"""Record types, tuples of run-time values, results that must be used, functions that are not to be inlined."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Union

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, UnsupportedLanguageConstruct
from glueball.language.aggregate import aggregate_type
from tests.frontend.harness import build_kernel, operations, run_kernel
from tests.kernels.harness import EXECUTORS, run

LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
PLAIN = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))


@glueball.aggregate
class Scaled:
    value: gl.tensor
    factor: gl.constexpr = 2

    @glueball.jit
    def product(self, more):
        return self.value * self.factor + more

    @glueball.constexpr_function
    def doubled(self):
        return self.factor * 2

    @property
    def half(self):
        return self.factor // 2

    @glueball.jit
    def of(n):  # noqa: N805 - called through the class
        return Scaled(gl.arange(0, 128, LINE) + n)

    @glueball.jit
    def __add__(self, other):
        return Scaled(self.value + other.value, self.factor)

    @glueball.jit
    def __rmul__(self, number):
        return Scaled(number * self.value, self.factor)

    @glueball.jit
    def __neg__(self):
        return Scaled(-self.value, self.factor)

    @glueball.jit
    def __lt__(self, other):
        return gl.sum(self.value, 0) < gl.sum(other.value, 0)

    @glueball.jit
    def __getitem__(self, number):
        return Scaled(self.value + number, number)


@glueball.aggregate
class Named(Scaled):
    name: gl.constexpr = "none"


@glueball.aggregate
class Ring:
    """A record with a constructor of its own: a view, a record, and a counter."""

    buffers: gl.shared_memory_descriptor
    current: Scaled
    turn: gl.tensor
    count: gl.constexpr

    def __init__(self, buffers, current, turn):
        self.buffers = buffers
        self.current = current
        self.turn = turn
        self.count = gl.constexpr(buffers.shape[0].value)

    @glueball.jit
    def advanced(self):
        buffer = self.buffers.index(self.turn % self.count)
        buffer.store(self.current.value)
        return Ring(self.buffers, Scaled(buffer.load(LINE) + 1, self.current.factor), self.turn + 1)


@glueball.jit
def through_everything(y, n):
    line = gl.arange(0, 128, LINE)
    both = Scaled.of(n) + Scaled(line, 5)
    gl.static_assert(both.factor == 2 and both.doubled() == 4 and both.half == 1)
    ring = Ring(gl.allocate_shared_memory(gl.int32, [3, 128], PLAIN), 3 * both, gl.to_tensor(0))
    for _ in range(n):
        ring = ring.advanced()
    if n > 4:
        ring = Ring(ring.buffers, -ring.current, ring.turn)
    gl.static_assert(ring.current[3].factor == 3)
    gl.store(y + line, ring.current.product(ring.turn) + ring.current[4].value - ring.current.value - 4)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_record_through_calls_loops_and_operators(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(128, np.int32)
    run(executor, monkeypatch, through_everything[(1,)], y, 5)
    line = np.arange(128)
    np.testing.assert_array_equal(y, -(3 * (line + 5 + line) + 5) * 2 + 5)


@glueball.jit
def merged(y, n):
    line = gl.arange(0, 128, LINE)
    record = Named(line, name="first")
    gl.static_assert(record.name == "first" and record.factor == 2)
    if n > 2:
        record = gl.aggregate_replace(record, value=record.value * 10)
    else:
        minus = -record.value
        record = Named(minus, name="first")
    gl.store(y + line, record.product(0))


@pytest.mark.parametrize("n", [3, 1])
def test_a_record_is_merged_by_a_branch(n: int) -> None:
    y = np.zeros(128, np.int32)
    run_kernel(merged, (1,), y=y, n=np.int32(n))
    np.testing.assert_array_equal(y, np.arange(128) * (20 if n > 2 else -2))


def test_a_record_on_the_host() -> None:
    with pytest.raises(TypeError, match="Expected tensor for attribute 'value'"):
        Scaled(3)
    assert Scaled.aggregate_fields() == ["value", "factor"]
    assert Named.aggregate_fields() == ["value", "factor", "name"]


@glueball.aggregate
class Settings:
    rows: gl.constexpr
    shape: gl.tuple
    columns: gl.constexpr = 8

    @glueball.constexpr_function
    def area(self):
        return self.rows * self.columns


def test_a_record_of_constants() -> None:
    settings = Settings(4, (1, 2))
    assert settings.rows == 4 and settings.columns == 8 and settings.shape == (1, 2)
    assert settings.area() == 32
    assert settings.type == Settings(4, (1, 2)).type != Settings(5, (1, 2)).type
    assert isinstance(settings.type, aggregate_type)
    changed = gl.aggregate_replace(settings, columns=2)
    assert (changed.columns, changed.area(), settings.columns) == (2, 8, 8)
    assert repr(changed) == "Settings(rows=constexpr[4], shape=(constexpr[1], constexpr[2]), columns=constexpr[2])"


@glueball.aggregate
class Counts:
    rows: gl.tensor | gl.constexpr
    columns: Union[gl.tensor, gl.constexpr]  # noqa: UP007 - as older programs write it

    def __init__(self, rows, columns):
        self.rows = rows
        self.columns = columns


def test_fields_of_either_kind_take_constants() -> None:
    counts = Counts(4, 8)
    assert isinstance(counts.rows, gl.constexpr) and isinstance(counts.columns, gl.constexpr)
    assert (counts.rows, counts.columns) == (4, 8)


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "missing a required argument: 'rows'"),
        ((1, (), 3, 4), {}, "too many positional arguments"),
        ((1, ()), {"height": 3}, "unexpected keyword argument 'height'"),
        ((1, 2), {}, "Expected tuple for attribute 'shape'"),
    ],
)
def test_wrong_arguments_of_a_record(arguments: tuple[Any, ...], keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Settings(*arguments, **keywords)


def test_records_do_not_change() -> None:
    settings = Settings(4, ())
    with pytest.raises(AttributeError, match="immutable aggregate"):
        settings.rows = gl.constexpr(5)
    with pytest.raises(TypeError, match="has no field 'row'; did you mean `rows`"):
        gl.aggregate_replace(settings, row=1)
    with pytest.raises(TypeError, match="needs an aggregate"):
        gl.aggregate_replace(3)


def test_a_field_that_is_not_set() -> None:
    @glueball.aggregate
    class Half:
        one: gl.constexpr
        other: gl.constexpr

        def __init__(self, one):
            self.one = gl.constexpr(one)

    with pytest.raises(AttributeError, match="did not initialize attribute 'other'"):
        Half(3)


def test_a_base_that_is_no_record() -> None:
    with pytest.raises(TypeError, match="must be an aggregate"):

        @glueball.aggregate
        class Wrong(dict):  # type: ignore[type-arg]
            one: gl.constexpr


@glueball.jit
def adds_what_has_no_sum(y):
    gl.store(y, Settings(1, ()) + 3)


@glueball.jit
def literal_for_a_tensor(y):
    gl.store(y, Scaled(3).value)


@glueball.jit
def misspelt(y):
    gl.store(y, Settings(1, ()).row)


@glueball.jit
def subscripted(y):
    gl.store(y, Settings(1, ())[0])


@glueball.jit
def assigned(y):
    record = Settings(1, ())
    record.rows = 3


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (adds_what_has_no_sum, r"unsupported operand type\(s\) for \+"),
        (literal_for_a_tensor, "Expected tensor for attribute 'value' of Scaled, got constexpr; gl.to_tensor"),
        (misspelt, "aggregate Settings has no attribute 'row'; did you mean `rows`"),
        (subscripted, "aggregate Settings has no attribute '__getitem__'"),
        (assigned, "Attribute assignment is not supported"),
    ],
)
def test_wrong_uses_of_records(kernel: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        build_kernel(kernel, y=np.zeros(1, np.int32))


Point = namedtuple("Point", "pointer n one")


@glueball.jit
def unpacks(target, rest):
    line = gl.arange(0, 128, LINE)
    source, (factor, nothing) = rest
    gl.static_assert(nothing is None and target.one == 1 and len(rest[1:]) == 1)
    gl.static_assert(len(rest + target) == 5 and (rest + target)[4] == 1 and (1, 2) == (1, 2))
    gl.store(target.pointer + line, gl.load(source + line, mask=line < target.n, other=0) * factor + target.one)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_tuples_as_arguments(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    if executor == "gpu":
        pytest.skip("the harness copies arrays that are arguments by themselves")
    kernel = run(executor, monkeypatch, unpacks[(1,)], Point(y, 100, 1), (x, (3.0, None)))
    np.testing.assert_array_equal(y, np.where(np.arange(128) < 100, x * 3, 0) + 1)
    names = [argument.name for argument in kernel.source_tile.arguments]
    assert names == ["target.0", "target.1", "rest.0", "rest.1.0"]


def test_tuples_that_compile_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 1 is a constant and multiples of 16 are told apart, in tuples too."""
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    launch = unpacks[(1,)]
    kernels = {n: run("reference", monkeypatch, launch, Point(y, n, 1), (x, (3.0, None))) for n in (16, 32, 17, 33)}
    assert kernels[16] is kernels[32] and kernels[17] is kernels[33] and kernels[16] is not kernels[17]
    ahead = glueball.compile_only(unpacks, Point(y, 16, 1), (x, (3.0, None)), target="sm_90a")
    assert "unpacks" in ahead.asm["ptx"]


@glueball.must_use_result("It makes a new value.")
@glueball.jit
def renewed(x):
    return x + 1


@glueball.jit
def forgets(y):
    renewed(gl.load(y))


@glueball.jit
def remembers(y):
    gl.store(y, renewed(renewed(gl.load(y))))


def test_a_result_that_must_be_used() -> None:
    with pytest.raises(CompilationError, match=r"The result of renewed is not being used\. It makes a new value\."):
        build_kernel(forgets, y=np.zeros(1, np.int32))
    y = np.zeros(1, np.int32)
    run_kernel(remembers, (1,), y=y)
    assert y[0] == 2


@glueball.jit(noinline=True)
def apart(x):
    return x * 2


@glueball.jit
def calls_apart(y, TILE: gl.constexpr):
    if TILE:
        apart(gl.arange(0, 128, LINE))
    gl.store(y, apart(gl.load(y)))


def test_noinline_takes_scalars() -> None:
    y = np.full(1, 4, np.int32)
    run_kernel(calls_apart, (1,), y=y, TILE=False)
    assert y[0] == 8
    with pytest.raises(UnsupportedLanguageConstruct, match="is marked noinline"):
        build_kernel(calls_apart, y=y, TILE=True)


@glueball.jit
def one_element(y, n):
    value = gl.full([1], n, gl.int32, LINE)
    if value > 2:
        gl.store(y, value.item() * 10)


def test_a_tile_of_one_element_is_a_condition() -> None:
    y = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match=r"x.item\(\)"):
        run_kernel(one_element, (1,), y=y, n=np.int32(3))
    assert y[0] == 30


def test_view_names_in_the_tile_ir() -> None:
    tile = build_kernel(through_everything, y=np.zeros(128, np.int32), n=np.int32(3))
    (allocation,) = operations(tile, "allocate_shared")
    assert allocation.result.name == "ring.buffers"
