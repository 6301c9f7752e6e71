"""Tensor descriptors of the host: what they refuse when they are made, and what at a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col, read_base

SWIZZLED = gl.NVMMASharedLayout(128, 16)


def array(shape: Sequence[int], dtype: Any = np.float16, offset: int = 0) -> np.ndarray[Any, Any]:
    """An array whose address is so many bytes behind a multiple of 128."""
    kind = np.dtype(dtype)
    storage = np.zeros(int(np.prod(shape)) * kind.itemsize + 256, np.uint8)
    start = -storage.ctypes.data % 128 + offset
    return storage[start : start + int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape)


def tiled(**changes: Any) -> TensorDescriptor:
    fields = {
        "base": array((128, 128)), "shape": [128, 128], "strides": [128, 1], "block_shape": [64, 64],
        "layout": SWIZZLED, **changes,
    }  # fmt: skip
    return TensorDescriptor(**fields)


def images(**changes: Any) -> TensorDescriptorIm2Col:
    fields = {
        "base": array((2, 16, 16, 64)), "shape": [2, 16, 16, 64], "strides": [16384, 1024, 64, 1],
        "block_shape": [64, 64], "layout": SWIZZLED, "element_strides": [1, 1, 1, 1],
        "pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [0, 0], **changes,
    }  # fmt: skip
    return TensorDescriptorIm2Col(**fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [], "strides": [], "block_shape": []}, "rank must be 1-5"),
        ({"shape": [2] * 6, "strides": [16] * 5 + [1], "block_shape": [1] * 6}, "rank must be 1-5"),
        ({"strides": [1]}, "strides rank mismatch"),
        ({"block_shape": [64]}, "block_shape must match rank 2"),
        ({"base": array((128, 128), offset=8)}, "base must be 16-byte aligned"),
        ({"strides": [129, 1]}, "strides must be 16-byte aligned"),
        ({"shape": [0, 128]}, "shape must be positive"),
        ({"shape": [-1, 128]}, "shape must be positive"),
        ({"strides": [128, 2]}, "Last dimension must be contiguous"),
        ({"layout": gl.SwizzledSharedLayout(1, 1, 1, [1, 0])}, "Layout must be NVMMASharedLayout"),
        ({"layout": gl.NVMMASharedLayout(128, 16, 3)}, "layout rank must match block shape rank"),
        ({"layout": gl.NVMMASharedLayout(128, 32)}, "elements of 16 bits need a layout of as many"),
        ({"block_shape": [64, 32]}, r"Expected block_shape\[-1\] to be at least 64 but got 32"),
        ({"padding": "one"}, "Illegal value for padding"),
        ({"base": array((128, 128), np.int16), "padding": "nan"}, "nan padding is only supported for float tensors"),
        ({"round_f32_to_tf32": True}, "round_f32_to_tf32 is only supported for float32 tensors"),
        ({"base": array((128, 128), np.float64), "layout": gl.NVMMASharedLayout(128, 64)}, "elements of 64 bits"),
        ({"base": 3}, "base must be an array, not int"),
    ],
    ids=str,
)
def test_refused_when_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        tiled(**changes)


@pytest.mark.parametrize(
    ("block", "error", "message"),
    [
        ([65, 64], ValueError, "Shape element 0 must be a power of 2"),
        ([64, 96], ValueError, "Shape element 1 must be a power of 2"),
        ([0, 64], ValueError, "Shape element 0 must be a power of 2"),
        ([64.0, 64], TypeError, "Shape element 0 must have type"),
    ],
)
def test_blocks_that_are_none(block: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tiled(block_shape=block)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [16, 64], "strides": [64, 1]}, "im2col mode requires rank 3, 4, or 5, got 2"),
        ({"block_shape": [64]}, "im2col: block_shape must be 2D"),
        ({"block_shape": [48, 64]}, r"block_shape\[0\] must be power of 2, got 48"),
        ({"layout": gl.NVMMASharedLayout(128, 16, 3)}, "layout rank must match block shape rank"),
        ({"element_strides": [1, 1]}, "element_strides length mismatch: expected 4, got 2"),
        ({"element_strides": [1, 9, 1, 1]}, r"element_strides\[1\] must be in \(0, 8\], got 9"),
        ({"element_strides": [1, 0, 1, 1]}, r"element_strides\[1\] must be in \(0, 8\], got 0"),
        ({"element_strides": [1, 1, 1, 2]}, r"element_strides\[-1\] must be 1, got 2"),
        ({"pixel_box_lower_corner": None}, "pixel_box_lower_corner required for im2col"),
        ({"pixel_box_upper_corner": None}, "pixel_box_upper_corner required for im2col"),
        ({"pixel_box_lower_corner": [0]}, "pixel_box_lower_corner length mismatch"),
        ({"pixel_box_lower_corner": [0, -129]}, r"pixel_box_lower_corner\[1\] must be in \[-128, 127\], got -129"),
        ({"pixel_box_upper_corner": [200, 0]}, r"pixel_box_upper_corner\[0\] must be in \[-128, 127\], got 200"),
    ],
    ids=str,
)
def test_images_refused_when_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        images(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": gl.NVMMASharedLayout(128, 16, transposed=True)}, "TMA descriptor layout must not be transposed"),
        ({"block_shape": [1, 1], "layout": gl.NVMMASharedLayout(0, 16)}, "rows are multiples of 16 bytes, not 2"),
        ({"strides": [-128, 1]}, "strides of 0 to 2"),
    ],
    ids=str,
)
def test_refused_at_a_launch(changes: dict[str, Any], message: str) -> None:
    """What a field could still be changed to before."""

    @glueball.jit
    def kernel(source):
        gl.static_assert(source.dtype == gl.float16)

    descriptor = tiled(**changes)
    with pytest.raises(AssertionError, match=f"parameter `source`: .*{message}"):
        kernel[(1,)](descriptor)


def test_what_descriptors_accept() -> None:
    assert tiled().mode == "tiled"
    assert images().mode == "im2col"
    assert images(element_strides=None).element_strides is None
    assert tiled(shape=(128, 128), strides=(0, 1), block_shape=(64, 64)).block_shape == (64, 64)
    assert tiled(block_shape=[512, 128]).padding == "zero"
    whole = TensorDescriptor.from_tensor(array((128, 128)), [64, 64], SWIZZLED)
    assert (whole.shape, whole.strides) == ([128, 128], [128, 1])
    corners = {"pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [-1, -1]}
    pictures = TensorDescriptorIm2Col.from_tensor(array((2, 16, 16, 64)), [64, 64], SWIZZLED, **corners)
    assert (pictures.shape, pictures.pixel_box_upper_corner) == ([2, 16, 16, 64], [-1, -1])


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        ("int8", "uint8"), ("int16", "uint16"), ("int32", "int32"), ("uint32", "uint32"), ("float16", "float16"),
        ("float32", "float32"), (ml_dtypes.bfloat16, "bfloat16"), (ml_dtypes.float8_e5m2, "uint8"),
    ],
)  # fmt: skip
def test_element_types(dtype: Any, element: str) -> None:
    bits = np.dtype(dtype).itemsize * 8
    descriptor = tiled(base=array((128, 128), dtype), layout=gl.NVMMASharedLayout(64, bits))
    kind, tensor_map = descriptor.describe(read_base(descriptor.base))
    assert tensor_map.element == element
    assert kind.element_ty.primitive_bitwidth == bits
    assert tensor_map.box == (64, 512 // bits)


@pytest.mark.parametrize(("swizzle", "box"), [(0, (256, 128)), (32, (256, 16)), (64, (256, 32)), (128, (256, 64))])
def test_boxes(swizzle: int, box: tuple[int, int]) -> None:
    descriptor = tiled(block_shape=[512, 128], layout=gl.NVMMASharedLayout(swizzle, 16))
    _, tensor_map = descriptor.describe(read_base(descriptor.base))
    assert (tensor_map.box, tensor_map.swizzle) == (box, swizzle)


def test_rounding_and_padding_reach_the_map() -> None:
    layout = gl.NVMMASharedLayout(128, 32)
    descriptor = tiled(base=array((128, 128), np.float32), layout=layout, padding="nan", round_f32_to_tf32=True)
    kind, tensor_map = descriptor.describe(read_base(descriptor.base))
    assert (tensor_map.element, tensor_map.fill) == ("tfloat32", "nan")
    assert tensor_map.type.element == "float32"
    assert str(kind) == f"tensordesc<fp32[64,64],{layout!r}>"
    assert kind.mangle() == "TDfp32S64_64S_NVMMA_128_32_2_False_False__NVMMATD"
    assert str(images().describe(read_base(images().base))[0]).startswith("tensordesc_im2col<fp16[64,64],input_rank=4,")


@pytest.mark.torch
def test_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(128, 256, dtype=torch.bfloat16)[:, :128]
    descriptor = TensorDescriptor.from_tensor(tensor, [64, 64], SWIZZLED)
    assert (descriptor.shape, descriptor.strides) == ([128, 128], [256, 1])
