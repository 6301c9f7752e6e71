"""The product told in steps: every version is right everywhere, and the machine code is what each is about."""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest

import glueball
from glueball.codegen import disassembly
from glueball.kernels import gemm_ladder
from glueball.kernels.gemm_ladder import STEPS, cost
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.products import describe, prepare
from tests.kernels.assembly_paths import turns
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.machine_code import needs_disassembler

SMALL = {"v0": (32, 32, 16), "v1": (32, 64, 16), "v2": (64, 64, 64), "v3": (64, 64, 64)}
"""Tiles for tests; the others are as they are, with fewer columns."""


def small(step):
    """A version with a tile that is quick to simulate."""
    height, width, depth = SMALL.get(step.name, (step.block[0], 64 if step.operands == "descriptors" else 256, 64))
    return gemm_ladder.Step(**{**fields(step), "block": (height, width, depth)})


def fields(step):
    return {name: getattr(step, name) for name in step.__dataclass_fields__}


def integers(shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_every_version(step, executor, monkeypatch):
    a, b, c = integers((136, 80)), integers((80, 144), 1), np.zeros((136, 144), np.float16)
    run(executor, monkeypatch, lambda a, b, c: gemm_ladder.launch(small(step), a, b, c, programs=2).run(), a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize("schedule", ["random", "late"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_schedules(step, schedule, monkeypatch):
    """Beside the order of the text, in which the test before runs."""
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    test_every_version(step, "sim", monkeypatch)


def test_predicted_costs():
    rates = [cost(step).rate for step in STEPS]
    assert all(later >= earlier for earlier, later in itertools.pairwise(rates[:4]))
    assert [cost(step).bound for step in STEPS[6:]] == ["products"] * 3
    assert cost(STEPS[8]).products == 128 * 256 * 64 / 2048


def compiled(launch):
    """The kernel for the H200, and its instructions."""
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, **launch.keywords, target="sm_90a")
    text = [re.sub(r"^@!?U?P\w+ ", "", each.text) for each in disassembly.line_table(kernel.asm["cubin"])]
    return kernel, text


def blank(*shapes, dtype=np.float16):
    return [np.zeros(shape, dtype) for shape in shapes]


LIBRARY = {
    "large": ((1024, 1024, 1024), Plan("specialized", (128, 256, 64), stages=3)),
    "large, two pieces": ((1024, 1024, 8192), Plan("specialized", (128, 256, 64), chunks=2)),
    "splits": ((512, 512, 1024), Plan("specialized", (128, 128, 64), splits=4)),
    "one group": ((64, 1024, 1024), Plan("specialized", (64, 128, 64), parts=1)),
    "few rows": ((16, 4096, 4096), Plan("specialized", (128, 16, 64), splits=4, stages=8, swapped=True)),
    "cluster": ((1024, 1024, 1024), Plan("specialized", (256, 256, 64), chunks=2, ctas=2)),
    "splits of the last tiles": ((5120, 5120, 1024), Plan("specialized", (128, 64, 64), splits=4, chunks=2, tail=True)),
}


def library_launch(name):
    (m, n, k), plan = LIBRARY[name]
    return prepare(*describe(*blank((m, k), (k, n), (m, n))), plan)[-1]


SPECIALIZED = {
    "v8": lambda: gemm_ladder.launch(STEPS[8], *blank((1024, 1024), (1024, 1024), (1024, 1024))),
    **{name: functools.partial(library_launch, name) for name in LIBRARY},
}


@pytest.mark.parametrize("name", SPECIALIZED)
def test_no_partition_waits_for_itself_in_a_step(name):
    """From one step along K to the next, multiplying warps pass no barrier, and copying ones none but of their warp."""
    launch = SPECIALIZED[name]()
    ptx = glueball.compile_only(launch.kernel, *launch.arguments, **launch.keywords, target="sm_90a").asm["ptx"]
    plan = LIBRARY[name][1] if name in LIBRARY else Plan("specialized", (128, 256, 64))
    multiplying, copying = turns(ptx, "wgmma.mma_async"), turns(ptx, "cp.async.bulk.tensor.*complete_tx")
    assert (len(multiplying), len(copying)) == (plan.parts, 1)
    for text in multiplying:
        assert re.findall(r"\bmbarrier\.(\w+)", text) == ["try_wait", *["arrive"] * plan.ctas]
        assert "release.cluster" not in text
        assert not re.search(r"\bbar(rier)?\.", text)
    for text in copying:
        assert set(re.findall(r"\bbar(?:rier)?\.\S+", text)) <= {"bar.warp.sync"}


@needs_disassembler
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", LIBRARY)
def test_the_loop_of_the_library_holds_nothing_but_what_it_must(name):
    plan, launch = LIBRARY[name][1], library_launch(name)
    kernel, text = compiled(launch)
    assert kernel.n_spills == 0
    assert not [line for line in text if line.startswith(("LDL", "STL"))]
    check_loops(text, plan.parts, plan.block[2] // 16)


@needs_disassembler
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_machine_code_of_every_version(step):
    kernel, text = compiled(gemm_ladder.launch(step, *blank((1024, 1024), (1024, 1024), (1024, 1024))))
    assert kernel.n_spills == 0
    expected = {"v0": "FFMA", "v1": "FFMA", "v2": "HMMA", "v3": "LDGSTS"}.get(step.name, "HGMMA")
    assert [line for line in text if line.startswith(expected)]
    if step.operands == "descriptors":
        assert [line for line in text if line.startswith("UTMALDG")]
        assert not [line for line in text if line.startswith(("LDG.", "STG."))]
    if step.name == "v8":
        check_loops(text, 2, 4)


def check_loops(text, groups, products):
    """Each multiplying group has one run of products, and between the first and the last of it no register moves."""
    places = [index for index, line in enumerate(text) if line.startswith("HGMMA")]
    assert len(places) == groups * products
    for group in range(groups):
        own = places[group * products : (group + 1) * products]
        between = [line.split()[0] for line in text[own[0] : own[-1]]]
        assert not [name for name in between if name.startswith(("MOV", "BAR", "WARPGROUP.DEPBAR", "CS2R", "IMAD.MOV"))]
