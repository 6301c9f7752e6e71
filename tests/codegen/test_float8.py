"""Conversions of 8-bit floats, and the remainder of floats: the LLVM text against `issue` for very many operands."""

from __future__ import annotations

import numpy as np
import pytest

from glueball.thread import float8, mathematics
from glueball.thread.float8 import FORMATS
from tests.codegen.executing import run_on_host
from tests.codegen.test_meaning import _looping_kernel


def run_text(record, kinds, attributes, *operands):
    """What the LLVM text of a record gives on this machine, as the type that `issue` gives."""
    with np.errstate(all="ignore"):
        expected = np.asarray(record.issue(None, attributes, *operands))
    count = len(expected)
    x, y = np.zeros((count, len(kinds), 8), np.uint8), np.zeros((count, 8), np.uint8)
    for position, operand in enumerate(operands):
        x[:, position, : operand.dtype.itemsize] = operand.view(np.uint8).reshape(count, -1)
    run_on_host(_looping_kernel(record, kinds, attributes), x, y, count=count)
    return expected, np.ascontiguousarray(y[:, : expected.dtype.itemsize]).view(expected.dtype)[:, 0]


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_is_decoded(name):
    codes = np.arange(256, dtype=np.uint8).view(np.int8)
    expected, actual = run_text(float8.FLOAT8_EXTEND, ("i8",), {"format": name}, codes)
    np.testing.assert_array_equal(actual, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(expected[numbers]))


def float32_values():
    """Every float16 and bfloat16, their neighbours, and random bits."""
    halves = np.arange(1 << 16, dtype=np.uint16)
    short = (halves.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        both = np.concatenate([halves.view(np.float16).astype(np.float32), short])
        up, down = np.nextafter(both, np.float32(np.inf)), np.nextafter(both, np.float32(-np.inf))
    random = np.random.default_rng(5).integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    return np.concatenate([both, up, down, random])


@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("name", FORMATS)
def test_rounding_to_every_kind(name, rounding):
    attributes = {"format": name, "rounding": rounding}
    expected, actual = run_text(float8.FLOAT8_ROUND, ("f32",), attributes, float32_values())
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_remainders_of_random_bits(kind):
    bits = np.random.default_rng(6).integers(0, 1 << (32 if kind == "f32" else 64), (2, 5000), dtype=np.uint64)
    x, y = bits.astype(np.uint32).view(np.float32) if kind == "f32" else bits.view(np.float64)
    with np.errstate(all="ignore"):
        y[::2] = x[::2] * np.random.default_rng(7).uniform(0, 1, len(x[::2])).astype(x.dtype)
    expected, actual = run_text(mathematics.REM_FLOAT, (kind, kind), {}, x, y)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(expected[numbers]))
