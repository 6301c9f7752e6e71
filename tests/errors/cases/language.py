"""Python that is no kernel."""
# ruff: noqa: F821, C416, E731, B007

import numpy as np

import glueball
import glueball.language as gl

LINE = gl.BlockedLayout([1], [32], [4], [0])
X = np.zeros(256, np.float32)
STEP = 3


def _run(kernel, *arguments):
    kernel[(1,)](X, *arguments)


@glueball.jit
def misspelled(x, length):
    gl.store(x, lenght + 1)


def undefined_name():
    _run(misspelled, 3)


@glueball.jit
def one_branch(x, n):
    if n > 4:
        value = n
    gl.store(x, value)


def bound_in_one_branch_only():
    _run(one_branch, 3)


@glueball.jit
def global_number(x):
    gl.store(x, STEP)


def plain_global():
    _run(global_number)


@glueball.jit
def tries(x):
    try:
        gl.store(x, 1.0)
    except ValueError:
        gl.store(x, 2.0)


def try_statement():
    _run(tries)


@glueball.jit
def breaks(x, n):
    for i in range(n):
        if i > 2:
            break
        gl.store(x + i, 1.0)


def break_statement():
    _run(breaks, 9)


@glueball.jit
def comprehends(x, n):
    values = [i for i in range(n)]
    gl.store(x, values[0])


def list_comprehension():
    _run(comprehends, 9)


@glueball.jit
def anonymous(x, n):
    double = lambda value: 2 * value
    gl.store(x, double(n))


def lambda_expression():
    _run(anonymous, 9)


@glueball.jit
def returns_in_a_loop(x, n):
    for i in range(n):
        if i == 2:
            return
        gl.store(x + i, 1.0)


def return_in_a_loop():
    _run(returns_in_a_loop, 9)


@glueball.jit
def assigns_an_element(x):
    x[0] = 1.0


def item_assignment():
    _run(assigns_an_element)


@glueball.jit
def factorial(n):
    return n * factorial(n - 1)


@glueball.jit
def recurses(x, n):
    gl.store(x, factorial(n))


def recursion():
    _run(recurses, 9)


@glueball.jit
def clamp_below(n, limit):
    if n < limit:
        return limit
    return


@glueball.jit
def uses_a_missing_value(x, n):
    gl.store(x, clamp_below(n, 3))


def return_value_is_missing_on_one_way():
    _run(uses_a_missing_value, 9)


@glueball.jit
def says_nothing(n):
    n + 1


@glueball.jit
def uses_nothing(x, n):
    gl.store(x, says_nothing(n))


def function_returns_nothing():
    _run(uses_nothing, 9)


@glueball.jit
def halves(n):
    if n > 4:
        return n
    return n / 2


@glueball.jit
def uses_both(x, n):
    gl.store(x, halves(n))


def return_types_differ():
    _run(uses_both, 9)


@glueball.jit
def helper_with_two(first, second):
    return first + second


@glueball.jit
def calls_with_one(x, n):
    gl.store(x, helper_with_two(n))


def call_lacks_an_argument():
    _run(calls_with_one, 9)


@glueball.jit
def offsets_of(n):
    return n + gl.arange(0, 100, layout=LINE)


@glueball.jit
def address_of(x, n):
    return x + offsets_of(n)


@glueball.jit
def goes_deep(x, n):
    gl.store(address_of(x, n), 1.0)


def error_two_calls_down():
    _run(goes_deep, 9)


@glueball.jit
def grows(x, n):
    total = 0
    for i in range(n):
        total += 0.5
    gl.store(x, total)


def loop_changes_a_type():
    _run(grows, 9)


@glueball.jit
def branch_type(x, n):
    total = 0
    if n > 4:
        total = 0.5
    gl.store(x, total)


def branch_changes_a_type():
    _run(branch_type, 9)


@glueball.jit
def loops_over_a_list(x):
    for i in [0, 1, 2]:
        gl.store(x + i, 1.0)


def loop_over_a_list():
    _run(loops_over_a_list)


@glueball.jit
def asks_a_tile(x, n):
    place = gl.arange(0, 256, layout=LINE)
    if place < n:
        gl.store(x + place, 1.0)


def condition_is_a_tile():
    _run(asks_a_tile, 9)


def _plain(value):
    return 2 * value


@glueball.jit
def calls_python(x, n):
    gl.store(x, _plain(n))


def python_function():
    _run(calls_python, 9)


@glueball.jit
def calls_numpy(x, n):
    gl.store(x, np.sqrt(n))


def numpy_function():
    _run(calls_numpy, 9)


@glueball.jit
def specialized(x):
    gl.store(x, gl.fpsan.embed(gl.load(x)))


def not_there_yet():
    _run(specialized)


@glueball.jit
def misspelled_function(x):
    gl.store(x, gl.laod(x))


def no_such_function():
    _run(misspelled_function)


@glueball.jit
def asserts(x, BLOCK: gl.constexpr):
    gl.static_assert(BLOCK % 64 == 0, "BLOCK must be a multiple of 64")


def static_assertion():
    _run(asserts, 48)


@glueball.jit
def asserts_at_run_time(x, n):
    gl.static_assert(n > 0)


def static_assertion_on_a_run_time_value():
    _run(asserts_at_run_time, 48)


@glueball.jit
def unrolls(x, n):
    for i in gl.static_range(n):
        gl.store(x + i, 1.0)


def static_range_needs_constants():
    _run(unrolls, 4)


@glueball.jit
def sizes_at_run_time(x, n):
    gl.store(x + gl.arange(0, n, layout=LINE), 1.0)


def range_needs_constants():
    _run(sizes_at_run_time, 256)
