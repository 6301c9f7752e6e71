"""Launch options: what each does to code and launches, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import knobs
from glueball.errors import OptionError, SimulationError, UnknownOptionError
from glueball.runtime.options import LaunchOptions, read_options
from glueball.targets import TARGETS
from tests.runtime import kernels
from tests.runtime.fake_gpu import FakeDriver
from tests.runtime.kernels import layout
from tests.runtime.settings import fresh

pytestmark = pytest.mark.usefixtures("own_settings")


def copied(target: str, **options: Any) -> Any:
    spread = layout(TARGETS[target].lanes)
    return glueball.compile_only(fresh(kernels.copy), "*fp32", "*fp32", "i32", 256, spread, target=target, **options)


def test_maxnreg_reaches_the_assembler() -> None:
    assert ".maxnreg 32" in copied("sm_90a", maxnreg=32).asm["ptx"]
    assert ".maxnreg" not in copied("sm_90a").asm["ptx"]
    with pytest.raises(OptionError, match="maxnreg=32: a cap on registers exists on NVIDIA targets, not on gfx950"):
        copied("gfx950", maxnreg=32)


def test_waves_per_eu_reaches_amd_code_only() -> None:
    def vector_registers(**options: Any) -> str:
        kernel = copied("gfx950", **options)
        return str(kernel.asm["llir"])

    assert '"amdgpu-waves-per-eu"="2"' in vector_registers(waves_per_eu=2)
    assert "amdgpu-waves-per-eu" not in vector_registers(waves_per_eu=0)
    with pytest.raises(KeyError, match="waves_per_eu was specified but unrecognised on sm_90a"):
        copied("sm_90a", waves_per_eu=2)
    with pytest.raises(OptionError, match="waves_per_eu=11: must be from 1 to 10"):
        copied("gfx950", waves_per_eu=11)


def test_num_stages_has_the_targets_default() -> None:
    stages = {name: copied(name).metadata.num_stages for name in TARGETS}
    assert stages == {name: 3 if target.family == "nvidia" else 2 for name, target in TARGETS.items()}
    assert copied("gfx950", num_stages=5).metadata.num_stages == 5


@glueball.jit
def asserting(n: Any):
    assert n == 3, "not three"


def test_debug_comes_from_the_launch_then_the_function_then_the_knob() -> None:
    def stops(kernel: Any, **options: Any) -> bool:
        try:
            kernel[(1,)](7, **options)
        except SimulationError:
            return True
        return False

    assert [stops(fresh(asserting), **options) for options in ({}, {"debug": True}, {"debug": False})] == [0, 1, 0]
    assert stops(fresh(asserting, debug=True))
    assert not stops(fresh(asserting, debug=True), debug=False)
    knobs.runtime.debug = True
    assert stops(fresh(asserting))
    assert not stops(fresh(asserting, debug=False))


@glueball.jit
def adding(y: Any, n: Any):
    gl.store(y, n + n)


def test_overflow_is_checked_with_debug_unless_told_otherwise() -> None:
    y = np.zeros(1, np.int32)
    adding[(1,)](y, 2**31 - 1)
    adding[(1,)](y, 2**31 - 1, debug=True, sanitize_overflow=False)
    with pytest.raises(SimulationError):
        adding[(1,)](y, 2**31 - 1, debug=True)


def test_launches_with_attributes(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    for options, attributes in (
        ({"launch_pdl": True}, [(6, 1)]),
        ({"launch_cooperative_grid": True}, [(2, 1)]),
        ({"launch_cooperative_grid": True, "launch_pdl": True}, [(2, 1), (6, 1)]),
    ):
        driver.launches.clear()
        driver.attributes.clear()
        driver.configured.clear()
        for _ in range(2):
            compiled = kernel[(5, 2)](6, num_warps=2, **options)
        assert driver.attributes == [tuple(attributes)]
        ((function, numbers, stream, read, raw, extra),) = driver.configured
        assert (function, numbers, stream, extra) == (0xF00, (5, 2, 1, 64, 1, 1, 0), 0, None)
        assert read == attributes
        assert raw == [struct.pack("<q", 6)]
        assert compiled.metadata.launch_pdl == ((6, 1) in attributes)
    assert driver.calls == []


def test_a_failed_launch_with_attributes_is_reported(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    kernel[(1,)](6, launch_pdl=True)
    monkeypatch.setattr("glueball.drivers.cuda.cuda_driver", lambda: driver)
    driver.result = 719
    told: list[Any] = []
    driver.raise_error = lambda action, code: told.append((action, code))  # type: ignore[attr-defined]
    kernel[(1,)](6, launch_pdl=True)
    assert told == [("launching a kernel", 719)]


@pytest.mark.parametrize(
    ("target", "option"),
    [("sm_80", "launch_pdl"), ("gfx950", "launch_pdl"), ("gfx950", "launch_cooperative_grid")],
)
def test_attributes_that_a_target_does_not_have(target: str, option: str) -> None:
    with pytest.raises(OptionError, match=rf"{option}=True: .*{target} does not"):
        copied(target, **{option: True})
    copied(target, **{option: False})


def test_attributes_change_nothing_on_the_simulator() -> None:
    y = np.zeros(2, np.int32)
    kernels.count_programs[(2,)](y, launch_pdl=True, launch_cooperative_grid=True)
    assert y.tolist() == [1, 2]


DECLINED = {
    "ptx_version": (None, 86), "ptx_options": (None, "-v"), "ir_override": (None, "kernel.ptx"),
    "extern_libs": ({}, {"lib": "x.bc"}), "supported_fp8_dtypes": (None, ("fp8e5",)),
    "default_dot_input_precision": ("tf32", "ieee"), "allowed_dot_input_precisions": (None, ("ieee",)),
    "matrix_instr_nonkdim": (16, 17), "kpack": (2, 3), "allow_flush_denorm": (True, "yes"),
    "schedule_hint": ("attention", "fast"), "wgp_cu_mode": (False, True), "llvm_fn_attrs": ((), ("a=b",)),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_options_without_a_counterpart(name: str) -> None:
    accepted, refused = DECLINED[name]
    assert read_options("kernel", {name: accepted}, frozenset()) == LaunchOptions()
    with pytest.raises(OptionError, match=f"{name}=.*: not supported: .*; leave the option out"):
        read_options("kernel", {name: refused}, frozenset())
    assert read_options("kernel", {name: refused}, frozenset({name})) == LaunchOptions(), "a parameter of that name"


@pytest.mark.parametrize("name", ["debug", "enable_fp_fusion", "launch_pdl", "launch_cooperative_grid"])
def test_options_that_are_on_or_off(name: str) -> None:
    for value, meant in ((True, True), (0, False), (np.bool_(True), True), (gl.constexpr(False), False)):
        assert getattr(read_options("kernel", {name: value}, frozenset()), name) is meant
    for value in ("yes", 2, None, 1.0):
        with pytest.raises(OptionError, match=f"{name}=.*: must be True or False"):
            read_options("kernel", {name: value}, frozenset())


def test_unknown_options_name_the_known() -> None:
    with pytest.raises(UnknownOptionError, match=r"launch_pld was specified but .*did you mean `launch_pdl`\?"):
        fresh(kernels.nothing)[(1,)](5, launch_pld=True)


@pytest.mark.parametrize("name", ["device", "device_type", "stream"])
def test_where_a_kernel_runs_is_no_option(name: str) -> None:
    with pytest.raises(AssertionError, match=f"{name}: the arguments and the current device and stream decide"):
        fresh(kernels.nothing)[(1,)](5, **{name: 0})


def test_instrumentation_is_what_the_simulator_does_anyway(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    knobs.compilation.instrumentation_mode = "consan"
    with pytest.raises(OptionError, match="instrumentation_mode=consan: machine code has no checks built in"):
        fresh(kernels.nothing)[(1,)](5)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    kernel = fresh(kernels.nothing)[(1,)](5, maxnreg=64)
    assert (kernel.metadata.instrumentation_mode, kernel.metadata.maxnreg) == ("consan", None)
    with pytest.raises(OptionError, match="instrumentation_mode=fpsan: of these checks only consan's are there"):
        fresh(kernels.nothing)[(1,)](5, instrumentation_mode="fpsan")
    assert fresh(kernels.nothing)[(1,)](5, instrumentation_mode="nonsense").metadata.instrumentation_mode == ""
    with pytest.raises(OptionError, match="instrumentation_mode=3: must be a text"):
        fresh(kernels.nothing)[(1,)](5, instrumentation_mode=3)


def test_changed_debug_holds_for_launches_seen_before(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    compiled = [kernel[(1,)](6) for _ in range(2)]
    knobs.runtime.debug = True
    compiled += [kernel[(1,)](6) for _ in range(2)]
    assert compiled[0] is compiled[1] is not compiled[2] is compiled[3]
    monkeypatch.setenv("GLUEBALL_DEBUG", "0")
    knobs.refresh_knobs()
    assert kernel[(1,)](6) is compiled[0]


def test_line_information_can_be_left_out() -> None:
    with_lines = copied("sm_90a")
    knobs.compilation.disable_line_info = True
    without = copied("sm_90a")
    assert ".loc" in with_lines.asm["ptx"]
    assert ".loc" not in without.asm["ptx"]
    assert with_lines.metadata.disable_line_info is not without.metadata.disable_line_info
    assert with_lines.hash != without.hash
