"""`if`, `for`, `while`, `return`: what they compute and what they leave in the IR."""

from __future__ import annotations

import numpy as np
import pytest

import glueball.language as gl
from glueball.language.function import JITCallable
from tests.frontend.harness import build_kernel, operations, run_kernel


def results(function, values, count=1, **arguments):
    """What a kernel stores for each value of its parameter `n`."""
    found = []
    for value in values:
        out = np.full(count, -99, np.int32)
        run_kernel(function, (1,), out=out, n=np.int32(value), **arguments)
        found.append(out.tolist() if count > 1 else int(out[0]))
    return found


def test_constant_condition_compiles_one_branch():
    @JITCallable
    def kernel(out, n, WIDE: gl.constexpr):
        if WIDE:  # noqa: SIM108 - the statement is what is tested
            value = n + 1
        else:
            value = nothing_of_this_name  # noqa: F821 - not compiled
        gl.store(out, value)

    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32, WIDE=True)
    assert not operations(tile, "if")


def test_run_time_condition_merges_names():
    @JITCallable
    def kernel(out, n):
        value = n
        if n > 10:
            value = n * 2
            extra = 1
        elif n > 5:
            value = n * 3
            extra = 2
        else:
            extra = 3
        gl.store(out, value)
        gl.store(out + 1, extra)

    assert results(kernel, [20, 7, 1], 2) == [[40, 1], [21, 2], [1, 3]]


def test_condition_is_not_zero():
    @JITCallable
    def kernel(out, n):
        if n:
            gl.store(out, 1)
        gl.store(out + 1, 5 if n - 1 else 6)

    assert results(kernel, [0, 1, 2], 2) == [[-99, 5], [1, 6], [1, 5]]


def test_early_return_of_a_kernel_nests_the_rest():
    @JITCallable
    def kernel(out, n):
        if n > 3:
            return
        gl.store(out, n)

    assert results(kernel, [2, 4]) == [2, -99]
    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32)
    (branch,) = operations(tile, "if")
    assert not branch.results


@JITCallable
def classify(n):
    if n < 0:
        return 0 - n
    if n > 100:
        if n > 200:
            return 2
        n = n + 1
    elif n == 50:
        return 5
    n = n * 10
    if n == 70:
        return 7
    return n


def test_returns_in_nested_conditions():
    @JITCallable
    def kernel(out, n):
        gl.store(out, classify(n))

    def expected(n):
        return classify.fn(n)

    values = [-3, 0, 7, 50, 100, 101, 200, 201]
    assert results(kernel, values) == [expected(value) for value in values]


def test_branch_that_falls_through_keeps_its_names():
    @JITCallable
    def helper(n):
        total = 0
        if n > 1:
            if n > 5:
                return total + 100
            total = n * 2
            extra = 3
        else:
            extra = 4
        return total + extra

    @JITCallable
    def kernel(out, n):
        gl.store(out, helper(n))

    assert results(kernel, [0, 3, 9]) == [4, 9, 100]


def test_returned_tuples_and_constants_unify():
    @JITCallable
    def helper(n):
        if n > 0:
            return (1, n)
        return (2, n + 1)

    @JITCallable
    def same(n):
        if n > 0:
            return 4
        return 4

    @JITCallable
    def kernel(out, n):
        which, value = helper(n)
        gl.store(out, which)
        gl.store(out + 1, value)
        gl.store(out + gl.arange(0, same(n), layout=gl.BlockedLayout([1], [32], [4], [0])) + 2, 9)

    assert results(kernel, [1, -1], 6) == [[1, 1, 9, 9, 9, 9], [2, 0, 9, 9, 9, 9]]


def test_loop_carries_what_changes_and_nothing_else():
    @JITCallable
    def kernel(out, n, SQUARED: gl.constexpr):
        total = 0
        pair = (n, n)
        scale = n * 2
        for index in range(n):
            inner = index * scale
            total += inner
            pair = (pair[1], pair[0] + 1)
            if SQUARED:
                scale = scale * scale
        gl.store(out, total)
        gl.store(out + 1, pair[0])

    def expected(n):
        pair = (n, n)
        for _ in range(n):
            pair = (pair[1], pair[0] + 1)
        return [sum(index * n * 2 for index in range(n)), pair[0]]

    assert results(kernel, [0, 1, 5], 2, SQUARED=False) == [expected(n) for n in (0, 1, 5)]
    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32, SQUARED=False)
    (loop,) = operations(tile, "for")
    assert [argument.name for argument in loop.regions[0].arguments] == ["index", "total", "pair.0", "pair.1"]


def test_negative_steps_nested_loops_and_wide_bounds():
    @JITCallable
    def kernel(out, n):
        total = 0
        for i in range(n, 0, -2):
            for j in range(i):
                total += i * j
        gl.store(out, total)
        wide = 0
        for i in range(n.to(gl.int64)):
            gl.static_assert(i.dtype == gl.int64)
            wide += 1
        gl.store(out + 1, wide)

    def expected(n):
        return [sum(i * j for i in range(n, 0, -2) for j in range(i)), n]

    assert results(kernel, [1, 6], 2) == [expected(1), expected(6)]


def test_bodies_are_walked_once():
    @JITCallable
    def kernel(out, n):
        for _i in range(n):
            for _j in range(n):
                for _k in range(n):
                    gl.static_print("visited")
                    gl.store(out, n)

    import io
    from contextlib import redirect_stdout

    stream = io.StringIO()
    with redirect_stdout(stream):
        build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32)
    assert stream.getvalue() == "visited\n"


def test_static_range_unrolls():
    @JITCallable
    def kernel(out, n):
        for index in gl.static_range(1, 8, 3):
            width: gl.constexpr = index * 2
            n += width
        gl.store(out, n)

    assert results(kernel, [1]) == [1 + 2 + 8 + 14]
    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32)
    assert not operations(tile, "for")


def test_while_loops():
    @JITCallable
    def kernel(out, n):
        steps = 0
        while n > 1:
            if n % 2 == 0:  # noqa: SIM108 - as above
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        gl.store(out, steps)

    def expected(n):
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    assert results(kernel, [1, 6, 7]) == [expected(n) for n in (1, 6, 7)]


def test_names_bound_in_one_branch_or_loop_can_be_rebound_later():
    @JITCallable
    def kernel(out, n):
        for index in range(n):
            shape = index
            gl.store(out + 7, shape)
        for index in range(n):
            shape = index * 1.0
            gl.store(out + 7, shape)
        if n > 3:
            fresh = shape_of_it(n)
            gl.store(out, fresh)
        fresh = n + 1
        gl.store(out + 1, fresh)

    assert [found[:2] for found in results(kernel, [4, 2], 8)] == [[4, 5], [-99, 3]]


@JITCallable
def shape_of_it(n):
    for _ in range(2):
        last = n
        n = last
    return n


@pytest.mark.parametrize("value", [True, 3, None, False, 0])
def test_conditions_known_at_compile_time(value):
    @JITCallable
    def kernel(out, n, C: gl.constexpr):
        if C:
            gl.store(out, n)

    assert results(kernel, [8], C=value) == [8 if value else -99]
