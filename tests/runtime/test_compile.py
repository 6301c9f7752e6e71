"""Compiling without a launch: sources, targets, what is known of the result, and compilation in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import AsyncCompileMode, FutureKernel, GluonASTSource
from glueball.backends.compiler import GPUTarget
from glueball.errors import CompilationError, OptionError, TargetError, UnknownOptionError
from glueball.gpu_target import described_target, target_of
from glueball.runtime.options import LaunchOptions
from glueball.targets import TARGETS
from tests.runtime import kernels
from tests.runtime.kernels import layout
from tests.runtime.settings import fresh

SIGNATURE = {"x": "*fp32", "y": "*kfp32", "n": "i32", "BLOCK": "constexpr", "spread": "constexpr"}


pytestmark = pytest.mark.usefixtures("own_settings")


def source(**changes: Any) -> GluonASTSource:
    described = {
        "signature": SIGNATURE | {"y": "*fp32"},
        "constexprs": {"BLOCK": 256, (4,): layout()},
        "attrs": {(0,): [["tt.divisibility", 16]], (2,): [["tt.divisibility", 16]]},
    } | changes
    return GluonASTSource(kernels.copy, **described)


def test_a_source_is_compiled_for_a_target() -> None:
    kernel = glueball.compile(source(), target=GPUTarget("cuda", 100, 32), options={"num_warps": 4, "maxnreg": 64})
    assert kernel.name == "copy"
    assert kernel.metadata.target == GPUTarget("cuda", 100, 32)
    assert kernel.metadata.maxnreg == 64
    assert ".target sm_100a" in kernel.asm["ptx"]
    same = glueball.compile_only(
        kernels.copy, "*fp32:16", "*fp32", "i32:16", 256, layout(), target="sm_100a", maxnreg=64
    )
    assert same is kernel


def test_facts_constants_and_positions() -> None:
    plain = glueball.compile(source(attrs=None))
    assert plain is not glueball.compile(source())
    by_position = glueball.compile(source(constexprs={3: 256, "spread": gl.constexpr(layout())}, attrs={}))
    assert by_position is plain
    fixed = glueball.compile(source(constexprs={"n": 5, "BLOCK": 256, "spread": layout()}))
    assert fixed.src.signature == {"x": "*fp32", "y": "*fp32", "n": "constexpr", "BLOCK": "constexpr",
                                   "spread": "constexpr"}  # fmt: skip
    assert fixed.src.constants[2,] == 5
    short = source(signature={"x": "*fp32", "y": "*fp32", "n": "i32"})
    assert glueball.compile(short) is glueball.compile(source())


def test_tuples_in_a_signature() -> None:
    @glueball.jit
    def kernel(pair: Any):
        gl.store(pair[0], pair[1][0] + pair[1][1])

    described = GluonASTSource(kernel, {"pair": ("*i32", ("i32", "constexpr"))}, {(0, 1, 1): 1})
    y = np.zeros(1, np.int32)
    assert glueball.compile(described).src.signature == described.signature
    kernel[(1,)]((y, (5, 1)))
    assert y.tolist() == [6]


def test_the_source_of_a_compiled_kernel_compiles_to_it() -> None:
    kernel = glueball.compile_only(kernels.copy, "*fp32:16", "*fp32", "i32:16", 256, layout())
    assert glueball.compile(kernel.src) is kernel
    assert kernel.src.hash() == kernel.src.hash() != source(attrs=None).hash()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"signature": {"x": "*fp32"}}, TypeError, "the signature names x, BLOCK, spread, and copy takes x, y, n,"),
        ({"constexprs": {"z": 3}}, TypeError, "'z' is no parameter"),
        ({"constexprs": {"BLOCK": 256}}, TypeError, "`spread` of copy is a constant, and `constexprs` has none"),
        ({"signature": SIGNATURE | {"n": "i33"}}, ValueError, "unknown type 'i33'"),
        ({"signature": SIGNATURE | {"n": 32}}, TypeError, "the type of parameter `n` is a text"),
    ],
)
def test_sources_that_make_no_sense(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        glueball.compile(source(**changes))


def test_what_is_no_source() -> None:
    with pytest.raises(TypeError, match="intermediate code in files is not compiled"):
        glueball.compile("kernel.ttgir")
    with pytest.raises(TypeError, match="a GluonASTSource is compiled"):
        glueball.compile(kernels.copy)
    with pytest.raises(TypeError, match=r"decorated with @glueball\.jit"):
        GluonASTSource(len, {})
    with pytest.raises(UnknownOptionError, match="num_wraps"):
        glueball.compile(source(), options={"num_wraps": 4})
    with pytest.raises(OptionError, match="launch_pdl"):
        glueball.compile(source(), target="sm_80", options={"launch_pdl": True})


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_targets_have_two_names(target: Any) -> None:
    assert target_of(described_target(target)) is target


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (GPUTarget("cuda", 75, 32), "does not compile for GPUTarget.*75.*; it does for GPUTarget"),
        (GPUTarget("hip", "gfx900", 64), "does not compile for"),
        (GPUTarget("cuda", 90, 64), "sm_90a has 32 lanes in a warp, not 64"),
        (GPUTarget("opencl", 90, 32), "does not compile for"),
        (3, "a target is a GPUTarget or named by a text"),
        ("sm_1", "unknown target 'sm_1'"),
    ],
)
def test_targets_that_are_none(described: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        glueball.compile(source(), target=described)


def test_generations_that_run_another_ones_code() -> None:
    assert target_of(GPUTarget("cuda", 86, 32)) is target_of(GPUTarget("cuda", 89, 32)) is TARGETS["sm_80"]


def test_what_is_known_of_a_kernel() -> None:
    kernel = glueball.compile_only(
        fresh(kernels.copy), "*fp32", "*fp32", "i32", 256, layout(warps=8), num_warps=8, target="sm_90a"
    )
    metadata = kernel.metadata
    assert metadata.hash == kernel.hash
    assert metadata._fields[:3] == ("name", "hash", "target")
    assert {field.name for field in fields(LaunchOptions)} <= set(metadata._fields), "every option"
    assert (metadata.name, metadata.arch, metadata.backend_name, metadata.warp_size) == ("copy", "sm_90a", "cuda", 32)
    assert (metadata.num_warps, metadata.num_ctas, metadata.num_stages) == (8, 1, 3)
    assert (metadata.maxnreg, metadata.debug, metadata.launch_pdl, metadata.launch_cooperative_grid) == (
        None, False, False, False,
    )  # fmt: skip
    assert (metadata.tmem_size, metadata.global_scratch_size, metadata.profile_scratch_size) == (0, 0, 0)
    assert metadata.glueball_version == glueball.__version__
    assert kernel.packed_metadata == (8, 1, 0)
    if "cubin" in kernel.asm:
        assert kernel.kernel == kernel.asm["cubin"]
        assert (kernel.n_regs, kernel.n_spills) == (kernel.machine_code.registers, 0)
    assert (kernel.function, kernel.module, kernel.n_max_threads, kernel.devices) == (None, None, None, ())


class Executor(ThreadPoolExecutor):
    """One that starts nothing before it is told to, and counts."""

    def __init__(self) -> None:
        super().__init__(2)
        self.may_start = threading.Event()
        self.submitted = 0

    def submit(self, fn: Any, /, *arguments: Any, **keywords: Any) -> Any:
        self.submitted += 1

        def run() -> Any:
            assert self.may_start.wait(30)
            return fn(*arguments, **keywords)

        return super().submit(run)


@pytest.fixture
def executor() -> Iterator[Executor]:
    with Executor() as found:
        yield found
        found.may_start.set()


def test_kernels_compile_in_the_background(executor: Executor) -> None:
    kernel = fresh(kernels.count_programs)
    y = np.zeros(2, np.int32)
    with AsyncCompileMode(executor):
        future = kernel.warmup(y, grid=(2,))
        assert isinstance(future, FutureKernel)
        assert kernel.warmup(y, grid=(2,)) is future
        assert kernel._kernels == {}
        executor.may_start.set()
        assert future.name == "count_programs"
        assert kernel[(2,)](y) is future.result()
        assert kernel.warmup(y) is future.result(), "compiled already"
    assert executor.submitted == 1
    assert y.tolist() == [1, 2]
    future[(1,)](y)
    assert kernel.warmup(y) is future.result()


def test_a_launch_in_the_block_waits_for_its_kernel(executor: Executor) -> None:
    executor.may_start.set()
    y = np.zeros(2, np.int32)
    with AsyncCompileMode(executor):
        assert fresh(kernels.count_programs)[(2,)](y).name == "count_programs"
    assert (y.tolist(), executor.submitted) == ([1, 2], 1)


def test_errors_come_at_the_end_of_the_block(executor: Executor) -> None:
    executor.may_start.set()
    y, broken, sound = np.zeros(1, np.int32), fresh(kernels.broken), fresh(kernels.count_programs)
    with pytest.raises(CompilationError, match="undefined_name"), AsyncCompileMode(executor):
        broken.warmup(y)
    with AsyncCompileMode(executor, ignore_errors=True):
        future, other = broken.warmup(y), sound.warmup(y)
    with pytest.raises(CompilationError, match="undefined_name"):
        future.result()
    assert other.result() is sound.warmup(y)
    with pytest.raises(ZeroDivisionError), AsyncCompileMode(executor):
        broken.warmup(y)
        raise ZeroDivisionError


def test_blocks_do_not_nest(executor: Executor) -> None:
    with AsyncCompileMode(executor), pytest.raises(RuntimeError, match="do not nest"), AsyncCompileMode(executor):
        pass
    assert fresh(kernels.nothing).warmup(5).name == "nothing", "outside nothing is a future"
