"""Matrix products of warp groups (PTX ISA, `wgmma`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from glueball.errors import LayoutError
from glueball.language.broadcasting import to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require
from glueball.language.nvidia.precision import check_precision
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_type, base_value
from glueball.layouts import DotOperandLayout, NVMMADistributedLayout
from glueball.tile.ir import Value
from glueball.tile.operations.warpgroup import GROUP_WARPS, INSTRUCTION_TYPES, ROWS, STEP_BYTES
from glueball.tile.types import distributed_type, dtype

HOPPER = 3


class warpgroup_mma_accumulator_type(base_type):  # noqa: N801 - the name that kernel authors write
    """The type of an accumulator under way; `tensor_type` is that of the tile it becomes."""

    __slots__ = ("tensor_type",)

    def __init__(self, tensor_type: distributed_type) -> None:
        self.tensor_type = tensor_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, warpgroup_mma_accumulator_type) and self.tensor_type == other.tensor_type

    def __hash__(self) -> int:
        return hash(self.tensor_type)

    def mangle(self) -> str:
        """That of the tile."""
        return self.tensor_type.mangle()

    def __str__(self) -> str:
        return f"warpgroup_mma_accumulator<{self.tensor_type}>"


class warpgroup_mma_accumulator(base_value):  # noqa: N801 - the name that kernel authors write
    """A tile to which a product is being added: usable after `warpgroup_mma_wait`, which gives it as a tensor."""

    __slots__ = ("handle",)

    def __init__(self, handle: Value) -> None:
        self.handle = handle

    @property
    def tile(self) -> distributed_type:
        """The type of the tile."""
        kind = self.handle.type
        assert isinstance(kind, distributed_type)
        return kind

    @property
    def type(self) -> warpgroup_mma_accumulator_type:
        """The type."""
        return warpgroup_mma_accumulator_type(self.tile)

    def flatten(self) -> Iterator[Value]:
        """The one IR value."""
        yield self.handle

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The accumulator around another IR value."""
        return type(self)(next(handles))


@builtin
def warpgroup_mma_init(value: tensor, *, _builder: KernelBuilder = HIDDEN) -> warpgroup_mma_accumulator:
    """A tile as an accumulator that no product has been added to yet."""
    require(_builder, "warpgroup_mma", "warpgroup_mma_init", "sm_90a")
    return warpgroup_mma_accumulator(_tile(value, "the accumulator").handle)


@builtin
def warpgroup_mma(
    a: Any,
    b: shared_memory_descriptor,
    acc: Any,
    *,
    use_acc: Any = True,
    precision: Any = None,
    max_num_imprecise_acc: Any = None,
    is_async: Any = False,
    _builder: KernelBuilder = HIDDEN,
) -> tensor | warpgroup_mma_accumulator:
    """`acc + a @ b`, or `a @ b` where `use_acc` (a run-time int1) is false.

    `a`, M x K, is a view of shared memory, or a tile in DotOperandLayout(0, layout of acc, 32 // bits); `b`, K x N, is
    a view; `acc`, M x N, is in an NVMMADistributedLayout of version 3. K must be contiguous in both views unless
    elements have 16 bits. Types: float16 into float32 or float16; bfloat16 into float32; float32 into float32, of which
    the units see 10 bits of the fraction (tf32); float8e4nv and float8e5, also mixed, into float32 or float16; int8 or
    uint8 into int32, which wraps. Products of 8-bit floats are added up with fewer bits than float32 has; with
    `max_num_imprecise_acc` partial sums of so many of them at most are added up in float32, each waited for.
    With `is_async` the result is an accumulator, to be waited for by `warpgroup_mma_wait`; operands in shared memory
    must stay as they are until then. `precision` is about float32 alone, and may say "tf32" there.
    Errors: `AssertionError` and `ValueError` for what is no such operand, `LayoutError` for layouts that the units do
    not read, `TargetError` where the target has no such units.
    """
    require(_builder, "warpgroup_mma", "warpgroup_mma", "sm_90a")
    total = acc if isinstance(acc, warpgroup_mma_accumulator) else _tile(acc, "acc")
    kind = total.handle.type
    assert isinstance(kind, distributed_type)
    layout = kind.layout
    assert isinstance(layout, NVMMADistributedLayout) and layout.version[0] == HOPPER, (
        f"expected acc in an NVMMADistributedLayout of version 3, but got {layout}"
    )
    if _builder.num_warps % GROUP_WARPS or layout.warps_per_cta[0] % GROUP_WARPS:
        raise ValueError(
            f"WGMMA requires num_warps to be divisible by 4, and so those along M, not {_builder.num_warps} in "
            f"warps_per_cta {list(layout.warps_per_cta)}"
        )
    left = _left(a, layout)
    if not isinstance(b, shared_memory_descriptor):
        raise ValueError(f"expected b to be a view of shared memory, but got {_unwrap_if_constexpr(b)!r}")
    _check(left, b, kind, layout)
    check_precision(precision, left.dtype, "warpgroup_mma", "precision")
    attributes = {"most_inexact": _most_inexact(max_num_imprecise_acc, kind, left, b)}
    use = _unwrap_if_constexpr(use_acc)
    operands = [left.handle, b.handle, total.handle]
    if use is not True:
        operands.append(to_operand(use, _builder).handle)
    result = _builder.create("warpgroup_mma", operands, [kind], attributes).result
    if _unwrap_if_constexpr(is_async):
        return warpgroup_mma_accumulator(result)
    return tensor(_builder.create("warpgroup_wait", [result], [kind], {"pending": 0}).result)


@builtin
def warpgroup_mma_wait(num_outstanding: Any = 0, deps: Any = None, *, _builder: KernelBuilder = HIDDEN) -> Any:
    """Waits until at most the latest `num_outstanding` products are under way; `deps` as tensors that may be used.

    Of several values in `deps` the result is a tuple; views may be among them, and stay allocated until here.
    Errors: `ValueError` without `deps`, and for a number that is no compile-time integer from 0 on.
    """
    require(_builder, "warpgroup_mma", "warpgroup_mma_wait", "sm_90a")
    pending = _unwrap_if_constexpr(num_outstanding)
    if isinstance(pending, bool) or not isinstance(pending, int) or pending < 0:
        raise ValueError(f"num_outstanding must be an int from 0 on, known at compile time, not {pending!r}")
    values = _unwrap_if_constexpr(deps)
    if values is None:
        raise ValueError("warpgroup_mma_wait deps must be given")
    values = list(values.values) if isinstance(values, language_tuple) else list(values)
    tiles = [value for value in values if isinstance(value, warpgroup_mma_accumulator | tensor)]
    handles = [value.handle for value in tiles]
    operation = _builder.create("warpgroup_wait", handles, [handle.type for handle in handles], {"pending": pending})
    waited = iter(operation.results)
    results: list[Any] = []
    for value in values:
        if isinstance(value, shared_memory_descriptor):
            _builder.create("keep_alive", [value.handle])
            results.append(value)
        elif isinstance(value, warpgroup_mma_accumulator | tensor):
            results.append(tensor(next(waited)))
        else:
            raise ValueError(f"deps hold accumulators, tiles and views, not {value!r}")
    return results[0] if len(results) == 1 else language_tuple(results)


def _tile(value: Any, name: str) -> tensor:
    assert isinstance(value, tensor) and isinstance(value.type, distributed_type), (
        f"expected {name} to be a tile, but got {_unwrap_if_constexpr(value)!r}"
    )
    return value


def _left(a: Any, layout: NVMMADistributedLayout) -> Any:
    if isinstance(a, shared_memory_descriptor):
        return a
    left = _tile(a, "a")
    kind = left.type
    assert isinstance(kind, distributed_type)
    found, width = kind.layout, max(1, 4 // left.dtype.itemsize)
    assert isinstance(found, DotOperandLayout) and found.operand_index == 0 and found.parent == layout, (
        f"expected a in DotOperandLayout(0, layout of acc, {width}), but got {found}"
    )
    if found.k_width != width:
        raise LayoutError(f"in-register LHS operand must have a kWidth of {width} but got {found.k_width}")
    return left


def _check(left: Any, b: shared_memory_descriptor, kind: distributed_type, layout: NVMMADistributedLayout) -> None:
    rows, columns = kind.shape
    (height, depth), right = list(left.handle.type.shape), list(b.handle.type.shape)
    if height != rows or right != [depth, columns]:
        raise ValueError(
            f"warpgroup_mma multiplies M x K by K x N to M x N, not {[height, depth]} by {right} to {[rows, columns]}"
        )
    first, second = left.dtype, b.dtype
    assert isinstance(first, dtype) and isinstance(second, dtype)
    if first != second and not (first.is_fp8() and second.is_fp8()):
        raise ValueError(f"warpgroup_mma multiplies matrices of one element type, not of {first} and {second}")
    for element in (first, second):
        allowed = INSTRUCTION_TYPES[element.name].accumulators if element.name in INSTRUCTION_TYPES else ()
        if kind.element_ty.name not in allowed:
            known = f"it adds those up in {' or '.join(allowed)}" if allowed else "there are no products of those"
            raise ValueError(f"warpgroup_mma cannot add products of {element} up in {kind.element_ty}; {known}")
    _, wide, inner = layout.instr_shape
    step = STEP_BYTES // second.itemsize
    if inner != step:
        raise ValueError(f"instr_shape must be [16, N, {step}] for {second}, not {list(layout.instr_shape)}")
    if rows % ROWS or columns % wide or depth % step:
        raise ValueError(
            f"warpgroup_mma takes multiples of {ROWS} rows, {wide} columns and {step} along K, not "
            f"{[rows, columns]} and {depth}"
        )


def _most_inexact(imprecise: Any, kind: distributed_type, left: Any, b: shared_memory_descriptor) -> int | None:
    """What `max_num_imprecise_acc` comes to."""
    most = _unwrap_if_constexpr(imprecise)
    if most is None or not left.dtype.is_fp8() or kind.element_ty.name != "fp32":
        return None
    depth = b.type.shape[0]
    if isinstance(most, bool) or not isinstance(most, int):
        raise ValueError(f"max_num_imprecise_acc must be an int, not {most!r}")
    if most > depth:
        raise ValueError(f"max_num_imprecise_acc ({most}) must be <= K ({depth})")
    if most < STEP_BYTES:
        raise ValueError(
            f"Cannot use F32 as the accumulator element type when the max_num_imprecise_acc is less than "
            f"{STEP_BYTES}: it is {most}"
        )
    return most // STEP_BYTES * STEP_BYTES
