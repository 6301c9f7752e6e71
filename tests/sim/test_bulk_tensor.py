"""Bulk copies: boxes of every rank, their edges, swizzles and reductions, and what goes wrong around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from glueball.errors import (
    AsynchronousAccessError,
    BarrierStateError,
    ByteCountError,
    DeadlockError,
    MisalignedAccessError,
    OutOfBoundsError,
    OverwriteInFlightError,
    PendingAtExitError,
    ProxyFenceError,
    ReadBeforeWaitError,
    ReadOnlyWriteError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
    WaitCountError,
)
from glueball.sim.scheduler import SCHEDULES
from glueball.tensor_map import PixelBox, TensorMap
from glueball.thread.ir import Value
from tests.sim.asynchronous_kernels import ELEMENTS, AsynchronousKernel, aligned, describe, lines

Arrays = np.ndarray[Any, Any]


def filled(shape: Sequence[int], dtype: Any = np.float32) -> Any:
    array = aligned(shape, dtype)
    array[...] = np.arange(array.size).reshape(shape) % 1000
    return array


def box_of(array: Arrays, start: Sequence[int], box: Sequence[int], fill: float = 0) -> Arrays:
    """A box of an array, its part outside filled."""
    found = np.full(box, fill, array.dtype)
    for place in itertools.product(*map(range, box)):
        index = tuple(first + step for first, step in zip(start, place, strict=True))
        if all(0 <= number < extent for number, extent in zip(index, array.shape, strict=True)):
            found[place] = array[index]
    return found


def reading(argument: Any, coordinates: Sequence[int], kind: str = "f32", words: int = 128, stride: int = 4) -> Arrays:
    """What one block finds in shared memory after it has loaded a box, element after element of `stride` bytes."""
    kernel = AsynchronousKernel(4)
    tensor, y = kernel.tensor("x", argument.map.type), kernel.pointer("y")
    kernel.init(0)
    kernel.do("barrier")
    kernel.expect(0, argument.map.box_bytes)
    taps = (0,) * (argument.map.rank - 2) if argument.map.pixels else ()
    kernel.load_box(tensor, 0, coordinates, size=argument.map.box_bytes, taps=taps)
    kernel.wait(0, 0)
    out = np.zeros(words, {"f32": np.float32, "i32": np.int32, "f16": np.float16, "i8": np.uint8}[kind])
    for first in range(0, words, 128):
        place = kernel.add(kernel.thread(), kernel.i32(first))
        value = kernel.read(kernel.mul(place, kernel.i32(stride)), kind=kind)
        address = kernel.add(y, kernel.do("sign_extend", kernel.mul(place, kernel.i32(stride)), to="i64"))
        kernel.store(address, value, kind=kind)
    kernel.run((1,), argument, out)
    return out


RANKS = {1: ((100,), (128,)), 2: ((10, 20), (4, 32)), 3: ((3, 5, 8), (2, 4, 16)), 4: ((3, 2, 5, 4), (2, 4, 4, 4)),
         5: ((2, 3, 2, 3, 8), (2, 2, 2, 4, 4))}  # fmt: skip


@pytest.mark.parametrize("fill", ["zero", "nan"])
@pytest.mark.parametrize("rank", RANKS)
def test_boxes_of_every_rank_and_edge(rank: int, fill: str) -> None:
    shape, box = RANKS[rank]
    array = filled(shape)
    for start in ((0,) * rank, (1,) * (rank - 1) + (4,), (-1,) * (rank - 1) + (-4,), (50,) * (rank - 1) + (400,)):
        expected = box_of(array, start, box, np.nan if fill == "nan" else 0)
        found = reading(describe(array, box, fill=fill), start).reshape(box)
        assert np.array_equal(found, expected, equal_nan=True)


def test_strided_tensors() -> None:
    array = filled((12, 9, 32))[1:11:2, ::3, :24]
    found = reading(describe(array, (2, 2, 32)), (1, 1, 4)).reshape(2, 2, 32)
    assert (found == box_of(array, (1, 1, 4), (2, 2, 32))).all()


def test_element_strides_skip() -> None:
    array = filled((32, 64))
    found = reading(describe(array, (16, 32), element_strides=(2, 2)), (4, 8)).reshape(8, 16)
    assert (found == array[4:20:2, 8:40:2]).all()


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzles_exchange_pieces_of_16_bytes(span: int) -> None:
    """Piece p of row r lies at p xor the bits of the address above 7."""
    array = filled((64, span // 4))
    rows = 512 // span
    found = reading(describe(array, (rows, span // 4), swizzle=span), (8, 0))
    for row, column in itertools.product(range(rows), range(span // 4)):
        byte = row * span + 4 * column
        moved = byte ^ (byte >> 7 & (span // 16 - 1)) << 4
        assert found[moved // 4] == array[8 + row, column]


def test_tfloat32_is_rounded_to_even() -> None:
    array = aligned((128,), np.float32)
    array.view(np.uint32)[:] = 0x3F800000 + np.arange(128) * 0x0800
    array[120:123] = [np.inf, -np.inf, np.nan]
    found = reading(describe(array, (128,), "tfloat32"), (0,))
    exact = array[:120].view(np.uint32).astype(np.int64)
    assert not (found[:120].view(np.uint32) & 0x1FFF).any()
    error = np.abs(found[:120].view(np.uint32).astype(np.int64) - exact)
    assert error.max() == 0x1000
    assert not (found[:120].view(np.uint32)[error == 0x1000] >> 13 & 1).any()
    assert np.array_equal(found[120:123].view(np.uint32), array[120:123].view(np.uint32))


def test_im2col_walks_through_pixels() -> None:
    """A 3 x 3 filter with padding 1, whose taps move the whole walk."""
    array = filled((2, 4, 6, 8))
    pixels = PixelBox((-1, -1), (-1, -1))
    argument = describe(array, (16, 8), pixels=pixels)
    for first, tap in itertools.product(((0, -1, -1, 0), (0, 2, 3, 0), (1, -1, 4, 0)), ((0, 0), (1, 2), (2, 1))):
        offsets, inside = argument.map.elements([first], [tap])
        walk = [(n, h, w) for n in range(3) for h in range(-1, 3) for w in range(-1, 5)]
        expected = np.zeros((16, 8), np.float32)
        for number, (n, h, w) in enumerate(walk[walk.index(first[:3]) :][:16]):
            if n < 2 and 0 <= h + tap[0] < 4 and 0 <= w + tap[1] < 6:
                expected[number] = array[n, h + tap[0], w + tap[1]]
        values = np.where(inside, array.reshape(-1)[np.where(inside, offsets, 0)], 0)
        assert (values.reshape(16, 8) == expected).all()
    found = reading(argument, (0, -1, -1, 0)).reshape(16, 8)
    offsets, inside = argument.map.elements([(0, -1, -1, 0)], [(0, 0)])
    assert (found.reshape(-1) == np.where(inside, array.reshape(-1)[np.where(inside, offsets, 0)], 0)[0]).all()
    with pytest.raises(SimulationError, match="none of its pixels"):
        reading(argument, (0, 3, 0, 0))


@pytest.mark.parametrize("element", ["float16", "uint8"])
def test_narrow_elements(element: str) -> None:
    dtype, size = ELEMENTS[element], np.dtype(ELEMENTS[element]).itemsize
    array = filled((16, 64), dtype)
    kind = {"float16": "f16", "uint8": "i8"}[element]
    found = reading(describe(array, (4, 32), element), (3, 16), kind, 128, size).reshape(4, 32)
    assert (found == array[3:7, 16:48]).all()


# Round trips and faults

TILE, SIZE = (8, 16), 512


def round_trip(skip: str = "", **changes: Any) -> AsynchronousKernel:
    """Each block doubles its tile in place in shared memory: loaded at line 6, stored at line 20."""
    options = {
        "expected": SIZE,
        "phase": 0,
        "pending": 0,
        "read_only": False,
        "reduction": None,
        "source": 0,
        **changes,
    }
    kernel = AsynchronousKernel(4)
    x, y = (kernel.tensor(name, describe(filled((8, 16)), TILE).map.type) for name in "xy")
    if skip != "init":
        kernel.at(2)
        kernel.init(0)
        kernel.do("barrier")
    row = kernel.mul(kernel.program_id(0), kernel.i32(8))
    if skip != "expect":
        kernel.at(5)
        kernel.expect(0, options["expected"])
    kernel.at(6)
    kernel.load_box(x, 0, [row, 0])
    if skip != "wait":
        kernel.at(7)
        kernel.wait(0, options["phase"])
    place = kernel.mul(kernel.thread(), kernel.i32(4))
    kernel.at(8)
    value = kernel.read(place)
    kernel.at(9)
    kernel.write(place, kernel.do("fadd", value, value))
    if skip != "fence":
        kernel.at(10)
        kernel.fence()
    if skip != "barrier":
        kernel.do("barrier")
    kernel.at(20)
    kernel.store_box(y, [row, 0], options["source"], options["reduction"])
    if skip != "commit":
        kernel.do("bulk_commit_group")
    kernel.at(21)
    if skip != "store wait":
        kernel.wait_stores(options["pending"], options["read_only"])
    if skip != "last barrier":
        kernel.do("barrier")
    kernel.at(30)
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("read_only", [False, True])
def test_round_trip(schedule: str, read_only: bool) -> None:
    x, y = filled((50, 16)), aligned((50, 16), np.float32)
    report = round_trip(read_only=read_only).run((7,), describe(x, TILE), describe(y, TILE), schedule=schedule, seed=5)
    assert (y == 2 * x).all()
    assert report.total("bulk_tensor_load").requests == 7
    assert report.total("bulk_tensor_load").useful_bytes == x.nbytes
    assert report.total("bulk_tensor_store").sectors * 32 == pytest.approx(x.nbytes, abs=64)


CAUGHT: dict[str, tuple[dict[str, Any], type[SimulationError], tuple[int, int] | int, str]] = {
    "not initialised": ({"skip": "init"}, BarrierStateError, 5, "Barrier used before initialization"),
    "not announced": ({"skip": "expect"}, DeadlockError, (7, 6), "1 of 1 arrivals and -512 bytes are missing"),
    "half of the bytes announced": ({"expected": 256}, ByteCountError, (7, 6), "-256 bytes are missing"),
    "twice the bytes announced": ({"expected": 1024}, ByteCountError, (7, 6), "512 bytes are missing"),
    "no wait": ({"skip": "wait"}, ReadBeforeWaitError, (8, 6), "Buffer being accessed has outstanding writes"),
    "no fence": (
        {"skip": "fence"},
        ProxyFenceError,
        (20, 9),
        "Async shared-memory access is missing fence_async_shared",
    ),
    "no barrier": ({"skip": "barrier"}, SharedMemoryRaceError, (20, 9), "no barrier between"),
    "no store wait": ({"skip": "store wait"}, PendingAtExitError, 20, "there is no wait for it"),
    "no commit": ({"skip": "commit"}, PendingAtExitError, 20, "no commit makes it part of a group"),
    "a wait that leaves one": ({"pending": 1}, PendingAtExitError, 20, "leaves the latest 1 groups in flight"),
    "source not written": ({"source": 512}, UninitializedReadError, 20, "holds no defined value"),
    "source outside": ({"source": 4096}, OutOfBoundsError, 20, "outside its 4096 bytes"),
    "source misaligned": ({"source": 64}, MisalignedAccessError, 20, "multiple of 128 bytes"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CAUGHT)
def test_faults_of_a_round_trip(name: str, schedule: str) -> None:
    options, error, expected, text = CAUGHT[name]
    x, y = filled((32, 16)), aligned((32, 16), np.float32)
    with pytest.raises(error, match=text) as caught:
        round_trip(**options).run((4,), describe(x, TILE), describe(y, TILE), schedule=schedule)
    assert type(caught.value) is error
    found = caught.value
    if isinstance(expected, tuple):
        assert lines(found) == expected
    else:
        assert found.location is not None
        assert found.location.line == expected


AFTER: dict[str, tuple[dict[str, Any], type[SimulationError], str]] = {
    "overwrite without a wait": ({"skip": "store wait"}, OverwriteInFlightError, "async_copy_shared_to_global"),
    "overwrite after a wait for too few": ({"pending": 1}, WaitCountError, "leaves the latest 1 groups in flight"),
    "overwrite without a commit": ({"skip": "commit"}, WaitCountError, "no commit makes it part of a group"),
    "overwrite by threads that did not wait": ({"skip": "last barrier"}, SharedMemoryRaceError, "has read"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", AFTER)
@pytest.mark.parametrize("by", ["store", "bulk copy"])
def test_overwriting_the_source_of_a_store(name: str, by: str, schedule: str) -> None:
    """Only the thread that has waited for the store's reading may write there before a barrier."""
    options, error, text = AFTER[name]
    kernel = round_trip(**options)
    last = kernel.do("compare_signed", kernel.thread(), 127, predicate="eq")
    if by == "store":
        kernel.store(kernel.i32(0), kernel.i32(0), last, space="shared", allocation="buffer", kind="i32")
    else:
        kernel.mbarrier("expect", 0, last, bytes=SIZE)
        kernel.load_box(kernel.function.parameters[0].value, 0, [0, 0], predicate=last)
    x, y = filled((32, 16)), aligned((32, 16), np.float32)
    with pytest.raises(error, match=text) as caught:
        kernel.run((4,), describe(x, TILE), describe(y, TILE), schedule=schedule)
    assert lines(caught.value) == (30, 20)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("read_only", [False, True])
def test_the_result_of_a_store_needs_the_whole_wait(read_only: bool, schedule: str) -> None:
    kernel = round_trip(read_only=read_only)
    z = kernel.pointer("z")
    place = kernel.add(z, kernel.do("sign_extend", kernel.mul(kernel.place(128), kernel.i32(4)), to="i64"))
    value = kernel.load(place)
    kernel.store(place, kernel.do("fadd", value, value))
    x, y = filled((32, 16)), aligned((32, 16), np.float32)
    arguments = describe(x, TILE), describe(y, TILE), y
    if not read_only:
        kernel.run((4,), *arguments, schedule=schedule)
        assert (y == 4 * x).all()
        return
    with pytest.raises(ReadBeforeWaitError, match="global memory is read before the bulk copy to it") as caught:
        kernel.run((4,), *arguments, schedule=schedule)
    assert lines(caught.value) == (30, 20)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_for_the_wrong_phase(schedule: str) -> None:
    """It goes on before the bytes are there, or never where they are there already."""
    expected = {"in_order": (DeadlockError, (7, 6)), "late": (ReadBeforeWaitError, (8, 6))}
    x, y = filled((8, 16)), aligned((8, 16), np.float32)
    with pytest.raises((ReadBeforeWaitError, DeadlockError)) as caught:
        round_trip(phase=1).run((1,), describe(x, TILE), describe(y, TILE), schedule=schedule)
    assert (type(caught.value), lines(caught.value)) in (expected.get(schedule, pair) for pair in expected.values())


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_overwriting_the_source_of_a_load(schedule: str) -> None:
    """Where the load has read already, nothing is lost."""
    kernel = AsynchronousKernel()
    x, y = kernel.tensor("x", describe(filled((8, 16)), TILE).map.type), kernel.pointer("y")
    kernel.init(0)
    kernel.do("barrier")
    kernel.expect(0, SIZE)
    kernel.at(6)
    kernel.load_box(x, 0, [0, 0])
    kernel.at(7)
    kernel.store(kernel.address(y, kernel.thread()), kernel.thread(), kind="i32")
    kernel.wait(0, 0)
    array = filled((8, 16))
    if schedule == "in_order":
        kernel.run((1,), describe(array, TILE), array, schedule=schedule)
        return
    with pytest.raises(OverwriteInFlightError, match="source of the bulk copy") as caught:
        for seed in range(10):
            kernel.run((1,), describe(array, TILE), array, schedule=schedule, seed=seed)
    assert lines(caught.value) == (7, 6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("reduction", ["add", "min", "max", "and", "or", "xor"])
def test_reductions(reduction: str, schedule: str) -> None:
    """Two blocks reduce each tile."""
    x, y = filled((8, 16), np.int32), filled((8, 16), np.int32)
    y[...] = 517 - y
    before = y.copy()
    arguments = describe(x, TILE, "int32"), describe(y, TILE, "int32")
    kernel = AsynchronousKernel()
    source, target = (kernel.tensor(name, arguments[0].map.type) for name in "xy")
    kernel.init(0)
    kernel.do("barrier")
    kernel.expect(0, SIZE)
    kernel.load_box(source, 0, [0, 0])
    kernel.wait(0, 0)
    kernel.store_box(target, [0, 0], 0, reduction)
    kernel.do("bulk_commit_group")
    kernel.wait_stores()
    kernel.run((2,), *arguments, schedule=schedule)
    combine = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
               "xor": np.bitwise_xor}[reduction]  # fmt: skip
    assert (y == combine(combine(before, x), x)).all()


def test_reductions_that_do_not_exist() -> None:
    arguments = describe(filled(TILE), TILE), describe(filled(TILE), TILE)
    with pytest.raises(SimulationError, match="unsupported reduce kind min for element type float32"):
        round_trip(reduction="min").run((1,), *arguments)


def test_a_read_only_array_cannot_be_stored_to() -> None:
    x, y = filled(TILE), filled(TILE)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyWriteError, match="`y` is written") as caught:
        round_trip().run((1,), describe(x, TILE), describe(y, TILE))
    assert caught.value.location is not None
    assert caught.value.location.line == 20


def test_the_innermost_coordinate_is_a_multiple_of_16_bytes() -> None:
    with pytest.raises(MisalignedAccessError, match="multiple of 16 bytes"):
        reading(describe(filled((8, 64)), TILE), (0, 3))


def test_descriptors_are_checked() -> None:
    x = filled((8, 16))
    kernel = round_trip()
    with pytest.raises(TypeError, match="`x` is a descriptor"):
        kernel.run((1,), x, describe(x, TILE))
    with pytest.raises(TypeError, match="box \\[8, 16\\], swizzle 0, and a 2-D tensor map of float32, box \\[4, 16\\]"):
        kernel.run((1,), describe(x, (4, 16)), describe(x, TILE))
    kernel = AsynchronousKernel()
    kernel.init(0)
    kernel.do("barrier")
    kernel.load_box(kernel.tensor("x", describe(x, TILE).map.type), 0, [0, 0], size=256)
    with pytest.raises(SimulationError, match="256 bytes is copied by a descriptor with boxes of 512"):
        kernel.run((1,), describe(x, TILE))


def pipelined(stages: int, rows: int, fault: str = "") -> AsynchronousKernel:
    """A ring of `stages` boxes, filled ahead; each block sums `rows` boxes into one."""
    kernel = AsynchronousKernel(4, words=stages, buffer=SIZE * stages)
    x, y = kernel.tensor("x", describe(filled((8, 16)), TILE).map.type), kernel.pointer("y")
    kernel.at(2)
    for stage in range(stages):
        kernel.init(stage)
    kernel.do("barrier")

    def fill(number: Value) -> None:
        stage = kernel.do("rem_signed", number, stages)
        word = kernel.mul(stage, kernel.i32(8))
        inside = kernel.do("and", kernel.first(), kernel.less(number, rows))
        kernel.at(5)
        kernel.mbarrier("expect", word, inside, bytes=SIZE)
        row = kernel.mul(kernel.add(kernel.mul(kernel.program_id(0), kernel.i32(rows)), number), kernel.i32(8))
        kernel.at(6)
        kernel.load_box(x, word, [row, 0], kernel.mul(stage, kernel.i32(SIZE)), predicate=inside)

    ahead = stages if fault == "one too deep" else stages - 1
    for number in range(ahead):
        fill(kernel.i32(number))

    def step(number: Value, total: Value) -> tuple[Value, ...]:
        if fault != "one too deep":
            fill(kernel.add(number, kernel.i32(ahead)))
        stage = kernel.do("rem_signed", number, stages)
        phase = kernel.do("and", kernel.do("div_signed", number, stages), 1)
        kernel.at(8)
        kernel.wait(kernel.mul(stage, kernel.i32(8)), phase)
        kernel.at(9)
        place = kernel.add(kernel.mul(stage, kernel.i32(SIZE)), kernel.mul(kernel.thread(), kernel.i32(4)))
        value = kernel.read(place)
        if fault == "one too deep":
            fill(kernel.add(number, kernel.i32(ahead)))
        kernel.do("barrier")
        return (kernel.do("fadd", total, value),)

    (total,) = kernel.loop(0, rows, 1, [kernel.constant("f32", 0)], step)
    kernel.store(kernel.address(y, kernel.place(128)), total)
    return kernel


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pipelines(schedule: str, stages: int) -> None:
    x, y = filled((5 * 7 * 8, 16)), np.zeros((5, 8, 16), np.float32)
    for seed in range(3):
        pipelined(stages, 7).run((5,), describe(x, TILE), y, schedule=schedule, seed=seed)
        assert (y == x.reshape(5, 7, 8, 16).sum(axis=1)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_ring_one_slot_too_deep(schedule: str) -> None:
    x, y = filled((7 * 8, 16)), np.zeros((8, 16), np.float32)
    with pytest.raises(SharedMemoryRaceError, match="has read") as caught:
        pipelined(3, 7, "one too deep").run((1,), describe(x, TILE), y, schedule=schedule)
    assert lines(caught.value) == (6, 9)


@pytest.mark.parametrize("schedule", ["late", "random"])
def test_a_bulk_copy_may_be_there_late(schedule: str) -> None:
    """An arrival that announces nothing ends the phase before the bytes come."""
    kernel = AsynchronousKernel(4)
    x = kernel.tensor("x", describe(filled((8, 16)), TILE).map.type)
    kernel.at(2)
    kernel.init(0)
    kernel.do("barrier")
    kernel.at(5)
    kernel.load_box(x, 0, [0, 0])
    kernel.at(6)
    kernel.arrive(0)
    kernel.at(7)
    kernel.wait(0, 0)
    kernel.at(8)
    kernel.read(kernel.mul(kernel.thread(), kernel.i32(4)))
    found = set()
    for seed in range(20):
        with pytest.raises((AsynchronousAccessError, DeadlockError)) as caught:
            kernel.run((1,), describe(filled((8, 16)), TILE), schedule=schedule, seed=seed)
        found.add(type(caught.value))
    assert ReadBeforeWaitError in found
    assert (ByteCountError in found) == (schedule == "random")


MAPS: list[tuple[dict[str, Any], str]] = [
    ({"base": 8}, "base must be 16-byte aligned"),
    ({"shape": (0, 16)}, "shape must be positive"),
    ({"shape": (1 << 33, 16)}, "2\\^32"),
    ({"strides": (16, 2)}, "contiguous along its last dimension"),
    ({"strides": (17, 1)}, "strides must be 16-byte aligned"),
    ({"strides": (1 << 40, 1)}, "2\\^40"),
    ({"strides": (1,)}, "as many strides"),
    ({"shape": (1,) * 6, "strides": (1,) * 6, "box": (1,) * 6}, "1 to 5 dimensions"),
    ({"element": "float24"}, "no element type 'float24'"),
    ({"box": (8,)}, "box of 2 dimensions"),
    ({"box": (257, 16)}, "box of 1 to"),
    ({"box": (8, 6)}, "rows are multiples of 16 bytes"),
    ({"swizzle": 16}, "swizzle of 0, 32, 64, 128"),
    ({"swizzle": 32}, "rows that are no longer"),
    ({"fill": "one"}, "zero or nan"),
    ({"fill": "nan", "element": "int32"}, "cannot be filled with nan"),
    ({"element_strides": (9, 1)}, "element strides of 1 to 8"),
    ({"pixels": PixelBox((), ())}, "3 to 5 dimensions"),
]


@pytest.mark.parametrize(("changes", "text"), MAPS)
def test_rules_of_tensor_maps(changes: dict[str, Any], text: str) -> None:
    fields: dict[str, Any] = {"base": 32, "shape": (64, 64), "strides": (64, 1), "element": "float32", "box": TILE}
    assert TensorMap(**fields).box_bytes == 512
    with pytest.raises(ValueError, match=text):
        TensorMap(**{**fields, **changes})
