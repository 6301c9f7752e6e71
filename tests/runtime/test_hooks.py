"""What is called around launches, loading and compilation, and what it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import knobs
from glueball.errors import CompilationError
from glueball.runtime.metadata import CompileTimes, LazyDict
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver
from tests.runtime.kernels import layout
from tests.runtime.settings import fresh

pytestmark = pytest.mark.usefixtures("own_settings")


def recorder(seen: list[Any], what: str) -> Any:
    return lambda metadata: seen.append((what, metadata.get()))


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_launch_hooks_surround_a_launch(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    seen: list[Any] = []
    y = np.zeros(2, np.int32)
    knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(y.tolist()))
    knobs.runtime.launch_enter_hook.add(recorder(seen, "enter"))
    knobs.runtime.launch_exit_hook.add(lambda metadata: seen.append(y.tolist()))
    knobs.runtime.launch_exit_hook.add(recorder(seen, "exit"))
    kernels.count_programs[(2,)](y)
    told = {"name": "count_programs", "function": None, "stream": None}
    assert seen == [[0, 0], ("enter", told), ("exit", told), [1, 2]]
    seen.clear()
    kernels.count_programs[(0,)](y)
    kernels.count_programs.warmup(y, grid=(2,))
    assert seen == [], "nothing was launched"


def test_launch_metadata_is_asked_for_only_when_a_hook_reads_it() -> None:
    asked: list[Any] = []

    def describe(grid: Any, metadata: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        asked.append((grid, metadata.num_warps, arguments))
        return {"flops": arguments["n"] * arguments["B"], "name": "renamed"}

    @glueball.jit(launch_metadata=describe)
    def kernel(y: Any, n: Any, pair: Any, B: gl.constexpr):
        pass

    y = np.zeros(1, np.int32)
    kernel[(3,)](y, 7, (5, 1), 8)
    assert asked == []
    seen: list[Any] = []
    knobs.runtime.launch_enter_hook.add(seen.append)
    kernel[(3,)](y, 7, (5, 1), 8, num_warps=2)
    assert asked == []
    assert isinstance(seen[0], LazyDict)
    assert seen[0].get()["flops"] == 56
    assert seen[0].get()["name"] == "renamed"
    ((grid, num_warps, arguments),) = asked
    assert (grid, num_warps) == ((3, 1, 1), 2)
    assert arguments == {"y": y, "n": 7, "pair": (5, 1), "B": 8}


def test_launches_on_a_device_call_hooks_that_were_added_later(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    launch = kernel[(5,)]
    for _ in range(3):
        launch(6)
    assert (len(driver.launches), len(driver.calls)) == (1, 2)
    seen: list[Any] = []
    hook = recorder(seen, "enter")
    knobs.runtime.launch_enter_hook.add(hook)
    for _ in range(2):
        launch(6)
    assert seen == [("enter", {"name": "nothing", "function": 0xF00, "stream": 0})] * 2
    assert (len(driver.launches), len(driver.calls)) == (3, 2)
    knobs.runtime.launch_enter_hook.remove(hook)
    for _ in range(3):
        launch(6)
    assert len(seen) == 2
    assert (len(driver.launches), len(driver.calls)) == (4, 4), "natively again"


def test_what_a_hook_raises_stops_the_launch() -> None:
    def refuse(metadata: Any) -> None:
        raise PermissionError

    y = np.zeros(1, np.int32)
    knobs.runtime.launch_enter_hook.add(refuse)
    with pytest.raises(PermissionError):
        kernels.count_programs[(1,)](y)
    assert y.tolist() == [0]


def test_loading_hooks(driver: FakeDriver) -> None:
    seen: list[Any] = []
    for name in ("kernel_load_start_hook", "kernel_load_end_hook", "kernel_unload_hook"):
        getattr(knobs.runtime, name).add(lambda *told, name=name: seen.append((name, *told)))
    kernel = fresh(kernels.nothing)[(1,)](5)
    assert kernel.n_max_threads == 1024
    fresh_kernel = fresh(kernels.nothing).warmup(5)
    assert (fresh_kernel.function, fresh_kernel.module, fresh_kernel.n_max_threads) == (None, None, None)
    fresh_kernel._init_handles()
    assert fresh_kernel.function == 0xF00
    kernel.unload()
    group = kernel.metadata_group
    assert {Path(path).suffix for path in group.values()} == {".json", ".binary", ".assembly"}
    assert [entry[0] for entry in seen] == ["kernel_load_start_hook", "kernel_load_end_hook"] * 2 + [
        "kernel_unload_hook"
    ]
    assert seen[0][1:] == (None, None, "nothing", group, kernel.hash)
    assert seen[1][1:] == seen[4][1:] == (None, 0xF00, "nothing", group, kernel.hash)
    assert driver.unloads == [0]


def test_an_unloaded_kernel_is_loaded_again(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    for _ in range(2):
        compiled = kernel[(1,)](6)
    compiled.unload()
    assert compiled.devices == ()
    assert kernel[(1,)](6) is compiled
    assert len(driver.loads) == 2
    assert (len(driver.launches), len(driver.calls)) == (2, 1)


def test_a_refused_kernel_is_refused_again_without_loading_it(driver: FakeDriver) -> None:
    driver.max_threads = 64
    kernel = fresh(kernels.nothing)
    for _ in range(2):
        with pytest.raises(glueball.OutOfResources, match="threads, required 128, limit 64"):
            kernel[(1,)](5)
    assert (len(driver.loads), driver.unloads) == (1, [0])


def test_cache_hook_may_forbid_a_kernel() -> None:
    told: list[dict[str, Any]] = []
    knobs.runtime.jit_cache_hook = lambda **keywords: told.append(keywords) or len(told) < 3
    kernel = fresh(kernels.count_programs)
    y = np.zeros(2, np.int32)
    assert kernel.warmup(y, grid=(2,)) is None
    assert kernel[(2,)](y) is None
    assert y.tolist() == [0, 0]
    for _ in range(2):
        assert kernel[(2,)](y).name == "count_programs"
    assert y.tolist() == [1, 2]
    assert len(told) == 3, "compiled kernels are not asked for"
    assert [item["is_manual_warmup"] for item in told] == [True, False, False]
    assert set(told[0]) == {"key", "repr", "fn", "compile", "is_manual_warmup", "already_compiled"}
    assert told[0]["fn"].name == "count_programs"
    assert told[0]["fn"].jit_function is kernel
    assert told[0]["compile"]["num_warps"] == 4
    assert told[0]["compile"]["signature"] == {"y": "*i32"}
    assert "count_programs[num_warps=4" in told[0]["repr"]
    assert told[0]["key"] == told[1]["key"]


def test_post_compile_hook_comes_after_the_kernel() -> None:
    seen: list[Any] = []
    kernel = fresh(kernels.count_programs)
    knobs.runtime.jit_post_compile_hook = lambda **keywords: seen.append(len(kernel._kernels)) or True
    y = np.zeros(1, np.int32)
    for _ in range(2):
        kernel[(1,)](y)
    assert seen == [1]
    assert y.tolist() == [1], "its answer forbids nothing"


def test_listener_is_told_of_each_compilation(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    knobs.compilation.listener = lambda **keywords: told.append(keywords)

    @glueball.jit
    def kernel(y: Any, n: Any, B: gl.constexpr):
        gl.store(y, n)

    kernel[(1,)](np.zeros(1, np.int32), 5, 8)
    assert len(told) == 1
    assert set(told[0]) == {"src", "metadata", "metadata_group", "times", "cache_hit"}
    assert told[0]["src"].fn is kernel
    assert told[0]["src"].signature == {"y": "*i32", "n": "i32", "B": "constexpr"}
    assert told[0]["src"].constants == {(2,): 8}
    assert told[0]["metadata"]["name"] == "kernel"
    assert told[0]["cache_hit"] is False
    times = told[0]["times"]
    assert isinstance(times, CompileTimes)
    assert [name for name, _ in times.lowering_stages] == ["thread"]
    assert times.total == times.ir_initialization + times.total_lowering + times.store_results > 0


def test_listener_knows_code_from_the_cache(driver: FakeDriver) -> None:
    told: list[dict[str, Any]] = []
    knobs.compilation.listener = lambda **keywords: told.append(keywords)
    for _ in range(2):
        fresh(kernels.count_programs)[(1,)](DeviceArray(4))
    assert [item["cache_hit"] for item in told] == [False, True]
    assert [name for name, _ in told[0]["times"].lowering_stages] == ["thread", "generated", "binary"]
    assert told[1]["times"].lowering_stages == []
    assert told[0]["metadata_group"] == told[1]["metadata_group"] != {}


def test_stages_hook_sees_stages_and_changes_keys(driver: FakeDriver) -> None:
    seen: list[Any] = []
    version = ["1"]

    def hook(*told: Any) -> Any:
        if not told:
            return "inspect", version[0]
        seen.append(told)
        return None

    kernel = fresh(kernels.nothing)
    plain = kernel.warmup(5).request.cache_key()
    knobs.runtime.add_stages_inspection_hook = hook
    kernel = fresh(kernels.nothing)
    compiled = kernel.warmup(5)
    ((found, stages, options, language, arch),) = seen
    assert found is compiled
    assert (options.num_warps, language, arch) == (4, "gluon", "sm_90a")
    assert "nothing" in stages["ptx"]()
    with pytest.raises(TypeError):
        stages["ptx"] = None
    first = compiled.request.cache_key()
    version[0] = "2"
    assert len({plain, first, compiled.request.cache_key()}) == 3


def test_pre_run_hooks_get_the_arguments(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    for _ in range(2):
        kernel[(1,)](6)
    seen: list[Any] = []
    kernel.add_pre_run_hook(lambda *arguments, **keywords: seen.append((arguments, keywords)))
    for _ in range(2):
        kernel[(1,)](6, num_warps=4)
    kernel[(1,)](n=np.int64(6))
    assert seen == [((6,), {"num_warps": 4})] * 2 + [((), {"n": 6})]
    assert (len(driver.launches), len(driver.calls)) == (4, 1)
    with pytest.raises(TypeError, match="a hook is a function, not 3"):
        kernel.add_pre_run_hook(3)  # type: ignore[arg-type]


def specialization_data(kernel: Any, *arguments: Any, **keywords: Any) -> Any:
    told: list[Any] = []
    with knobs.runtime.scope():
        knobs.runtime.jit_cache_hook = lambda **told_keywords: told.append(told_keywords) or True
        kernel.warmup(*arguments, **keywords)
    return told[0]["compile"]["specialization_data"]


def test_a_specialization_travels_as_text() -> None:
    x = np.zeros(64, np.float32)
    spread = gl.SliceLayout(0, gl.BlockedLayout([1, 2], [1, 32], [1, 4], [1, 0]))
    text = specialization_data(fresh(kernels.copy), x, x[1:], 48, 64, spread, num_warps=4)
    json.loads(text)
    kernel = fresh(kernels.copy)
    compiled = kernel.preload(text)
    assert compiled is kernel.warmup(x, x[1:], 64, 64, spread)
    assert compiled is not kernel.warmup(x, x, 64, 64, spread)


@pytest.mark.parametrize(
    "constant",
    [None, True, -3, 2.5, float("inf"), -float("inf"), "text", (1, ("a", None)), gl.float16, (gl.int8, layout())],
)
def test_constants_travel_as_text(constant: Any) -> None:
    @glueball.jit
    def kernel(pair: Any, C: gl.constexpr):
        pass

    text = specialization_data(kernel, (5, 1), constant)
    assert kernel.preload(text) is kernel.warmup((6, 1), constant)


def test_what_has_no_text_does_not_travel() -> None:
    assert specialization_data(fresh(kernels.nothing), kernels.plus_step) is None


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda data: "no json", ValueError, "no specialisation that a hook gives"),
        (lambda data: json.dumps([data]), ValueError, "no specialisation that a hook gives"),
        (lambda data: json.dumps(data | {"name": "other"}), RuntimeError, "is of other, not of"),
        (lambda data: json.dumps(data | {"arguments": []}), RuntimeError, "its parameters are not the same"),
        (
            lambda data: json.dumps(data | {"arguments": [{"name": "n", "constant": "__import__('os').getcwd()"}]}),
            ValueError,
            "is no constant",
        ),
    ],
)
def test_text_that_no_hook_gave(change: Any, error: type[Exception], message: str) -> None:
    data = json.loads(specialization_data(fresh(kernels.nothing), 7))
    with pytest.raises(error, match=message):
        fresh(kernels.nothing).preload(change(data))


def test_hooks_see_no_kernel_that_does_not_compile() -> None:
    seen: list[Any] = []
    knobs.compilation.listener = lambda **keywords: seen.append(keywords)
    knobs.runtime.jit_post_compile_hook = lambda **keywords: seen.append(keywords)
    with pytest.raises(CompilationError):
        fresh(kernels.broken)[(1,)](np.zeros(1, np.int32))
    assert seen == []
