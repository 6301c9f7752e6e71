"""Tensor descriptors: a tensor and the block of it that one bulk copy moves, as an argument for a kernel.

Fields may be changed between launches; a launch takes them as they are then, and checks what hardware asks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from glueball.drivers.arrays import DeviceArray, read_array
from glueball.errors import LayoutError
from glueball.layouts import NVMMASharedLayout
from glueball.tensor_map import CORNER_RANGES, GREATEST_ELEMENT_STRIDE, GREATEST_RANK, PixelBox, TensorMap
from glueball.tile.bulk_boxes import boxes_of, stored_element
from glueball.tile.types import DTYPES, dtype, tensor_descriptor_type

ELEMENT_BITS = (8, 16, 32)
GRANULE = 16
"""Bytes of which the base and the strides are multiples."""


@dataclass(slots=True)
class TensorDescriptor:
    """A tensor of 1 to 5 dimensions of which bulk copies move blocks.

    `base` is an array of any framework, or a view of one, that starts at the tensor's first element; `shape` and
    `strides` (in elements, the last one 1) are the tensor's; `block_shape` is what one copy moves, powers of two, and
    `layout` how it lies in shared memory. `padding` ("zero" or "nan") is what loads bring from outside of the tensor.
    `round_f32_to_tf32` rounds float32 elements to the 10 bits of fraction that matrix units keep.
    Errors: `AssertionError` for what the hardware cannot do: a base or a stride that is no multiple of 16 bytes, an
    empty tensor, a block narrower than the layout's swizzle, and so on; `ValueError` or `TypeError` for a block whose
    extents are no powers of two. The rest (a row of a block of fewer than 16 bytes, a transposed layout) is told at the
    launch.
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    layout: NVMMASharedLayout
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    prepared: Any = field(default=None, init=False, repr=False, compare=False)
    """What the last launch made of the fields."""

    def __post_init__(self) -> None:
        array, rank = read_base(self.base), len(self.shape)
        _check_tensor(array, self.shape, self.strides)
        assert len(self.block_shape) == rank, f"tiled: block_shape must match rank {rank}, not {len(self.block_shape)}"
        _check_extents(self.block_shape)
        _check_layout(self.layout, self.block_shape, DTYPES[array.dtype])
        _check_values(DTYPES[array.dtype], self.padding, self.round_f32_to_tf32)

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        layout: NVMMASharedLayout,
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """The descriptor of a whole array, of its shape and strides."""
        array = read_base(tensor)
        return TensorDescriptor(
            tensor, list(array.shape), list(array.strides), list(block_shape), layout, padding, round_f32_to_tf32
        )

    @property
    def mode(self) -> Literal["tiled"]:
        """How copies go through the tensor."""
        return "tiled"

    @property
    def fields(self) -> tuple[Any, ...]:
        """Everything but the base."""
        return self.shape, self.strides, self.block_shape, self.layout, self.padding, self.round_f32_to_tf32

    def describe(self, array: DeviceArray) -> tuple[tensor_descriptor_type, TensorMap]:
        """What a kernel is compiled for, and what the hardware is told, `array` being the base.

        `AssertionError` for a rule of the hardware that is broken.
        """
        kind = tensor_descriptor_type(DTYPES[array.dtype], tuple(self.block_shape), self.layout, len(self.shape))
        return kind, _tensor_map(self, array, kind)


@dataclass(slots=True)
class TensorDescriptorIm2Col:
    """A tensor of images, [N, (D, (H,)) W, C], whose pixels under a filter's tap are the rows of a block.

    `block_shape` is [pixels, channels]; `element_strides`, 1 to 8 for each dimension and 1 for channels, visit only
    every n-th pixel; the corners, one number for each spatial dimension, say from where to where
    (`extent - 1 + upper`) the first tap goes. The rest is as for `TensorDescriptor`.
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    layout: NVMMASharedLayout
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    element_strides: list[int] | None = None
    pixel_box_lower_corner: list[int] | None = None
    pixel_box_upper_corner: list[int] | None = None
    prepared: Any = field(default=None, init=False, repr=False, compare=False)
    """What the last launch made of the fields."""

    def __post_init__(self) -> None:
        array, rank = read_base(self.base), len(self.shape)
        assert rank in CORNER_RANGES, f"im2col mode requires rank 3, 4, or 5, got {rank}"
        _check_tensor(array, self.shape, self.strides)
        assert len(self.block_shape) == 2, f"im2col: block_shape must be 2D, [pixels, channels], not {self.block_shape}"
        _check_layout(self.layout, self.block_shape, DTYPES[array.dtype])
        for position, extent in enumerate(self.block_shape):
            assert _is_power(extent), f"block_shape[{position}] must be power of 2, got {extent}"
        _check_values(DTYPES[array.dtype], self.padding, self.round_f32_to_tf32)
        self._check_walk(rank)

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        layout: NVMMASharedLayout,
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
        element_strides: Sequence[int] | None = None,
        pixel_box_lower_corner: Sequence[int] | None = None,
        pixel_box_upper_corner: Sequence[int] | None = None,
    ) -> TensorDescriptorIm2Col:
        """The descriptor of a whole array, of its shape and strides."""
        array = read_base(tensor)
        steps, lower, upper = (
            None if numbers is None else list(numbers)
            for numbers in (element_strides, pixel_box_lower_corner, pixel_box_upper_corner)
        )
        return TensorDescriptorIm2Col(
            tensor, list(array.shape), list(array.strides), list(block_shape), layout, padding, round_f32_to_tf32,
            steps, lower, upper,
        )  # fmt: skip

    @property
    def mode(self) -> Literal["im2col"]:
        """How copies go through the tensor."""
        return "im2col"

    @property
    def fields(self) -> tuple[Any, ...]:
        """Everything but the base."""
        return (
            self.shape, self.strides, self.block_shape, self.layout, self.padding, self.round_f32_to_tf32,
            self.element_strides, self.pixel_box_lower_corner, self.pixel_box_upper_corner,
        )  # fmt: skip

    def describe(self, array: DeviceArray) -> tuple[tensor_descriptor_type, TensorMap]:
        """As of `TensorDescriptor`."""
        block = tuple(self.block_shape)
        kind = tensor_descriptor_type(DTYPES[array.dtype], block, self.layout, len(self.shape), im2col=True)
        corners = PixelBox(tuple(self.pixel_box_lower_corner or ()), tuple(self.pixel_box_upper_corner or ()))
        steps = tuple(self.element_strides or ())
        return kind, _tensor_map(self, array, kind, element_strides=steps, pixels=corners)

    def _check_walk(self, rank: int) -> None:
        if self.element_strides is not None:
            count = len(self.element_strides)
            assert count == rank, f"element_strides length mismatch: expected {rank}, got {count}"
            for position, step in enumerate(self.element_strides):
                assert 0 < step <= GREATEST_ELEMENT_STRIDE, (
                    f"element_strides[{position}] must be in (0, {GREATEST_ELEMENT_STRIDE}], got {step}"
                )
            assert self.element_strides[-1] == 1, f"element_strides[-1] must be 1, got {self.element_strides[-1]}"
        low, high = CORNER_RANGES[rank]
        for name in ("pixel_box_lower_corner", "pixel_box_upper_corner"):
            corner = getattr(self, name)
            assert corner is not None, f"{name} required for im2col"
            assert len(corner) == rank - 2, f"{name} length mismatch: expected {rank - 2}, got {len(corner)}"
            for position, number in enumerate(corner):
                assert low <= number <= high, f"{name}[{position}] must be in [{low}, {high}], got {number}"


AnyDescriptor = TensorDescriptor | TensorDescriptorIm2Col


def read_base(value: Any) -> DeviceArray:
    """The base of a descriptor as an array; `AssertionError` for what is none."""
    reads_itself = callable(getattr(type(value), "array", None))
    found: DeviceArray | None = value.array() if reads_itself else read_array(value)
    assert found is not None, f"a tensor descriptor's base must be an array, not {type(value).__name__}"
    return found


def _tensor_map(descriptor: AnyDescriptor, array: DeviceArray, kind: tensor_descriptor_type, **more: Any) -> TensorMap:
    rounded = descriptor.round_f32_to_tf32
    try:
        return TensorMap(
            base=array.pointer,
            shape=tuple(map(int, descriptor.shape)),
            strides=tuple(map(int, descriptor.strides)),
            element="tfloat32" if rounded else stored_element(kind.element_ty),
            box=boxes_of(kind).shape,
            swizzle=descriptor.layout.swizzle_byte_width,
            fill=descriptor.padding,
            **more,
        )
    except (ValueError, LayoutError) as error:
        raise AssertionError(str(error)) from None


def _is_power(extent: Any) -> bool:
    return isinstance(extent, int) and extent > 0 and not extent & (extent - 1)


def _check_tensor(array: DeviceArray, shape: Sequence[int], strides: Sequence[int]) -> None:
    size = DTYPES[array.dtype].itemsize
    assert 1 <= len(shape) <= GREATEST_RANK, f"rank must be 1-5, not {len(shape)}"
    assert len(strides) == len(shape), f"strides rank mismatch: {len(shape)} extents and {len(strides)} strides"
    assert array.pointer % GRANULE == 0, f"base must be 16-byte aligned, and it is at {array.pointer:#x}"
    for stride in strides[:-1]:
        assert stride * size % GRANULE == 0, f"strides must be 16-byte aligned, and one is {stride * size} bytes"
    assert all(extent > 0 for extent in shape), f"shape must be positive, not {list(shape)}"
    assert strides[-1] == 1, f"Last dimension must be contiguous, and the strides are {list(strides)}"


def _check_extents(block: Sequence[int]) -> None:
    for position, extent in enumerate(block):
        if isinstance(extent, bool) or not isinstance(extent, int):
            raise TypeError(f"Shape element {position} must have type `constexpr[int]`, not {extent!r}")
        if not _is_power(extent):
            raise ValueError(f"Shape element {position} must be a power of 2, not {extent}")


def _check_layout(layout: Any, block: Sequence[int], element: dtype) -> None:
    assert isinstance(layout, NVMMASharedLayout), f"Layout must be NVMMASharedLayout, not {layout!r}"
    assert layout.rank == len(block), f"layout rank must match block shape rank: {layout.rank} and {len(block)}"
    bits = element.primitive_bitwidth
    assert bits in ELEMENT_BITS and bits == layout.element_bitwidth, (
        f"elements of {bits} bits need a layout of as many, one of {ELEMENT_BITS}, not of {layout.element_bitwidth}"
    )
    assert not layout.fp4_padded, (
        "fp4_padded requires blackwell or newer, for which tensor descriptors are not there yet"
    )
    least = layout.swizzle_byte_width // element.itemsize
    assert block[-1] >= least, f"Expected block_shape[-1] to be at least {least} but got {block[-1]}"


def _check_values(element: dtype, padding: str, rounded: bool) -> None:
    assert padding in ("zero", "nan"), f"Illegal value for padding: {padding!r}; there are zero and nan"
    assert padding == "zero" or element.is_floating(), f"nan padding is only supported for float tensors, not {element}"
    assert not rounded or element.is_fp32(), f"round_f32_to_tf32 is only supported for float32 tensors, not {element}"
