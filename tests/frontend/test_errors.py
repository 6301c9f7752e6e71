"""Wrong kernels: each error names the author's line, marks the expression, and says what is wrong."""

from __future__ import annotations

import sys

import pytest

import glueball.language as gl
from glueball.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    LayoutError,
    UnsupportedLanguageConstruct,
)
from glueball.language.function import JITCallable
from tests.frontend.harness import build_kernel

L = gl.BlockedLayout([1], [32], [4], [0])
OTHER = gl.BlockedLayout([2], [32], [4], [0])
SQUARE = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
LIMIT = 64
TYPES = {"p": gl.pointer_type(gl.float32), "n": gl.int32}


def failure(kernel, **arguments):
    with pytest.raises(CompilationError) as caught:
        build_kernel(kernel, **(arguments or TYPES))
    return caught.value


def marked(error):
    """The source text under the carets."""
    return error.location.text()[error.location.column : error.location.end_column]


@JITCallable
def layouts_disagree(p, n):
    x = gl.arange(0, 256, layout=L)
    y = gl.arange(0, 256, layout=OTHER)
    gl.store(p + x, x + y)


@JITCallable
def not_a_power_of_two(p, n):
    gl.arange(0, 100, layout=L)


@JITCallable
def run_time_range(p, n):
    size = 64
    gl.arange(0, size, layout=L)


@JITCallable
def layout_of_wrong_rank(p, n):
    gl.arange(0, 128, layout=SQUARE)


@JITCallable
def not_trivial(p, n):
    x = gl.arange(0, 256, layout=L)
    gl.convert_layout(x, OTHER, assert_trivial=True)


@JITCallable
def undefined_name(p, n):
    gl.store(p, n + missing)  # noqa: F821


@JITCallable
def bound_in_one_branch(p, n):
    if n > 0:
        x = n
    gl.store(p, x)


@JITCallable
def loop_variable_after_loop(p, n):
    for i in range(n):
        gl.store(p, i)
    gl.store(p, i)


@JITCallable
def used_before_assignment(p, n):
    gl.store(p, later)  # noqa: F821
    later = n
    gl.store(p, later)


@JITCallable
def global_number(p, n):
    gl.store(p, n + LIMIT)


@JITCallable
def has_lambda(p, n):
    f = lambda x: x  # noqa: E731
    gl.store(p, f(n))


@JITCallable
def has_try(p, n):
    try:
        gl.store(p, n)
    finally:
        gl.store(p, n)


@JITCallable
def has_break(p, n):
    for _ in range(n):
        break


@JITCallable
def has_in(p, n):
    gl.store(p, n in (1, 2))


@JITCallable
def return_in_loop(p, n):
    for _ in range(n):
        return


@JITCallable
def float_mask(p, n):
    x = gl.arange(0, 128, layout=L)
    gl.load(p + x, mask=x * 1.0)


@JITCallable
def other_without_mask(p, n):
    gl.load(p, other=0.0)


@JITCallable
def load_of_a_number(p, n):
    gl.load(n)


@JITCallable
def pointer_grows(p, n):
    gl.store(p, gl.arange(0, 128, layout=L))


@JITCallable
def narrow_store(p, n):
    rows = gl.arange(0, 16, layout=gl.SliceLayout(1, SQUARE))[:, None]
    columns = gl.arange(0, 8, layout=gl.SliceLayout(0, SQUARE))[None, :]
    gl.store(p + rows, rows + columns)


@JITCallable
def bad_modifier(p, n):
    gl.load(p, cache_modifier=".wt")


@JITCallable
def bad_axis(p, n):
    gl.program_id(3)


@JITCallable
def float_index(p, n):
    gl.load(p + 1.5)


@JITCallable
def pointer_times(p, n):
    gl.load(p * 2)


@JITCallable
def float_floor_division(p, n):
    gl.store(p, gl.load(p) // 2)


@JITCallable
def rank_mismatch(p, n):
    rows = gl.arange(0, 16, layout=gl.SliceLayout(1, SQUARE))
    gl.store(p, rows[:, None] + rows)


@JITCallable
def wrong_slice(p, n):
    rows = gl.arange(0, 16, layout=gl.SliceLayout(0, SQUARE))
    rows[:, None]


@JITCallable
def bad_index(p, n):
    gl.arange(0, 16, layout=L)[0]


@JITCallable
def too_many_indices(p, n):
    gl.arange(0, 16, layout=L)[:, :]


@JITCallable
def item_assignment(p, n):
    p[0] = n


@JITCallable
def chained_targets(p, n):
    a = b = n
    gl.store(p, a + b)


@JITCallable
def wrong_count(p, n):
    a, b = n, n, n
    gl.store(p, a + b)


@JITCallable
def string_variable(p, n):
    name = "text"
    gl.static_print(name)


@JITCallable
def constexpr_twice(p, n):
    size: gl.constexpr = 1
    size: gl.constexpr = 2
    gl.store(p, size)


@JITCallable
def tile_condition(p, n):
    if gl.arange(0, 128, layout=L) > 3:
        gl.store(p, n)


@JITCallable
def string_condition(p, n):
    if "text":
        gl.store(p, n)


@JITCallable
def wide_logic(p, n):
    gl.store(p, n and n)


@JITCallable
def branch_changes_type(p, n):
    x = n
    if n > 0:
        x = 1.5
    gl.store(p, x)


@JITCallable
def loop_changes_type(p, n):
    total = 0
    for _ in range(n):
        total = total + 1.5
    gl.store(p, total)


@JITCallable
def loop_changes_none(p, n):
    total = None
    for _ in range(n):
        total = n
    gl.store(p, total)


@JITCallable
def float_bound(p, n):
    for _ in range(1.5):
        gl.store(p, n)


@JITCallable
def zero_step(p, n):
    for _ in range(0, n, 0):
        gl.store(p, n)


@JITCallable
def loop_over_tuple(p, n):
    for x in (1, 2):
        gl.store(p, x)


@JITCallable
def run_time_static_range(p, n):
    for _ in gl.static_range(n):
        gl.store(p, n)


@JITCallable
def endless(p, n):
    while True:
        gl.store(p, n)


@JITCallable
def static_assertion(p, n):
    gl.static_assert(p.dtype == gl.int32, "an integer pointer is needed")


@JITCallable
def run_time_assertion(p, n):
    gl.static_assert(n > 0)


@JITCallable
def not_there_yet(p, n):
    gl.store(p, gl.fpsan.embed(1.0))


@JITCallable
def not_of_the_language(p, n):
    gl.dot(n, n)


@JITCallable
def python_function(p, n):
    gl.store(p, sum((1, 2)))


@JITCallable
def prints(p, n):
    print(n)


@JITCallable
def two_star(p, n):
    gl.store(p, n, **gl)


@JITCallable
def missing_argument(p, n):
    gl.store(p)


@JITCallable
def big_literal(p, n):
    gl.store(p, gl.load(p).to(gl.int8) + 300)


@JITCallable
def run_time_string(p, n):
    text: gl.constexpr = f"{n}"
    gl.static_print(text)


@JITCallable
def bad_bitcast(p, n):
    gl.store(p, n.to(gl.int16, bitcast=True))


@JITCallable
def rounding_of_integers(p, n):
    gl.store(p, n.to(gl.float32, fp_downcast_rounding="rtz"))


@JITCallable
def divides_by_zero(p, n):
    gl.store(p, 1 // 0)


CASES = [
    (layouts_disagree, "x + y", LayoutError, "Layout mismatch in broadcast: BlockedLayout(size_per_thread=[1]"),
    (not_a_power_of_two, "gl.arange(0, 100, layout=L)", ValueError, "must be a power of 2, not 100"),
    (run_time_range, "gl.arange(0, size, layout=L)", ValueError, "must be of type tl.constexpr"),
    (layout_of_wrong_rank, "gl.arange(0, 128, layout=SQUARE)", AssertionError, "rank mismatch"),
    (not_trivial, "gl.convert_layout(x, OTHER, assert_trivial=True)", TypeError, "is not trivial"),
    (undefined_name, "missing", NameError, "missing is not defined"),
    (bound_in_one_branch, "x", NameError, "bound in one branch only"),
    (loop_variable_after_loop, "i", NameError, "undefined after its loop"),
    (used_before_assignment, "later", NameError, "not on the way here"),
    (global_number, "LIMIT", NameError, "Cannot access global variable LIMIT"),
    (has_lambda, "lambda x: x", None, "unsupported AST node type: Lambda"),
    (has_try, "try:", None, "unsupported AST node type: Try"),
    (has_break, "break", None, "unsupported AST node type: Break"),
    (has_in, "n in (1, 2)", None, "unsupported comparison: In"),
    (return_in_loop, "return", None, "Cannot have `return` statements inside `while` or `for`"),
    (float_mask, "gl.load(p + x, mask=x * 1.0)", ValueError, "a mask must be boolean"),
    (other_without_mask, "gl.load(p, other=0.0)", ValueError, "`other` cannot be provided without `mask`"),
    (load_of_a_number, "gl.load(n)", ValueError, "Unsupported ptr type int32"),
    (pointer_grows, "gl.store(p, gl.arange(0, 128, layout=L))", ValueError, "cannot be block type if pointer"),
    (narrow_store, "gl.store(p + rows, rows + columns)", ValueError, "Expected pointer argument to have shape [16, 8]"),
    (bad_modifier, 'gl.load(p, cache_modifier=".wt")', ValueError, "not supported for loads"),
    (bad_axis, "gl.program_id(3)", ValueError, "0, 1 or 2, not 3"),
    (float_index, "p + 1.5", TypeError, "invalid operands of type pointer<fp32> and fp32"),
    (pointer_times, "p * 2", TypeError, "invalid operands of type pointer<fp32> and int32"),
    (float_floor_division, "gl.load(p) // 2", TypeError, "`//` is for integers"),
    (rank_mismatch, "rows[:, None] + rows", ValueError, "Cannot broadcast, rank mismatch"),
    (wrong_slice, "rows[:, None]", LayoutError, "sliced in axis 0"),
    (bad_index, "gl.arange(0, 16, layout=L)[0]", ValueError, "unsupported tensor index"),
    (too_many_indices, "gl.arange(0, 16, layout=L)[:, :]", ValueError, "too many indices"),
    (item_assignment, "p[0] = n", NotImplementedError, "__setitem__ is not supported"),
    (chained_targets, "a = b = n", AssertionError, "several targets"),
    (wrong_count, "a, b = n, n, n", ValueError, "too many values to unpack (expected 2)"),
    (string_variable, 'name = "text"', TypeError, "cannot convert 'text' of type str to tensor"),
    (constexpr_twice, "size: gl.constexpr = 2", ValueError, "constexpr cannot be reassigned"),
    (tile_condition, "if gl.arange(0, 128, layout=L) > 3:", ValueError, "more than one value is ambiguous"),
    (string_condition, 'if "text":', None, "conditionals can only accept values of type"),
    (wide_logic, "n and n", ValueError, "Cannot bitcast data-type of size 32"),
    (branch_changes_type, "if n > 0:", AssertionError, "initial value for `x` is of type int32"),
    (loop_changes_type, "total", AssertionError, "Loop-carried variable total has initial type int32"),
    (loop_changes_none, "total", AssertionError, "is not a triton value"),
    (float_bound, "for _ in range(1.5):", TypeError, "must all be ints"),
    (zero_step, "for _ in range(0, n, 0):", ValueError, "must not be zero"),
    (loop_over_tuple, "for x in (1, 2):", None, "iterates over a call of `range`"),
    (run_time_static_range, "for _ in gl.static_range(n):", AssertionError, "is not a constexpr"),
    (endless, "while True:", ValueError, "must be a run-time scalar"),
    (static_assertion, 'gl.static_assert(p.dtype == gl.int32, "an integer pointer is needed")', None, "an integer"),
    (run_time_assertion, "gl.static_assert(n > 0)", NotImplementedError, "could not be determined at compile-time"),
    (not_there_yet, "gl.fpsan", AttributeError, "`gl.fpsan` is not there yet"),
    (not_of_the_language, "gl.dot", AttributeError, "use gl.dot_fma"),
    (python_function, "sum((1, 2))", RuntimeError, "Unsupported function referenced"),
    (prints, "print(n)", AssertionError, "prefix must be a compile-time string"),
    (two_star, "gl.store(p, n, **gl)", None, "cannot take `**`"),
    (missing_argument, "gl.store(p)", TypeError, "missing 1 required positional argument: 'value'"),
    (big_literal, "gl.load(p).to(gl.int8) + 300", ValueError, "300 is out of range for type int8"),
    (
        run_time_string,
        'f"{n}"' if sys.version_info < (3, 12) else "{n}",
        NotImplementedError,
        "Cannot evaluate f-string containing non-constexpr",
    ),
    (bad_bitcast, "n.to(gl.int16, bitcast=True)", ValueError, "Cannot bitcast data-type of size 32"),
    (rounding_of_integers, 'n.to(gl.float32, fp_downcast_rounding="rtz")', ValueError, "only for truncating fp"),
    (divides_by_zero, "1 // 0", ZeroDivisionError, "by zero"),
]


@pytest.mark.parametrize(
    ("kernel", "where", "cause", "message"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_wrong_kernel(kernel, where, cause, message):
    error = failure(kernel)
    assert message in error.error_message
    assert marked(error) == where
    assert error.location.function == kernel.__name__
    if cause is None:
        assert isinstance(error, UnsupportedLanguageConstruct | CompileTimeAssertionFailure)
    else:
        assert isinstance(error.__cause__, cause)


def test_layout_mismatch_says_which_element_lives_elsewhere_and_what_helps():
    text = str(failure(layouts_disagree))
    assert str(L) in text and str(OTHER) in text
    assert "register 1" in text and "lane 1" not in text
    assert "gl.convert_layout" in text


@JITCallable
def inner(x):
    return x + gl.arange(0, 100, layout=L)


@JITCallable
def outer(x):
    return inner(x)


@JITCallable
def calls_through_helpers(p, n):
    gl.store(p, outer(n))


def test_error_in_a_helper_shows_the_whole_chain():
    error = failure(calls_through_helpers)
    assert [place.function for place in error.location.chain()] == ["inner", "outer", "calls_through_helpers"]
    assert marked(error) == "gl.arange(0, 100, layout=L)"
    lines = str(error).splitlines()
    assert lines[0].endswith(": in inner")
    assert lines[1] == "at 2:15:"
    assert lines[2] == "    return x + gl.arange(0, 100, layout=L)"
    assert lines[3] == "               " + "^" * len("gl.arange(0, 100, layout=L)")
    assert sum(line.startswith("called from") for line in lines) == 2


@JITCallable
def misuses_the_library(p, n):
    gl.store(p, gl.cdiv(gl.load(p), 2))


def test_lines_of_the_library_are_not_the_authors():
    error = failure(misuses_the_library)
    assert marked(error) == "gl.cdiv(gl.load(p), 2)"
    assert error.location.caller is None


@JITCallable
def recursive(x):
    return recursive(x - 1)


@JITCallable
def calls_recursive(p, n):
    gl.store(p, recursive(n))


def test_recursion_is_refused():
    error = failure(calls_recursive)
    assert isinstance(error, UnsupportedLanguageConstruct)
    assert "recursion is not supported: `recursive` calls itself" in error.error_message


@JITCallable
def returns_differ(n):
    if n > 0:
        return n
    return 1.5


@JITCallable
def uses_differing_returns(p, n):
    gl.store(p, returns_differ(n))


def test_returns_of_different_types():
    error = failure(uses_differing_returns)
    inner = error.__cause__
    assert isinstance(inner, CompilationError) and isinstance(inner.__cause__, TypeError)
    assert "Return type mismatch: int32 and fp32" in error.error_message


@JITCallable
def constant_rebound_in_a_branch(p, n):
    size: gl.constexpr = 1
    if n > 0:
        size = 2
    gl.store(p, size)


def test_a_constant_never_silently_survives_a_run_time_branch():
    error = failure(constant_rebound_in_a_branch)
    assert marked(error) == "size"
    assert "it is tensor[int32] in one branch and constexpr[1] in the other" in error.error_message


@JITCallable
def columns_count_characters(p, n):
    gl.store(p, gl.load(p, eviction_policy="größer" if len("é") > 1 else "") + fehlt)  # noqa: F821


def test_columns_count_characters_not_bytes():
    error = failure(columns_count_characters)
    assert marked(error) == "fehlt"


def test_store_to_a_constant_pointer():
    @JITCallable
    def kernel(p):
        gl.store(p, 1)

    error = failure(kernel, p=gl.pointer_type(gl.int32, const=True))
    assert "Cannot store to a constant pointer" in error.error_message


def test_arguments_must_match_the_parameters():
    with pytest.raises(TypeError, match="has the parameters p, n"):
        build_kernel(float_mask, p=gl.pointer_type(gl.float32))


def test_wrong_warp_count_is_told_at_the_line():
    @JITCallable
    def kernel(p):
        gl.store(p + gl.arange(0, 256, layout=L), 1.0)

    with pytest.raises(CompilationError) as caught:
        build_kernel(kernel, num_warps=8, p=gl.pointer_type(gl.float32))
    assert marked(caught.value) == "gl.arange(0, 256, layout=L)"
