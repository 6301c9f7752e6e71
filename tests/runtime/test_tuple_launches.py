"""Launches with tuples: the launcher passes their elements itself, and tells apart what kernels are compiled for."""

from __future__ import annotations

import math
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glueball
import glueball.language as gl
from glueball.codegen import Binary
from glueball.language.constexpr import constexpr
from glueball.language.values import tuple_type
from glueball.runtime.device import pack
from glueball.runtime.jit import JITFunction
from glueball.runtime.parameters import ParameterRule
from glueball.runtime.specialization import specialize_argument
from glueball.runtime.tuples import WORD_BYTES, passes_as_words, tuple_words, word_offsets
from glueball.tile.types import pointer_type
from tests.runtime.fake_gpu import DeviceArray, FakeDriver, fake_gpu
from tests.runtime.test_canonical import ExchangeArray

Pair = namedtuple("Pair", ["first", "second"])


@glueball.jit
def with_tuple(x_ptr, shape):
    gl.store(x_ptr, len(shape))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("glueball.runtime.compiler.assemble", lambda *_: Binary(b"cubin", "cubin", 40, 0))
    with fake_gpu(monkeypatch) as found:
        yield found


def assert_passed_alike(driver: FakeDriver) -> None:
    """The launcher has passed what Python did; of 32 bits only those, which may be followed by copies of their sign."""

    def narrow(words: list[bytes]) -> list[bytes]:
        return [word[:4] if word[4:] in (bytes(4), b"\xff" * 4) else word for word in words]

    assert narrow(driver.calls[-1][3]) == narrow(driver.launches[-1][4])


CASES: list[tuple[Any, Any, int]] = [
    ((3, 5), (6, 7), 3),
    ((48, -2, 2.5, True), (32, 7, -1.0, False), 5),
    ((1, 5), (1, 9), 2),
    ((None, 5), (None, 6), 2),
    ((5, (7, 9), 3), (6, (3, 11), 2), 5),
    ((5, (None, 1), 3), (6, (None, 1), 2), 3),
    (Pair(3, 5), Pair(6, 7), 3),
    ((1 << 40, 5), (-1 << 40, 7), 3),
]


@pytest.mark.parametrize(("first", "second", "parameters"), CASES, ids=str)
def test_other_values_take_the_short_way(first: Any, second: Any, parameters: int, driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_tuple.fn), ExchangeArray(64)
    driver.argument_count = parameters
    compiled = kernel[(1,)](x, first)
    assert kernel[(1,)](x, first) is compiled
    assert_passed_alike(driver)
    assert kernel[(1,)](x, second) is compiled
    assert len(driver.launches) == 1
    assert kernel[(1,)](x, shape=second) is compiled, "another spelling goes the long way once"
    assert len(driver.launches) == 2
    assert_passed_alike(driver)


@pytest.mark.parametrize("values", [
    (3, constexpr((2, (4, 6))), 5), (constexpr(()), 3), (constexpr(Pair(1, 2)), (None, constexpr((1, 2))), 7),
], ids=str)  # fmt: skip
def test_constant_tuples_in_tuples(values: Any, driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_tuple.fn), ExchangeArray(64)
    driver.argument_count = 1 + sum(type(value) is int for value in values)
    compiled = kernel[(1,)](x, values)
    assert kernel[(1,)](x, values) is compiled
    assert_passed_alike(driver)
    assert len(driver.launches) == 1


NUMBERS = st.integers(-(1 << 63), 1 << 63) | st.floats(width=32) | st.floats() | st.booleans() | st.none()
CONSTANTS = st.recursive(st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3).map(tuple))
ARRAYS = st.sampled_from([DeviceArray(4), DeviceArray(4, np.int8), DeviceArray(4, device=1)])
TUPLES = st.recursive(
    NUMBERS | ARRAYS | CONSTANTS.map(constexpr),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.builds(Pair, inner, inner),
).filter(lambda value: isinstance(value, tuple))
RULES = [
    ParameterRule("t"), ParameterRule("t", specialize_value=False), ParameterRule("t", specialize_alignment=False),
    *(ParameterRule("t", type=kind) for kind in (gl.int32, gl.int64, gl.uint64, gl.float32, gl.float64, gl.int1)),
]  # fmt: skip


@given(TUPLES, st.sampled_from(RULES))
def test_words_are_what_the_long_way_passes(values: Any, rule: ParameterRule) -> None:
    found = tuple_words(values)
    try:
        argument = specialize_argument(rule, values)
    except (TypeError, OverflowError):
        return
    if found is None or not isinstance(argument.type, tuple_type) or not passes_as_words(argument):
        return
    for offset, leaf in zip(word_offsets(argument), argument.leaves, strict=True):
        size = WORD_BYTES if isinstance(leaf.type, pointer_type) else leaf.type.itemsize
        assert found[0][offset : offset + size] == pack(leaf)[:size] or math.isnan(leaf.value)


@glueball.jit
def with_wide_tuple(x_ptr, shape: gl.int64):
    gl.store(x_ptr, shape[0].to(gl.int32))


def test_negative_numbers_of_an_annotated_tuple_keep_their_sign(driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_wide_tuple.fn), ExchangeArray(64)
    driver.argument_count = 3
    for values in [(-2, 5), (-2, 5), (-7, 3)]:
        kernel[(1,)](x, values)
    assert len(driver.launches) == 1
    assert [int.from_bytes(word, "little", signed=True) for word in driver.calls[-1][3][1:]] == [-7, 3]


def test_compiled_kernels_pass_numbers_as_wide_as_they_were_compiled_for(driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_tuple.fn), ExchangeArray(64)
    driver.argument_count = 3
    compiled = kernel[(1,)](x, (1 + (1 << 40), 5))
    for values in [(-2, 5), (-2, 5), (-7, 3)]:
        compiled[(1,)](x, values)
    assert int.from_bytes(driver.calls[-1][3][1], "little", signed=True) == -7


@pytest.mark.parametrize(
    "values", [(None, constexpr(3)), (1, constexpr((1, 2))), (), Pair(1, None), (None, 3)], ids=str
)
def test_compiled_kernels_take_the_constants_that_they_were_compiled_for(values: Any, driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_tuple.fn), ExchangeArray(64)
    driver.argument_count = 1 + sum(type(value) is int and value != 1 for value in values)
    compiled = kernel[(1,)](x, values)
    for _ in range(2):
        assert compiled[(1,)](x, values) is compiled
    assert_passed_alike(driver)
    with pytest.raises(TypeError, match="is compiled as"):
        compiled[(1,)](x, (5, 7, 9))


class Interrupted(DeviceArray):
    """An array that lets another thread read tuples while it is read."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        def read_others() -> None:
            for number in range(5000):
                tuple_words((number, number + 2))

        other = threading.Thread(target=read_others)
        other.start()
        other.join()
        return super().__cuda_array_interface__


@glueball.jit
def with_two_tuples(shape, arrays):
    gl.store(arrays[0], shape[0].to(gl.float32))


def test_what_other_threads_read_meanwhile_leaves_a_launch_alone(driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_two_tuples.fn), Interrupted(64)
    driver.argument_count = 3
    for _ in range(3):
        kernel[(1,)]((3, 5), (x,))
    assert len(driver.launches) == 1
    assert_passed_alike(driver)


@glueball.jit
def with_names(x_ptr, pair):
    if pair.first is None:
        gl.store(x_ptr, 1)


def test_named_tuples_of_one_name_differ_by_their_fields(driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_names.fn), ExchangeArray(64)
    turned = namedtuple("Pair", ["second", "first"])
    driver.argument_count = 1
    assert kernel[(1,)](x, Pair(None, 1)) is not kernel[(1,)](x, turned(None, 1))


@pytest.mark.parametrize(
    "other", [(1, 5), (16, 5), (3, 5.0), (3, True), (1 << 40, 5), (3, None), (3, (5,)), (3, 5, 7), Pair(3, 5)], ids=str
)
def test_what_compiles_otherwise_stays_apart(other: Any, driver: FakeDriver) -> None:
    kernel, x = JITFunction(with_tuple.fn), ExchangeArray(64)
    compiled = kernel[(1,)](x, (3, 5))
    assert kernel[(1,)](x, other) is not compiled
    assert kernel[(1,)](x, (7, 9)) is compiled


def test_values_that_are_equal_to_python_differ() -> None:
    words = [tuple_words(values) for values in ((0.0,), (-0.0,), (0,), (False,))]
    assert len({id(word[1]) for word in words if word}) == 3
    assert words[0] is not None and words[1] is not None
    assert words[0][0] != words[1][0]


@pytest.mark.parametrize("value", ["text", [1], 1 << 64, object()])
def test_what_cannot_be_read_goes_the_long_way(value: Any) -> None:
    assert tuple_words((3, value)) is None
