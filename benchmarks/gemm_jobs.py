"""What `gemm.py` measures: products, with glueball's way to each, cuBLAS's, and Gluon's where there is one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import peer
import torch

from glueball.kernels import gemm_ladder, gemm_steps
from glueball.kernels.gemm_ladder import STEPS, Step
from glueball.kernels.ladder import Launch
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.products import describe, prepare

SERIES = (512, 1024, 2048, 4096, 8192, 16384)
SIDE = 8192
ODD = (
    (1, 1, 20000), (1, 20000, 1), (13, 1, 1), (7, 13, 19), (1, 4096, 4096), (4096, 1, 4095), (2, 20000, 20000),
    (16, 4096, 4096), (33, 4096, 4097), (64, 8192, 8192), (64, 20000, 64), (100, 100, 100), (127, 129, 131),
    (128, 128, 20000), (255, 257, 20000), (1000, 1000, 1000), (1023, 1025, 1027), (2048, 2048, 1), (3000, 3000, 17),
    (4097, 4095, 4093), (5000, 5000, 5000), (12345, 678, 910), (20000, 20000, 8), (20000, 1000, 20000),
)  # fmt: skip
"""M, N, K of the shapes that tiles do not divide."""
STEP_SIDE = 4096
GLUON_STEP = 7
"""The last version that Gluon runs, persistent and pipelined as in its tutorials: v8 does not end there."""
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Greatest error over greatest magnitude of a result: its rounding, and that of sums taken in another order."""


class Pool:
    """Memory that all jobs share: freed memory is scrubbed in the background, which would disturb what runs next."""

    def __init__(self, elements: int) -> None:
        self._numbers = [torch.randn(elements, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        self._result = torch.empty(elements, device="cuda", dtype=torch.bfloat16)

    def matrices(self, rows: int, columns: int, inner: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        """Random `a` and `b`, and memory for the result, of a type of 16 bits."""
        extents = ((rows, inner), (inner, columns))
        a, b = (
            self._numbers[index][: shape[0] * shape[1]].to(dtype).view(shape) for index, shape in enumerate(extents)
        )
        return a, b, self._result[: rows * columns].view(dtype).view(rows, columns)


@dataclass(frozen=True, slots=True)
class Job:
    """A product, by several sides; `result` is where each leaves it, `exact` gives it in float32 for some rows."""

    name: str
    sides: dict[str, Callable[[], Any]]
    result: torch.Tensor
    exact: Callable[[slice], torch.Tensor]
    operations: int
    detail: str = ""


def series(pool: Pool, kind: str, gluon: ModuleType | None) -> Iterator[Job]:
    """16-bit products of 8192 x 8192 x K."""
    for inner in SERIES:
        a, b, c = pool.matrices(SIDE, SIDE, inner, TYPES[kind])
        job = plain(f"{kind} {SIDE}x{SIDE}x{inner}", a, b, c)
        if gluon is not None:
            job.sides["gluon"] = gluon_launch(STEPS[GLUON_STEP], gluon, a, b, c).run
        yield job


def odd(pool: Pool, kind: str) -> Iterator[Job]:
    """16-bit products of shapes that tiles do not divide."""
    for rows, columns, inner in ODD:
        yield plain(f"{kind} {rows}x{columns}x{inner}", *pool.matrices(rows, columns, inner, TYPES[kind]))


def plain(name: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, plan: Plan | None = None) -> Job:
    """A 16-bit product, by glueball and cuBLAS."""
    ours = prepare(*describe(a, b, c), plan)
    sides = {"glueball": runner(ours), "cublas": lambda: torch.mm(a, b, out=c)}
    return Job(name, sides, c, lambda part: a[part].float() @ b.float(), operations(a, b), described(ours))


def narrow(pool: Pool) -> Iterator[Job]:
    """8-bit products of 8192 cubed, scaled as a whole and by rows and columns."""
    wide_a, wide_b, c = pool.matrices(SIDE, SIDE, SIDE, torch.bfloat16)
    a, b = wide_a.to(torch.float8_e4m3fn), wide_b.to(torch.float8_e4m3fn).t().contiguous().t()
    scales = {
        "tensor": (torch.full((1, 1), 0.5, device="cuda"), torch.full((1, 1), 2.0, device="cuda")),
        "rows": (torch.rand(SIDE, 1, device="cuda") + 0.5, torch.rand(1, SIDE, device="cuda") + 0.5),
    }
    for label, (scale_a, scale_b) in scales.items():
        ours = prepare(*describe(a, b, c, scale_a=scale_a, scale_b=scale_b))
        yield Job(
            f"fp8 {SIDE}x{SIDE}x{SIDE} {label}",
            {"glueball": runner(ours), "cublas": scaled(a, b, c, scale_a, scale_b)},
            c, exact_scaled(a, b, scale_a, scale_b), operations(a, b), described(ours),
        )  # fmt: skip


def scaled(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> Callable[[], Any]:
    """torch's product of 8-bit floats, summed as fast as it can."""
    return lambda: torch._scaled_mm(
        a, b, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True, out=c
    )


def exact_scaled(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> Callable[[slice], torch.Tensor]:
    """The same of some rows in float32."""

    def exact(part: slice) -> torch.Tensor:
        row_scale = scale_a[part] if scale_a.numel() > 1 else scale_a
        return (a[part].float() @ b.float()) * row_scale * scale_b

    return exact


def steps(pool: Pool, gluon: ModuleType | None) -> Iterator[Job]:
    """Every version of the ladder, 4096 cubed."""
    a, b, c = pool.matrices(STEP_SIDE, STEP_SIDE, STEP_SIDE, torch.float16)
    for step in STEPS:
        sides = {"glueball": gemm_ladder.launch(step, a, b, c).run, "cublas": lambda: torch.mm(a, b, out=c)}
        if gluon is not None and step in STEPS[: GLUON_STEP + 1]:
            sides["gluon"] = gluon_launch(step, gluon, a, b, c).run
        yield Job(step.name, sides, c, lambda part: a[part].float() @ b.float(), operations(a, b), step.idea)


def gluon_steps() -> ModuleType | None:
    """The versions as Gluon kernels: the same source with other import lines; `None` without Gluon."""
    if peer.peer_module() is None:
        return None
    return peer.translated(inspect.getsource(gemm_steps), "gluon_gemm_steps")


def gluon_launch(
    step: Step, gluon: ModuleType, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, **constants: int
) -> Launch:
    """A version's launch by Gluon, some of its constants replaced."""
    from triton.experimental.gluon import language
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    def make(matrix: torch.Tensor, block: list[int]) -> Any:
        layout = language.NVMMASharedLayout(min(128, 2 * block[1]), 16, 2)
        return TensorDescriptor.from_tensor(matrix, block, layout)

    return gemm_ladder.launch(step, a, b, c, module=gluon, describe=make, **constants)


def runner(launches: list[Launch]) -> Callable[[], Any]:
    """Makes the launches in order."""

    def run() -> None:
        for launch in launches:
            launch.run()

    return run


def operations(a: torch.Tensor, b: torch.Tensor) -> int:
    """Multiplications and additions."""
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


def described(launches: list[Launch]) -> str:
    """The kernels, and what the last one was compiled for."""
    form = launches[-1].keywords["FORM"]
    names = " ".join(launch.kernel.__name__ for launch in launches)
    return (
        f"{names} {form.block_m}x{form.block_n}x{form.block_k} group {form.group} splits {form.splits} stages "
        f"{form.stages} chunks {form.chunks} grid {launches[-1].grid}"
    )
