"""Tensors of four-bit floats and of scales."""

from __future__ import annotations

import math

import pytest

import glueball
import glueball.language as gl

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from glueball.tools.mxfp import MXFP4Tensor, MXScaleTensor  # noqa: E402 - needs torch


def test_four_bit_floats_are_the_nearest() -> None:
    values = torch.tensor([0.0, -0.0, 0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.1, -7.0, math.inf])
    tensor = MXFP4Tensor(values)
    expected = [0.0, -0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0, -6.0, 6.0]
    assert tensor.to(torch.float32).tolist() == expected
    assert tensor.data[:2].tolist() == [0, 8]
    every = MXFP4Tensor(size=(16,))
    every.data = torch.arange(16, dtype=torch.uint8)
    assert MXFP4Tensor(every.to(torch.float64)).data.tolist() == list(range(16))
    with pytest.raises(ValueError, match="no NaN"):
        MXFP4Tensor(torch.tensor([math.nan]))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_codes_are_packed_in_pairs(dim: int) -> None:
    tensor = MXFP4Tensor(size=(6, 5)).random()
    packed = tensor.to_packed_tensor(dim)
    assert tuple(packed.shape) == ((3, 5) if dim == 0 else (6, 3))
    assert packed.flatten()[0] == tensor.data[0, 0] | tensor.data[1 if dim == 0 else 0, 0 if dim == 0 else 1] << 4
    assert torch.equal(tensor.unpack_packed_tensor(packed, dim, tensor.size), tensor.data)


@glueball.jit
def unpack(packed, out, layout: gl.constexpr):
    line = gl.arange(0, 128, layout)
    values = gl.fp4_to_fp(gl.load(packed + line), gl.float16, 0)
    gl.store(out + gl.arange(0, 256, values.type.layout), values)


def test_a_kernel_reads_packed_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    tensor, out = MXFP4Tensor(size=(256,)).random(), torch.zeros(256, dtype=torch.float16)
    unpack[(1,)](tensor.to_packed_tensor(0), out, gl.BlockedLayout([1], [32], [4], [0]))
    assert torch.equal(out, tensor.to(torch.float16))


def test_scales_are_powers_of_two() -> None:
    values = torch.tensor([1.0, 1.99, 0.75, 2.0**-127, 1e-45, 3e38, 0.0, -1.0, math.inf, math.nan])
    scales = MXScaleTensor(values)
    assert scales.data.tolist() == [127, 127, 126, 0, 0, 254, 255, 255, 255, 255]
    numbers = scales.to(torch.float32)
    assert numbers[:6].tolist() == [1.0, 1.0, 0.5, 2.0**-127, 2.0**-127, 2.0**127]
    assert numbers[6:].isnan().all()
    drawn = MXScaleTensor(size=(1000,)).random(low=0.25, high=4.0).to(torch.float32)
    assert sorted(set(drawn.tolist())) == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert MXScaleTensor(size=(7, 2)).random().data.shape == (7, 2)


def test_data_or_a_size() -> None:
    for kind in (MXFP4Tensor, MXScaleTensor):
        with pytest.raises(ValueError, match="either data or a size"):
            kind()
