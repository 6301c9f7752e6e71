"""Bulk copies between a tensor and shared memory.

One thread starts a copy; its coordinates are those of the block's first element, outermost dimension first, and may lie
outside of the tensor, where a load brings zeros (or NaN, as the descriptor says) and a store writes nothing.
"""

from __future__ import annotations

from typing import Any

from glueball.language.broadcasting import as_type
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.cache_policies import bulk_policy
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require
from glueball.language.nvidia.tensor_descriptors import tensor_descriptor, tensor_descriptor_im2col
from glueball.language.nvidia.words import count_argument, predicate_argument, word_argument
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap
from glueball.layouts import NVMMASharedLayout
from glueball.tile.bulk_boxes import box_offsets
from glueball.tile.ir import Value
from glueball.tile.operations.bulk_copies import reduction_rule, same_elements
from glueball.tile.types import distributed_type, int16, int32


@builtin
def async_load(
    tensor_desc: tensor_descriptor,
    coord: Any,
    barrier: Any,
    result: shared_memory_descriptor,
    pred: Any = True,
    multicast: Any = False,
    cache_policy: Any = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Starts to copy the block at `coord` into `result`, whose bytes `barrier` counts as they come.

    All `nbytes_per_cta` bytes count, those outside of the tensor too. The view may be read after a wait for the phase.
    Errors: `ValueError` for what is no descriptor, another number of coordinates, a view of another shape, element type
    or layout.
    """
    require(_builder, "bulk_copy", "tma.async_load", "sm_90")
    if isinstance(tensor_desc, tensor_descriptor_im2col):
        raise ValueError("IM2COL mode requires offsets to be provided: such a descriptor is for tma.async_load_im2col")
    _load(_builder, tensor_desc, coord, (), barrier, result, pred, multicast, cache_policy)


@builtin
def async_load_im2col(
    tensor_desc: tensor_descriptor,
    coord: Any,
    offsets: Any,
    barrier: Any,
    result: shared_memory_descriptor,
    pred: Any = True,
    multicast: Any = False,
    cache_policy: Any = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """As `async_load`, through an im2col descriptor: rows of the block are pixels from `coord` on, moved by `offsets`.

    `coord` has an entry for each dimension of the tensor, `offsets` (int16) one for each but batch and channel.
    """
    require(_builder, "bulk_copy", "tma.async_load_im2col", "sm_90")
    if not isinstance(tensor_desc, tensor_descriptor_im2col):
        raise ValueError(
            "TILED mode does not support offsets: tma.async_load_im2col needs an im2col descriptor (on the host "
            "TensorDescriptorIm2Col)"
        )
    moved = _integers(offsets, "offsets", int16, _builder)
    if len(moved) != tensor_desc.type.rank - 2:
        rank = tensor_desc.type.rank
        raise ValueError(f"IM2COL mode with {rank}D coordinates requires {rank - 2} offsets, but got {len(moved)}")
    _load(_builder, tensor_desc, coord, tuple(moved), barrier, result, pred, multicast, cache_policy)


def _load(
    builder: KernelBuilder, descriptor: Any, coord: Any, offsets: tuple[Value, ...], barrier: Any, result: Any,
    pred: Any, multicast: Any, cache_policy: Any,
) -> None:  # fmt: skip
    source = _descriptor(descriptor)
    coordinates = _coordinates(source, coord, builder)
    view, word = _block(source, result, "result"), word_argument(barrier, "barrier")
    predicate = predicate_argument(pred, "pred", builder)
    shared = bool(_unwrap_if_constexpr(multicast)) and any(not any(basis) for basis in source.layout.cga_layout)
    attributes = {
        "offsets": len(offsets),
        "predicated": predicate is not None,
        "multicast": shared,
        "cache_policy": bulk_policy(cache_policy),
    }
    guard = () if predicate is None else (predicate.handle,)
    operands = [source.handle, view.handle, word.handle, *coordinates, *offsets, *guard]
    builder.create("bulk_load", operands, [], attributes)


@builtin
def async_store(
    tensor_desc: tensor_descriptor,
    coord: Any,
    src: shared_memory_descriptor,
    cache_policy: Any = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Starts to copy `src` to the block at `coord`; elements outside of the tensor are left out.

    `src` may be written again, or its memory used otherwise, after `store_wait`. Errors: as `async_load`.
    """
    require(_builder, "bulk_copy", "tma.async_store", "sm_90")
    _store(_builder, tensor_desc, coord, src, None, cache_policy)


def _reduction(name: str, meaning: str) -> Any:
    operator = name.removeprefix("async_atomic_")

    def function(
        tensor_desc: tensor_descriptor, coord: Any, src: shared_memory_descriptor, *, _builder: KernelBuilder = HIDDEN
    ) -> None:
        require(_builder, "bulk_copy", f"tma.{name}", "sm_90")
        _store(_builder, tensor_desc, coord, src, operator, None)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"As `async_store`, but the block at `coord` becomes {meaning} of itself and `src`, each element at once.\n\n"
        "Errors: as `async_load`; `ValueError` for an element type that has no such reduction."
    )
    return builtin(function)


async_atomic_add = _reduction("async_atomic_add", "the sum")
async_atomic_min = _reduction("async_atomic_min", "the lesser")
async_atomic_max = _reduction("async_atomic_max", "the greater")
async_atomic_and = _reduction("async_atomic_and", "the bitwise and")
async_atomic_or = _reduction("async_atomic_or", "the bitwise or")
async_atomic_xor = _reduction("async_atomic_xor", "the bitwise exclusive or")


def _store(
    builder: KernelBuilder, descriptor: Any, coord: Any, src: Any, operator: str | None, cache_policy: Any
) -> None:
    target = _descriptor(descriptor)
    if isinstance(target, tensor_descriptor_im2col):
        raise ValueError("an im2col descriptor is for loads only")
    coordinates = _coordinates(target, coord, builder)
    view = _block(target, src, "src")
    if operator is not None:
        reduction_rule(operator, target.dtype)
    attributes = {"reduction": operator, "cache_policy": bulk_policy(cache_policy)}
    builder.create("bulk_store", [target.handle, view.handle, *coordinates], [], attributes)


@builtin
def store_wait(pendings: Any, read_only: Any = True, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Waits until at most the latest `pendings` stores and reductions are under way.

    With `read_only` until they have read shared memory, without until others may see what they have written.
    """
    require(_builder, "bulk_copy", "tma.store_wait", "sm_90")
    attributes = {
        "pending": count_argument(pendings, "pendings", 0, 1 << 16),
        "read_only": bool(_unwrap_if_constexpr(read_only)),
    }
    _builder.create("bulk_wait", attributes=attributes)


def _descriptor(value: Any) -> tensor_descriptor:
    if not isinstance(value, tensor_descriptor):
        given = _unwrap_if_constexpr(value)
        found = repr(given) if isinstance(given, tensor) else f"a {type(given).__name__}"
        raise ValueError(
            f"expected 'tensor_desc' to be a tensor descriptor, but got {found}; one of the host's must be an argument "
            "of the kernel"
        )
    return value


def _coordinates(descriptor: tensor_descriptor, coord: Any, builder: KernelBuilder) -> list[Value]:
    found = _integers(coord, "coord", int32, builder)
    if len(found) != descriptor.type.rank:
        raise ValueError(f"expected {descriptor.type.rank} coordinates, but got {len(found)}")
    return found


def _integers(values: Any, name: str, element: Any, builder: KernelBuilder) -> list[Value]:
    given = unwrap(values)
    if not isinstance(given, tuple | list):
        raise ValueError(f"expected {name!r} to be a sequence of integers, but got {given!r}")
    found = []
    for value in given:
        number = _unwrap_if_constexpr(value)
        is_scalar = (
            isinstance(number, tensor) and not isinstance(number.type, distributed_type) and number.dtype.is_int()
        )
        if not is_scalar and not isinstance(number, int):
            raise ValueError(f"expected {name!r} to hold integer scalars, but got {value!r}")
        found.append(as_type(number, element, builder).handle)
    return found


def _block(descriptor: tensor_descriptor, view: Any, name: str) -> shared_memory_descriptor:
    """A view that a block of a descriptor fits exactly; `ValueError` otherwise."""
    if not isinstance(view, shared_memory_descriptor):
        raise ValueError(f"expected {name!r} to be a view of shared memory, but got {_unwrap_if_constexpr(view)!r}")
    kind, block = view.type, descriptor.type
    if kind.is_buffered or kind.numel != block.numel:
        raise ValueError(
            f"descriptor block and {name!r} must have the same number of elements, but got a block "
            f"{list(block.block_shape)} and a view {list(kind.shape)}"
        )
    if not same_elements(kind.element_ty, block.element_ty):
        raise ValueError(
            f"descriptor block and {name!r} element types must match, but got descriptor element type "
            f"{block.element_ty} and view element type {kind.element_ty}"
        )
    if block.layout.transposed:
        raise ValueError(f"TMA descriptor layout must not be transposed: {block.layout}")
    if not _alike(kind.layout, block.layout):
        raise ValueError(
            f"TMA descriptor layout must match shared layout, but got descriptor layout {block.layout} and shared "
            f"memory layout {kind.layout}"
        )
    box_offsets(block, kind)
    return view


def _alike(layout: object, other: NVMMASharedLayout) -> bool:
    """Whether layouts are the same but for their rank, whose dimensions may be split or joined."""
    if not isinstance(layout, NVMMASharedLayout) or layout.rank == other.rank:
        return layout == other
    fields = ("swizzle_byte_width", "element_bitwidth", "fp4_padded")
    return all(getattr(layout, name) == getattr(other, name) for name in fields)
