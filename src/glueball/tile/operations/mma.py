"""Matrix products of warps, from registers to registers (PTX ISA, `mma.sync`)."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.layouts import DotOperandLayout, NVMMADistributedLayout
from glueball.numerics import matrix_element, matrix_product
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.dot import poison_of_product
from glueball.tile.operations.rules import expect_counts, same_type
from glueball.tile.operations.warpgroup import INSTRUCTION_TYPES, InstructionType
from glueball.tile.types import distributed_type, dtype

AMPERE = 2
WORD_BYTES = 4
RUN_LANES = 4
"""Lanes that hold neighbouring runs along K."""
MMA_TYPES: dict[str, InstructionType] = {**INSTRUCTION_TYPES, "fp64": InstructionType("f64", "f64", ("fp64",))}


def word_elements(element: dtype) -> int:
    """Elements in the register that one lane gives an instruction for each of its runs along K."""
    return max(1, WORD_BYTES // element.itemsize)


def words_along_k(element: dtype) -> int:
    """How many such registers one instruction takes from a lane for each row."""
    return 1 if element.itemsize > WORD_BYTES else 2


def k_steps(depth: int, k_width: int, element: dtype) -> list[tuple[int, ...]]:
    """The instructions along K: of each, where the words start that the first of the lanes along K gives it.

    Lane t has those that start `k_width * t` further on. A run longer than a word takes several instructions: word j of
    every run goes into one. So K is permuted, in both operands alike.
    """
    run, word = RUN_LANES * k_width, word_elements(element)
    if words_along_k(element) == 1:
        return [(start + place,) for start in range(0, depth, run) for place in range(k_width)]
    if depth == run:
        return [(place, place + word) for place in range(0, k_width, 2 * word)]
    starts = range(0, depth, 2 * run)
    return [(start + place, start + run + place) for start in starts for place in range(0, k_width, word)]


def _check_mma(operation: Operation) -> None:
    expect_counts(operation, 3, 1)
    left, right, total = (operand.type for operand in operation.operands)
    for kind in (left, right, total):
        if not isinstance(kind, distributed_type):
            raise fault(operation, f"works on tiles, not on {kind}")
    assert isinstance(left, distributed_type) and isinstance(right, distributed_type)
    assert isinstance(total, distributed_type)
    parent = total.layout
    if not isinstance(parent, NVMMADistributedLayout) or parent.version[0] != AMPERE:
        raise fault(operation, f"adds to a tile in an NVMMADistributedLayout of version 2, not in {parent}")
    for index, kind in enumerate((left, right)):
        found = kind.layout
        if not isinstance(found, DotOperandLayout) or (found.operand_index, found.parent) != (index, parent):
            raise fault(operation, f"takes operand {index} of {parent}, not {found}")
    for kind in (left, right):
        if total.element_ty.name not in MMA_TYPES[kind.element_ty.name].accumulators:
            raise fault(operation, f"does not add products of {kind.element_ty} up in {total.element_ty}")
    shape = (*left.shape[:-1], right.shape[-1])
    if left.shape[-1] != right.shape[-2] or left.shape[:-2] != right.shape[:-2] or total.shape != shape:
        raise fault(operation, f"multiplies M x K by K x N, not {left.shape} by {right.shape} to {total.shape}")
    if not same_type(total, operation.result.type):
        raise fault(operation, f"gives {total}, not {operation.result.type}")


def _mma(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    left, right, total = operands
    poison = poison_of_product(left, right, total)
    rows, columns = matrix_element(left.values), matrix_element(right.values)
    result = total.values
    if result.dtype.kind == "f":
        return [TileArray(matrix_product(rows, columns, result), poison)]
    for places in _places_along_k(operation):
        result = matrix_product(rows[..., places], columns[..., places, :], result, saturating=True)
    return [TileArray(result, poison)]


def _places_along_k(operation: Operation) -> list[list[int]]:
    """The k's that each instruction takes; where integers saturate, their order matters."""
    left = operation.operands[0].type
    assert isinstance(left, distributed_type) and isinstance(left.layout, DotOperandLayout)
    element, width = left.element_ty, left.layout.k_width
    assert isinstance(element, dtype)
    inside = [width * lane + place for lane in range(RUN_LANES) for place in range(word_elements(element))]
    steps = k_steps(left.shape[-1], width, element)
    return [[start + place for start in starts for place in inside] for starts in steps]


MMA_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "mma_v2",
        "The third plus the product of the first two, by matrix instructions of a warp; sums of integers saturate.",
        _check_mma,
        _mma,
    ),
)
