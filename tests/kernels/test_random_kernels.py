"""Random kernels give the same bits on every executor, but for functions that hardware approximates.

A kernel that fails is printed in full with what it reads and what differs, and again with every statement dropped that
its failure does not need; so it is kept in `kept_kernels`, or in the folder that `GLUEBALL_FUZZ_KEEP` names, and is a
test from then on. `GLUEBALL_FUZZ_SEED` is the first seed, 0 where it is not set.
"""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from glueball import compile_only
from tests.kernels import random_checks
from tests.kernels.harness import EXECUTORS
from tests.kernels.random_checks import KEPT, check_seeds, failure_of, outputs_of, reduced, ulps
from tests.kernels.random_kernels import Generator
from tests.kernels.random_programs import PROGRAMS, Program, Statement

CI_KERNELS = 300
DEEP_KERNELS = 2000
GPU_KERNELS = int(os.environ.get("GLUEBALL_FUZZ_COUNT", "2000"))
CHECKED_GPU_KERNELS = 100
"""Of those, how many are simulated and compiled where there is no GPU."""
GPU_VARIANTS = 4
"""Sets of inputs of which each kernel is tried on a GPU, where compiling it takes longest."""
GROUP = 25
SEED = int(os.environ.get("GLUEBALL_FUZZ_SEED", "0"))
Record = Callable[[str, object], None]
RESULT = Path(__file__).parents[1] / "results" / "random_kernels.json"


@pytest.mark.parametrize("first", range(SEED, SEED + CI_KERNELS, GROUP))
def test_simulator_and_reference_agree(first: int, record_property: Record) -> None:
    record_property("random kernels", ("sim", first, GROUP))
    check_seeds(first, GROUP, "sim")


@pytest.mark.parametrize("first", range(SEED, SEED + CHECKED_GPU_KERNELS, GROUP))
def test_kernels_for_a_gpu_agree_without_one_and_become_machine_code(first: int) -> None:
    check_seeds(first, GROUP, "sim", for_gpu=True)
    for seed in range(first, first + GROUP):
        program = Generator(seed, gpu=True).kernel().program()
        arrays = (*program.inputs().values(), *program.outputs().values())
        compiled = compile_only(program.build(), *arrays, program.n, num_warps=program.warps, target=program.target)
        assert ".entry kernel" in compiled.asm["ptx"]


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_simulator_and_reference_agree_on_many(record_property: Record) -> None:
    start, first = time.perf_counter(), SEED + CI_KERNELS
    record_property("random kernels", ("sim", first, DEEP_KERNELS))
    with ProcessPoolExecutor() as pool:
        list(pool.map(_check_group, range(first, first + DEEP_KERNELS, GROUP)))
    content = {
        "kernels": DEEP_KERNELS,
        "executors": ["reference", "sim"],
        "differences": 0,
        "seed": first,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - start),
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


def _check_group(first: int) -> None:
    check_seeds(first, GROUP, "sim")


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(SEED, SEED + GPU_KERNELS, GROUP))
def test_gpu_and_reference_agree(first: int, record_property: Record) -> None:
    record_property("random kernels", ("gpu", first, GROUP))
    check_seeds(first, GROUP, "gpu", GPU_VARIANTS)


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("executor", EXECUTORS[1:])
def test_what_once_differed(executor: str, path: Path) -> None:
    program = Program.from_facts(json.loads(path.read_text()))
    failure = failure_of(program, executor, GPU_VARIANTS)
    assert failure is None, f"{failure}\n{program.source}"


def test_a_difference_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wrong simulator is reported, with the one statement that shows it, which is kept."""
    kernel = Generator(3).kernel()
    place = kernel.output_sizes.get("int32", 0)
    kernel.output_sizes["int32"] = place + PROGRAMS
    kernel.statements.append(Statement(f"gl.store(o_int32 + {place} + pid, n)"))
    assert failure_of(kernel.program(), "sim") is None

    def wrong(program: Program, executor: str, function: object, variant: int = 0) -> dict[str, np.ndarray]:
        outputs = outputs_of(program, executor, function, variant)
        if executor == "sim":
            outputs["int32"][place] ^= outputs["int32"][place] != 0
        return outputs

    monkeypatch.setattr(random_checks, "outputs_of", wrong)
    failure = failure_of(kernel.program(), "sim")
    assert failure is not None and failure.kind == "difference"
    assert f"[{place}]" in failure.detail and " on reference" in failure.detail
    small = reduced(kernel, "sim", "difference")
    assert [statement.text for statement in small.statements] == [
        "pid = gl.program_id(0)",
        f"gl.store(o_int32 + {place} + pid, n)",
    ]
    monkeypatch.setenv("GLUEBALL_FUZZ_KEEP", str(tmp_path))
    path = random_checks.keep(small.program(), failure, "sim")
    assert Program.from_facts(json.loads(path.read_text())) == small.program()


def test_distances_in_units_in_the_last_place() -> None:
    left = np.array([1.0, -0.0, -1.0], np.float32)
    right = np.array([np.nextafter(np.float32(1), np.float32(2)), 0.0, np.nextafter(np.float32(-1), np.float32(0))])
    assert ulps(left, right.astype(np.float32)) == [1, 0, 1]
