"""The modules of AMD GPUs: what is in them, and what is said of names that are not there yet."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.amd.cdna4 import async_copy, mfma
from glueball.language.amd.gfx1250 import tdm, wmma
from tests.kernels.harness import EXECUTORS
from tests.kernels.test_reductions import run_on

LATER = (
    "amd.warp_pipeline_stage", "amd.cdna3.buffer_load", "amd.cdna3.mfma", "amd.cdna4.async_copy",
    "amd.cdna4.buffer_load", "amd.cdna4.mfma_scaled", "amd.cdna5.tdm", "amd.cdna5.wmma", "amd.rdna3.wmma",
    "amd.rdna4.wmma", "nvidia.rubin.add4",
)  # fmt: skip


@pytest.mark.parametrize("path", LATER)
def test_names_to_come_say_so_when_they_are_used(path: str) -> None:
    module, _, name = f"glueball.language.{path}".rpartition(".")
    value = getattr(importlib.import_module(module), name)
    message = rf"`glueball\.language\.{path}` is not there yet in this version of glueball"
    with pytest.raises(NotImplementedError, match=message):
        value(1)
    with pytest.raises(AttributeError, match=message):
        value.commit_group  # noqa: B018
    assert not isinstance(1, value)


def test_descriptors_of_the_host() -> None:
    described = glueball.amd.gfx1250.TensorDescriptor
    assert described is glueball.amd.cdna5.TensorDescriptor
    with pytest.raises(NotImplementedError, match=r"`glueball\.amd\.cdna5\.TensorDescriptor` is not there yet"):
        described.from_tensor(np.zeros((64, 64), np.float32), [64, 64], None)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no 'bufer_load'; did you mean `buffer_load`"):
        gl.amd.cdna4.bufer_load  # noqa: B018
    with pytest.raises(AttributeError, match="has no 'cdna9'"):
        gl.amd.cdna9  # noqa: B018


def test_another_name_of_a_family() -> None:
    assert gl.amd.gfx1250.PartitionedSharedLayout is gl.amd.cdna5.PartitionedSharedLayout
    assert tdm is gl.amd.cdna5.tdm and wmma is gl.amd.cdna5.wmma


@glueball.jit
def of_several_vendors(x, y, P: gl.constexpr, L: gl.constexpr, SQUARE: gl.constexpr):
    """Goes through a matrix unit's layout, and with `SQUARE` through the unit."""
    rows, columns = gl.arange(0, 32, gl.SliceLayout(1, P))[:, None], gl.arange(0, 32, gl.SliceLayout(0, P))[None, :]
    tile = gl.convert_layout(gl.load(x + 32 * rows + columns), L)
    if SQUARE:
        async_copy.wait_group(0)
        tile = mfma(tile, tile, tile)
    gl.store(y + 32 * rows + columns, gl.convert_layout(tile + tile, P))


MFMA = gl.amd.AMDMFMALayout(version=4, instr_shape=[16, 16, 32], transposed=True, warps_per_cta=[2, 2])
WMMA = gl.amd.AMDWMMALayout(version=3, transposed=False, warp_bases=[[1, 0], [0, 1]], instr_shape=[16, 16, 32])
WAVES = {
    "gfx950": gl.BlockedLayout([1, 1], [2, 32], [4, 1], [1, 0]),
    "gfx1250": gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]),
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "layout"), [("gfx950", MFMA), ("gfx1250", WMMA)])
def test_layouts_of_matrix_units(target, layout, executor, monkeypatch):
    x, y = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    run_on(executor, monkeypatch, target, of_several_vendors, x, y, WAVES[target], layout, False)
    np.testing.assert_array_equal(y, 2 * x)


def test_what_is_missing_is_named_at_its_line() -> None:
    x = np.zeros(1024, np.float32)
    with pytest.raises(
        CompilationError, match=r"`glueball\.language\.amd\.cdna4\.async_copy` is not there yet"
    ) as caught:
        glueball.compile_only(of_several_vendors, x, x, WAVES["gfx950"], MFMA, True, target="gfx950")
    assert caught.value.location is not None and caught.value.location.file == __file__


@glueball.jit
def pipelined(x):
    with gl.amd.warp_pipeline_stage("load", priority=1):
        gl.barrier()


def test_stages_of_warps_are_named_too() -> None:
    with pytest.raises(CompilationError, match=r"`glueball\.language\.amd\.warp_pipeline_stage` is not there yet"):
        glueball.compile_only(pipelined, np.zeros(64, np.float32), target="gfx950")
