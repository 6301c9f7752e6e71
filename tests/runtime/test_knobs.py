"""Settings as programs assign to them, and the table behind them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from glueball import knob_groups, knobs
from glueball.knob_groups import HookChain


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> Any:
    for knob in knobs.KNOBS:
        for variable in filter(None, (knob.variable, knob.alias)):
            monkeypatch.delenv(variable, raising=False)
    with knobs.runtime.scope(), knobs.compilation.scope(), knobs.cache.scope():
        yield


def test_a_setting_is_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert knobs.runtime.debug is False
    monkeypatch.setenv("GLUEBALL_DEBUG", "yes")
    assert knobs.runtime.debug is True
    knobs.runtime.debug = False
    assert os.environ["GLUEBALL_DEBUG"] == "0"
    assert knobs.DEBUG.read() is False
    del knobs.runtime.debug
    assert "GLUEBALL_DEBUG" not in os.environ


def test_other_programs_variables_are_read_where_ours_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert knobs.compilation.always_compile is True
    monkeypatch.setenv("GLUEBALL_ALWAYS_COMPILE", "0")
    assert knobs.compilation.always_compile is False
    monkeypatch.setenv("GLUEBALL_ALWAYS_COMPILE", "")
    assert knobs.compilation.always_compile is True
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "perhaps")
    with pytest.raises(ValueError, match="TRITON_ALWAYS_COMPILE='perhaps'"):
        _ = knobs.compilation.always_compile


def test_paths_and_texts(tmp_path: Path) -> None:
    knobs.cache.dir = tmp_path
    assert (knobs.cache.dir, knobs.CACHE_DIR.read()) == (tmp_path, tmp_path)
    knobs.cache.dir = str(tmp_path / "other")  # type: ignore[assignment]
    assert knobs.CACHE_DIR.read() == tmp_path / "other"
    knobs.cache.dir = None
    assert "GLUEBALL_CACHE_DIR" not in os.environ
    knobs.runtime.override_arch = "sm_80"
    assert knobs.TARGET.read() == "sm_80"


def test_unknown_instrumentation_modes_are_ignored() -> None:
    knobs.compilation.instrumentation_mode = "fpsan, consan,nonsense"
    assert knobs.compilation.instrumentation_mode == "consan,fpsan"


def test_a_value_that_means_nothing_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_DEBUG", "1")
    with pytest.raises(ValueError, match="GLUEBALL_DEBUG='perhaps'"):
        knobs.runtime.debug = "perhaps"  # type: ignore[assignment]
    assert os.environ["GLUEBALL_DEBUG"] == "1"


def test_a_scope_puts_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEBUG", "1")
    knobs.runtime.launch_enter_hook.add(print)
    with pytest.raises(ZeroDivisionError), knobs.runtime.scope():
        knobs.runtime.debug = False
        knobs.runtime.launch_enter_hook.remove(print)
        knobs.runtime.launch_exit_hook.add(repr)
        knobs.runtime.jit_cache_hook = print
        raise ZeroDivisionError
    assert knobs.runtime.debug is True
    assert "GLUEBALL_DEBUG" not in os.environ
    assert knobs.runtime.launch_enter_hook.calls == [print]
    assert knobs.runtime.launch_exit_hook.calls == []
    assert knobs.runtime.jit_cache_hook is None


def test_reset_and_copy() -> None:
    knobs.runtime.debug = True
    knobs.runtime.launch_enter_hook.add(print)
    copy = knobs.runtime.copy()
    assert copy.launch_enter_hook.calls == [print]
    copy.launch_enter_hook.add(repr)
    assert knobs.runtime.launch_enter_hook.calls == [print]
    assert knobs.runtime.reset() is knobs.runtime
    assert knobs.runtime.debug is False
    assert knobs.runtime.launch_enter_hook.calls == []
    assert copy.launch_enter_hook.calls == [print, repr]


def test_all_settings_of_a_group() -> None:
    knobs.compilation.always_compile = True
    values = knobs.compilation.knobs
    assert values.pop("always_compile") is True
    assert values.pop("instrumentation_mode") == ""
    assert set(values) >= {"disable_line_info", "allow_non_constexpr_globals"}
    assert not any(values.values())


def test_chains_keep_order_and_repeat_nothing() -> None:
    seen: list[str] = []
    first, second = (lambda *_, name=name: seen.append(name) for name in ("first", "second"))
    for chain in (HookChain(), HookChain(reversed=True)):
        for hook in (first, second, first):
            chain.add(hook)
        chain("metadata")
        chain.remove(first)
        chain.remove(first)
        assert chain.calls == [second]
    assert seen == ["first", "second", "second", "first"]


def test_assigning_to_a_chain_replaces_what_is_in_it() -> None:
    chain = knobs.runtime.launch_enter_hook
    knobs.runtime.launch_enter_hook = print  # type: ignore[assignment]
    assert chain.calls == [print]
    other = HookChain()
    other.add(repr)
    knobs.runtime.launch_enter_hook = other
    assert chain.calls == [repr]
    knobs.runtime.launch_enter_hook = None  # type: ignore[assignment]
    assert not chain


def test_hooks_are_functions() -> None:
    with pytest.raises(TypeError, match="jit_cache_hook is a function or None, not 3"):
        knobs.runtime.jit_cache_hook = 3


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (lambda: knobs.runtime.nonsense, r"no knobs\.runtime\.nonsense; there are .*debug.*launch_enter_hook"),
        (lambda: setattr(knobs.compilation, "use_ptxas", 1), r"no knobs\.compilation\.use_ptxas"),
        (lambda: knobs.nvidia, r"no knobs\.nvidia: no setting of that group has a counterpart"),
        (lambda: knobs.nonsense, "has no attribute 'nonsense'"),
    ],
)
def test_names_that_are_not_there(get: Any, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        get()


def test_what_changes_the_meaning_of_launches_counts_as_an_epoch() -> None:
    def epoch() -> int:
        return knob_groups.LAUNCH_EPOCH[0]

    before = epoch()
    for change in (
        knobs.refresh_knobs,
        lambda: knobs.runtime.launch_enter_hook.add(print),
        lambda: knobs.runtime.launch_enter_hook.remove(print),
        lambda: setattr(knobs.runtime, "debug", True),
        knobs.runtime.reset,
    ):
        change()
        assert epoch() > before
        before = epoch()
    knobs.runtime.launch_enter_hook.remove(print)
    _ = knobs.runtime.debug
    assert epoch() == before


def test_kernels_are_not_interpreted() -> None:
    assert knobs.runtime.interpret is False
    with pytest.raises(AttributeError, match="interpret"):
        knobs.runtime.interpret = True  # type: ignore[misc]
