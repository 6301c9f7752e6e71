"""Launches: binding, options, grids, what a kernel was compiled from, and the kernel object."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import _runtime
from glueball.errors import (
    CompilationError,
    OptionError,
    OutOfBoundsError,
    OutOfResources,
    TargetError,
    UnknownOptionError,
)
from glueball.targets import TARGETS
from glueball.tile.types import pointer_type
from tests.runtime import kernels
from tests.runtime.kernels import copy, count_programs, layout, nothing, write_scalars

pytestmark = pytest.mark.usefixtures("simulated")


@pytest.fixture
def fresh() -> Any:
    """The kernels' module, its functions never launched."""
    return importlib.reload(kernels)


def test_copy() -> None:
    x = np.arange(300, dtype=np.float32)
    y = np.zeros(400, np.float32)
    kernel = copy[(3,)](x, y, x.size, 128, layout(), num_warps=4)
    assert (y[:300] == x).all()
    assert (y[300:] == 0).all()
    assert kernel.name == "copy"
    assert kernel.report is not None
    assert kernel is copy[3](x, y, 299, BLOCK=128, spread=layout())


def test_scalars_defaults_and_keywords() -> None:
    y = np.zeros(4, np.float64)
    write_scalars[(1,)](y, 2, 1e300)
    assert y.tolist() == [2, 1e300, 5, 0]
    write_scalars[(1,)](y, b=1, a=True, c=2**40, d=0.5)
    assert y.tolist() == [1, 1, 2.0**40, 0.5]


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "missing a required argument: 'y'"),
        ((1, 2, 3, 4, 5), {}, "takes 4 positional arguments but 5 were given"),
        ((1, 2), {"a": 3}, "got multiple values for argument 'a'"),
        ((1,), {"b": 3}, "missing a required argument: 'a'"),
    ],
)
def test_arguments_bind_as_pythons(arguments: Any, keywords: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"write_scalars\(\) ({message})"):
        write_scalars[(1,)](*arguments, **keywords)


def test_a_function_of_the_language_is_not_called() -> None:
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        copy(1, 2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_wraps": 4}, UnknownOptionError, "num_wraps was specified but unrecognised"),
        ({"num_wraps": 4}, KeyError, "num_wraps"),
        ({"num_warps": 3}, AssertionError, "num_warps=3: must be a power of two"),
        ({"num_warps": 0}, OptionError, "power of two"),
        ({"num_warps": 2.5}, OptionError, "must be an integer"),
        ({"num_ctas": 3}, ValueError, "num_ctas=3: must be a power of two up to 16"),
        ({"num_stages": -1}, OptionError, "negative"),
        ({"maxnreg": 1000}, OptionError, "maxnreg=1000"),
        ({"stream": 0}, AssertionError, "stream: the arguments and the current device"),
        ({"num_warps": 64}, OutOfResources, "threads, required 2048, limit 1024"),
    ],
)
def test_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nothing[(1,)](5, **options)


def test_options_without_effect_are_accepted() -> None:
    kernel = nothing[(1,)](5, num_warps=2, num_stages=7, enable_fp_fusion=True, sanitize_overflow=False, debug=False)
    assert (kernel.metadata.num_warps, kernel.metadata.num_stages) == (2, 7)


def test_option_that_is_also_a_parameter_sets_both() -> None:
    y = np.zeros(2, np.int32)

    @glueball.jit
    def kernel(y: Any, num_warps: gl.constexpr):
        gl.store(y, num_warps)
        gl.store(y + 1, gl.num_warps())

    kernel[(1,)](y, num_warps=8)
    assert y.tolist() == [8, 8]


@pytest.mark.parametrize("grid", [6, (6,), [6], (2, 3), [1, 2, 3], (np.int64(2), 3), lambda bound: (bound["y"].size,)])
def test_grids(grid: Any) -> None:
    y = np.zeros(6, np.int32)
    count_programs[grid](y)
    assert y.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((1, 65536), ValueError, "along y is 65536, over the limit of 65535"),
        ((1, 1, 65536), ValueError, "along z is 65536"),
        ((2**31,), ValueError, "along x is 2147483648, over the limit of 2147483647"),
        ((1, -2), ValueError, "along y is -2, which is negative"),
        ((1.5,), TypeError, "along x must be an integer, not float"),
        ((), ValueError, "one to three extents, not 0"),
        ((1, 1, 1, 1), ValueError, "one to three extents, not 4"),
        ("12", TypeError, "must be an integer, not str"),
        (lambda bound: None, TypeError, "must be an integer, not NoneType"),
    ],
)
def test_bad_grids(grid: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        count_programs[grid](np.zeros(1, np.int32))


def test_empty_grid_runs_nothing_but_still_checks() -> None:
    y = np.zeros(1, np.int32)
    for grid in ((0,), (1, 0), lambda bound: (1, 1, 0)):
        assert count_programs[grid](y).name == "count_programs"
    assert y.tolist() == [0]
    with pytest.raises(TypeError, match="missing a required argument"):
        count_programs[(0,)]()


def test_launchers_are_kept_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nothing[(5,)] is nothing[(5,)]
    monkeypatch.setattr("glueball.runtime.launchable.LAUNCHER_LIMIT", 3)
    for extent in range(10):
        nothing[(extent,)](5)
    assert len(nothing._launchers) <= 3


def test_kernels_are_compiled_once_per_specialisation() -> None:
    compiled = [nothing[(1,)](value) for value in (2, 3, 16, 32, 1, True, None, 2.0, 2**40, 2)]
    assert compiled[0] is compiled[1] is compiled[-1]
    assert compiled[2] is compiled[3]
    assert len(set(map(id, compiled))) == 7


def test_changed_global_is_noticed(fresh: Any) -> None:
    y = np.zeros(1, np.int32)
    fresh.step[(1,)](y)
    fresh.STEP = gl.constexpr(1)
    fresh.step[(1,)](y)
    fresh.STEP = gl.constexpr(3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"STEP .* has changed since we compiled this kernel"):
            fresh.step[(1,)](y)
    fresh.STEP = gl.constexpr(1)
    fresh.step[(1,)](y)
    assert y.tolist() == [3]


def test_changed_callee_is_noticed(fresh: Any) -> None:
    y = np.zeros(1, np.int32)
    fresh.step[(1,)](y)
    fresh.plus_step = fresh.nothing
    with pytest.raises(RuntimeError, match="has changed since we compiled this kernel"):
        fresh.step[(1,)](y)


def test_changed_python_function_is_noticed(fresh: Any) -> None:
    y = np.zeros(1, np.int32)
    fresh.write_four[(1,)](y)
    assert y.tolist() == [4]
    fresh.plain_two = lambda: 3
    with pytest.raises(RuntimeError, match="has changed since we compiled this kernel"):
        fresh.write_four[(1,)](y)


def test_changed_closure_is_noticed() -> None:
    value = gl.constexpr(1)

    @glueball.jit
    def kernel(y: Any):
        gl.store(y, value)

    y = np.zeros(1, np.int32)
    kernel[(1,)](y)
    value = gl.constexpr(2)
    with pytest.raises(RuntimeError, match=r"value .* has changed since we compiled this kernel"):
        kernel[(1,)](y)
    assert y.tolist() == [1]


def test_failed_compilation_leaves_everything_usable(fresh: Any) -> None:
    y = np.zeros(1, np.int32)
    for _ in range(2):
        with pytest.raises(CompilationError, match="undefined_name"):
            fresh.broken[(1,)](y)
    fresh.undefined_name = gl.constexpr(4)
    fresh.broken[(1,)](y)
    assert y.tolist() == [4]


def test_repr_names_the_kernel() -> None:
    def name(info: Any) -> str:
        return f"kernel_{info.constants['B']}_{info.signature['n']}" if info.constants["B"] else "no name"

    @glueball.jit(repr=name, do_not_specialize=["n"], launch_metadata=lambda *_: {})
    def kernel(n: Any, B: gl.constexpr):
        pass

    assert kernel[(1,)](1, 8).name == "kernel_8_int32"
    assert "kernel @kernel_8_int32" in kernel[(1,)](1, 8).asm["tile"]
    with pytest.raises(ValueError, match="'no name', which is not an identifier"):
        kernel[(1,)](1, 0)


def test_decorator_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="lambda"):
        glueball.jit(lambda x: x)
    with pytest.raises(TypeError, match="function written with `def`"):
        glueball.jit(len)
    with pytest.raises(TypeError, match="'m', which is no parameter"):
        glueball.jit(do_not_specialize=["m"])(nothing.fn)


def test_function_with_star_arguments_is_called_but_not_launched() -> None:
    @glueball.jit
    def second(*values: Any):
        return values[1]

    @glueball.jit
    def kernel(y: Any):
        gl.store(y, second(3, 4))

    y = np.zeros(1, np.int32)
    kernel[(1,)](y)
    assert y.tolist() == [4]
    with pytest.raises(TypeError, match=r"kernels do not support \*values"):
        second[(1,)](1)


def test_warmup_compiles_and_runs_nothing() -> None:
    y = np.zeros(1, np.int32)
    kernel = count_programs.warmup(y, grid=(1,))
    assert y.tolist() == [0]
    assert kernel is count_programs[(1,)](y)


def test_compiled_kernel_launches() -> None:
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel = copy[(1,)](x, y, 200, 128, layout())
    y[:] = 0
    kernel[(2, 1, 1)](x, y, 250, 128, layout())
    assert (y == np.where(np.arange(256) < 250, x, 0)).all()
    with pytest.raises(TypeError, match="takes all its 5 arguments"):
        kernel[(1,)](x, y)
    with pytest.raises(TypeError, match="`BLOCK` is compiled as the constant 128, not 64"):
        kernel[(1,)](x, y, 250, 64, layout())
    with pytest.raises(TargetError, match="compiled for sm_100a, not for sm_90a"):
        glueball.compile_only(copy, x, y, 5, 128, layout(), target="sm_100a")[(1,)](x, y, 5, 128, layout())


def test_threads_share_a_function() -> None:
    outputs = [np.zeros(64, np.int32) for _ in range(8)]
    threads = [threading.Thread(target=lambda y=y: count_programs[(64,)](y)) for y in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == np.arange(1, 65)).all() for y in outputs)


@pytest.mark.parametrize("target", TARGETS)
def test_compile_only_for_every_target(target: str) -> None:
    spread = layout(TARGETS[target].lanes, 2)
    kernel = glueball.compile_only(
        copy, "*fp32:16", pointer_type(gl.float32), "i32", 256, spread, target=target, num_warps=2
    )
    assembly = "ptx" if TARGETS[target].family == "nvidia" else "amdgcn"
    listed = list(kernel.asm)
    assert listed[:5] == ["source", "tile", "thread", "llir", assembly]
    assert all(kernel.asm[name] for name in listed)
    assert "copy" in kernel.asm[assembly]
    assert kernel.asm["source"].startswith("def copy(")
    assert (kernel.metadata.arch, kernel.metadata.num_warps, kernel.metadata.shared) == (target, 2, 0)
    for missing in ("ttgir", "ptx" if assembly == "amdgcn" else "amdgcn"):
        assert missing not in kernel.asm
        with pytest.raises(KeyError, match="has no stage"):
            kernel.asm[missing]
    if "cubin" in kernel.asm:
        assert kernel.asm["cubin"][:4] == b"\x7fELF"
        assert kernel.n_regs is not None
        assert kernel.n_regs > 0
        assert kernel.n_spills == 0
    else:
        assert kernel.n_regs is None


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        (("*fp32", "*fp32", 5, 128), {}, TypeError, "missing a required argument: 'spread'"),
        (("*fp99", "*fp32", 5, 128, layout()), {}, ValueError, r"unknown type '\*fp99'"),
        (("*fp32:x", "*fp32", 5, 128, layout()), {}, ValueError, "after the colon"),
        (("*fp32:3", "*fp32", 5, 128, layout()), {}, ValueError, "not a power of two"),
        (
            ("*fp32", "*fp32", 5, 128, layout()),
            {"target": "sm_1"},
            TargetError,
            "unknown target 'sm_1'; the known ones",
        ),
        (("*fp32", "*fp32", 5, 128, layout()), {"target": 90}, TargetError, "not by 90"),
        (("*fp32", "*fp32", 5, 128, layout()), {"num_wraps": 1}, UnknownOptionError, "num_wraps"),
        (("*fp32", "*fp32", 5, 128, layout()), {"num_warps": 2}, CompilationError, "warps"),
        (("*fp32", "*fp32", 5, 128, layout()), {"target": "gfx950", "maxnreg": 64}, OptionError, "NVIDIA targets"),
    ],
)
def test_compile_only_errors(arguments: Any, keywords: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        glueball.compile_only(copy, *arguments, **keywords)


def test_compile_only_needs_a_kernel() -> None:
    with pytest.raises(TypeError, match=r"decorated with @glueball.jit"):
        glueball.compile_only(len, 5)  # type: ignore[arg-type]


def test_dump_writes_every_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_DUMP", str(tmp_path / "dump"))

    @glueball.jit
    def kernel(y: Any):
        gl.store(y, 1)

    kernel[(1,)](np.zeros(1, np.int32))
    (folder,) = (tmp_path / "dump").iterdir()
    names = {path.name for path in folder.iterdir()}
    assert {"kernel.source", "kernel.tile", "kernel.thread", "kernel.llir", "kernel.ptx"} <= names


def test_verify_knob_runs_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setenv("GLUEBALL_VERIFY", "on")
    monkeypatch.setattr("glueball.tile.verifier.verify", lambda function, target: seen.append(function.name))

    @glueball.jit
    def kernel(y: Any):
        gl.store(y, 1)

    kernel[(1,)](np.zeros(1, np.int32))
    assert len(seen) > 2
    assert set(seen) == {"kernel"}


def test_isolated_code_generation_gives_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def assembly() -> Any:
        @glueball.jit
        def kernel(y: Any):
            gl.store(y, 1)

        return glueball.compile_only(kernel, "*i32", target="gfx950").asm["amdgcn"]

    here = assembly()
    monkeypatch.setenv("GLUEBALL_ISOLATE_CODEGEN", "1")
    assert assembly() == here


def run_python(program: str, **environment: str) -> list[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths, **environment}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return [done.stdout.strip(), done.stderr.strip()]


def test_import_defers_everything_heavy() -> None:
    program = """
import sys
import glueball
heavy = ("numpy", "llvmlite", "ml_dtypes", "cuda", "platformdirs", "torch")
print([name for name in heavy if name in sys.modules])
"""
    assert run_python(program)[0] == "[]"


def test_simulation_needs_no_llvm() -> None:
    program = """
import sys
import numpy as np
from tests.runtime.kernels import count_programs
y = np.zeros(3, np.int32)
count_programs[(3,)](y)
print(y.tolist(), "llvmlite" in sys.modules, "torch" in sys.modules)
"""
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *(path for path in sys.path if path)])
    for executor in ("sim", "reference"):
        assert run_python(program, GLUEBALL_EXECUTOR=executor, PYTHONPATH=paths)[0] == "[1, 2, 3] False False"


def test_modules_load_when_they_are_named() -> None:
    program = """
import glueball
print(glueball.nvidia.hopper.TensorDescriptor.__name__, glueball.tools.LinearLayout.__name__, glueball.amd.__name__)
"""
    assert run_python(program)[0] == "TensorDescriptor LinearLayout glueball.amd"


def test_other_paths_of_names() -> None:
    for name in ("KernelInterface", "MockTensor", "TensorWrapper", "constexpr_function", "reinterpret"):
        assert getattr(glueball.runtime.jit, name) is getattr(glueball, name)
    for name in ("GluonASTSource", "GluonJITFunction", "constexpr_function", "jit"):
        assert getattr(_runtime, name) is getattr(glueball, name)
    with pytest.raises(AttributeError, match=r"'glueball\.runtime' has no attribute 'nonsense'"):
        glueball.runtime.jit.nonsense  # noqa: B018


def test_names_of_the_package() -> None:
    assert set(glueball.__all__) <= set(dir(glueball))
    for name in glueball.__all__:
        assert getattr(glueball, name) is not None
    assert (glueball.cdiv(7, 2), glueball.next_power_of_2(100)) == (4, 128)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        glueball.nonsense  # noqa: B018


def test_dump_that_cannot_be_written_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: Any
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GLUEBALL_DUMP", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"GLUEBALL_DUMP=.*file: the stages cannot be written"):
        glueball.compile_only(fresh.nothing, "i32")


def test_functions_are_pickled_and_copied_by_name() -> None:
    assert pickle.loads(pickle.dumps(kernels.copy)) is kernels.copy  # noqa: S301 - its own
    assert deepcopy(kernels.copy) is kernels.copy


@glueball.jit
def launch_another(value: gl.constexpr):
    nothing[(1,)](value)


def test_kernels_launch_no_kernels() -> None:
    with pytest.raises(CompilationError, match="a kernel cannot launch `nothing`"):
        launch_another[(1,)](3)


@glueball.jit
def store_far(x_ptr, n):
    gl.store(x_ptr + n + 2**61, 1.0)


@glueball.jit
def store_around(x_ptr):
    gl.store(x_ptr + 2**62 + 1, 1.0)


def test_constant_offsets_count_modulo_64_bits() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(OutOfBoundsError):
        store_far[(1,)](x, 5)
    store_around[(1,)](x)
    assert x.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
