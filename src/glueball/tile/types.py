"""Types of the language and of the tile IR: element types, pointers, tiles with layouts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from glueball.errors import LayoutError
from glueball.layouts import DistributedLayout, LinearLayout, NVMMASharedLayout, PlaceholderLayout
from glueball.layouts.base import SharedLayout
from glueball.layouts.normalise import unwrap

if TYPE_CHECKING:
    import numpy

MAXIMUM_TILE_ELEMENTS = 1 << 20


class Kind(Enum):
    """What an element type's values are; the order is the order of promotion."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2
    NOTHING = -1


class Signedness(Enum):
    """Whether an integer type is signed."""

    SIGNED = 0
    UNSIGNED = 1


def _is(name: str) -> Callable[[dtype], bool]:
    """The predicate of one element type, by its short name."""

    def predicate(self: dtype) -> bool:
        return self.name == name

    predicate.__doc__ = f"Whether this is `{name}`."
    return predicate


@dataclass(frozen=True, slots=True)
class dtype:  # noqa: N801 - the name that kernel authors write
    """An element type such as `float32`. Equality is by name; `str()` is the short name, such as `fp32`."""

    name: str
    primitive_bitwidth: int = field(compare=False)
    numeric_kind: Kind = field(compare=False)
    signed: bool = field(compare=False, default=False)
    fp_mantissa_width: int = field(compare=False, default=0)
    exponent_bias: int = field(compare=False, default=0)
    long_name: str = field(compare=False, default="")
    numpy_name: str = field(compare=False, default="")

    KIND = Kind
    SIGNEDNESS = Signedness

    def kind(self) -> Kind:
        """Boolean, integral or floating."""
        return self.numeric_kind

    @property
    def scalar(self) -> dtype:
        """The element type itself."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """A scalar has no extents."""
        return ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; a bool takes one."""
        return max(1, self.primitive_bitwidth // 8)

    @property
    def memory_bits(self) -> int:
        """Bits of one element in memory; a bool takes eight."""
        return self.itemsize * 8

    @property
    def int_bitwidth(self) -> int:
        """Width of an integer type in bits."""
        return self.primitive_bitwidth

    @property
    def int_signedness(self) -> Signedness:
        """Signedness of an integer type."""
        return Signedness.SIGNED if self.signed else Signedness.UNSIGNED

    def is_floating(self) -> bool:
        """Whether values are floating point."""
        return self.numeric_kind is Kind.FLOATING

    def is_int(self) -> bool:
        """Whether values are integers, booleans included."""
        return self.numeric_kind in (Kind.INTEGRAL, Kind.BOOLEAN)

    def is_bool(self) -> bool:
        """Whether this is `int1`."""
        return self.numeric_kind is Kind.BOOLEAN

    is_int1 = is_bool

    def is_int_signed(self) -> bool:
        """Whether values are signed integers."""
        return self.is_int() and self.signed

    def is_int_unsigned(self) -> bool:
        """Whether values are unsigned integers or booleans."""
        return self.is_int() and not self.signed

    def is_fp8(self) -> bool:
        """Whether values are 8-bit floats of any kind."""
        return self.is_floating() and self.primitive_bitwidth == 8

    def is_standard_floating(self) -> bool:
        """Whether this is float16, bfloat16, float32 or float64."""
        return self.is_floating() and self.primitive_bitwidth >= 16

    is_void = _is("void")
    is_int8, is_int16, is_int32, is_int64 = (_is(f"int{bits}") for bits in (8, 16, 32, 64))
    is_uint8, is_uint16, is_uint32, is_uint64 = (_is(f"uint{bits}") for bits in (8, 16, 32, 64))
    is_fp16, is_bf16, is_fp32, is_fp64 = (_is(name) for name in ("fp16", "bf16", "fp32", "fp64"))
    is_fp8e5, is_fp8e5b16 = _is("fp8e5"), _is("fp8e5b16")
    is_fp8e4nv, is_fp8e4b8, is_fp8e4b15 = _is("fp8e4nv"), _is("fp8e4b8"), _is("fp8e4b15")

    def is_block(self) -> bool:
        """A scalar is no tile."""
        return False

    def is_ptr(self) -> bool:
        """An element type is no pointer."""
        return False

    def is_const(self) -> bool:
        """An element type is not a constant pointer."""
        return False

    def get_int_max_value(self) -> int:
        """Greatest value of an integer type."""
        return int((1 << (self.primitive_bitwidth - (1 if self.signed else 0))) - 1)

    def get_int_min_value(self) -> int:
        """Least value of an integer type."""
        return -(1 << (self.primitive_bitwidth - 1)) if self.signed else 0

    def with_element_ty(self, element: ScalarType) -> ScalarType:
        """The given element type: a scalar has no shape to keep."""
        return element

    def mangle(self) -> str:
        """Short text for specialised names, such as `i32`, `u8`, `fp16`."""
        if self.is_int():
            return f"{'i' if self.signed else 'u'}{self.primitive_bitwidth}"
        return self.name

    @property
    def numpy(self) -> numpy.dtype[Any]:
        """The NumPy element type (from `ml_dtypes` for the narrow floats)."""
        return _numpy_dtype(self.numpy_name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"glueball.language.{self.long_name or self.name}"


@functools.cache
def _numpy_dtype(name: str) -> numpy.dtype[Any]:
    import ml_dtypes
    import numpy

    found: numpy.dtype[Any] = numpy.dtype(name if name in numpy.sctypeDict else getattr(ml_dtypes, name))
    return found


def _integer(bits: int, signed: bool) -> dtype:
    name = f"{'int' if signed else 'uint'}{bits}"
    return dtype(name, bits, Kind.INTEGRAL, signed=signed, long_name=name, numpy_name=name)


def _floating(name: str, long_name: str, bits: int, mantissa: int, bias: int, numpy_name: str) -> dtype:
    return dtype(name, bits, Kind.FLOATING, True, mantissa, bias, long_name, numpy_name)


void = dtype("void", 0, Kind.NOTHING, long_name="void")
int1 = dtype("int1", 1, Kind.BOOLEAN, long_name="int1", numpy_name="bool")
int8, int16, int32, int64 = (_integer(bits, True) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_integer(bits, False) for bits in (8, 16, 32, 64))
float8e5 = _floating("fp8e5", "float8e5", 8, 2, 15, "float8_e5m2")
float8e5b16 = _floating("fp8e5b16", "float8e5b16", 8, 2, 16, "float8_e5m2fnuz")
float8e4nv = _floating("fp8e4nv", "float8e4nv", 8, 3, 7, "float8_e4m3fn")
float8e4b8 = _floating("fp8e4b8", "float8e4b8", 8, 3, 8, "float8_e4m3fnuz")
float8e4b15 = _floating("fp8e4b15", "float8e4b15", 8, 3, 15, "uint8")
float16 = _floating("fp16", "float16", 16, 10, 15, "float16")
bfloat16 = _floating("bf16", "bfloat16", 16, 7, 127, "bfloat16")
float32 = _floating("fp32", "float32", 32, 23, 127, "float32")
float64 = _floating("fp64", "float64", 64, 52, 1023, "float64")

DTYPES: dict[str, dtype] = {
    item.long_name: item
    for item in (
        void, int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e5, float8e5b16, float8e4nv,
        float8e4b8, float8e4b15, float16, bfloat16, float32, float64,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class pointer_type:  # noqa: N801 - the name that kernel authors write
    """The type of a pointer to elements; arithmetic on it counts elements."""

    element_ty: dtype
    address_space: str = "global"
    const: bool = False

    primitive_bitwidth = 64
    itemsize = 8

    @property
    def name(self) -> str:
        """Such as `pointer<int32>`, or `const_pointer<int32>`."""
        return f"{'const_' if self.const else ''}pointer<{self.element_ty.name}>"

    @property
    def scalar(self) -> pointer_type:
        """The pointer type itself."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """A scalar has no extents."""
        return ()

    def is_block(self) -> bool:
        """A pointer is no tile."""
        return False

    def is_ptr(self) -> bool:
        """Whether this is a pointer."""
        return True

    def is_const(self) -> bool:
        """Whether stores through the pointer are refused."""
        return self.const

    def is_floating(self) -> bool:
        """A pointer is no number."""
        return False

    def is_int(self) -> bool:
        """A pointer is no number."""
        return False

    def is_bool(self) -> bool:
        """A pointer is no number."""
        return False

    def with_element_ty(self, element: ScalarType) -> ScalarType:
        """The given element type: a scalar has no shape to keep."""
        return element

    def mangle(self) -> str:
        """`P` and the element type."""
        return f"P{self.element_ty.mangle()}"

    def __str__(self) -> str:
        return self.name


ScalarType = dtype | pointer_type


class block_type:  # noqa: N801 - the name that kernel authors write
    """Base of the types that have a shape."""

    __slots__ = ()
    element_ty: ScalarType
    shape: tuple[int, ...]

    @property
    def scalar(self) -> ScalarType:
        """The element type."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def is_block(self) -> bool:
        """Whether this is a tile."""
        return True


@dataclass(frozen=True, slots=True)
class distributed_type(block_type):  # noqa: N801 - the name that kernel authors write
    """A tile in registers: element type, shape (any sequence) and the layout that says which thread holds what.

    Structural equality compares layouts as written; `same_placement` compares the maps.
    Errors: `AssertionError` for a rank mismatch or something that is no layout, `ValueError` for extents that are not
    powers of two or more than 2^20 elements, `TypeError` for extents that are no integers.
    """

    element_ty: ScalarType
    shape: tuple[int, ...]
    layout: DistributedLayout

    def __post_init__(self) -> None:
        shape, layout = cast("Any", self.shape), cast("Any", self.layout)
        if not isinstance(shape, tuple) or any(type(extent) is not int for extent in shape):
            object.__setattr__(self, "shape", tuple(map(unwrap, shape)))
        if not isinstance(layout, DistributedLayout):
            object.__setattr__(self, "layout", unwrap(layout))
        assert isinstance(self.layout, DistributedLayout), "tensor layout must be a DistributedLayout"
        for extent in self.shape:
            if isinstance(extent, bool) or not isinstance(extent, int):
                raise TypeError(f"shape element {extent!r} must have type `constexpr[int]`")
            if extent < 1 or extent & (extent - 1):
                raise ValueError(f"shape element {extent} must be a power of 2")
        if not self.shape:
            raise ValueError("a tile has at least one dimension; use the element type for a scalar")
        if self.numel > MAXIMUM_TILE_ELEMENTS:
            raise ValueError(f"numel ({self.numel}) exceeds triton maximum tensor numel ({MAXIMUM_TILE_ELEMENTS})")
        assert isinstance(self.layout, PlaceholderLayout) or len(self.shape) == self.layout.rank, (
            f"tensor shape and layout rank mismatch: shape {list(self.shape)}, layout {self.layout} of rank "
            f"{self.layout.rank}"
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the tile."""
        return self.numel * self.element_ty.primitive_bitwidth // 8

    @property
    def linear(self) -> LinearLayout:
        """The map from register, lane, warp and block to coordinates."""
        return self.layout.linear(self.shape)

    @property
    def is_placed(self) -> bool:
        """Whether the layout is known, not one to be inferred."""
        return not isinstance(self.layout, PlaceholderLayout)

    def same_placement(self, other: distributed_type) -> bool:
        """Whether both place every element in the same slots, however the layouts are spelled."""
        if self.shape != other.shape or self.layout == other.layout:
            return self.shape == other.shape
        return self.is_placed and other.is_placed and self.linear == other.linear

    def is_ptr(self) -> bool:
        """A tile of pointers is still a tile."""
        return False

    def is_const(self) -> bool:
        """A tile is not a constant pointer."""
        return False

    def with_element_ty(self, element: ScalarType) -> distributed_type:
        """The same tile of another element type."""
        return distributed_type(element, self.shape, self.layout)

    def mangle(self) -> str:
        """Element, shape and layout, for specialised names."""
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}SL{self.layout.mangle()}L"

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}, {self.layout}>"


@dataclass(frozen=True, slots=True)
class shared_memory_descriptor_type:  # noqa: N801 - the name that kernel authors write
    """A view of a tile in shared memory: element type, shape, layout, and the shape whose addresses the layout gives.

    The layout has the rank of `shape`, or one less: then dimension 0 counts buffers, one after another, of the rest.
    `alloc_shape` is the shape of the allocation, of which a slice is a part; its last `layout.rank` extents are those
    that the layout spreads out.
    Errors: `AssertionError` for what is no shared layout; `LayoutError` for another rank, and for extents other than
    the number of buffers that are no powers of two.
    """

    element_ty: ScalarType
    shape: tuple[int, ...]
    layout: SharedLayout
    alloc_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        assert isinstance(self.layout, SharedLayout), "a descriptor's layout must be a SharedLayout"
        if self.layout.rank not in (len(self.shape), len(self.shape) - 1):
            raise LayoutError(
                f"layout rank must be equal to or one less than the shape size: rank {self.layout.rank} for shape "
                f"{list(self.shape)} in {self.layout}"
            )
        for shape in (self.tile_shape, self.layout_shape):
            if any(extent < 1 or extent & (extent - 1) for extent in shape):
                raise LayoutError(f"shape must have power-of-2 and non-zero dimensions, not {list(shape)}")
        if self.shape[0] < 1:
            raise LayoutError(f"shape must have non-zero dimensions, not {list(self.shape)}")

    @property
    def is_buffered(self) -> bool:
        """Whether dimension 0 counts buffers."""
        return self.layout.rank < len(self.shape)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The extents of the view in the dimensions of the layout."""
        return self.shape[len(self.shape) - self.layout.rank :]

    @property
    def layout_shape(self) -> tuple[int, ...]:
        """The shape that the layout spreads out."""
        return self.alloc_shape[len(self.alloc_shape) - self.layout.rank :]

    @property
    def linear(self) -> LinearLayout:
        """The map from offset, in elements, and block to coordinates in the layout's shape."""
        return self.layout.linear(self.layout_shape)

    @property
    def scalar(self) -> ScalarType:
        """The element type."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def is_block(self) -> bool:
        """A view of memory is no tile."""
        return False

    def is_ptr(self) -> bool:
        """A view of memory is no pointer to elements."""
        return False

    def with_element_ty(self, element: ScalarType) -> shared_memory_descriptor_type:
        """The same view of another element type."""
        return shared_memory_descriptor_type(element, self.shape, self.layout, self.alloc_shape)

    def mangle(self) -> str:
        """Element, shapes and layout, for specialised names."""
        shapes = "A".join("_".join(map(str, shape)) for shape in (self.shape, self.alloc_shape))
        return f"MD{self.element_ty.mangle()}S{shapes}SL{self.layout.mangle()}LMD"

    def __str__(self) -> str:
        alloc = f", slice of {list(self.alloc_shape)}" if self.alloc_shape != self.shape else ""
        return f"shared<{list(self.shape)}, {self.element_ty}, {self.layout}{alloc}>"


@dataclass(frozen=True, slots=True)
class plain_block_type(block_type):  # noqa: N801 - the name that kernel authors write
    """A block of elements that has no layout: element type and shape."""

    element_ty: dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.numel * self.element_ty.itemsize

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"


@dataclass(frozen=True, slots=True)
class tensor_descriptor_type:  # noqa: N801 - the name that kernel authors write
    """A tensor in global memory as bulk copies see it: the element type, the block that one copy moves, its layout.

    `rank` counts the tensor's dimensions, which for an `im2col` descriptor are more than those of a block.
    """

    element_ty: dtype
    block_shape: tuple[int, ...]
    layout: NVMMASharedLayout
    rank: int
    im2col: bool = False

    @property
    def scalar(self) -> dtype:
        """The element type."""
        return self.element_ty

    @property
    def shape(self) -> tuple[int, ...]:
        """A descriptor is one value."""
        return ()

    @property
    def numel(self) -> int:
        """Elements of a block."""
        return math.prod(self.block_shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a block's elements."""
        return self.numel * self.element_ty.itemsize

    @property
    def block_type(self) -> plain_block_type:
        """Element type, shape and bytes of a block."""
        return plain_block_type(self.element_ty, self.block_shape)

    @property
    def nbytes_per_cta(self) -> int:
        """Bytes that a load of one block brings to a CTA; dimensions over which CTAs share it do not divide it."""
        return self.nbytes >> sum(any(basis) for basis in self.layout.cga_layout)

    def is_block(self) -> bool:
        """A descriptor is no tile."""
        return False

    def is_ptr(self) -> bool:
        """A descriptor is no pointer to elements."""
        return False

    def with_element_ty(self, element: ScalarType) -> tensor_descriptor_type:
        """The same descriptor of another element type."""
        assert isinstance(element, dtype)
        return tensor_descriptor_type(element, self.block_shape, self.layout, self.rank, self.im2col)

    def mangle(self) -> str:
        """Element, block and layout, for specialised names."""
        block, name = "_".join(map(str, self.block_shape)), "TDI" if self.im2col else "TD"
        return f"{name}{self.element_ty.mangle()}S{block}S_{self.layout.mangle()}{name}"

    def __str__(self) -> str:
        name, rank = ("tensordesc_im2col", f"input_rank={self.rank},") if self.im2col else ("tensordesc", "")
        return f"{name}<{self.element_ty}[{','.join(map(str, self.block_shape))}],{rank}{self.layout!r}>"


DESCRIPTOR_PARTS = (("shape", int32), ("strides", int64))
"""What follows a tensor descriptor among a kernel's arguments: a number of each type for every dimension."""

TileType = ScalarType | distributed_type | shared_memory_descriptor_type | tensor_descriptor_type


def element_of(value_type: TileType) -> ScalarType:
    """The element type of a tile or view, or the scalar type itself."""
    if isinstance(value_type, distributed_type | shared_memory_descriptor_type | tensor_descriptor_type):
        return value_type.element_ty
    return value_type
