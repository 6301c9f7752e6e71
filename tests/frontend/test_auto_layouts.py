"""Layouts that follow from how tiles are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from tests.frontend.harness import build_kernel, operations
from tests.kernels.harness import EXECUTORS, random_array, run

SQUARE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
OTHER = gl.constexpr(gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1]))
LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
OTHER_LINE = gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))
COALESCED = gl.constexpr(gl.CoalescedLayout())


@glueball.jit
def places(M: gl.constexpr, N: gl.constexpr):
    return gl.arange(0, M)[:, None] * N + gl.arange(0, N)[None, :]


@glueball.jit
def add_rows(x, y, M: gl.constexpr, N: gl.constexpr):
    """Everything is open until the last line says what the carried sum is."""
    value = gl.load(x + places(M, N))
    total = gl.zeros([M, N], gl.float32)
    for _ in range(3):
        total = total + value
    row = gl.sum(value, 1)
    if row.shape[0] > 0:
        total = total + row[:, None]
    known = gl.set_auto_layout(total, SQUARE)
    row_index = gl.arange(0, M, gl.SliceLayout(1, SQUARE))[:, None]
    gl.store(y + row_index * N + gl.arange(0, N, gl.SliceLayout(0, SQUARE))[None, :], known)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_layout_flows_back_through_loops_and_reductions(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((64, 32), np.float32).round()
    y = np.zeros_like(x)
    kernel = run(executor, monkeypatch, add_rows[(1,)], x, y, 64, 32)
    np.testing.assert_array_equal(y, 3 * x + x.sum(1, keepdims=True))
    ranges = operations(kernel.source_tile, "make_range")
    assert [each.result.type.layout for each in ranges[:2]] == [
        gl.SliceLayout(1, SQUARE.value),
        gl.SliceLayout(0, SQUARE.value),
    ]


@glueball.jit
def shapes(x, y):
    """Back through reshape, permute, join and split, and forward to what shares a tile."""
    line = gl.arange(0, 256)
    low, high = gl.split(gl.join(line, line + 256))
    turned = gl.permute(gl.reshape(low + high, [16, 16]), [1, 0])
    flat = gl.set_auto_layout(gl.reshape(gl.permute(turned, [1, 0]), [256]), LINE)
    gl.store(y + gl.arange(0, 256, LINE), gl.load(x + gl.arange(0, 256, LINE)) + flat)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_shape_operations(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((256,), np.int32) >> 8, np.zeros(256, np.int32)
    run(executor, monkeypatch, shapes[(1,)], x, y)
    np.testing.assert_array_equal(y, x + 2 * np.arange(256) + 256)


@glueball.jit
def implicit(x, y):
    """A tile beside one in a known layout takes it; so does what is stored to a known pointer."""
    known = gl.arange(0, 128, LINE)
    value = gl.load(x + gl.arange(0, 128)) + gl.full([128], 1, gl.int32)
    gl.store(y + known, value)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_operand_takes_the_layout_of_the_other(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((128,), np.int8).astype(np.int32), np.zeros(128, np.int32)
    kernel = run(executor, monkeypatch, implicit[(1,)], x, y)
    np.testing.assert_array_equal(y, x + 1)
    assert all(each.result.type.layout == LINE.value for each in operations(kernel.source_tile, "make_range"))
    assert not operations(kernel.source_tile, "set_auto_layout")


@glueball.jit
def converted_and_computed_with(x, y):
    """A tile without a layout of its own, in one layout for a store and in another for arithmetic."""
    line = gl.arange(0, 128)
    gl.store(y + gl.arange(0, 128, OTHER_LINE), gl.convert_layout(line, OTHER_LINE))
    known = gl.arange(0, 128, LINE)
    gl.store(x + known, known * 2 + line)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_two_uses_in_two_layouts(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros(128, np.int32), np.zeros(128, np.int32)
    run(executor, monkeypatch, converted_and_computed_with[(1,)], x, y)
    np.testing.assert_array_equal(x, 3 * np.arange(128))
    np.testing.assert_array_equal(y, np.arange(128))


@glueball.jit
def used_twice(x, y):
    line = gl.arange(0, 64)
    gl.set_auto_layout(line[:, None] + gl.zeros([64, 64], gl.int32), SQUARE)
    gl.set_auto_layout(line[:, None] + gl.zeros([64, 64], gl.int32), OTHER)


@glueball.jit
def nowhere(x, y):
    gl.arange(0, 64)


@glueball.jit
def only_converted(x, y):
    gl.convert_layout(gl.arange(0, 128), LINE)


@glueball.jit
def only_stored_to_shared(x, y):
    view = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    view.store(gl.arange(0, 128))


@glueball.jit
def set_what_is_known(x, y):
    gl.set_auto_layout(gl.arange(0, 128, LINE), LINE)


@glueball.jit
def set_to_auto(x, y):
    gl.set_auto_layout(gl.arange(0, 128), gl.AutoLayout())


@glueball.jit
def set_to_nothing(x, y):
    gl.set_auto_layout(gl.arange(0, 128), 3)


@glueball.jit
def coalesced_and_known(x, y):
    gl.store(y + gl.arange(0, 128, LINE), gl.arange(0, 128, COALESCED))


@glueball.jit
def rebound_in_a_loop(x, y):
    line = gl.arange(0, 128)
    for _ in range(2):
        line = gl.set_auto_layout(line, LINE)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (used_twice, "found conflicting encodings for value"),
        (nowhere, "Failed to infer return type"),
        (only_converted, "Failed to infer return type"),
        (only_stored_to_shared, "Failed to infer return type"),
        (set_what_is_known, "input must have auto layout"),
        (set_to_auto, "must set to a distributed layout"),
        (set_to_nothing, "must set to a distributed layout"),
        (coalesced_and_known, "Layout mismatch in broadcast"),
        (rebound_in_a_loop, "Loop-carried variable line has initial type"),
    ],
)
def test_errors(kernel: Any, message: str) -> None:
    with pytest.raises(CompilationError, match=message) as caught:
        build_kernel(kernel, x=np.zeros(1, np.int32), y=np.zeros(1, np.int32))
    assert caught.value.location is not None and caught.value.location.function == kernel.__name__


@glueball.jit
def copy_line(x, y, N: gl.constexpr):
    line = gl.arange(0, N, COALESCED)
    gl.store(y + line, gl.load(x + line))


@glueball.jit
def copy_square(x, y, stride_0, stride_1, M: gl.constexpr, N: gl.constexpr):
    place = gl.arange(0, M)[:, None] * stride_0 + gl.arange(0, N)[None, :] * stride_1
    place = gl.set_auto_layout(place, COALESCED)
    gl.store(y + place, gl.load(x + place))


def _chosen(kernel: Any, *arguments: Any) -> gl.BlockedLayout:
    compiled = glueball.compile_only(kernel, *arguments, target="sm_90a")
    layouts = {each.operands[0].type.layout for each in operations(compiled.source_tile, "store")}
    assert len(layouts) == 1
    return layouts.pop()


@pytest.mark.parametrize(
    ("pointer", "n", "vector"),
    [
        ("*fp16:16", 64, 1), ("*fp16:16", 256, 2), ("*fp16:16", 1024, 8), ("*fp16:16", 4096, 8), ("*fp32:16", 1024, 4),
        ("*i8:16", 1024, 8), ("*i8:16", 4096, 16), ("*fp64:16", 1024, 2), ("*fp16", 1024, 1),
    ],
)  # fmt: skip
def test_coalesced_lines(pointer: str, n: int, vector: int) -> None:
    assert _chosen(copy_line, pointer, pointer, n) == gl.BlockedLayout([vector], [32], [4], [0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("*fp16:16", "i32:16", 1, 64, 64), gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])),
        (("*fp16:16", 1, "i32:16", 64, 64), gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])),
        (("*fp16:16", "i32:16", 1, 16, 128), gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])),
        (("*fp16:16", "i32:16", 1, 128, 16), gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0])),
        (("*i32", "i32", "i32", 64, 64), gl.BlockedLayout([1, 1], [1, 32], [2, 2], [1, 0])),
    ],
)
def test_coalesced_squares(arguments: tuple[Any, ...], expected: gl.BlockedLayout) -> None:
    pointer, *rest = arguments
    assert _chosen(copy_square, pointer, pointer, *rest) == expected


@pytest.mark.parametrize("executor", EXECUTORS)
def test_coalesced_copies(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((64, 64), np.float32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, copy_square[(1,)], x, y, 1, 64, 64, 64)
    np.testing.assert_array_equal(y, x)
