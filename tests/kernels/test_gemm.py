"""Matrix products of the library: all kernels, orders, splits and endings, on exactly representable numbers."""

from __future__ import annotations

import functools
import importlib
import math
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import glueball
from glueball import kernels
from glueball.codegen import disassembly
from glueball.drivers.arrays import DTYPE_NAMES, read_array
from glueball.errors import TargetError
from glueball.kernels.matrix_products import counters
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.groups import run_grouped
from glueball.kernels.matrix_products.launches import Place
from glueball.kernels.matrix_products.plans import candidates, plan_for, stages_for
from glueball.kernels.matrix_products.problems import Matrix, Problem
from glueball.kernels.matrix_products.products import describe, prepare
from glueball.kernels.matrix_products.tuned import tuned_plans
from glueball.kernels.matrix_products.tuning import measured_plan
from glueball.targets import TARGETS
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.library import BFLOAT16, assert_within, call, normal, wide
from tests.kernels.machine_code import needs_disassembler

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
gemm_module = importlib.import_module("glueball.kernels.gemm")
executors = pytest.mark.parametrize("executor", EXECUTORS)


def integers(shape, dtype=np.float16, seed=0):
    """Small integers, whose sums of products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def product(a, b, dtype=None):
    """The exact product, rounded once."""
    return (wide(a) @ wide(b)).astype(a.dtype if dtype is None else dtype)


def check(executor, monkeypatch, a, b, **keywords):
    """`gemm` gives the exact product."""
    expected = product(a, b, keywords.pop("expected", None))
    found = call(executor, monkeypatch, functools.partial(kernels.gemm, **keywords), a, b)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(wide(found), wide(expected))


def groups(block=(64, 64, 64), **keywords):
    """A plan of warp groups with small tiles and few stages."""
    return Plan("specialized", block, **{"stages": 2, "parts": 1, **keywords})


PAIR = (128, 64, 64)


@executors
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, E4M3], ids=lambda kind: np.dtype(kind).name)
def test_any_shape(dtype, executor, monkeypatch):
    result = BFLOAT16 if dtype is E4M3 else dtype
    for m, n, k in [(1, 1, 1), (1, 300, 77), (200, 1, 130), (5, 7, 3), (17, 33, 65), (70, 130, 200), (64, 96, 128)]:
        check(executor, monkeypatch, integers((m, k), dtype), integers((k, n), dtype, 1), expected=result)


@executors
def test_empty_products(executor, monkeypatch):
    check(executor, monkeypatch, integers((0, 8)), integers((8, 16)))
    check(executor, monkeypatch, integers((40, 0)), integers((0, 16)))


@executors
@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
def test_orders(a_turned, b_turned, executor, monkeypatch):
    a = integers((72, 136)).T if a_turned else integers((136, 72))
    b = integers((80, 72), seed=1).T if b_turned else integers((72, 80), seed=1)
    for plan in (groups(), groups(PAIR, parts=2), Plan("direct", (32, 32, 64))):
        check(executor, monkeypatch, a, b, plan=plan)


@executors
def test_strides_that_no_bulk_copy_has(executor, monkeypatch):
    a, b = integers((140, 144))[::2, ::2], integers((73, 90), seed=1)[:72, 3:84]
    check(executor, monkeypatch, a, b)
    check(executor, monkeypatch, a, b, plan=groups())


@executors
def test_programs_that_go_from_tile_to_tile(executor, monkeypatch):
    a, b = integers((200, 136)), integers((136, 152), seed=1)
    for plan in (groups(programs=1, group=2), groups(PAIR, parts=2, programs=2, stages=3)):
        check(executor, monkeypatch, a, b, plan=plan)


@executors
@pytest.mark.parametrize("splits", [2, 3])
def test_splits(splits, executor, monkeypatch):
    a, b = integers((72, 264)), integers((264, 80), seed=1)
    check(executor, monkeypatch, a, b, plan=groups(splits=splits))
    check(executor, monkeypatch, a, b, plan=groups(PAIR, parts=2, splits=splits, programs=3))
    check(executor, monkeypatch, a, b, plan=Plan("direct", (32, 32, 64), splits=splits))
    check(executor, monkeypatch, a[:1], b, plan=Plan("vector", (1, 256, 32), splits=splits))
    check(executor, monkeypatch, a[:1], b, plan=Plan("vector", (1, 32, 256), splits=2))


def test_counters_of_graphs_are_nobody_elses(monkeypatch):
    monkeypatch.setattr(counters, "_zeros", lambda device, count: np.arange(count, dtype=np.int32))
    monkeypatch.setattr(counters, "CAPTURED", 3 * counters.TOGETHER)
    found = counters.CapturedCounters()
    assert found.take(0, 1) is None
    found.prepare(0)
    taken = [found.take(0, slots) for slots in (counters.TOGETHER + 1, 5, 1)]
    assert [part.tolist() for part in taken[:2]] == [list(range(33)), list(range(64, 69))]
    assert taken[2] is None
    found.prepare(0)
    assert found.take(0, 1) is None and found.take(1, 1) is None


@pytest.mark.gpu
@pytest.mark.torch
def test_splits_in_a_graph_that_is_replayed(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delenv("GLUEBALL_EXECUTOR", raising=False)
    a, b = (torch.from_numpy(each).cuda() for each in (integers((72, 264)), integers((264, 80), seed=1)))
    out = torch.zeros(72, 80, dtype=torch.float16, device="cuda")
    run = functools.partial(kernels.gemm, a, b, out, plan=groups(splits=3))
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
        run()
    for _ in range(3):
        out.zero_()
        graph.replay()
        np.testing.assert_array_equal(out.cpu().numpy(), product(a.cpu().numpy(), b.cpu().numpy()))


CLUSTERS = {
    "pair": groups((128, 64, 64), ctas=2),
    "pair of two groups": groups((256, 64, 64), ctas=2, parts=2, stages=3),
}


@executors
@pytest.mark.parametrize("plan", CLUSTERS.values(), ids=CLUSTERS)
def test_clusters(plan, executor, monkeypatch):
    """CTAs share the rows of a tile and get its columns' operand in one copy."""
    for programs in (1, 0):
        plan = replace(plan, programs=programs)
        check(executor, monkeypatch, integers((520, 200)), integers((200, 136), seed=1), plan=plan)
    check(executor, monkeypatch, integers((200, 264)).T, integers((72, 200), seed=1).T, plan=plan)


@executors
@pytest.mark.parametrize("splits", [1, 2, 9])
def test_few_rows(splits, executor, monkeypatch):
    """The transposed product, whose tiles are as narrow as the rows are few, stored by the threads."""
    for (m, n, k), block, parts in [
        ((5, 136, 600), (64, 16, 64), 1), ((16, 200, 640), (128, 16, 64), 2), ((40, 72, 584), (64, 64, 64), 1),
    ]:  # fmt: skip
        plan = groups(block, parts=parts, splits=splits, swapped=True)
        check(executor, monkeypatch, integers((m, k)), integers((k, n), seed=1), plan=plan)
        check(executor, monkeypatch, integers((k, m)).T, integers((n, k), seed=1).T, plan=plan)


@executors
@pytest.mark.parametrize("splits", [2, 3])
def test_splits_of_the_last_tiles_alone(splits, executor, monkeypatch):
    a, b = integers((200, 264)), integers((264, 152), seed=1)
    for plan in (groups(programs=5, group=2), groups(PAIR, parts=2, programs=4, stages=3), groups(programs=3)):
        check(executor, monkeypatch, a, b, plan=replace(plan, splits=splits, tail=True))


@executors
@pytest.mark.parametrize("shapes", [((3, 40, 72), (3, 72, 48)), ((3, 40, 72), (72, 48)), ((40, 72), (3, 72, 48))])
def test_batches(shapes, executor, monkeypatch):
    a, b = integers(shapes[0]), integers(shapes[1], seed=1)
    for plan in (None, groups(), Plan("direct", (32, 32, 64)), groups(splits=2), groups(swapped=True)):
        check(executor, monkeypatch, a, b, plan=plan)
    check(executor, monkeypatch, a[..., :1, :], b)


@executors
def test_groups_of_matrices(executor, monkeypatch):
    a = [integers((m, 72), seed=m) for m in (40, 7, 130)]
    b = [integers((72, n), seed=n) for n in (16, 80, 9)]
    found = call(executor, monkeypatch, lambda *given: tuple(kernels.gemm(given[:3], list(given[3:]))), *a, *b)
    for left, right, result in zip(a, b, found, strict=True):
        np.testing.assert_array_equal(result, product(left, right))


def views(shapes, dtype=np.float16, seed=0):
    """Matrices of small integers, or of zeros without a seed, in one array, each at a multiple of 16 bytes."""
    sizes = [-(-math.prod(shape) // 8) * 8 for shape in shapes]
    base = np.zeros(sum(sizes), dtype) if seed is None else integers(sum(sizes), dtype, seed)
    starts = np.cumsum(sizes) - sizes
    return [base[start : start + math.prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=True)]


GROUPS = [(136, 72, 80), (64, 200, 64), (300, 128, 264), (8, 8, 8)]


@executors
@pytest.mark.parametrize("turned", [False, True])
def test_groups_in_one_launch(turned, executor, monkeypatch):
    a = views([(m, k) for m, n, k in GROUPS])
    b = views([(n, k) if turned else (k, n) for m, n, k in GROUPS], seed=1)
    c = views([(m, n) for m, n, k in GROUPS], seed=None)

    def run_all(*given):
        a, b, c = (list(given[4 * each : 4 * each + 4]) for each in range(3))
        b = [each.T for each in b] if turned else b
        kernels.gemm(a, b, c, activation="relu")

    with monkeypatch.context() as patch:
        launches = []
        patch.setattr(gemm_module, "run_grouped", lambda launch: launches.append(run_grouped(launch)))
        run(executor, patch, run_all, *a, *b, *c)
    assert len(launches) == 1
    for left, right, result in zip(a, b, c, strict=True):
        np.testing.assert_array_equal(result, np.maximum(product(left, right.T if turned else right), 0))


@executors
def test_narrow_floats(executor, monkeypatch):
    a, b = integers((72, 160), E4M3), integers((160, 80), E5M2, 1)
    plan = groups((64, 64, 128))
    check(executor, monkeypatch, a, np.asfortranarray(b), expected=BFLOAT16, plan=plan)
    check(
        executor, monkeypatch, a, b, expected=np.float16, out_dtype="float16",
        plan=groups((64, 64, 128)),
    )  # fmt: skip
    check(executor, monkeypatch, a, b, expected=BFLOAT16, plan=Plan("direct", (32, 32, 64)))


PLANS = {
    "groups": groups(chunks=2),
    "pair": groups((128, 128, 64), parts=2, chunks=4),
    "splits": groups(splits=2),
    "tail": groups(splits=2, tail=True, programs=3),
    "swapped": groups(splits=2, swapped=True),
    "cluster": groups((128, 64, 64), ctas=2, chunks=2),
    "direct": Plan("direct", (32, 32, 64)),
    "direct splits": Plan("direct", (16, 32, 64), splits=2),
}


@executors
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_scales_and_bias(plan, executor, monkeypatch):
    a, b = integers((72, 136)), integers((136, 80), seed=1)
    row_scale, column_scale = (2.0 ** integers(extent, np.float32) for extent in ((72, 1), (1, 80)))
    one, bias = np.full((1, 1), 0.5, np.float32), integers(80, seed=3)

    def run(a, b, bias, scale_a, scale_b):
        return kernels.gemm(
            a, b, bias=bias, activation="relu", scale_a=scale_a, scale_b=scale_b, out_dtype="float32", plan=plan
        )

    for scale_a, scale_b in ((row_scale, column_scale), (one, column_scale), (row_scale, one), (one, one)):
        found = call(executor, monkeypatch, run, a, b, bias, scale_a, scale_b)
        expected = np.maximum(wide(a) @ wide(b) * scale_a * scale_b + wide(bias), 0)
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def exact_gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


@executors
@pytest.mark.parametrize(
    ("activation", "exact"), [("gelu", exact_gelu), ("silu", lambda x: x / (1 + np.exp(-x)))], ids=["gelu", "silu"]
)
def test_activations(activation, exact, executor, monkeypatch):
    a, b = normal((40, 72), np.float16, spread=0.3), normal((72, 80), np.float16, 1, spread=0.3)
    for plan in (groups(chunks=2), Plan("direct", (32, 32, 64))):
        run = functools.partial(kernels.gemm, activation=activation, out_dtype="float32", plan=plan)
        assert_within(call(executor, monkeypatch, run, a, b), exact(wide(a) @ wide(b)), 2e-6)


@executors
def test_results_in_place(executor, monkeypatch):
    a, b, bias = integers((72, 136)), integers((136, 80), seed=1), integers(80, seed=3)
    for out in (np.zeros((72, 81), np.float16)[:, 1:], np.zeros((80, 72), np.float16).T):
        for plan in (groups(), Plan("direct", (32, 32, 64)), None):
            out[...] = 0
            call(
                executor,
                monkeypatch,
                lambda a, b, out, bias, plan=plan: kernels.gemm(a, b, out, bias, plan=plan),
                a,
                b,
                out,
                bias,
            )
            np.testing.assert_array_equal(out, (wide(a) @ wide(b) + wide(bias)).astype(np.float16))


@executors
def test_results_beside_other_columns(executor, monkeypatch):
    """A bulk store of rows that end inside of a piece of 16 bytes would overwrite the rest of it."""
    a, b, whole = integers((72, 136)), integers((136, 35), seed=1), np.full((72, 40), 77, np.float16)
    for plan in (None, groups(), groups(splits=2), groups(splits=2, tail=True, programs=1), groups(swapped=True)):
        call(
            executor, monkeypatch, lambda a, b, out, plan=plan: kernels.gemm(a, b, out[:, :35], plan=plan), a, b, whole
        )
        np.testing.assert_array_equal(whole[:, :35], product(a, b))
        np.testing.assert_array_equal(whole[:, 35:], 77)


@executors
def test_groups_of_results_beside_other_columns(executor, monkeypatch):
    a, b = views([(72, 64), (136, 64)]), views([(64, 24), (64, 24)], seed=1)
    whole = np.full((208, 24), 77, np.float16)

    def run_all(*given):
        first, second, *operands, out = given
        kernels.gemm([first, second], operands, [out[:72, :20], out[72:, :20]])

    call(executor, monkeypatch, run_all, *a, *(each[:, :20] for each in b), whole)
    np.testing.assert_array_equal(
        whole[:, :20], np.concatenate([product(*pair)[:, :20] for pair in zip(a, b, strict=True)])
    )
    np.testing.assert_array_equal(whole[:, 20:], 77)


SCHEDULED = (
    groups(), groups(PAIR, parts=2, programs=1), groups(splits=2), groups(splits=2, tail=True, programs=4),
    *CLUSTERS.values(),
)  # fmt: skip


@pytest.mark.parametrize("schedule", ["in_order", "random", "late"])
def test_schedules(schedule, monkeypatch):
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    a, b = integers((136, 264)), integers((264, 72), seed=1)
    for plan in SCHEDULED:
        check("sim", monkeypatch, a, b, plan=plan)


def test_random_numbers_within_the_rounding(monkeypatch):
    for dtype in (np.float16, BFLOAT16):
        a, b = normal((100, 200), dtype, spread=1), normal((200, 88), dtype, 1, spread=1)
        for plan in (groups(), Plan("direct", (32, 32, 64), splits=2)):
            assert_within(
                call("sim", monkeypatch, functools.partial(kernels.gemm, plan=plan), a, b), wide(a) @ wide(b), 1e-5
            )


def test_wrong_arguments(monkeypatch):
    a, b = integers((8, 16)), integers((16, 24))
    for arguments, keywords, text in [
        ((a, integers((8, 24))), {}, "a has 16 columns and b 8 rows"),
        ((a, b.astype(BFLOAT16)), {}, "must both be float16"),
        ((a.astype(np.float32), b.astype(np.float32)), {}, "kernels.matmul multiplies other types"),
        ((a.astype(np.int64), b), {}, "and a is int64"),
        ((a[0], b), {}, "a must be a matrix"),
        ((integers((2, 8, 16)), integers((3, 16, 24))), {}, "a is a batch of 2 matrices and b one of 3"),
        ((a, b), {"activation": "tanh"}, "activation must be relu, gelu, silu or None"),
        ((a, b), {"out_dtype": "int8"}, "out_dtype must be"),
        ((a, b), {"out": np.zeros((8, 8), np.float16)}, r"out must be of shape \(8, 24\)"),
        ((a, b), {"bias": np.zeros(8, np.float16)}, "bias must be a line of 24"),
        ((a, b), {"bias": np.zeros(48, np.float16)[::2]}, "bias must be a line of 24 neighbours"),
        ((a, b), {"scale_a": np.zeros(3, np.float32)}, "scale_a must hold 1 or 8 float32"),
        ((a, b), {"scale_b": np.zeros(24, np.float16)}, "scale_b must hold 1 or 24 float32"),
        ((a, b), {"plan": groups(splits=2)}, "the product of 8 x 24 x 16 cannot be computed on sm_90a by Plan"),
        ((a, b), {"plan": Plan("vector", (1, 32, 32))}, "cannot be computed"),
        ((a, b, np.zeros((24, 8), np.float16).T), {"plan": groups(PAIR, swapped=True, splits=2)}, "cannot be computed"),
        ((a, b, np.zeros((8, 48), np.float16)[:, ::2]), {"plan": groups(PAIR, ctas=2)}, "cannot be computed"),
        (([a, a], [b]), {}, "a is a list of 2 matrices, and b must be a list of as many"),
    ]:
        with pytest.raises(ValueError, match=text):
            kernels.gemm(*arguments, **keywords)
    monkeypatch.setenv("GLUEBALL_TARGET", "gfx942")
    with pytest.raises(TargetError, match="needs an NVIDIA GPU"):
        kernels.gemm(a, b)


def test_targets_without_warp_groups(monkeypatch):
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_80")
    check("sim", monkeypatch, integers((130, 72)), integers((72, 80), seed=1))


def test_the_function_stays_callable_beside_its_module():
    a = integers((3, 4))
    np.testing.assert_array_equal(gemm_module(a, a.T), gemm_module.gemm(a, a.T))


H200 = TARGETS["sm_90a"], 132
SHAPES = [
    (1, 1, 1), (1, 4096, 4096), (16, 4096, 4096), (64, 8192, 8192), (100, 100, 100), (128, 128, 20000),
    (1023, 1025, 1027), (4096, 4096, 4096), (8192, 8192, 512), (8192, 8192, 16384), (20000, 20000, 8), (20000, 64, 64),
]  # fmt: skip


def problem_of(m, n, k, dtype="float16", result=None):
    a, b = (Matrix(dtype, (1, *extents), (0, extents[1], 1), True) for extents in ((m, k), (k, n)))
    return Problem(a, b, Matrix(result or dtype, (1, m, n), (0, n, 1), True))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn"])
def test_every_candidate_fits_the_machine(shape, dtype):
    problem = problem_of(*shape, dtype, "bfloat16")
    for plan in candidates(problem, *H200):
        steps = -(-shape[2] // plan.block[2])
        assert 1 <= plan.splits <= max(1, steps)
        if plan.kind == "specialized":
            height, width, step = plan.block
            height //= plan.ctas
            staging = height * width // plan.chunks * 2
            assert plan.stages * (height + width) * step * problem.a.itemsize + staging <= (
                H200[0].shared_bytes - 1024
            ) // (3 - plan.parts)


def test_plans_use_the_whole_machine():
    large = plan_for(problem_of(8192, 8192, 8192), *H200)
    assert (large.kind, large.block, large.splits) == ("specialized", (128, 256, 64), 1)
    skinny = plan_for(problem_of(64, 4096, 8192), *H200)
    assert skinny.splits * -(-4096 // skinny.block[1]) * -(-64 // skinny.block[0]) >= 100
    assert plan_for(problem_of(1, 4096, 4096), *H200).kind == "vector"
    assert plan_for(problem_of(100, 100, 100), *H200).kind == "direct"
    assert plan_for(problem_of(512, 512, 512), TARGETS["sm_80"], 108).kind == "direct"
    assert plan_for(problem_of(416, 4712, 300), TARGETS["sm_90a"], 1).ctas == 1


def test_tuning_finds_a_plan_and_leaves_the_product(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    a, b, c = integers((128, 128)), integers((128, 256), seed=1), np.zeros((128, 256), np.float16)
    tried = [groups(), groups(PAIR, parts=2), groups(splits=2)]
    assert measured_plan(*describe(a, b, c), tried) in tried
    np.testing.assert_array_equal(c, product(a, b))


def test_the_shipped_table_is_of_plans_that_fit():
    for key, plan in tuned_plans().items():
        target, dtype, result, _, extents = key.split()
        assert target in TARGETS
        batches, m, n, k = map(int, extents.split("x"))
        assert batches == 1
        assert plan.stages <= stages_for(problem_of(m, n, k, dtype, result), plan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_a_kept_descriptor_knows_where_it_points_and_keeps_nothing_alive(dtype):
    found = read_array(Place(4096, dtype, 3))
    assert (found.pointer, found.dtype, found.device_index, found.kind) == (4096, DTYPE_NAMES[dtype], 3, "cuda")


@needs_disassembler
@pytest.mark.filterwarnings("error")
def test_plain_loads_are_as_wide_as_the_matrices_let_them():
    def loads(m, n, k, plan):
        (launch,) = prepare(*describe(*(np.zeros(shape, np.float16) for shape in ((m, k), (k, n)))), plan)
        kernel = glueball.compile_only(launch.kernel, *launch.arguments, **launch.keywords, target="sm_90a")
        assert kernel.n_spills == 0
        text = " ".join(each.text for each in disassembly.line_table(kernel.asm["cubin"]))
        return set(re.findall(r"LDG\.E(\.\w+)?", text))

    direct = Plan("direct", (64, 64, 64))
    assert loads(128, 128, 128, direct) == {".128"}
    assert loads(127, 129, 131, direct) == {".U16"}
    assert loads(1, 1024, 512, Plan("vector", (1, 256, 32))) == {".128", ".U16"}
