"""Random conversions through the whole compiler: every register of every thread must hold its element."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.conversion_pairs import (
    WIDTHS,
    batches,
    counted_wavefronts,
    planned_wavefronts,
    random_pairs,
    simulate,
)
from glueball.layouts import SharedRoundTrip
from glueball.targets import TARGETS, Target
from glueball.tile.ir import TileFunction

RESULT = Path(__file__).parents[1] / "results" / "conversions.json"
BATCH = 20
TARGET_NAMES = {32: ("sm_90a", "sm_80", "gfx1250", "sm_120a"), 64: ("gfx950", "gfx942")}
BUDGETS = (None, 4096, 1024, 64)
"""Bytes of shared memory, so that tensors go through it whole and in pieces; None for all that the target has."""


def target_of(lanes: int, number: int) -> Target:
    """The targets with so many lanes and the budgets in turn, in all combinations."""
    names = TARGET_NAMES[lanes]
    target = TARGETS[names[number % len(names)]]
    budget = BUDGETS[(number + number // len(names)) % len(BUDGETS)]
    return target if budget is None else dataclasses.replace(target, shared_bytes=budget)


def kinds(function: TileFunction) -> Iterator[str]:
    """How each conversion of a kernel is done."""
    for operation in function.body.walk():
        plan = operation.attributes.get("plan")
        if plan is None or operation.opcode == "shared_load" or operation.attributes.get("round", 0):
            continue
        kind = type(plan).__name__
        if isinstance(plan, SharedRoundTrip):
            kind += ", in rounds" if plan.rounds > 1 else ""
            kind += ", ldmatrix" if plan.read.matrices else ""
            kind += ", stmatrix" if plan.write.matrices else ""
        yield kind


def convert(seed: int, count: int, path: Path) -> Counter[str]:
    """Converts random pairs on the simulator; how many were done in each way. Fails for a misplaced element."""
    found: Counter[str] = Counter()
    for number, batch in enumerate(batches(random_pairs(seed, count, batch=BATCH))):
        target = target_of(batch.pairs[0].lanes, seed + number)
        function, report, wrong = simulate(batch, target, path / f"conversions_{number}.py", seed)
        assert not wrong, [(target.name, target.shared_bytes, batch.pairs[index]) for index in wrong]
        counted = counted_wavefronts(report)
        for line, planned in planned_wavefronts(function).items():
            assert counted[line] == planned, (target.name, target.shared_bytes, line)
        found.update(kinds(function))
    assert sum(found.values()) == count
    return found


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_random_pairs(seed: int, tmp_path: Path) -> None:
    found = convert(seed, 100, tmp_path)
    assert {"Nothing", "Shuffles", "SharedRoundTrip", "SharedRoundTrip, in rounds"} <= set(found)


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_ten_thousand_random_pairs(tmp_path: Path) -> None:
    seed, count, start = 20261129, 10_000, time.perf_counter()
    found = convert(seed, count, tmp_path)
    assert {"SharedRoundTrip, ldmatrix", "SharedRoundTrip, stmatrix"} <= set(found)
    RESULT.parent.mkdir(exist_ok=True)
    content = {
        "pairs": count,
        "misplaced_elements": 0,
        "seed": seed,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.perf_counter() - start),
        "widths": WIDTHS,
        "targets": TARGET_NAMES,
        "shared_bytes": BUDGETS,
        "ways": dict(sorted(found.items())),
    }
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.timeout(600)
def test_a_thousand_random_pairs_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    done = 0
    for number, batch in enumerate(batches(random_pairs(7, 1000, lanes=(32,), batch=40))):
        kernel = batch.kernel(tmp_path / f"conversions_{number}.py")
        sources, destinations = batch.arrays(number)
        inputs = [torch.from_numpy(array).cuda() for array in sources]
        outputs = [torch.from_numpy(array).cuda() for array in destinations]
        arguments = [tensor for pair in zip(inputs, outputs, strict=True) for tensor in pair]
        kernel[(1,)](*arguments, num_warps=batch.pairs[0].warps)
        wrong = batch.misplaced(sources, [tensor.cpu().numpy() for tensor in outputs])
        assert not wrong, [batch.pairs[index] for index in wrong]
        done += len(batch.pairs)
    assert done == 1000
