"""Compile-time values and tuples fold with Python's meaning."""

from __future__ import annotations

import operator
from collections import namedtuple

import pytest

import glueball.language as gl
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.tuple import unwrap
from glueball.language.values import constexpr_type

PAIRS = [(7, 2), (-7, 2), (6, 3)]


@pytest.mark.parametrize(
    "function",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_,
        operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne, operator.lt,
        operator.le, operator.gt, operator.ge, operator.pow,
    ],
)  # fmt: skip
def test_binary_operators_fold_on_both_sides(function):
    for left, right in PAIRS:
        expected = function(left, right)
        for result in (
            function(gl.constexpr(left), gl.constexpr(right)),
            function(gl.constexpr(left), right),
            function(left, gl.constexpr(right)),
        ):
            assert isinstance(result, gl.constexpr)
            assert result.value == expected


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.invert, operator.abs])
def test_unary_operators_fold(function):
    assert function(gl.constexpr(-5)).value == function(-5)


def test_wrapping_collapses_and_passes_through():
    value = gl.constexpr(gl.constexpr([3, 4]))
    assert value.value == [3, 4]
    assert [item.value for item in value] == [3, 4]
    assert value[1].value == 4
    assert gl.constexpr(len)("abc") == 3
    assert not gl.constexpr(0)
    assert list(range(gl.constexpr(2))) == [0, 1]
    assert _unwrap_if_constexpr(gl.constexpr(5)) == 5
    assert _unwrap_if_constexpr(5) == 5
    assert gl.float16 == gl.constexpr(gl.float16)


def test_types_compare_values_of_one_kind():
    assert gl.constexpr(3).type == constexpr_type(3)
    assert constexpr_type(1) != constexpr_type(True)
    assert constexpr_type(1) != constexpr_type(1.0)


def test_tuples():
    pair = gl.tuple((1, gl.float32))
    assert len(pair) == 2
    assert unwrap(pair[-1]) is gl.float32
    assert unwrap(pair[gl.constexpr(0) : 1]) == (1,)
    assert unwrap(operator.add(pair, (2,))) == (1, gl.float32, 2)
    assert unwrap(operator.add((2,), pair)) == (2, 1, gl.float32)
    assert unwrap(pair * gl.constexpr(2)) == (1, gl.float32) * 2
    assert (pair == (1, gl.float32)).value is True
    assert (pair != [1, gl.float32]).value is False
    assert pair.type == gl.tuple((1, gl.float32)).type
    with pytest.raises(AssertionError, match="compile-time integer"):
        pair["x"]
    with pytest.raises(TypeError, match="concatenate"):
        pair + 3


def test_named_tuples_keep_their_fields():
    Point = namedtuple("Point", "x values")
    point = gl.tuple(Point(1, 2), fields=Point._fields)
    assert point.field("values").value == 2
    with pytest.raises(AttributeError, match="x, values"):
        point.field("z")
