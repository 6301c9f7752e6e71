"""`GLUEBALL_DUMP`: every stage of every kernel, in folders named by kernel and hash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glueball
import glueball.language as gl
from glueball.runtime.machine_code import assembler
from glueball.targets import target_named


@glueball.jit
def scale(x, y, factor: gl.constexpr, layout: gl.constexpr):
    i = gl.arange(0, 128, layout=layout)
    gl.store(y + i, gl.load(x + i) * factor)


LAYOUT = gl.BlockedLayout([1], [32], [4], [0])
COMMON = {"kernel.json", "kernel.source", "kernel.tile", "kernel.thread", "kernel.llir"}


def compile_scale(factor: int, target: str) -> glueball.CompiledKernel:
    layout = LAYOUT if target_named(target).lanes == 32 else gl.BlockedLayout([1], [64], [2], [0])
    return glueball.compile_only(
        scale, "*fp32:16", "*fp32", factor, layout, target=target, num_warps=layout.warps_per_cta[0]
    )


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_each_kernel_has_a_folder_with_its_stages(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GLUEBALL_DUMP", str(tmp_path / "dump"))
    factors = (2, 3) if target == "sm_90a" else (4, 5)
    made = [compile_scale(factor, target) for factor in factors]
    folders = {path.name: path for path in (tmp_path / "dump").iterdir()}
    assert set(folders) == {f"scale-{kernel.hash[:16]}" for kernel in made}
    for kernel, factor in zip(made, factors, strict=True):
        folder = folders[f"scale-{kernel.hash[:16]}"]
        names = {path.name for path in folder.iterdir()}
        assembly = "ptx" if target == "sm_90a" else "amdgcn"
        assert COMMON | {f"kernel.{assembly}"} <= names
        assert (folder / f"kernel.{assembly}").read_text() == kernel.asm[assembly]
        if assembler(target_named(target)):
            assert (folder / "kernel.cubin").read_bytes() == kernel.asm["cubin"]
        described = json.loads((folder / "kernel.json").read_text())
        assert (described["kernel"], described["target"], described["hash"]) == ("scale", target, kernel.hash)
        assert "fp32" in described["signature"]["x"]
        assert str(factor) in described["signature"]["factor"]
