"""The command itself: its entry point without the extra, its help, and `doctor`."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import glueball
from glueball import cli
from glueball.cli import doctor
from glueball.cli.commands import commands
from glueball.drivers.cuda import Availability


def test_without_the_extra_one_line_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rich" else found(name))
    assert cli.main() == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "glueball: the command needs rich: pip install 'glueball[cli]'\n"


def test_the_entry_point_runs_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["glueball", "--version"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 0
    assert glueball.__version__ in capsys.readouterr().out


def test_help_names_the_subcommands() -> None:
    result = CliRunner().invoke(commands, ["--help"])
    assert result.exit_code == 0
    for name in ("tour", "explain", "layout", "tensor-layout", "doctor", "cache", "bench", "repro", "check"):
        assert re.search(rf"^  {name} ", result.stdout, re.MULTILINE)
        assert CliRunner().invoke(commands, [name, "--help"]).exit_code == 0


def doctor_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path / "cache"))
    result = CliRunner(env={"COLUMNS": "200"}).invoke(commands, ["doctor"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_doctor_says_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = tmp_path / "cache" / ("e" * 64)
    entry.mkdir(parents=True)
    (entry / "metadata.json").write_bytes(b" " * 300_000)
    output = doctor_output(monkeypatch, tmp_path)
    for name in ("glueball", "Python", "NumPy", "LLVM", "targets", "GPU", "assembler", "disassembler", "torch", "cupy"):
        assert re.search(rf"^(yes|no ) {name}", output, re.MULTILINE), name
    assert f"{tmp_path / 'cache'}: 1 kernels, 0.3 MB" in output


def test_doctor_says_what_missing_pieces_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    hidden = ("cuda", "torch", "cupy")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in hidden else found(name, *rest))
    monkeypatch.setattr(
        doctor, "cuda_available", lambda: Availability(False, "the package cuda-bindings is not installed")
    )
    monkeypatch.setattr(doctor, "_disassembler", lambda: None)
    output = doctor_output(monkeypatch, tmp_path)
    missing = {line.split()[1]: index for index, line in enumerate(output.splitlines()) if line.startswith("no ")}
    assert list(missing) == ["GPU", "assembler", "disassembler", "torch", "cupy"]
    lines = output.splitlines()
    for index in missing.values():
        assert "would give: " in lines[index + 1]
        assert "to get it: pip install" in lines[index + 2]


def test_doctor_reports_settings_and_mistakes_in_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "gfx950")
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "tpu")
    output = doctor_output(monkeypatch, tmp_path)
    assert re.search(r"^yes GLUEBALL_TARGET +gfx950", output, re.MULTILINE)
    assert re.search(r"^no  GLUEBALL_EXECUTOR +GLUEBALL_EXECUTOR='tpu'", output, re.MULTILINE)
    assert "no  cache" in doctor_output(monkeypatch, Path("~nobody-of-that-name/cache"))


def test_doctor_says_no_to_an_unknown_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90b")
    output = doctor_output(monkeypatch, tmp_path)
    assert re.search(r"^no  GLUEBALL_TARGET +GLUEBALL_TARGET=sm_90b: unknown target 'sm_90b'", output, re.MULTILINE)


def test_doctor_says_no_to_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert re.search(r"^no  cache +", doctor_output(monkeypatch, tmp_path / "file"), re.MULTILINE)

    def read_only(*_: Any, **__: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", read_only)
    output = doctor_output(monkeypatch, tmp_path)
    assert re.search(r"^no  cache +\S*cache cannot be written: Read-only file system", output, re.MULTILINE)
    assert "to get it: GLUEBALL_CACHE_DIR=FOLDER" in output


def test_doctor_survives_a_broken_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from glueball import codegen

    def broken() -> Any:
        raise OSError("libllvmlite.so is damaged")

    monkeypatch.setattr(codegen, "llvm_version", broken)
    assert "OSError: libllvmlite.so is damaged" in doctor_output(monkeypatch, tmp_path)


def test_output_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glueball.cli.commands.commands", full)
    assert cli.main() == 1
    assert capsys.readouterr().err == "glueball: [Errno 28] No space left on device\n"
