"""One wrong function per rule of the tile IR, and the sentence it gives."""

from __future__ import annotations

import pytest

from glueball.errors import VerificationError
from glueball.layouts import BlockedLayout, SliceLayout
from glueball.targets import DEFAULT_TARGET, TARGETS
from glueball.tile.ir import Operation, Value
from glueball.tile.types import distributed_type, float8e4nv, float32, int1, int32, int64, pointer_type
from glueball.tile.verifier import verify
from tests.tile.programs import LINEAR, SQUARE, Program, choose, copy_2d, sum_blocks, vector_add

TILE = distributed_type(int32, (128,), LINEAR)
OTHER = distributed_type(int32, (128,), BlockedLayout([2], [32], [4], [0]))


def refused(program, message):
    function = program.finish() if isinstance(program, Program) else program
    with pytest.raises(VerificationError, match=message) as caught:
        verify(function, DEFAULT_TARGET)
    return caught.value


@pytest.mark.parametrize("build", [vector_add, copy_2d, sum_blocks, choose])
def test_right_functions_pass(build):
    verify(build(), DEFAULT_TARGET)


def start(**arguments):
    return Program("wrong", arguments)


def test_unknown_operation():
    program = start()
    program.do("frobnicate")
    error = refused(program, "`frobnicate` is no operation of the tile IR")
    assert (error.location.file, error.location.line) == ("kernel.py", 1)


def test_attributes():
    program = start()
    program("program_id", to=int32)
    refused(program, "`program_id` lacks the attribute axis")
    program = start()
    program("program_id", to=int32, axis=0, colour="red")
    refused(program, "`program_id` has no attribute colour")


def test_region_count():
    program = start(c=int1)
    program.do("if", program.arguments["c"])
    refused(program, "`if` has 2 regions, not 0")


def test_body_ends_in_return():
    function = vector_add()
    function.body.operations.pop()
    refused(function, "does not end in `return`")


def test_nothing_follows_a_terminator():
    program = start()
    program.do("return")
    refused(program, "`return` ends its region, but operations follow")


def test_terminators_stand_where_they_belong():
    function = choose()
    branch = next(operation for operation in function.body.walk() if operation.opcode == "if")
    branch.results.clear()
    function.body.operations = [
        *function.body.operations[: function.body.operations.index(branch) + 1],
        Operation("return", [], []),
    ]
    branch.regions[0].operations[-1] = Operation("return", [], [])
    refused(function, "`return` ends a kernel")


def test_regions_give_values_where_they_are_taken():
    function = choose()
    branch = next(operation for operation in function.body.walk() if operation.opcode == "if")
    branch.regions[1].operations.clear()
    refused(function, "`if` takes values, so each of its regions ends in `yield`")


def test_uses_come_after_definitions():
    function = vector_add()
    operations = function.body.operations
    operations.insert(0, operations.pop(4))
    refused(function, "uses a value as operand . that is not defined before it")


def test_values_of_a_region_stay_inside():
    function = choose()
    branch = next(operation for operation in function.body.walk() if operation.opcode == "if")
    inner = branch.regions[0].operations[0].result
    function.body.operations[-2].operands[1] = inner
    refused(function, "`store` uses a value as operand 1 that is not defined")


@pytest.mark.parametrize(
    ("opcode", "types", "result", "message"),
    [
        ("add", [int32, int64], int32, "operands and result of one type, not int32 and int64"),
        ("add", [TILE, OTHER], TILE, "one shape and layout"),
        ("add", [TILE, int32], TILE, "one shape and layout"),
        ("add", [pointer_type(int32), pointer_type(int32)], pointer_type(int32), "needs integers or floats"),
        ("add", [int32], int32, "takes 2 operands, not 1"),
        ("and", [float32, float32], float32, "needs integers, not fp32"),
        ("negate", [int32], int64, "of one type"),
        ("splat", [TILE], TILE, "goes from scalar to tile"),
        ("splat", [int64], TILE, "keeps the element type"),
        ("convert_layout", [TILE], distributed_type(int32, (256,), LINEAR), "keeps the shape"),
        ("convert_layout", [int32], TILE, "goes from tile to tile"),
        ("broadcast", [TILE], distributed_type(int32, (256,), LINEAR), "grows extents of 1 only"),
        ("broadcast", [distributed_type(int32, (1,), LINEAR)], OTHER, "keeps the layout"),
        ("select", [int32, int32, int32], int32, "needs int1 as condition"),
        ("select", [int1, TILE, TILE], TILE, "one shape and layout"),
        ("cast", [int32], int32, "does not convert int32 to int32"),
        ("cast", [int32], int1, "does not convert int32 to int1"),
        ("cast", [int32], float8e4nv, "does not convert int32 to fp8e4nv"),
        ("cast", [pointer_type(int32)], int32, r"does not convert pointer<int32> to int32"),
        ("bitcast", [int32], int64, "needs equal widths"),
        ("pointer_add", [pointer_type(int32), float32], pointer_type(int32), "needs integer offsets"),
        ("pointer_add", [int32, int32], int32, "moves a pointer"),
        ("load", [int32], int32, "needs a pointer or tile of pointers"),
        ("load", [pointer_type(int32)], int64, "gives int32, not int64"),
        ("load", [pointer_type(int32), int32], int32, "needs a mask of int1"),
        ("load", [pointer_type(int32), int1, int64], int32, "gives int32, not int64"),
    ],
)
def test_operand_and_result_types(opcode, types, result, message):
    program = start(**{f"argument{position}": kind for position, kind in enumerate(types)})
    program(opcode, *program.arguments.values(), to=result)
    refused(program, message)


@pytest.mark.parametrize(
    ("opcode", "result", "attributes", "message"),
    [
        ("constant", int32, {"value": 2**31}, "cannot give 2147483648 as int32"),
        ("constant", int32, {"value": 1.0}, "cannot give 1.0 as int32"),
        ("constant", int1, {"value": 1}, "cannot give 1 as int1"),
        ("constant", TILE, {"value": 1}, "gives a scalar"),
        ("make_range", TILE, {"start": 0, "end": 64}, "gives a 1-D int32 tile of 64 elements"),
        ("make_range", TILE, {"start": 2**31 - 64, "end": 2**31 + 64}, "does not fit int32"),
        ("program_id", int32, {"axis": 3}, "has axes 0, 1 and 2, not 3"),
    ],
)
def test_operations_without_operands(opcode, result, attributes, message):
    program = start()
    program(opcode, to=result, **attributes)
    refused(program, message)


def test_attributes_of_memory_operations():
    program = start(p=pointer_type(int32))
    program("load", program.arguments["p"], to=int32, cache_modifier=".wt")
    refused(program, r"`load` has no cache modifier '.wt'; there are .ca, .cg, .cs, .cv")
    program = start(p=pointer_type(int32, const=True), n=int32)
    program.do("store", *program.arguments.values())
    refused(program, "cannot write through a constant pointer")


def test_rounding_belongs_to_narrowing_casts():
    program = start(n=int32)
    program("cast", program.arguments["n"], to=float32, rounding="zero")
    refused(program, "narrows no float, so it has no rounding")


def test_predicates():
    program = start(n=int32)
    program("compare", *[program.arguments["n"]] * 2, to=int1, predicate="almost")
    refused(program, "`compare` has no predicate 'almost'")


def test_expand_dims_needs_the_slice():
    line = distributed_type(int32, (16,), SliceLayout(0, SQUARE))
    program = start()
    index = program("make_range", to=line, start=0, end=16)
    program("expand_dims", index, to=distributed_type(int32, (16, 1), SQUARE), axis=1)
    refused(program, "to be the slice along axis 1 of")


def loop(initial, carried, yielded, result):
    program = start(bound=int32, step=int64, x=initial, y=yielded)
    bound, _, x, y = program.arguments.values()
    region = program.inside([Value(int32), Value(carried)], lambda *_: [y])
    program.operation("for", bound, bound, bound, x, gives=[result], regions=[region])
    return program


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((TILE, OTHER, OTHER, OTHER), "the initial and the loop-carried values differ in type at position 0"),
        ((TILE, TILE, OTHER, TILE), "what the body yields and the loop-carried values differ in type"),
        ((TILE, TILE, TILE, OTHER), "the loop-carried values and the results differ in type"),
    ],
)
def test_loop_carried_types_are_equal(types, message):
    refused(loop(*types), message)


def test_loop_bounds():
    program = start(bound=int32, step=int64)
    bound, step = program.arguments.values()
    program.do("for", bound, bound, step, regions=[program.inside([Value(int32)], lambda _: [])])
    refused(program, "has bounds and step of its induction type int32, not int64")
    program = start(bound=int32)
    bound = program.arguments["bound"]
    program.do("for", bound, bound, program.constant(0), regions=[program.inside([Value(int32)], lambda _: [])])
    refused(program, "`for` cannot step by zero")


def test_branches_yield_the_results():
    program = start(c=int1, x=int32, y=int64)
    condition, x, y = program.arguments.values()
    regions = [program.inside([], lambda: [x]), program.inside([], lambda: [y])]
    program.operation("if", condition, gives=[int32], regions=regions)
    refused(program, "what `else` yields and the results differ in type at position 0: int64 and int32")


def test_allocations_come_first_and_once():
    program = start()
    program("shared_load", to=TILE, allocation="scratch", plan=None)
    refused(program, "uses `scratch`, which is not allocated before it")
    program = start()
    for _ in range(2):
        program.do("allocate_shared", name="scratch", bytes=4, alignment=4)
    refused(program, "allocates `scratch` a second time")


def test_register_permutations_stay_within_registers():
    program = start()
    tile = program("make_range", to=TILE, start=0, end=128)
    program("permute_registers", tile, to=TILE, sources=(1,))
    refused(program, "has sources beyond the 1 registers of its operand")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (BlockedLayout([1], [32], [2], [0]), "it is made for 2 warps, but kernel `wrong` has 4"),
        (BlockedLayout([1], [64], [4], [0]), "it is made for 64 lanes per warp, but sm_90a has 32"),
        (
            BlockedLayout([1], [32], [4], [0], [[1]]),
            "Layout has 2 CTAs per CGA, but the context requires 1 CTAs per CGA",
        ),
    ],
)
def test_layouts_fit_the_threads(layout, message):
    program = start()
    program("program_id", to=int32, axis=0)
    program("make_range", to=distributed_type(int32, (256,), layout), start=0, end=256)
    error = refused(program, message)
    assert "the result of `make_range` has an invalid layout BlockedLayout(" in error.error_message
    assert (error.location.file, error.location.line) == ("kernel.py", 2)


def test_lanes_are_the_targets():
    with pytest.raises(VerificationError, match="`vector_add` is built for 32 lanes per warp, gfx942 has 64"):
        verify(vector_add(), TARGETS["gfx942"])
