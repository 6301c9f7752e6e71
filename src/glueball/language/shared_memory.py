"""Shared memory: allocation, views of it, loads and stores through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Self

from glueball.errors import LayoutError, did_you_mean
from glueball.language.broadcasting import broadcast_all
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap
from glueball.language.values import base_value
from glueball.layouts import DistributedLayout
from glueball.layouts.banks import SharedMemory
from glueball.layouts.banks import bank_conflicts as count_conflicts
from glueball.layouts.base import Layout, SharedLayout
from glueball.layouts.distributed import to_distributed_linear
from glueball.layouts.views import to_shared_linear
from glueball.tile.ir import Value
from glueball.tile.shared_views import (
    Descriptor,
    allocated,
    allocated_bytes,
    allocation_alignment,
    indexed,
    permuted,
    reinterpreted,
    reshaped,
    sliced,
)
from glueball.tile.types import ScalarType, distributed_type, dtype, int32, pointer_type, shared_memory_descriptor_type

MEMBERS = (
    "_keep_alive", "_reinterpret", "atomic_scatter_add", "atomic_scatter_and", "atomic_scatter_max",
    "atomic_scatter_min", "atomic_scatter_or", "atomic_scatter_xchg", "atomic_scatter_xor", "dtype", "gather", "index",
    "layout", "load", "nbytes_per_cta", "numel", "permute", "rank", "reinterpret", "reshape", "scatter", "shape",
    "slice", "store", "type",
)  # fmt: skip


class shared_memory_descriptor(base_value):  # noqa: N801 - the name that kernel authors write
    """A view of a tile in shared memory, or of several of one shape (`allocate_shared_memory` makes the first).

    `dtype` is the element type, `shape` the extents, `layout` how they lie in memory. Views of views are free: they
    only change how addresses are computed. Where accesses of several threads meet, the compiler puts barriers.
    """

    __slots__ = ("handle",)

    def __init__(self, handle: Value) -> None:
        self.handle = handle

    @property
    def type(self) -> Descriptor:
        """The `shared_memory_descriptor_type`."""
        kind = self.handle.type
        assert isinstance(kind, shared_memory_descriptor_type)
        return kind

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return self.type.element_ty

    @property
    def shape(self) -> language_tuple:
        """The extents as compile-time values."""
        return language_tuple(self.type.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions, that which counts buffers included."""
        return len(self.type.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.type.numel

    @property
    def layout(self) -> SharedLayout:
        """The layout."""
        return self.type.layout

    @property
    def nbytes_per_cta(self) -> int:
        """Bytes of the view's elements in one CTA, padding apart."""
        return self.numel * self.dtype.itemsize >> sum(any(basis) for basis in self.layout.cga_layout)

    def flatten(self) -> Iterator[Value]:
        """The one IR value."""
        yield self.handle

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The view around another IR value."""
        return type(self)(next(handles))

    @builtin
    def load(self, layout: DistributedLayout | constexpr, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        """The view's elements as a tile in registers, held as `layout` says.

        Errors: `ValueError` for what is no distributed layout and for several buffers; `AssertionError` for another
        rank.
        """
        wanted = _unwrap_if_constexpr(layout)
        if not isinstance(wanted, DistributedLayout):
            raise ValueError(f"expected 'layout' to be a distributed layout, but got {wanted!r}")
        _check_one_buffer(self, "load")
        tile = distributed_type(self.dtype, self.type.shape, wanted)
        return tensor(_builder.create("view_load", [self.handle], [tile]).result)

    @builtin
    def store(self, value: tensor, *, _builder: KernelBuilder = HIDDEN) -> None:
        """Write a tile of exactly the view's shape and element type to it.

        Errors: `ValueError` for what is no tensor, another shape and another element type.
        """
        _check_one_buffer(self, "store")
        _builder.create("view_store", [self.handle, _tile_like(self.type, value).handle])

    @builtin
    def slice(
        self, start: int | constexpr, length: int | constexpr, dim: int | constexpr = 0, *,
        _builder: KernelBuilder = HIDDEN,
    ) -> shared_memory_descriptor:  # fmt: skip
        """`length` elements from `start` on along `dim`.

        Along a dimension of the layout `length` is a power of two and `start` a multiple of it; along that which
        counts buffers both are any.
        Errors: `ValueError` for what is no compile-time integer, a part that exceeds the view, a start that is no
        multiple, and a cut through a period of the swizzle.
        """
        first, count, axis = (
            _integer(value, name) for value, name in ((start, "start"), (length, "length"), (dim, "dim"))
        )
        _check_axis(self, axis, "dim")
        kind = sliced(self.type, first, count, axis)
        return _view(_builder, "view_slice", [self.handle], kind, start=first, length=count, dim=axis)

    @builtin
    def index(self, index: Any, *, _builder: KernelBuilder = HIDDEN) -> shared_memory_descriptor:
        """One of several buffers, by an int32 scalar or a compile-time integer.

        Errors: `ValueError` for another index, and for a compile-time one out of range; `LayoutError` for a view whose
        layout has its own rank.
        """
        kind = indexed(self.type)
        number = _unwrap_if_constexpr(index)
        if isinstance(number, int) and not isinstance(number, bool):
            if not 0 <= number < self.type.shape[0]:
                raise ValueError(f"index {number} is out of range for {self.type.shape[0]} buffers")
            number = _builder.constant(number, int32)
        if not isinstance(number, tensor) or number.type != int32:
            raise ValueError(f"expected 'index' to be an int32 scalar or an int, but got {number!r}")
        return _view(_builder, "view_index", [self.handle, number.handle], kind)

    @builtin
    def permute(self, order: Any, *, _builder: KernelBuilder = HIDDEN) -> shared_memory_descriptor:
        """The view whose dimension `i` is dimension `order[i]` of this one.

        Errors: `ValueError` for an order of another length or that is no permutation.
        """
        axes = [_integer(axis, "order") for axis in unwrap(order)]
        return _view(_builder, "view_permute", [self.handle], permuted(self.type, axes), order=axes)

    @builtin
    def reshape(self, shape: Any, *, _builder: KernelBuilder = HIDDEN) -> shared_memory_descriptor:
        """The view with its elements, row by row, in another shape.

        An NVMMASharedLayout stays one where only leading dimensions change; any other layout becomes a
        SharedLinearLayout. Errors: `ValueError` for another number of elements, a slice, and several buffers.
        """
        kind = reshaped(self.type, _extents(shape))
        return _view(_builder, "view_reshape", [self.handle], kind)

    @builtin
    def reinterpret(
        self, dtype: Any = None, shape: Any = None, layout: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> shared_memory_descriptor:
        """The same bytes with another element type, shape or layout; what is not given stays.

        Errors: `ValueError` where the new view is larger, and for a slice whose bytes do not lie side by side.
        """
        given = [_unwrap_if_constexpr(value) for value in (dtype, layout)]
        element = self.dtype if given[0] is None else _element_type(given[0])
        extents = self.type.shape if _unwrap_if_constexpr(shape) is None else _extents(shape)
        wanted = self.layout if given[1] is None else _shared_layout(given[1])
        kind = reinterpreted(self.type, element, extents, wanted)
        return _view(_builder, "view_reinterpret", [self.handle], kind)

    @builtin
    def _reinterpret(self, dtype: Any, shape: Any, layout: Any, *, _builder: KernelBuilder = HIDDEN) -> Any:
        """The earlier spelling of `reinterpret`."""
        return self.reinterpret(dtype, shape, layout, _builder=_builder)

    @builtin
    def gather(self, indices: tensor, axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        """`out[i, j] = view[indices[i, j], j]` for axis 0 of two, and so on: a tile like `indices`.

        An index out of range gives an undefined value. Errors: `ValueError` for an axis that is none of the view's,
        which a negative one is, and for indices that are no integers or of another rank.
        """
        place, chosen = _indices(self, indices, axis)
        tile = chosen.type.with_element_ty(self.dtype)
        return tensor(_builder.create("view_gather", [self.handle, chosen.handle], [tile], {"axis": place}).result)

    @builtin
    def scatter(
        self, values: tensor, indices: tensor, axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN
    ) -> None:
        """`view[indices[i, j], j] = values[i, j]` for axis 0 of two, and so on; of several to one element, any wins.

        Values and indices broadcast. Errors: as `gather`; `ValueError` for values of another element type.
        """
        place, operands = _scattered(self, values, indices, axis, None, _builder)
        handles = [operand.handle for operand in operands]
        _builder.create("view_scatter", [self.handle, *handles], [], {"axis": place})

    @builtin
    def atomic_scatter_add(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """Add values, integers or floats, to the elements that `scatter` would write, each at once; the old elements.

        Where `mask` is false nothing happens and the result is undefined. Errors: as `scatter`; `ValueError` for an
        element type that has no such operation, and a mask that is not int1.
        """
        return _atomic(self, "add", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_max(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the greater of two integers."""
        return _atomic(self, "max", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_min(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the lesser of two integers."""
        return _atomic(self, "min", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_and(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the bits that both integers have."""
        return _atomic(self, "and", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_or(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the bits that either integer has."""
        return _atomic(self, "or", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_xor(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the bits that one integer has."""
        return _atomic(self, "xor", values, indices, axis, mask, _builder)

    @builtin
    def atomic_scatter_xchg(
        self, values: tensor, indices: tensor, axis: Any, mask: Any = None, *, _builder: KernelBuilder = HIDDEN
    ) -> tensor:
        """As `atomic_scatter_add`, for the new value, integer or float."""
        return _atomic(self, "xchg", values, indices, axis, mask, _builder)

    @builtin
    def _keep_alive(self, *, _builder: KernelBuilder = HIDDEN) -> None:
        """A use of the view and nothing more: until here no other allocation takes its place."""
        _builder.create("keep_alive", [self.handle])

    def __getitem__(self, index: Any) -> NoReturn:
        raise AttributeError(
            "a shared_memory_descriptor is not subscriptable: use .index(i) for one of several buffers, or "
            ".slice(start, length, dim)"
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a shared_memory_descriptor has no attribute {name!r}{did_you_mean(name, MEMBERS)}")

    def __repr__(self) -> str:
        return f"shared_memory_descriptor[{self.handle.type}]"


@builtin
def allocate_shared_memory(
    element_ty: ScalarType | constexpr,
    shape: Iterable[int | constexpr] | language_tuple | constexpr,
    layout: SharedLayout | constexpr,
    value: tensor | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> shared_memory_descriptor:
    """Shared memory for a tile of `shape`, or with a layout of one dimension less for `shape[0]` tiles of the rest.

    Its contents are undefined until they are stored, which `value` does at once. It lives from here to the last use of
    any view of it; what lives at other times may take its place.
    Errors: `ValueError` for what is no element type, shape or shared layout, and for a value of another shape or type;
    `LayoutError` for elements that take no whole bytes, and for a shape that the layout does not fit.
    """
    element = _unwrap_if_constexpr(element_ty)
    if not isinstance(element, dtype | pointer_type):
        raise ValueError(f"expected 'element_ty' to be a dtype, but got {element!r}")
    kind = allocated(element, _extents(shape), _shared_layout(layout))
    given = _unwrap_if_constexpr(value)
    source = None if given is None else _tile_like(kind, given)
    number = _builder.next_allocation()
    attributes = {"name": f"shared_{number}", "bytes": allocated_bytes(kind), "alignment": allocation_alignment(kind)}
    result = shared_memory_descriptor(_builder.create("allocate_shared", [], [kind], attributes).result)
    if source is not None:
        result.store(source, _builder=_builder)
    return result


@builtin
def bank_conflicts(distr_ty: Any, shared_ty: Any, *, _builder: KernelBuilder = HIDDEN) -> constexpr:
    """Wavefronts beyond the first that each group of lanes takes to move a tile of one type to a view of the other.

    Types, not values: `gl.bank_conflicts(x.type, m.type)`. 0 where nothing conflicts.
    Errors: `TypeError` for what is no such type; `ValueError` where shapes or element types differ, and for a slice.
    """
    tile, view = _unwrap_if_constexpr(distr_ty), _unwrap_if_constexpr(shared_ty)
    if not isinstance(tile, distributed_type):
        raise TypeError(f"bank_conflicts needs the type of a tile in registers first, such as x.type, not {tile!r}")
    if not isinstance(view, shared_memory_descriptor_type):
        raise TypeError(
            f"bank_conflicts needs the type of a view of shared memory second, such as m.type, not {view!r}"
        )
    if (tile.shape, tile.element_ty) != (view.shape, view.element_ty):
        raise ValueError(f"bank_conflicts needs types of one shape and dtype, not {tile} and {view}")
    if view.shape != view.alloc_shape:
        raise ValueError(f"bank_conflicts does not count slices: {view}")
    bits = view.element_ty.itemsize * 8
    memory = SharedMemory.of(_builder.target)
    return constexpr(count_conflicts(tile.layout, view.layout, tile.shape, bits, memory=memory))


@builtin
def to_linear_layout(layout: Any, shape: Any, *, _builder: KernelBuilder = HIDDEN) -> constexpr:
    """The explicit spelling of a layout for a shape: a DistributedLinearLayout, or a SharedLinearLayout.

    One that is explicit already, and an AutoLayout, stay as they are. Errors: `ValueError` for what is no layout;
    `LayoutError` for one that is not linear.
    """
    from glueball.layouts import AutoLayout, DistributedLinearLayout, SharedLinearLayout

    given = _unwrap_if_constexpr(layout)
    if not isinstance(given, Layout):
        raise ValueError(f"Expected a DistributedLayout, SharedLayout, not {given!r}")
    if isinstance(given, AutoLayout | DistributedLinearLayout | SharedLinearLayout):
        return constexpr(given)
    extents = _extents(shape)
    if isinstance(given, SharedLayout):
        return constexpr(to_shared_linear(given, extents))
    assert isinstance(given, DistributedLayout)
    return constexpr(to_distributed_linear(given, extents))


def _view(
    builder: KernelBuilder, opcode: str, operands: list[Value], kind: Descriptor, **attributes: Any
) -> shared_memory_descriptor:
    return shared_memory_descriptor(builder.create(opcode, operands, [kind], attributes).result)


def _integer(value: Any, name: str) -> int:
    number = _unwrap_if_constexpr(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"expected '{name}' to be an int known at compile time, but got {number!r}")
    return number


def _extents(shape: Any) -> list[int]:
    extents = unwrap(shape)
    if not isinstance(extents, tuple | list):
        raise ValueError(f"all elements of 'shape' must be integers, and it is {extents!r}")
    plain = [_unwrap_if_constexpr(extent) for extent in extents]
    for extent in plain:
        if isinstance(extent, bool) or not isinstance(extent, int):
            raise ValueError(f"all elements of 'shape' must be integers known at compile time, not {extent!r}")
    return plain


def _element_type(element: Any) -> ScalarType:
    if not isinstance(element, dtype | pointer_type):
        raise ValueError(f"expected 'dtype' to be a dtype, but got {element!r}")
    return element


def _shared_layout(layout: Any) -> SharedLayout:
    found = _unwrap_if_constexpr(layout)
    if not isinstance(found, SharedLayout):
        raise ValueError(f"expected 'layout' to be a SharedLayout, but got {found!r}")
    return found


def _check_axis(view: shared_memory_descriptor, axis: int, name: str) -> None:
    if not 0 <= axis < len(view.type.shape):
        raise ValueError(f"{name} {axis} is out of bounds for a view of {len(view.type.shape)} dimensions")


def _check_one_buffer(view: shared_memory_descriptor, operation: str) -> None:
    if view.type.is_buffered:
        raise LayoutError(
            f"{operation} moves one buffer, and {view.type} has {view.type.shape[0]}: take .index(i) first"
        )


def _tile_like(kind: Descriptor, value: Any) -> tensor:
    """A value that can be stored to a view."""
    if not isinstance(value, tensor):
        raise ValueError(f"expected 'value' to be a tensor, but got {_unwrap_if_constexpr(value)!r}")
    if not isinstance(value.type, distributed_type) or value.type.shape != kind.shape:
        raise ValueError(f"source shape {value.extents} and destination shape {list(kind.shape)} must match")
    if value.dtype != kind.element_ty:
        raise ValueError(f"source dtype {value.dtype} and destination dtype {kind.element_ty} must match")
    return value


def _indices(view: shared_memory_descriptor, indices: Any, axis: Any) -> tuple[int, tensor]:
    place = _integer(axis, "axis")
    if not 0 <= place < len(view.type.shape):
        raise ValueError(f"axis {place} is out of bounds for a view of {len(view.type.shape)} dimensions")
    _check_one_buffer(view, "gather and scatter")
    if not isinstance(indices, tensor) or not isinstance(indices.type, distributed_type):
        raise ValueError(f"expected 'indices' to be a tile of integers, but got {_unwrap_if_constexpr(indices)!r}")
    if not indices.dtype.is_int() or indices.dtype.is_bool():
        raise ValueError(f"indices must have an integer dtype, not {indices.dtype}")
    if len(indices.type.shape) != len(view.type.shape):
        raise ValueError(
            f"the rank must match: indices have {len(indices.type.shape)} dimensions, the view {len(view.type.shape)}"
        )
    return place, indices


def _scattered(
    view: shared_memory_descriptor, values: Any, indices: Any, axis: Any, mask: tensor | None, builder: KernelBuilder
) -> tuple[int, list[tensor]]:
    place, chosen = _indices(view, indices, axis)
    if not isinstance(values, tensor):
        raise ValueError(f"expected 'values' to be a tensor, but got {_unwrap_if_constexpr(values)!r}")
    if values.dtype != view.dtype:
        raise ValueError(f"values dtype {values.dtype} and descriptor dtype {view.dtype} must match")
    return place, broadcast_all([values, chosen, *([] if mask is None else [mask])], builder)


def _atomic(
    view: shared_memory_descriptor, operator: str, values: Any, indices: Any, axis: Any, mask: Any,
    builder: KernelBuilder,
) -> tensor:  # fmt: skip
    element = view.dtype
    whole = element.is_int() and not element.is_bool()
    if not whole and not (operator in ("add", "xchg") and element.is_floating()):
        raise ValueError(f"atomic_scatter_{operator} does not support dtype {element}")
    if element.primitive_bitwidth < 32:
        raise ValueError(f"atomic_scatter_{operator} does not support dtype {element}: elements have 32 or 64 bits")
    given = _unwrap_if_constexpr(mask)
    if given is True:
        given = None
    if given is not None and (not isinstance(given, tensor) or not given.dtype.is_bool()):
        raise ValueError(f"expected 'mask' to be int1, but got {given!r}")
    place, operands = _scattered(view, values, indices, axis, given, builder)
    handles = [operand.handle for operand in operands]
    attributes = {"axis": place, "operator": operator}
    return tensor(builder.create("view_atomic", [view.handle, *handles], [operands[0].type], attributes).result)
