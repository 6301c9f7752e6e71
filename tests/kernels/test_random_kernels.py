"""Random kernels give the same bits on every executor, but for functions that hardware approximates.

The seed of the run is printed. A kernel that fails is printed in full, and again with every statement dropped that its
failure does not need.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.harness import run
from tests.kernels.random_kernels import Generator
from tests.kernels.random_programs import PROGRAMS, RandomKernel, Statement

CI_KERNELS = 150
DEEP_KERNELS = 2000
GROUP = 25
SEED = int(os.environ.get("GLUEBALL_FUZZ_SEED", "0"))
GPU_KERNELS = int(os.environ.get("GLUEBALL_FUZZ_COUNT", "200"))


def outputs_of(kernel: RandomKernel, executor: str, number: int) -> dict[str, np.ndarray]:
    """What a kernel stores on an executor."""
    function = kernel.build(number)
    inputs, outputs = kernel.arguments()
    with pytest.MonkeyPatch.context() as patch:
        if executor != "gpu":
            patch.setenv("GLUEBALL_TARGET", kernel.target)

        def launch(*arrays: object) -> object:
            return function[(PROGRAMS,)](*arrays, kernel.n, num_warps=kernel.warps)

        run(executor, patch, launch, *inputs, *outputs.values())
    return outputs


def differences(kernel: RandomKernel, expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Which elements differ in more than the table of numbers permits."""
    if expected.dtype.kind in "biu":
        return expected != actual
    with np.errstate(all="ignore"):
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        same = (wide == other) & (np.signbit(wide) == np.signbit(other)) | np.isnan(wide) & np.isnan(other)
        if expected.dtype == np.float32:
            for bound in kernel.bounds:
                part = slice(bound.start, bound.start + bound.size)
                allowed = bound.absolute + bound.relative * np.abs(wide[part])
                same[part] |= np.abs(wide[part] - other[part]) <= allowed
    return ~same


def failure(kernel: RandomKernel, executor: str, number: int = 0) -> tuple[str, str] | None:
    """The kind of a kernel's failure and what there is to say about it; None where the executors agree."""
    outputs = []
    for each in ("reference", executor):
        try:
            outputs.append(outputs_of(kernel, each, number))
        except Exception as error:
            return f"{type(error).__name__} on {each}: {str(error).splitlines()[-1]}", str(error)
    found = {}
    for kind, expected in outputs[0].items():
        places = np.flatnonzero(differences(kernel, expected, outputs[1][kind]))
        if len(places):
            found[kind] = places[:6], expected[places[:6]], outputs[1][kind][places[:6]]
    detail = "\n".join(f"{kind} at {a}: {b} on reference, {c} on {executor}" for kind, (a, b, c) in found.items())
    return ("difference", detail) if found else None


def bodies_of(statements: list[Statement]) -> Iterator[list[Statement]]:
    """A body and all bodies in it, the inner ones first."""
    for statement in statements:
        for _, body in statement.bodies:
            yield from bodies_of(body)
    yield statements


def reduced(kernel: RandomKernel, executor: str, kind: str) -> RandomKernel:
    """The kernel without the statements whose absence leaves its failure as it is; later ones go first."""
    kernel, number, shrinking = copy.deepcopy(kernel), 0, True
    while shrinking:
        shrinking = False
        for body in bodies_of(kernel.statements):
            for index in reversed(range(len(body))):
                if body[index].needed:
                    continue
                number += 1
                dropped = body.pop(index)
                result = failure(kernel, executor, number)
                if result is not None and result[0] == kind:
                    shrinking = True
                else:
                    body.insert(index, dropped)
    return kernel


def check(seed: int, executor: str) -> None:
    """Fail with the kernel of a seed, whole and reduced, where the executors disagree."""
    kernel = Generator(seed, gpu=executor == "gpu").kernel()
    result = failure(kernel, executor)
    if result is None:
        return
    kind, detail = result
    small = reduced(kernel, executor, kind)
    pytest.fail(
        f"seed {seed}, {kernel.target}, {kernel.warps} warps, n = {kernel.n}: {kind}\n{detail}\n\n{kernel.source()}\n"
        f"# reduced\n\n{small.source()}",
        pytrace=False,
    )


def groups(count: int) -> list[int]:
    return list(range(SEED, SEED + count, GROUP))


def check_group(first: int, executor: str, count: int = GROUP) -> None:
    print(f"{count} random kernels from seed {first}")
    for seed in range(first, first + count):
        check(seed, executor)


@pytest.mark.parametrize("first", groups(CI_KERNELS))
def test_simulator_and_reference_agree(first: int) -> None:
    check_group(first, "sim")


@pytest.mark.deep
@pytest.mark.parametrize("first", [seed + CI_KERNELS for seed in groups(DEEP_KERNELS)])
def test_simulator_and_reference_agree_on_many(first: int) -> None:
    check_group(first, "sim")


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.timeout(1200)
def test_gpu_and_reference_agree() -> None:
    check_group(SEED, "gpu", GPU_KERNELS)


def test_a_difference_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong simulator is reported, with the one statement that shows it."""
    kernel = Generator(3).kernel()
    kernel.output_sizes["int32"] = kernel.output_sizes.get("int32", 0) + PROGRAMS
    place = kernel.output_sizes["int32"] - PROGRAMS
    kernel.statements.append(Statement(f"gl.store(o_int32 + {place} + pid, n)"))
    assert failure(kernel, "sim") is None
    true_outputs = outputs_of

    def wrong(kernel: RandomKernel, executor: str, number: int) -> dict[str, np.ndarray]:
        outputs = true_outputs(kernel, executor, number)
        if executor == "sim":
            outputs["int32"][place] ^= outputs["int32"][place] != 0
        return outputs

    monkeypatch.setattr("tests.kernels.test_random_kernels.outputs_of", wrong)
    result = failure(kernel, "sim")
    assert result is not None and result[0] == "difference"
    small = reduced(kernel, "sim", "difference")
    assert [statement.text for statement in small.statements] == [
        "pid = gl.program_id(0)",
        f"gl.store(o_int32 + {place} + pid, n)",
    ]
