"""Types of elements, pointers, tiles and views: names, predicates, limits, equality, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

import glueball.language as gl
from glueball.tile.types import DTYPES, dtype

LINE = gl.BlockedLayout([1], [32], [4], [0])
KINDS = gl.dtype.KIND


@pytest.mark.parametrize(
    ("element", "name", "bits", "kind", "mantissa", "bias", "mangle"),
    [
        (gl.int1, "int1", 1, KINDS.BOOLEAN, 0, 0, "u1"),
        (gl.int8, "int8", 8, KINDS.INTEGRAL, 0, 0, "i8"),
        (gl.int64, "int64", 64, KINDS.INTEGRAL, 0, 0, "i64"),
        (gl.uint16, "uint16", 16, KINDS.INTEGRAL, 0, 0, "u16"),
        (gl.float8e5, "fp8e5", 8, KINDS.FLOATING, 2, 15, "fp8e5"),
        (gl.float8e5b16, "fp8e5b16", 8, KINDS.FLOATING, 2, 16, "fp8e5b16"),
        (gl.float8e4nv, "fp8e4nv", 8, KINDS.FLOATING, 3, 7, "fp8e4nv"),
        (gl.float8e4b8, "fp8e4b8", 8, KINDS.FLOATING, 3, 8, "fp8e4b8"),
        (gl.float8e4b15, "fp8e4b15", 8, KINDS.FLOATING, 3, 15, "fp8e4b15"),
        (gl.float16, "fp16", 16, KINDS.FLOATING, 10, 15, "fp16"),
        (gl.bfloat16, "bf16", 16, KINDS.FLOATING, 7, 127, "bf16"),
        (gl.float32, "fp32", 32, KINDS.FLOATING, 23, 127, "fp32"),
        (gl.float64, "fp64", 64, KINDS.FLOATING, 52, 1023, "fp64"),
    ],
)
def test_element_types(element: dtype, name: str, bits: int, kind: Any, mantissa: int, bias: int, mangle: str) -> None:
    assert str(element) == element.name == name and element.mangle() == mangle
    assert element.primitive_bitwidth == bits and element.kind() is kind and element.scalar is element
    assert (element.fp_mantissa_width, element.exponent_bias) == (mantissa, bias)
    assert eval(repr(element), {"glueball": __import__("glueball.language")}) is element
    assert element == gl.constexpr(element) and element.with_element_ty(gl.int8) is gl.int8
    assert element.is_floating() == (kind is KINDS.FLOATING) and element.is_int() != element.is_floating()
    assert not element.is_block() and not element.is_ptr() and not element.is_const()


@pytest.mark.parametrize("element", DTYPES.values(), ids=str)
def test_each_predicate_holds_for_one_type(element: dtype) -> None:
    own = {"int1": {"is_int1", "is_bool"}}.get(element.name, {f"is_{element.name}"})
    names = [
        "void", "int1", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp8e5",
        "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp16", "bf16", "fp32", "fp64",
    ]  # fmt: skip
    assert {f"is_{name}" for name in names if getattr(element, f"is_{name}")()} == own
    assert element.is_fp8() == element.name.startswith("fp8")
    assert element.is_standard_floating() == (element.name in ("fp16", "bf16", "fp32", "fp64"))


@pytest.mark.parametrize(
    ("element", "least", "greatest", "signed"),
    [
        (gl.int1, 0, 1, False), (gl.int8, -128, 127, True), (gl.uint8, 0, 255, False),
        (gl.int32, -(2**31), 2**31 - 1, True), (gl.uint64, 0, 2**64 - 1, False),
    ],
)  # fmt: skip
def test_limits_of_integers(element: dtype, least: int, greatest: int, signed: bool) -> None:
    assert (element.get_int_min_value(), element.get_int_max_value()) == (least, greatest)
    assert element.is_int_signed() == signed and element.is_int_unsigned() != signed
    assert element.int_signedness is (gl.dtype.SIGNEDNESS.SIGNED if signed else gl.dtype.SIGNEDNESS.UNSIGNED)
    assert element.int_bitwidth == element.primitive_bitwidth and element.itemsize == max(1, element.int_bitwidth // 8)


def test_pointer_types() -> None:
    plain, constant = gl.pointer_type(gl.int32), gl.pointer_type(gl.int32, const=True)
    assert plain == gl.pointer_type(gl.int32, "global") and plain != constant
    assert plain != gl.pointer_type(gl.int64) and plain != gl.pointer_type(gl.int32, "shared")
    assert (str(plain), str(constant)) == ("pointer<int32>", "const_pointer<int32>")
    assert plain.mangle() == "Pi32" and plain.is_ptr() and constant.is_const() and not plain.is_const()
    assert hash(plain) == hash(gl.pointer_type(gl.int32)) and plain.scalar is plain


def test_tile_types() -> None:
    tile = gl.distributed_type(gl.float16, [8], LINE)
    assert tile == gl.distributed_type(gl.float16, (gl.constexpr(8),), gl.constexpr(LINE))
    assert hash(tile) == hash(gl.distributed_type(gl.float16, (8,), LINE))
    assert (tile.shape, tile.numel, tile.nbytes, tile.scalar) == ((8,), 8, 16, gl.float16)
    assert tile.with_element_ty(gl.int8) == gl.distributed_type(gl.int8, [8], LINE) != tile
    assert tile.mangle() == "fp16S8SLB1_32_4_0_BL" and tile.is_block() and isinstance(tile, gl.block_type)
    linear = gl.DistributedLinearLayout([], [[1], [2], [4], [0], [0]], [[0], [0]], [], [8])
    assert linear.linear([8]) == LINE.linear([8]) and tile != gl.distributed_type(gl.float16, [8], linear)


@pytest.mark.parametrize(
    ("shape", "layout", "kind", "words"),
    [
        ([8], 3, AssertionError, "tensor layout must be a DistributedLayout"),
        ([8, 8], LINE, AssertionError, "tensor shape and layout rank mismatch"),
        ([6], LINE, ValueError, "must be a power of 2"),
        ([0], LINE, ValueError, "must be a power of 2"),
        (["a"], LINE, TypeError, "must have type `constexpr\\[int\\]`"),
        ([2**21], LINE, ValueError, "exceeds triton maximum tensor numel"),
        ([], LINE, ValueError, "at least one dimension"),
    ],
)
def test_tiles_that_cannot_be(shape: list[Any], layout: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        gl.distributed_type(gl.float32, shape, layout)


def test_types_of_views() -> None:
    layout = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    view = gl.shared_memory_descriptor_type(gl.int32, (4, 8), layout, (8, 8))
    assert view == gl.shared_memory_descriptor_type(gl.int32, (4, 8), layout, (8, 8))
    assert view != gl.shared_memory_descriptor_type(gl.int32, (4, 8), layout, (4, 8))
    assert view != gl.shared_memory_descriptor_type(gl.float32, (4, 8), layout, (8, 8))
    assert view.numel == 32 and not view.is_buffered
    assert gl.shared_memory_descriptor_type(gl.int32, (3, 4, 8), layout, (3, 4, 8)).is_buffered
    with pytest.raises(AssertionError, match="SharedLayout"):
        gl.shared_memory_descriptor_type(gl.int32, (8,), LINE, (8,))
    with pytest.raises(RuntimeError, match="rank must be equal to or one less than the shape size"):
        gl.shared_memory_descriptor_type(gl.int32, (2, 3, 4, 8), layout, (2, 3, 4, 8))


def test_fields_of_layouts_are_lists_and_tuples_alike() -> None:
    layout = gl.BlockedLayout([1, 4], (4, 8), [4, 1], gl.constexpr([1, 0]), [[1, 0]])
    assert layout.size_per_thread == [1, 4] == layout.size_per_thread and layout.order == (1, 0)
    assert layout.cga_layout == [[1, 0]] and layout.cga_layout != [[0, 1]]
    assert layout.order + [2] == [1, 0, 2] and [2] + layout.order == [2, 1, 0]  # noqa: RUF005 - `+` is what is tested
    assert gl.SliceLayout(0, layout).cga_layout == [[0]]
    assert gl.SharedLinearLayout([[3, 1], [1, 0], [0, 1]]).shape == [4, 2]
    assert str(layout).startswith("BlockedLayout(size_per_thread=[1, 4], threads_per_warp=[4, 8]")
    assert hash(layout) == hash(gl.BlockedLayout((1, 4), (4, 8), (4, 1), (1, 0), ((1, 0),)))
