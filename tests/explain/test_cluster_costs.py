"""What `explain` predicts of the shared memory of other CTAs is what the simulator counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glueball.language as gl
from glueball.explain import Report
from glueball.kernels.cluster_rows import ClusterRowPlan, launch_rms_norm_split, launch_softmax_split
from glueball.kernels.ladder import Launch
from glueball.layouts import LinearLayout
from tests.explain.differential import check
from tests.explain.test_scratch_costs import BY_EXAMPLE, known
from tests.kernels import cluster_kernels as kernels
from tests.kernels.library import BFLOAT16
from tests.kernels.test_clusters import REPLICATED, SPREADS, cga, line, rows
from tests.sim.asynchronous_kernels import aligned
from tests.sim.cluster_launches import CLUSTER_KERNELS

SHAPE = (32, 64)
SEEDS = st.integers(0, 1 << 30)
CLUSTERS = st.sampled_from([2, 4, 8])


def any_layout(random: np.random.Generator, ctas: int, shape: tuple[int, ...]) -> Any:
    """Every bit of register, lane, warp and CTA moves along a dimension by a power of two, or only replicates."""
    bits = [1 << int(bit) for bit in random.permutation(math.prod(shape).bit_length() - 1)]
    blocks = [bits.pop() if random.integers(3) else 0 for _ in range(ctas.bit_length() - 1)]
    lanes, warps = ([bits.pop() if bits and random.integers(5) else 0 for _ in range(count)] for count in (5, 2))
    bases = {"register": bits, "lane": lanes, "warp": warps, "block": blocks}
    return gl.DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, shape))


def run(monkeypatch: pytest.MonkeyPatch, kernel: Any, *arguments: Any, ctas: int) -> Report:
    """Compares one program, of whose shared memory all is known."""
    report = check(Launch(kernel, (1,), arguments, {"num_warps": 4, "num_ctas": ctas}, 0), monkeypatch)
    known(report)
    return report


@pytest.mark.parametrize("name", CLUSTER_KERNELS)
def test_kernels_of_clusters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known(check(CLUSTER_KERNELS[name](), monkeypatch))


@pytest.mark.parametrize("ctas", [2, 4, 8])
@pytest.mark.parametrize("warps", [4, 8])
def test_rows_that_clusters_share(ctas: int, warps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = aligned((5, 4096), BFLOAT16), aligned((5, 4096), BFLOAT16)
    plan = ClusterRowPlan(ctas, warps, 2, 2)
    report = check(launch_softmax_split(x, y, plan), monkeypatch)
    known(report)
    sent = [row for row in report.views if row.kind == "async_store"]
    assert len(sent) == 2 and all(row.program is not None and row.program.requests == 2 * ctas * warps for row in sent)
    weight, scale = aligned((4096,), BFLOAT16), aligned((5,), np.float32)
    known(check(launch_rms_norm_split(x, weight, y, scale, 1e-5, plan), monkeypatch))


@BY_EXAMPLE
@given(seed=SEEDS, ctas=CLUSTERS)
def test_conversions_across_ctas(seed: int, ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    x, y = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    layouts = (any_layout(random, ctas, SHAPE) for _ in range(2))
    run(monkeypatch, kernels.converted, x, y, *layouts, *SHAPE, ctas=ctas)


@BY_EXAMPLE
@given(seed=SEEDS, ctas=CLUSTERS, spread=st.sampled_from([0, 1, REPLICATED]))
def test_views_across_ctas(seed: int, ctas: int, spread: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    x, y = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    shared = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga(ctas, spread))
    source, target = (any_layout(random, ctas, SHAPE) for _ in range(2))
    run(monkeypatch, kernels.through_view, x, y, source, shared, target, *SHAPE, ctas=ctas)


@BY_EXAMPLE
@given(seed=SEEDS, ctas=CLUSTERS)
def test_stores_to_other_ctas(seed: int, ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    source = any_layout(np.random.default_rng(seed), ctas, (2048,))
    shared = gl.SwizzledSharedLayout(1, 1, 1, [0], cga(ctas, 0, 1))
    report = run(monkeypatch, kernels.sent, x, y, source, shared, line(ctas), 2048, ctas=ctas)
    (sent,) = (row for row in report.views if row.kind == "async_store")
    assert sent.grid is not None and sent.allocation == "view"


@BY_EXAMPLE
@given(seed=SEEDS, ctas=CLUSTERS)
def test_reductions_and_scans_across_ctas(seed: int, ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    x, y, z = np.zeros((8, 256), np.float32), np.zeros(8, np.float32), np.zeros(8, np.int32)
    run(monkeypatch, kernels.row_sums, x, y, any_layout(random, ctas, x.shape), *x.shape, ctas=ctas)
    run(monkeypatch, kernels.row_maxima, x, y, z, any_layout(random, ctas, x.shape), *x.shape, ctas=ctas)
    v, w = np.zeros(1024, np.int32), np.zeros(1024, np.int32)
    run(monkeypatch, kernels.scanned, v, w, any_layout(random, ctas, v.shape), 1024, ctas=ctas)


@BY_EXAMPLE
@given(seed=SEEDS, ctas=CLUSTERS)
def test_results_of_atomics_that_all_ctas_know(seed: int, ctas: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counters, y = np.zeros(65, np.int32), np.zeros((64, 2), np.int32)
    layout = any_layout(np.random.default_rng(seed), ctas, (64, 2))
    report = run(monkeypatch, kernels.tickets, counters, y, layout, 64, ctas=ctas)
    assert report.atomics is not None and report.atomics.useful_bytes == 65 * 4
    assert {row.kind for row in report.scratch} >= {"scratch_write", "scratch_read"}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("ctas", [2, 4])
def test_gathers_and_histograms_of_clusters(ctas: int, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, index = np.zeros((16, 128), np.int32), np.zeros((16, 128), np.int32), np.zeros((16, 128), np.int32)
    keywords = {"num_ctas": ctas}
    gathered = Launch(kernels.gathered_in_rows, (1,), (x, index, y, rows(ctas, axis), 16, 128), keywords, 0)
    report = check(gathered, monkeypatch)
    assert report.shared_loads is None and report.shared_stores is not None
    values, bins = np.zeros(1024, np.int32), np.zeros(64, np.int32)
    counted = Launch(kernels.counted, (1,), (values, bins, line(ctas), line(ctas), 1024, 64), keywords, 0)
    report = check(counted, monkeypatch)
    assert report.shared_atomics is None and report.shared_loads is not None


def test_conversions_of_blocked_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros(SHAPE, np.int32), np.zeros(SHAPE, np.int32)
    for source in SPREADS.values():
        for target in SPREADS.values():
            run(monkeypatch, kernels.converted, x, y, source(4), target(4), *SHAPE, ctas=4)
