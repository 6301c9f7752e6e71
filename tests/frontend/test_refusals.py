"""Wrong programs, each with the class of what went wrong and the words that name it."""

from __future__ import annotations

import linecache
import pickle
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from tests.frontend.harness import build_kernel, run_kernel

SETUP = """
import math
from collections import namedtuple
import glueball
import glueball.language as gl

L = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
L2 = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
COLUMNS = gl.constexpr(gl.SliceLayout(0, L2))
DENSE = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
DENSE_LINE = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
SWIZZLED = gl.constexpr(gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
GLOBAL = 5


@glueball.jit
def same(x):
    return x


@glueball.jit
def add(x, y):
    return x + y


@glueball.jit
def add_two(a, b, c, d):
    return a + c, b + d


@glueball.jit
def mixed(condition):
    if condition:
        return 1
    return 1.0


@glueball.jit(noinline=True)
def apart(x):
    return x


@glueball.must_use_result("keep it")
@glueball.jit
def needed(x):
    return x


@glueball.aggregate
class Pair:
    a: gl.tensor
    k: gl.constexpr = 7


def plain(x):
    return x


@glueball.jit
def kernel(p, n, halves, floats):
    x = gl.arange(0, 8, L)
    y = gl.zeros([8, 8], gl.int32, L2)
    c = gl.arange(0, 8, COLUMNS)
    m = gl.allocate_shared_memory(gl.int32, [8, 8], DENSE)
"""

NO, TYPE, VALUE, ASSERTION, NAME = UnsupportedLanguageConstruct, TypeError, ValueError, AssertionError, NameError
ATTRIBUTE, MISSING, RUNTIME, ANY = AttributeError, NotImplementedError, RuntimeError, Exception

CASES: dict[str, list[tuple[str, type[Exception], str]]] = {
    "program": [
        ("gl.program_id(3)", VALUE, "axis of the grid"),
        ("gl.num_programs(-1)", VALUE, "axis of the grid"),
    ],
    "creation": [
        ("gl.arange(0, n, L)", VALUE, "must be of type tl.constexpr"),
        ("gl.arange(8, 0, L)", VALUE, "greater than the start"),
        ("gl.arange(4, 4, L)", VALUE, "greater than the start"),
        ("gl.arange(0, 12, L)", VALUE, "power of 2"),
        ("gl.arange(0, 2**31, L)", VALUE, "does not fit int32"),
        ("gl.full([4], 1.5, gl.int32, L)", TYPE, "no integer"),
        ("gl.full([4], -1, gl.uint32, L)", TYPE, "negative"),
        ("gl.full([4], x, gl.int32, L)", VALUE, "only accepts size-1 tensor"),
        ("gl.full([6], 1, gl.int32, L)", VALUE, "must be a power of 2"),
        ("gl.full([n], 1, gl.int32, L)", TYPE, "must have type `constexpr[int]`"),
        ("gl.zeros([2**21], gl.int32, L)", VALUE, "exceeds triton maximum tensor numel"),
        ("gl.zeros([8, 8], gl.int32, L)", ASSERTION, "tensor shape and layout rank mismatch"),
        ("gl.zeros([8], gl.int32, 3)", VALUE, "needs a layout"),
        ("gl.to_tensor(2**64)", VALUE, "Nonrepresentable integer"),
        ('gl.to_tensor("a")', TYPE, "cannot convert"),
    ],
    "tensors": [
        ("x[0]", VALUE, "unsupported tensor index"),
        ("x[:, :]", VALUE, "too many indices"),
        ("x[0] = 1", MISSING, "__setitem__ is not supported"),
        ("x.nothing", ATTRIBUTE, "no attribute 'nothing'"),
        ("y.item()", ASSERTION, "single-element"),
        ("x.trans()", VALUE, "needs two dimensions"),
    ],
    "casts": [
        ('floats.to(gl.float16, fp_downcast_rounding="up")', VALUE, "fp_downcast_rounding"),
        ('halves.to(gl.float32, fp_downcast_rounding="rtz")', VALUE, "only for truncating fp conversions"),
        ("gl.zeros([8], gl.float8e5, L).to(gl.int32)", ASSERTION, "cannot cast"),
        ("floats.to(gl.int16, bitcast=True)", VALUE, "Cannot bitcast data-type of size"),
        ("p.to(gl.int32)", ASSERTION, "cannot cast"),
        ("x.to(3)", TYPE, "element type"),
    ],
    "arithmetic": [
        ("p + p", TYPE, "cannot add pointers together"),
        ("p + 1.0", TYPE, "invalid operands of type"),
        ("p * 2", TYPE, "invalid operands of type"),
        ("p == p", TYPE, "invalid operands of type"),
        ("-p", VALUE, "cannot negate a pointer"),
        ("+x", NO, "unary `+`"),
        ("x ** 2", NO, "unsupported operand type(s) for **"),
        ("floats // 2", TYPE, "`//` is for integers"),
        ("floats & 1", TYPE, "invalid operands of type"),
        ("~floats", TYPE, "`~` is for integers"),
        ("floats << 1", TYPE, "invalid operands of type"),
        ("x / x.to(gl.uint32)", TYPE, "different signedness"),
        ("x % x.to(gl.uint32)", TYPE, "different signedness"),
        ("x.to(gl.int8) + 300", VALUE, "is out of range for type"),
        ("x.to(gl.uint8) + (-1)", VALUE, "between an unsigned tensor and a negative scalar"),
        ("gl.maximum(x, 1, 3)", TYPE, "PropagateNan"),
        ("gl.where(x > 1, p, 0)", TYPE, "invalid operands of type"),
    ],
    "functions": [
        ("gl.exp(halves)", VALUE, "Expected dtype ["),
        ("gl.sqrt_rn(floats.to(gl.float64))", VALUE, "Expected dtype ["),
        ("gl.fdiv(1.0, 2.0, True, True)", VALUE, "exclude one another"),
        ("gl.fdiv(1, 2)", TYPE, "divides floats"),
        ("gl.fdiv(floats.to(gl.float64), 2.0, approx=True)", VALUE, "approx is for float32"),
        ("gl.umulhi(x.to(gl.int16), x.to(gl.int16))", VALUE, "Expected dtype ["),
        ("gl.fma(x, x, x)", TYPE, "fma is for floats"),
        ("gl.abs(p)", VALUE, "no absolute value"),
    ],
    "memory": [
        ("gl.load(p + x, mask=x)", VALUE, "mask"),
        ("gl.load(p + x, other=1)", VALUE, "`other` cannot be provided without `mask`"),
        ("gl.load(p, mask=x > 1)", VALUE, "cannot be block type if pointer argument is not a block"),
        ("gl.load(3)", VALUE, "Unsupported ptr type"),
        ("gl.store(p + c[:, None], y)", ANY, "expected expand_dims input"),
        ("gl.store(p + y[:, 0:1], y)", VALUE, "unsupported tensor index"),
        ("gl.store(p, x)", VALUE, "block"),
        ('gl.store(p, 1, cache_modifier=".ca")', VALUE, "not supported for stores"),
        ('gl.load(p, cache_modifier=".xx")', VALUE, "Unsupported cache modifier"),
        ('gl.load(p, eviction_policy="never")', VALUE, "Unsupported eviction policy"),
        ('gl.load(p, cache_modifier=".ca", cache_policy=gl.CachePolicy(".ca"))', ASSERTION, "mutually exclusive"),
        ("gl.multiple_of(x, [1, 2])", VALUE, "does not match the length of values"),
        ("gl.max_contiguous(x, [n])", TYPE, "must have type `constexpr[int]`"),
        ("gl.max_constancy(x, [1, 1])", VALUE, "does not match the length of values"),
        ("gl.assume(x > 1)", VALUE, "scalar condition"),
    ],
    "atomics": [
        ('gl.atomic_add(p, 1, sem="foo")', VALUE, "Memory semantic 'foo' not supported"),
        ('gl.atomic_add(p, 1, scope="foo")', VALUE, "Memory scope 'foo' not supported"),
        ('gl.atomic_load(p, sem="release")', VALUE, "not supported"),
        ('gl.atomic_store(p, 1, sem="acquire")', VALUE, "not supported"),
        ("gl.atomic_cas(p + x, 1, 2)", VALUE, "ptr type matches cmp type"),
        ("gl.atomic_add(p.to(gl.pointer_type(gl.int8)), 1)", VALUE, "int8"),
        ("gl.atomic_xchg(p.to(gl.pointer_type(gl.int16)), 1)", VALUE, "int16"),
        ("gl.atomic_max(p.to(gl.pointer_type(gl.float16)), 1.0)", VALUE, "fp16"),
        ("gl.atomic_and(p.to(gl.pointer_type(gl.float32)), 1.0)", VALUE, "fp32"),
        ("gl.atomic_poll(p, 1, timeout_ns=-1)", VALUE, "must not be negative"),
        ("gl.atomic_poll(p.to(gl.pointer_type(gl.float32)), 1)", VALUE, "integers of 16, 32 or 64 bits"),
    ],
    "shapes": [
        ("gl.expand_dims(x, 0)", VALUE, "expected expand_dims input to have a SliceLayout"),
        ("gl.expand_dims(c, 1)", VALUE, "sliced in axis"),
        ("gl.expand_dims(3, 0)", VALUE, "distributed_type"),
        ("gl.expand_dims(c, [0, 0])", VALUE, "duplicate axes"),
        ("gl.expand_dims(c, 5)", VALUE, "out of range"),
        ("x + gl.arange(0, 4, L)", VALUE, "incompatible dimensions at index"),
        ("x + y", VALUE, "Cannot broadcast, rank mismatch"),
        ("x + c", VALUE, "Layout mismatch in broadcast"),
        ("y.broadcast_to(4, 8)", VALUE, "must match the existing size"),
        ("x.broadcast_to(4, 8)", VALUE, "rank mismatch"),
        ("y.reshape(3, 3)", VALUE, "cannot change total number of elements"),
        ("y.reshape(64, can_reorder=True)", VALUE, "not supported in gluon"),
        ("gl.ravel(y, True)", VALUE, "not supported in gluon"),
        ("gl.permute(y, 0, 0)", VALUE, "must be a permutation"),
        ("gl.join(1.0, 2.0)", VALUE, "Cannot join scalars"),
        ("gl.split(y)", VALUE, "extent 2"),
        ("gl.convert_layout(x, gl.BlockedLayout([2], [32], [4], [0]), True)", TYPE, "is not trivial"),
        ("gl.convert_layout(x, DENSE)", VALUE, "needs a layout"),
        ("gl.convert_layout(x, L2)", ASSERTION, "rank mismatch"),
    ],
    "reductions": [
        ("gl.reduce(x, 3, add)", VALUE, "invalid axis"),
        ("gl.reduce(x, None, add, True)", VALUE, "distributed_type"),
        ("gl.reduce((x, c), 0, add_two)", VALUE, "matching layouts"),
        ("gl.associative_scan(x, 1, add)", VALUE, "invalid axis"),
        ("gl.xor_sum(floats)", CompileTimeAssertionFailure, "only supported for integers"),
        ("gl.reduce_or(floats, 0)", CompileTimeAssertionFailure, "only supported for integers"),
        ("gl.gather(y, gl.zeros([2, 2], gl.int32, L2), 1)", VALUE, "must match the corresponding source dim"),
        ("gl.gather(y, x, 0)", VALUE, "same rank"),
        ("gl.histogram(x, 8)", VALUE, "requires a destination layout"),
        ("gl.histogram(x, 6, layout=L)", VALUE, "power of 2"),
        ("gl.histogram(floats, 8, layout=L)", VALUE, "integer input"),
        ("gl.map_elementwise(add)", VALUE, "at least one tile"),
        ("gl.map_elementwise(add, x)", TYPE, "missing a required argument"),
    ],
    "compile time": [
        ("gl.static_assert(n == 1)", MISSING, "could not be determined at compile-time"),
        ("gl.static_assert(1)", MISSING, "could not be determined at compile-time"),
        ('gl.static_assert(False, "my message")', CompileTimeAssertionFailure, "my message"),
        ("gl.device_print(3)", ASSERTION, "prefix"),
        ('gl.device_print("\\u00e9")', ASSERTION, "must be printable"),
        ("gl.to_linear_layout(3, [8])", VALUE, "Expected a DistributedLayout, SharedLayout"),
        ("gl.bank_conflicts(x, m)", TYPE, "needs the type of a tile"),
        ("gl.set_auto_layout(x, L)", VALUE, "input must have auto layout"),
        ("gl.set_auto_layout(gl.arange(0, 8), gl.AutoLayout())", VALUE, "must set to a distributed layout"),
        ("gl.arange(0, 8, gl.CoalescedLayout()) + x", VALUE, "Layout mismatch in broadcast"),
    ],
    "shared memory": [
        ("gl.allocate_shared_memory(3, [8], DENSE_LINE)", VALUE, "expected 'element_ty'"),
        ("gl.allocate_shared_memory(gl.int32, [n], DENSE_LINE)", VALUE, "all elements of 'shape' must be integers"),
        ("gl.allocate_shared_memory(gl.int32, [8], L)", VALUE, "expected 'layout' to be a SharedLayout"),
        ("gl.allocate_shared_memory(gl.int1, [8], DENSE_LINE)", RUNTIME, "must be a multiple of 8"),
        ("gl.allocate_shared_memory(gl.int32, [3, 8], DENSE)", RUNTIME, "shape must have power-of-2"),
        (
            "gl.allocate_shared_memory(gl.int32, [3, 8, 8], DENSE_LINE)", RUNTIME,
            "rank must be equal to or one less than the shape size",
        ),
        (
            "gl.allocate_shared_memory(gl.int32, [8], gl.PaddedSharedLayout.with_identity_for([[4, 2]], [16], [0]))",
            RUNTIME, "Mismatch in expected shape for dimension",
        ),
        ("m.load(L)", ASSERTION, "rank mismatch"),
        ("m.load(DENSE)", VALUE, "distributed layout"),
        ("m.store(gl.zeros([8, 4], gl.int32, L2))", VALUE, "source shape"),
        ("m.store(gl.zeros([8, 8], gl.int16, L2))", VALUE, "source dtype"),
        ("m.store(1)", VALUE, "expected 'value' to be a tensor"),
        ("m.slice(n, 4)", VALUE, "expected 'start' to be an int"),
        ("m.slice(4, 8)", VALUE, "may not exceed the source shape"),
        ("m.slice(1, 2)", VALUE, "may not touch the tile"),
        (
            "gl.allocate_shared_memory(gl.float16, [8, 64], SWIZZLED).slice(0, 4)", VALUE,
            "splitting along the swizzling pattern",
        ),
        ("m.index(0)", RUNTIME, "rank"),
        ("gl.allocate_shared_memory(gl.int32, [2, 8, 8], DENSE).index(n.to(gl.int64))", VALUE, "int32 scalar"),
        ("m.permute([0])", VALUE, "order length (1) must match"),
        ("m.reshape([8])", VALUE, "total elements mismatch"),
        ("m.slice(0, 4).reshape([32])", VALUE, "memdesc_reshape of memdesc_subslice"),
        ("m.reinterpret(gl.int64)", VALUE, "exceeds the source view"),
        ("m.gather(y, -1)", VALUE, "is out of bounds"),
        ("m.gather(gl.zeros([8, 8], gl.float32, L2), 0)", VALUE, "integer dtype"),
        ("m.gather(x, 0)", VALUE, "rank must match"),
        ("m.scatter(gl.zeros([8, 8], gl.int16, L2), y, 0)", VALUE, "dtype"),
        (
            "gl.allocate_shared_memory(gl.float32, [8, 8], DENSE).atomic_scatter_max(y.to(gl.float32), y, 0)", VALUE,
            "does not support dtype",
        ),
        ("m.atomic_scatter_add(y, y, 0, y)", VALUE, "int1"),
        ("m[0]", ATTRIBUTE, "not subscriptable"),
    ],
    "assignments": [
        ("a = b = 1", ASSERTION, "several targets"),
        ("a, b = (1, 2, 3)", VALUE, "too many values to unpack (expected 2)"),
        ("a, b = (1,)", VALUE, "not enough values to unpack (expected 2, got 1)"),
        ("a, *b = (1, 2, 3)", MISSING, "starred"),
        ("p.x = 1", MISSING, "Attribute assignment is not supported"),
        ("n: gl.constexpr = 2", VALUE, "constexpr cannot be reassigned"),
        ("a = gl.BlockedLayout([1], [32], [4], [0])", TYPE, "cannot convert"),
        ('a = "abc"', TYPE, "cannot convert"),
        ("a = 64; gl.arange(0, a, L)", VALUE, "must be of type tl.constexpr"),
        ("(1, 2)[n]", ASSERTION, "compile-time integer"),
    ],
    "expressions": [
        ("[a for a in (1, 2) for b in (3, 4)]", ANY, "comprehension"),
        ("[a for a in range(2)]", ANY, "range"),
        ('f"{n}"', MISSING, "Cannot evaluate f-string containing non-constexpr"),
        ("1 in (1, 2)", NO, "unsupported comparison: In"),
        ("n and n > 2", VALUE, "Cannot bitcast data-type of size"),
        ("not n", VALUE, "Cannot bitcast data-type of size"),
        ("None == n", TYPE, "cannot convert None"),
        ('min(float("nan"), 1.0)', VALUE, "does not take nan"),
        ("same(**{})", NO, "`**`"),
        ("plain(3)", RUNTIME, "Unsupported function referenced"),
        ("GLOBAL + 1", NAME, "Cannot access global variable GLOBAL"),
        ("nowhere + 1", NAME, "is not defined"),
    ],
    "calls": [
        ("mixed(n > 1)", TYPE, "Return type mismatch"),
        ("apart(x)", NO, "is marked noinline"),
        ("needed(1)", CompilationError, "The result of needed is not being used. keep it"),
        ("same()", TYPE, "missing a required argument"),
        ("Pair(1)", TYPE, "Expected tensor for attribute 'a'"),
        ("Pair()", TYPE, "missing a required argument"),
        ("Pair(n, 1, 2)", TYPE, "too many positional arguments"),
        ("Pair(n, z=2)", TYPE, "unexpected keyword argument 'z'"),
        ("Pair(n) * 2", NO, "unsupported operand type(s) for *"),
        ("gl.aggregate_replace(3, a=1)", TYPE, "needs an aggregate"),
        ("gl.aggregate_replace(Pair(n), z=1)", TYPE, "no field 'z'"),
    ],
    "control flow": [
        ("if n > 1: a = 1\n    gl.store(p, a)", NAME, "is not defined"),
        ("a = n\n    if n > 1: a = 1.0", ASSERTION, "initial value for `a` is of type"),
        ("if n > 1: a = 1.0\n    else: a = 1\n    gl.store(p, a)", ANY, "Mismatched type for a between then block"),
        ('if "abc": gl.store(p, 1)', NO, "conditionals can only accept values of type"),
        ("if 1.5: gl.store(p, 1)", NO, "conditionals can only accept values of type"),
        ("if x > 1: gl.store(p, 1)", ANY, "Boolean value of Tensor with more than one value is ambiguous"),
        ("1 if n > 1 else 1.0", TYPE, "inconsistent types"),
        ("for a in (1, 2): pass", NO, "iterates over a call of `range`"),
        ("for a in range(1.0): pass", TYPE, "must all be ints"),
        ("for a in range(x): pass", TYPE, "must be a scalar"),
        ("for a in gl.static_range(n): pass", ASSERTION, "is not a constexpr"),
        ("for a in range(3): pass\n    else: pass", NO, "`else` of a loop"),
        ("while n > 1: n -= 1\n    else: pass", NO, "`else` of a loop"),
        ("while True: pass", ANY, "while"),
        ("a = 1\n    for b in range(3): a = a + 1.0", ASSERTION, "Loop-carried variable a has initial type"),
        ("a: gl.constexpr = 1\n    for b in range(3): a = a + n", ASSERTION, "is not a triton value"),
        ("a = None\n    for b in range(3): a = n", ASSERTION, "is not a triton value"),
        ("for b in range(3):\n        if b > 1: return", NO, "Cannot have `return` statements inside"),
    ],
    "layouts": [
        ("gl.zeros([8], gl.int32, gl.BlockedLayout([1], [32], [8], [0]))", RUNTIME, "has an invalid layout"),
        ("gl.zeros([8], gl.int32, gl.BlockedLayout([1], [64], [4], [0]))", RUNTIME, "has an invalid layout"),
        ("gl.zeros([8], gl.int32, gl.BlockedLayout([1], [32], [4], [0], [[1]]))", RUNTIME, "has an invalid layout"),
        ("gl.arange(0, 8)", ANY, "Failed to infer return type"),
        ("gl.convert_layout(gl.arange(0, 8), L)", ANY, "Failed to infer return type"),
        (
            "a = gl.arange(0, 8)\n    gl.set_auto_layout(a, L)\n    gl.set_auto_layout(a, COLUMNS)", ANY,
            "found conflicting encodings for value",
        ),
    ],
    "syntax": [
        ("a = lambda x: x", NO, "unsupported AST node type: Lambda"),
        ("a = {1: 2}", NO, "unsupported AST node type: Dict"),
        ("a = {1}", NO, "unsupported AST node type: Set"),
        ("try: pass\n    except: pass", NO, "unsupported AST node type: Try"),
        ("raise ValueError()", NO, "unsupported AST node type: Raise"),
        ("while n > 0: break", NO, "unsupported AST node type: Break"),
        ("with gl.barrier(): pass", NO, "`with` takes context managers of the language"),
        ("while n > 0: continue", NO, "unsupported AST node type: Continue"),
        ("global nothing", NO, "unsupported AST node type: Global"),
        ("del p", NO, "unsupported AST node type: Delete"),
        ("import math", NO, "unsupported AST node type: Import"),
        ("match n:\n        case 1: pass", NO, "unsupported AST node type: Match"),
        ("a = (b for b in (1, 2))", NO, "unsupported AST node type: GeneratorExp"),
        ("a = {b: b for b in (1, 2)}", NO, "unsupported AST node type: DictComp"),
        ("a = {b for b in (1, 2)}", NO, "unsupported AST node type: SetComp"),
        ("class A: pass", NO, "unsupported AST node type: ClassDef"),
        ("def inner(): pass", NO, "nested function definitions are not allowed"),
    ],
}  # fmt: skip


def failure_of(statement: str) -> CompilationError:
    """What compiling a kernel of one statement raises."""
    text = f"{SETUP}    {statement}\n"
    name = f"<refused {statement}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), namespace)
    halves, floats = (gl.distributed_type(kind, (8,), namespace["L"]) for kind in (gl.float16, gl.float32))
    with pytest.raises(CompilationError) as caught:
        build_kernel(namespace["kernel"], p=np.zeros(1, np.int32), n=np.int32(5), halves=halves, floats=floats)
    return caught.value


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("group", CASES)
def test_refusals(group: str) -> None:
    for statement, kind, words in CASES[group]:
        error = failure_of(statement)
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        assert isinstance(cause, kind), f"{statement}: {type(cause).__name__}, {error}"
        assert words in str(error), f"{statement}: {error}"
        assert error.location is not None
        assert [*error.location.chain()][-1].line > SETUP.count("\n"), f"{statement}: {error}"


@glueball.jit
def inner(x):
    return x + "a"


@glueball.jit
def middle(x):
    return inner(x)


@glueball.jit
def outer(p):
    middle(gl.load(p))


def test_one_error_for_each_call() -> None:
    """The outermost tells of all, each is the cause of the one around it, and all can be pickled."""
    with pytest.raises(CompilationError) as caught:
        build_kernel(outer, p=np.zeros(1, np.int32))
    error = caught.value
    chain: list[Any] = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    assert [type(each) for each in chain] == [CompilationError] * 3 + [TypeError]
    assert [len(list(each.location.chain())) for each in chain[:3]] == [3, 2, 1]
    assert [each.src.partition("(")[0] for each in chain[:3]] == ["def outer", "def middle", "def inner"]
    assert "cannot convert 'a'" in error.error_message and error.node is not None
    assert "called from" in str(error) and "called from" not in str(chain[2])
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - that it can be done is what is tested
    assert str(again) == str(error) and again.src == error.src


@glueball.jit
def uses_a_plain_global(p):
    gl.store(p, PLAIN_GLOBAL + 1)


PLAIN_GLOBAL = 5


def test_plain_globals_where_they_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(1, np.int32)
    with pytest.raises(CompilationError, match="Cannot access global variable PLAIN_GLOBAL"):
        run_kernel(uses_a_plain_global, p=out)
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    run_kernel(uses_a_plain_global, p=out)
    assert out[0] == 6


def test_errors_as_they_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_FRONT_END_DEBUGGING", "1")
    with pytest.raises(TypeError, match="cannot convert 'a'") as caught:
        build_kernel(outer, p=np.zeros(1, np.int32))
    assert not isinstance(caught.value, CompilationError)
