"""The table of what is promised, and the names by which programs find things."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

import glueball
from glueball import errors
from glueball.targets import DEFAULT_TARGET
from tests.runtime.coverage import COVERAGE
from tests.runtime.fake_gpu import FakeDriver
from tests.runtime.settings import clean_knobs, fake_driver

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("promise", COVERAGE)
def test_every_promise_has_tests(promise: str) -> None:
    assert COVERAGE[promise]
    for place in COVERAGE[promise]:
        file, name = place.split("::")
        tree = ast.parse((FOLDER / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("glueball", "compile jit GluonASTSource GluonJITFunction GPUTarget KernelInterface MockTensor TensorWrapper"),
        ("glueball", "reinterpret set_allocator AsyncCompileMode FutureKernel cdiv next_power_of_2 TritonError"),
        ("glueball.backends.compiler", "GPUTarget"),
        ("glueball.compiler", "ASTSource CompiledKernel CompilationError LazyDict compile errors max_shared_mem"),
        ("glueball.compiler.errors", "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct"),
        ("glueball.runtime", "JITFunction KernelInterface MockTensor OutOfResources TensorWrapper driver errors"),
        ("glueball.runtime", "Autotuner Config Heuristics autotune heuristics reinterpret cache jit InterpreterError"),
        ("glueball.runtime.errors", "AutotunerError InterpreterError OutOfResources PTXASError TritonError"),
        ("glueball.errors", "TritonError PTXASError AutotunerError InterpreterError OutOfResources CompilationError"),
        ("glueball.knobs", "runtime compilation cache autotuning refresh_knobs HookChain"),
    ],
)
def test_names_by_the_paths_that_programs_import(module: str, names: str) -> None:
    found = importlib.import_module(module)
    for name in names.split():
        assert getattr(found, name) is not None
    with pytest.raises(AttributeError):
        _ = found.nonsense


def test_errors_by_the_names_that_programs_catch() -> None:
    assert errors.TritonError is errors.GlueballError is glueball.TritonError
    for kind in (errors.CompilationError, errors.OutOfResources, errors.PTXASError, errors.AutotunerError):
        assert issubclass(kind, errors.TritonError)
    assert issubclass(errors.PTXASError, errors.CodeGenerationError)
    assert issubclass(errors.CompilationError, RuntimeError)
    assert issubclass(errors.UnknownOptionError, KeyError)
    assert issubclass(errors.OptionError, AssertionError)
    assert issubclass(errors.OptionError, ValueError)
    assert errors.InterpreterError is errors.SimulationError
    error = errors.OutOfResources(300000, 232448, "shared memory")
    assert (error.required, error.limit, error.name) == (300000, 232448, "shared memory")


def test_the_assembler_refuses_with_an_error_of_its_own() -> None:
    from glueball.codegen import assemble, assembler_versions

    if len(assembler_versions()) < 2:
        pytest.skip("no assembler for PTX is installed")
    with pytest.raises(errors.PTXASError, match="refused the PTX"):
        assemble(".version 8.0\n.target sm_90a\nnonsense\n", DEFAULT_TARGET)


def test_the_active_driver_without_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with clean_knobs(monkeypatch, tmp_path):
        active = glueball.runtime.driver.active
        assert not active.is_active()
        assert active.get_current_target() == glueball.GPUTarget("cuda", 90, 32)
        assert (active.get_current_device(), active.get_current_stream()) == (0, 0)
        assert active.utils.get_device_properties(0) == {
            "max_shared_mem": DEFAULT_TARGET.shared_bytes, "max_num_regs": 65536, "multiprocessor_count": 1,
            "warpSize": 32,
        }  # fmt: skip
        monkeypatch.setenv("GLUEBALL_TARGET", "gfx950")
        assert active.get_current_target() == glueball.GPUTarget("hip", "gfx950", 64)
        assert active.get_benchmarker() is glueball.testing.do_bench


def test_the_active_driver_with_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with clean_knobs(monkeypatch, tmp_path), fake_driver(monkeypatch, capabilities=[(10, 0)]) as driver:
        _properties(driver)
        active: Any = glueball.runtime.driver.active
        assert active.is_active()
        assert active.get_current_target() == glueball.GPUTarget("cuda", 100, 32)
        assert active.utils.get_device_properties(0)["multiprocessor_count"] == 132
        assert glueball.compiler.max_shared_mem(0) == 232448


@pytest.mark.torch
def test_where_tensors_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch

    with clean_knobs(monkeypatch, tmp_path):
        active = glueball.runtime.driver.active
        assert active.get_active_torch_device() == torch.device("cpu")
        with fake_driver(monkeypatch, capabilities=[(9, 0)]):
            assert active.get_active_torch_device() == torch.device("cuda", 0)


def _properties(driver: FakeDriver) -> None:
    driver.multiprocessor_count = lambda index: 132  # type: ignore[attr-defined]
    driver.max_shared_bytes = lambda index: 232448  # type: ignore[attr-defined]
