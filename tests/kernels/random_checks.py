"""Random programs run on two executors and compared; one that shows a difference is reported, reduced and kept."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.harness import run
from tests.kernels.random_kernels import Generator
from tests.kernels.random_programs import NUMPY_TYPES, PROGRAMS, Bound, Program, RandomKernel, Statement

KEPT = Path(__file__).parent / "kept_kernels"
"""Kernels that once showed a difference, which are tests from then on."""
SHOWN_ELEMENTS = 6
MOST_ATTEMPTS = {"sim": 200, "gpu": 60}
"""Kernels tried to reduce one; machine code takes longer to make."""

Arrays = dict[str, np.ndarray]


def outputs_of(program: Program, executor: str, function: Any, variant: int = 0) -> Arrays:
    """What a program stores on an executor, given its built function and which of its inputs to take."""
    outputs = program.outputs()
    with pytest.MonkeyPatch.context() as patch:
        if executor != "gpu":
            patch.setenv("GLUEBALL_TARGET", program.target)

        def launch(*arrays: object) -> object:
            return function[(PROGRAMS,)](*arrays, program.n, num_warps=program.warps)

        run(executor, patch, launch, *program.inputs(variant).values(), *outputs.values())
    return outputs


def differences(program: Program, expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Which elements differ in more than the table of numbers permits."""
    if expected.dtype.kind in "biu":
        return expected != actual
    with np.errstate(all="ignore"):
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        same = (wide == other) & (np.signbit(wide) == np.signbit(other)) | np.isnan(wide) & np.isnan(other)
        if expected.dtype == np.float32:
            for bound in program.bounds:
                part = slice(bound.start, bound.start + bound.size)
                allowed = bound.absolute + bound.relative * np.abs(wide[part])
                same[part] |= np.abs(wide[part] - other[part]) <= allowed
    return ~same


def ulps(expected: np.ndarray, actual: np.ndarray) -> list[int]:
    """How many floats of the type lie from one value to the other; for integers their difference."""
    if expected.dtype.kind in "biu":
        return [int(b) - int(a) for a, b in zip(expected.tolist(), actual.tolist(), strict=True)]
    word = np.dtype(f"i{expected.dtype.itemsize}")
    half = 1 << (word.itemsize * 8 - 1)
    places = [[bits if bits >= 0 else -half - bits for bits in each.view(word).tolist()] for each in (expected, actual)]
    return [b - a for a, b in zip(*places, strict=True)]


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a program: a word or two that a reduced one must share, and all there is to say."""

    kind: str
    detail: str


def failure_of(program: Program, executor: str, variants: int = 1) -> Failure | None:
    """How an executor differs from the reference on a program; None where they agree."""
    function = program.build()
    for variant in range(variants):
        found: dict[str, Arrays] = {}
        for each in ("reference", executor):
            try:
                found[each] = outputs_of(program, each, function, variant)
            except Exception as error:
                lines = str(error).splitlines() or [""]
                return Failure(f"{type(error).__name__} on {each}: {lines[-1]}", str(error))
        lines = list(described(program, variant, found["reference"], found[executor], executor))
        if lines:
            return Failure("difference", "\n".join(lines))
    return None


def described(program: Program, variant: int, expected: Arrays, actual: Arrays, executor: str) -> Iterator[str]:
    """Each output that differs: where, by how much, and for an approximate function of which argument."""
    for kind, reference in expected.items():
        other = actual[kind]
        places = np.flatnonzero(differences(program, reference, other))
        if len(places) == 0:
            continue
        yield f"o_{kind}: {len(places)} of {len(reference)} elements differ; inputs of seed {[program.seed, variant]}"
        shown = places[:SHOWN_ELEMENTS]
        distances = ulps(reference[shown], other[shown])
        for place, distance in zip(shown.tolist(), distances, strict=True):
            values = [f"{array[place]!r} ({_bits(array, place)})" for array in (reference, other)]
            text = f"  [{place}] {values[0]} on reference, {values[1]} on {executor}, {distance} ulp apart"
            yield text + _of_function(program.bounds if kind == "float32" else [], place, reference)


def _bits(array: np.ndarray, place: int) -> str:
    return f"0x{int(array[place : place + 1].view(f'u{array.dtype.itemsize}')[0]):0{2 * array.dtype.itemsize}x}"


def _of_function(bounds: list[Bound], place: int, reference: np.ndarray) -> str:
    for bound in bounds:
        if bound.start <= place < bound.start + bound.size:
            argument = bound.argument + place - bound.start
            return (
                f": gl.{bound.function} of {reference[argument]!r} ({_bits(reference, argument)}), allowed relative "
                f"{bound.relative:.3g}, absolute {bound.absolute:.3g}"
            )
    return ""


def bodies_of(statements: list[Statement]) -> Iterator[list[Statement]]:
    """A body and all bodies in it, the inner ones first."""
    for statement in statements:
        for _, body in statement.bodies:
            yield from bodies_of(body)
    yield statements


def reduced(kernel: RandomKernel, executor: str, kind: str, variants: int = 1) -> RandomKernel:
    """The kernel without the statements whose absence leaves its failure as it is; later ones go first."""
    kernel, attempts, shrinking = copy.deepcopy(kernel), 0, True
    while shrinking:
        shrinking = False
        for body in bodies_of(kernel.statements):
            for index in reversed(range(len(body))):
                if body[index].needed or attempts >= MOST_ATTEMPTS[executor]:
                    continue
                attempts += 1
                dropped = body.pop(index)
                result = failure_of(kernel.program(), executor, variants)
                if result is not None and result.kind == kind:
                    shrinking = True
                else:
                    body.insert(index, dropped)
    return kernel


def keep(program: Program, failure: Failure, executor: str) -> Path:
    """Write a program down as a test; the file."""
    folder = Path(os.environ.get("GLUEBALL_FUZZ_KEEP") or KEPT)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed_{program.seed}_{executor}.json"
    facts = {"found": {"executor": executor, "detail": failure.detail.splitlines()}, **program.facts()}
    path.write_text(json.dumps(facts, indent=1) + "\n")
    return path


def report(kernel: RandomKernel, failure: Failure, executor: str, variants: int) -> str:
    """All about a kernel that failed: whole, reduced, what it reads and where it is kept."""
    small = reduced(kernel, executor, failure.kind, variants).program()
    left = failure_of(small, executor, variants) or failure
    path = keep(small, left, executor)
    inputs = "\n".join(
        f"# x_{kind} = {small.inputs()[kind][:8]!r} ..." for kind in NUMPY_TYPES if f"x_{kind} " in small.source
    )
    title = f"seed {kernel.seed}, {kernel.target}, {kernel.warps} warps, n = {kernel.n}: {failure.kind}"
    return (
        f"{title}\n{failure.detail}\n\n"
        f"{kernel.source()}\n# reduced, kept as {path}\n# {left.detail.replace(chr(10), chr(10) + '# ')}\n{inputs}\n\n"
        f"{small.source}"
    )


def check_seeds(first: int, count: int, executor: str, variants: int = 1, *, for_gpu: bool = False) -> None:
    """Fail with every kernel of these seeds on which the executors disagree; the first of them is reduced and kept.

    Kernels for a GPU are other ones, of that GPU's target alone.
    """
    reports = []
    for seed in range(first, first + count):
        kernel = Generator(seed, gpu=for_gpu or executor == "gpu").kernel()
        failure = failure_of(kernel.program(), executor, variants)
        if failure is not None and not reports:
            reports.append(report(kernel, failure, executor, variants))
        elif failure is not None:
            path = keep(kernel.program(), failure, executor)
            reports.append(f"seed {seed}: {failure.kind}, kept as {path}\n{failure.detail}")
    if reports:
        pytest.fail("\n\n".join(reports), pytrace=False)
