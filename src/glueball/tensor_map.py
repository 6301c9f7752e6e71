"""What the copy engine of NVIDIA GPUs is told about a tensor (CUDA driver API, `cuTensorMapEncodeTiled`, `...Im2col`).

Dimensions are in the author's order, outermost first, everywhere in this module; the driver and the instructions have
them innermost first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Addresses = TypeVar("Addresses", int, Integers)

GREATEST_RANK = 5
GREATEST_BOX = 256
GREATEST_PIXELS = 1024
GREATEST_ELEMENT_STRIDE = 8
EXTENT_LIMIT = 1 << 32
STRIDE_LIMIT = 1 << 40
GRANULE = 16
"""Bytes that a base address, a stride and a row of a box are a multiple of."""
SWIZZLES = (0, 32, 64, 128)
CORNER_RANGES = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""What the corners of a pixel box can be, by rank of the tensor."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: `code` is the driver's number for it; `nan` are the bits out of bounds, where it has any."""

    code: int
    bytes: int
    nan: int | None = None


ELEMENTS: dict[str, Element] = {
    "uint8": Element(0, 1),
    "uint16": Element(1, 2),
    "uint32": Element(2, 4),
    "int32": Element(3, 4),
    "uint64": Element(4, 8),
    "int64": Element(5, 8),
    "float16": Element(6, 2, 0x7FFF),
    "float32": Element(7, 4, 0x7FFFFFFF),
    "float64": Element(8, 8, 0x7FFFFFFFFFFFFFFF),
    "bfloat16": Element(9, 2, 0x7FFF),
    "tfloat32": Element(11, 4, 0x7FFFFFFF),
}
"""`tfloat32` is float32 in memory that loads round to 10 bits of fraction."""


@dataclass(frozen=True, slots=True)
class TensorMapType:
    """What a kernel knows of a descriptor when it is compiled; the fields are those of `TensorMap`."""

    element: str
    rank: int
    box: tuple[int, ...]
    swizzle: int = 0
    im2col: bool = False

    def __str__(self) -> str:
        mode = " im2col" if self.im2col else ""
        return f"{self.rank}-D{mode} tensor map of {self.element}, box {list(self.box)}, swizzle {self.swizzle}"


@dataclass(frozen=True, slots=True)
class PixelBox:
    """How a tensor of shape [N, (D, (H,)) W, C] is read pixel by pixel.

    `lower` and `upper`, one number for each spatial dimension, place the box of pixels that a filter's first tap
    visits: from `lower` to `extent - 1 + upper`. The box of a copy is `[pixels, channels]`.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory, and the box of it that one message copies.

    `base` is the address of its first element, `strides` are in elements, `element` is a key of `ELEMENTS`, `swizzle`
    is the span in bytes in which 16-byte pieces of shared memory change places (0, 32, 64, 128), `fill` is what is read
    out of bounds (`zero` or `nan`), `element_strides` visit only every n-th element (empty for all). With `pixels`, the
    box is `[pixels, channels]` and the map an im2col one.
    Errors: `ValueError` for every rule of the driver that is broken.
    """

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str
    box: tuple[int, ...]
    swizzle: int = 0
    fill: str = "zero"
    element_strides: tuple[int, ...] = ()
    pixels: PixelBox | None = None

    def __post_init__(self) -> None:
        for find_problem in (self._tensor_problem, self._box_problem, self._pixel_problem):
            if problem := find_problem():
                raise ValueError(f"a tensor map {problem}")

    @property
    def rank(self) -> int:
        """Dimensions of the tensor."""
        return len(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.element].bytes

    @property
    def steps(self) -> tuple[int, ...]:
        """`element_strides`, one for each dimension."""
        return self.element_strides or (1,) * self.rank

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Elements that one message copies, for each dimension of the box."""
        if self.pixels is not None:
            return self.box
        return tuple(-(-extent // step) for extent, step in zip(self.box, self.steps, strict=True))

    @property
    def run(self) -> int:
        """How many neighbours among a box's elements lie side by side in the tensor."""
        return self.box_shape[-1] if self.pixels is not None or self.steps[-1] == 1 else 1

    @property
    def box_bytes(self) -> int:
        """Bytes of one message, elements out of bounds included."""
        return math.prod(self.box_shape) * self.item_bytes

    @property
    def type(self) -> TensorMapType:
        """What a kernel knows of it: float32 that is rounded is float32 to it."""
        element = "float32" if self.element == "tfloat32" else self.element
        return TensorMapType(element, self.rank, self.box, self.swizzle, self.pixels is not None)

    def elements(self, coordinates: Any, taps: Any = None, *, store: bool = False) -> tuple[Integers, Booleans]:
        """Offsets in elements from the base, and which are in bounds: both `[box, element]`.

        A `store` writes whole pieces of 16 bytes: where a row does not end with one, what comes after it up to the next
        multiple of 16 bytes is overwritten too (measured on an H200), but for what lies beyond the last row.

        `coordinates` are those of the boxes' first elements, `[box, dimension]`. For im2col they are those of the first
        pixel and `taps`, `[box, spatial dimension]`, is added to every pixel of a box.
        Errors: `ValueError` for a first pixel that no walk through the pixel box visits.
        """
        first = np.atleast_2d(np.asarray(coordinates, np.int64))
        if self.pixels is None:
            indices = [
                first[:, axis, None] + np.arange(extent) * step
                for axis, (extent, step) in enumerate(zip(self.box_shape, self.steps, strict=True))
            ]
            return self._combined(indices, store)
        return self._pixel_elements(self.pixels, first, np.asarray(taps, np.int64))

    def _combined(self, indices: list[Integers], store: bool) -> tuple[Integers, Booleans]:
        """Offsets and bounds of the product of `[box, index]` along every dimension."""
        boxes = indices[0].shape[0]
        offsets, inside = np.zeros((boxes, 1), np.int64), np.ones((boxes, 1), bool)
        piece = GRANULE // self.item_bytes
        extents = (*self.shape[:-1], -(-self.shape[-1] // piece) * piece) if store else self.shape
        for index, extent, stride in zip(indices, extents, self.strides, strict=True):
            within = (index >= 0) & (index < extent)
            offsets = (offsets[:, :, None] + (index * stride)[:, None, :]).reshape(boxes, -1)
            inside = (inside[:, :, None] & within[:, None, :]).reshape(boxes, -1)
        if store:
            last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
            inside &= offsets <= last
        return offsets, inside

    def _pixel_elements(self, pixels: PixelBox, first: Integers, taps: Integers) -> tuple[Integers, Booleans]:
        count, channels = self.box
        spatial, steps = self.shape[1:-1], self.steps[1:-1]
        walks = [
            (extent - 1 + upper - lower) // step + 1
            for extent, lower, upper, step in zip(spatial, pixels.lower, pixels.upper, steps, strict=True)
        ]
        number = first[:, 0]
        for axis, walk in enumerate(walks):
            place, rest = np.divmod(first[:, axis + 1] - pixels.lower[axis], steps[axis])
            if rest.any() or (place < 0).any() or (place >= walk).any():
                raise ValueError(f"a pixel box is entered at {first[0].tolist()}, which is none of its pixels")
            number = number * walk + place
        numbers = number[:, None] + np.arange(count)
        offsets, inside = np.zeros(numbers.shape, np.int64), np.ones(numbers.shape, bool)
        for axis in reversed(range(len(walks))):
            numbers, place = np.divmod(numbers, walks[axis])
            index = place * steps[axis] + pixels.lower[axis] + np.atleast_2d(taps)[:, axis, None]
            offsets += index * self.strides[axis + 1]
            inside &= (index >= 0) & (index < spatial[axis])
        offsets += numbers * self.strides[0]
        inside &= (numbers >= 0) & (numbers < self.shape[0])
        channel = first[:, -1, None] + np.arange(channels)
        fits = (channel >= 0) & (channel < self.shape[-1])
        boxes = first.shape[0]
        return (
            (offsets[:, :, None] + channel[:, None, :]).reshape(boxes, -1),
            (inside[:, :, None] & fits[:, None, :]).reshape(boxes, -1),
        )

    def shared_addresses(self, starts: Any) -> Integers:
        """Byte addresses in shared memory of every element of boxes that start at `starts`: `[box, element]`."""
        inside = np.arange(math.prod(self.box_shape), dtype=np.int64) * self.item_bytes
        return swizzled(np.asarray(starts, np.int64).reshape(-1, 1) + inside, self.swizzle)

    def as_loaded(self, values: Any) -> Any:
        """Elements as a load brings them: those of `tfloat32` rounded to even; NaN and infinity as they are."""
        if self.element != "tfloat32":
            return values
        words = np.ascontiguousarray(values, np.float32).view(np.uint32)
        rounded = words + 0xFFF + (words >> 13 & 1) & np.uint32(0xFFFFE000)
        special = (words & 0x7F800000) == 0x7F800000
        return np.where(special, words, rounded).astype(np.uint32).view(np.float32)

    def fill_bits(self) -> int:
        """The bits that are read out of bounds, as an unsigned number."""
        return (ELEMENTS[self.element].nan or 0) if self.fill == "nan" else 0

    def _tensor_problem(self) -> str:
        if self.element not in ELEMENTS:
            return f"has no element type {self.element!r}; there are {', '.join(ELEMENTS)}"
        if not 1 <= self.rank <= GREATEST_RANK:
            return f"has 1 to {GREATEST_RANK} dimensions, not {self.rank}"
        if len(self.strides) != self.rank:
            return f"of rank {self.rank} has as many strides, not {len(self.strides)}"
        if self.base % GRANULE:
            return f"starts at a multiple of {GRANULE} bytes, not at {self.base:#x}: base must be 16-byte aligned"
        if any(extent < 1 for extent in self.shape):
            return f"is not empty, and its shape is {list(self.shape)}: shape must be positive"
        if any(extent > EXTENT_LIMIT for extent in self.shape):
            return f"has at most 2^32 elements along a dimension, and its shape is {list(self.shape)}"
        if self.strides[-1] != 1:
            return f"is contiguous along its last dimension, and its strides are {list(self.strides)}"
        for stride in self.strides[:-1]:
            if stride * self.item_bytes % GRANULE:
                size = stride * self.item_bytes
                return f"has strides of multiples of {GRANULE} bytes, not {size}: strides must be 16-byte aligned"
            if not 0 <= stride * self.item_bytes < STRIDE_LIMIT:
                return f"has strides of 0 to 2^40 - 1 bytes, not {stride * self.item_bytes}"
        return self._mode_problem()

    def _mode_problem(self) -> str:
        if self.fill not in ("zero", "nan"):
            return f"is filled with zero or nan, not {self.fill!r}"
        if self.fill == "nan" and ELEMENTS[self.element].nan is None:
            return f"of {self.element} cannot be filled with nan"
        if self.swizzle not in SWIZZLES:
            return f"has a swizzle of {', '.join(map(str, SWIZZLES))} bytes, not {self.swizzle}"
        if len(self.steps) != self.rank:
            return f"of rank {self.rank} has as many element strides, not {len(self.steps)}"
        if any(not 1 <= step <= GREATEST_ELEMENT_STRIDE for step in self.steps):
            return f"has element strides of 1 to {GREATEST_ELEMENT_STRIDE}, not {list(self.steps)}"
        return ""

    def _box_problem(self) -> str:
        expected = self.rank if self.pixels is None else 2
        if len(self.box) != expected:
            return f"has a box of {expected} dimensions, not {list(self.box)}"
        limits = (GREATEST_BOX,) * self.rank if self.pixels is None else (GREATEST_PIXELS, GREATEST_BOX)
        if any(not 1 <= extent <= limit for extent, limit in zip(self.box, limits, strict=True)):
            return f"has a box of 1 to {list(limits)} elements, not {list(self.box)}"
        row = self.box[-1] * self.item_bytes
        if row % GRANULE:
            return f"has a box whose rows are multiples of {GRANULE} bytes, not {row}"
        if self.swizzle and row > self.swizzle:
            return f"with a swizzle of {self.swizzle} bytes has a box of rows that are no longer, not {row} bytes"
        return ""

    def _pixel_problem(self) -> str:
        if self.pixels is None:
            return ""
        if self.rank not in CORNER_RANGES:
            return f"for im2col has 3 to 5 dimensions, not {self.rank}"
        if self.steps[-1] != 1:
            return f"for im2col takes every channel, and its element strides are {list(self.steps)}"
        low, high = CORNER_RANGES[self.rank]
        for name, corner in (("lower", self.pixels.lower), ("upper", self.pixels.upper)):
            if len(corner) != self.rank - 2:
                return f"of rank {self.rank} has a {name} corner of {self.rank - 2} numbers, not {list(corner)}"
            if any(not low <= number <= high for number in corner):
                return f"of rank {self.rank} has corners in [{low}, {high}], not {list(corner)}"
        spatial = zip(self.shape[1:-1], self.pixels.lower, self.pixels.upper, strict=True)
        if any(extent + upper - lower < 1 for extent, lower, upper in spatial):
            return f"has an empty pixel box from {list(self.pixels.lower)} to {list(self.pixels.upper)}"
        return ""


@dataclass(frozen=True, slots=True)
class MappedArray:
    """A tensor map and the array that it is a map of, whose first element is at the map's base."""

    array: Any
    map: TensorMap


def swizzled(addresses: Addresses, span: int) -> Addresses:
    """Where bytes go when 16-byte pieces change places within `span` bytes, by the bits of the address above 7."""
    if not span:
        return addresses
    return addresses ^ ((addresses >> 7 & (span // GRANULE - 1)) << 4)
