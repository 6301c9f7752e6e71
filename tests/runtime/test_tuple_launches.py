"""Launches with tuples: the launcher passes their elements itself, and tells apart what kernels are compiled for."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glueball
import glueball.language as gl
from glueball.codegen import Binary
from glueball.runtime.jit import JITFunction
from glueball.runtime.tuples import tuple_words
from tests.runtime.fake_gpu import FakeDriver, fake_gpu
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
    assert driver.calls[-1][3] == driver.launches[-1][4]
    assert kernel[(1,)](x, second) is compiled
    assert len(driver.launches) == 1
    assert kernel[(1,)](x, shape=second) is compiled, "another spelling goes the long way once"
    assert len(driver.launches) == 2
    assert driver.calls[-1][3] == driver.launches[-1][4]


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
