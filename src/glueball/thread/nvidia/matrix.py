"""Matrix products of a warp, whose lanes hold the matrices in fragments (PTX ISA, `mma.sync`).

Operands: the elements of a lane's part of the accumulators (rows x columns), of the left matrix (rows x inner) and of
the right one (inner x columns), as the instruction counts them. Attributes: `rows`, `columns` and `inner`, and `types`
of left, right and accumulators as PTX spells them. Sums of integers saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball import numerics
from glueball.thread.ir import BITS, Attributes, Emitter, Instruction, Record, Scope, Value
from glueball.thread.words import llvm_type, pack, unpack

Array = NDArray[Any]
LANES = 32
WORD = 32
ROWS = 8
"""Rows of the left matrix (columns of the right one) that the lanes hold side by side."""
OPERANDS: dict[str, np.dtype[Any]] = {
    "e4m3": numerics.FLOAT8_E4M3FN,
    "e5m2": numerics.FLOAT8_E5M2,
    "u8": np.dtype(np.uint8),
}
"""How the bits of a register are to be read where its type does not say so."""
ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}
FLOAT8 = ("e4m3", "e5m2")
FLOAT8_VERSIONS = {"f32": 84, "f16": 87}
"""Versions of PTX that have products of 8-bit floats, by the type that they are added up in."""
CONSTRAINTS = {"i32": "r", "float": "f", "double": "d"}


def _parts(attributes: Attributes, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Accumulators, left and right matrix among the operands."""
    rows, columns, inner = attributes["rows"], attributes["columns"], attributes["inner"]
    total, left = rows * columns // LANES, rows * inner // LANES
    return operands[:total], operands[total : total + left], operands[total + left :]


# The simulator: fragments to matrices, the product, and back.


def _places(count: int, element_bits: int, rows: int) -> tuple[Array, Array]:
    """Row and k of what the lanes hold of the left matrix (or column and k of the right one), `[lane, element]`."""
    lane, element = np.arange(LANES)[:, None], np.arange(count)[None, :]
    run = max(1, WORD // element_bits)
    word, inside = element // run, element % run
    blocks = rows // ROWS
    return lane // 4 + word % blocks * ROWS, (word // blocks * 4 + lane % 4) * run + inside


def _accumulator_places(count: int) -> tuple[Array, Array]:
    """Row and column of what the lanes hold of the accumulators, `[lane, element]`."""
    lane, element = np.arange(LANES)[:, None], np.arange(count)[None, :]
    return lane // 4 + element // 2 * ROWS, lane % 4 * 2 + element % 2


def _gathered(values: Sequence[Any], places: tuple[Array, Array], shape: tuple[int, int]) -> Array:
    """The matrix `[cta, warp, row, column]` of fragments, one array for each element."""
    spread = np.broadcast_arrays(*values, np.empty((1, 1, LANES), bool))[:-1]
    held = np.stack(spread, axis=-1)
    matrix = np.empty((*held.shape[:-2], *shape), held.dtype)
    matrix[..., places[0], places[1]] = held
    return matrix


def _scattered(matrix: Array, places: tuple[Array, Array]) -> tuple[Array, ...]:
    held = matrix[..., places[0], places[1]]
    return tuple(held[..., index] for index in range(held.shape[-1]))


def _matrices(attributes: Attributes, operands: Sequence[Any], bits: int) -> tuple[Array, Array, Array]:
    total, left, right = _parts(attributes, operands)
    rows, columns, inner = attributes["rows"], attributes["columns"], attributes["inner"]
    column, k = _places(len(right), bits, ROWS)
    return (
        _gathered(total, _accumulator_places(len(total)), (rows, columns)),
        _gathered(left, _places(len(left), bits, rows), (rows, inner)),
        _gathered(right, (k, column), (inner, columns)),
    )


def _typed(values: Array, name: str) -> Array:
    return values.view(OPERANDS[name]) if name in OPERANDS else values


def _issue(machine: Any, attributes: Attributes, *operands: Any) -> tuple[Array, ...]:
    machine.whole_warps(None)
    left_type, right_type, _ = attributes["types"]
    total, left, right = _matrices(attributes, operands, ELEMENT_BITS[left_type])
    factors = [numerics.matrix_element(_typed(part, name)) for part, name in ((left, left_type), (right, right_type))]
    result = numerics.matrix_product(factors[0], factors[1], total, saturating=True)
    return _scattered(result, _accumulator_places(len(_parts(attributes, operands)[0])))


def poison_of_product(attributes: Attributes, *poison: Any) -> tuple[Array, ...]:
    """The poison of the results of an instruction whose operands have the poison told, `None` for none."""
    flags = [np.zeros((1, 1, 1), bool) if each is None else np.asarray(each) for each in poison]
    total, left, right = _matrices(attributes, flags, ELEMENT_BITS[attributes["types"][0]])
    bad = total | left.any(axis=-1, keepdims=True) | right.any(axis=-2, keepdims=True)
    return _scattered(bad, _accumulator_places(len(_parts(attributes, poison)[0])))


# The instruction.


def _words(emitter: Emitter, values: Sequence[Value], kind: str) -> list[str]:
    """Elements as the registers that the instruction takes, typed."""
    bits = BITS[values[0].type]
    names = pack(emitter, values, WORD, len(values) * bits // WORD) if bits < WORD else [*map(emitter.name, values)]
    if values[0].type == "f32" and kind == "i32":
        casts = [emitter.fresh() for _ in names]
        for cast, name in zip(casts, names, strict=True):
            emitter.line(f"{cast} = bitcast float {name} to i32")
        names = casts
    return [f"{kind} {name}" for name in names]


def _emit(instruction: Instruction, emitter: Emitter) -> None:
    attributes, results = instruction.attributes, instruction.results
    total, left, right = _parts(attributes, instruction.operands)
    left_type, right_type, total_type = attributes["types"]
    if left_type in FLOAT8:
        emitter.require_version(FLOAT8_VERSIONS[total_type])
    kind = llvm_type(total[0].type) if BITS[total[0].type] >= WORD else "i32"
    factor = "double" if left_type == "f64" else "i32"
    groups = [_words(emitter, left, factor), _words(emitter, right, factor), _words(emitter, total, kind)]
    counts = [len(groups[2]), *map(len, groups)]
    places = ", ".join(_registers(sum(counts[:position]), count) for position, count in enumerate(counts))
    shape = f"m{attributes['rows']}n{attributes['columns']}k{attributes['inner']}"
    saturating = ".satfinite" if total_type == "s32" else ""
    opcode = f"mma.sync.aligned.{shape}.row.col{saturating}.{total_type}.{left_type}.{right_type}.{total_type}"
    letters = [f"={CONSTRAINTS[kind]}"] * counts[0] + [CONSTRAINTS[factor]] * (counts[1] + counts[2])
    constraints = ",".join(letters + [CONSTRAINTS[kind]] * counts[0])
    arguments = ", ".join(word for group in groups for word in group)
    found, together = emitter.fresh(), "{" + ", ".join([kind] * counts[0]) + "}"
    emitter.line(f'{found} = call {together} asm "{opcode} {places};", "{constraints}"({arguments}) convergent')
    direct = BITS[results[0].type] >= WORD
    names = [emitter.name(result) if direct else emitter.fresh() for result in results[: counts[0]]]
    for index, name in enumerate(names):
        emitter.line(f"{name} = extractvalue {together} {found}, {index}")
    if not direct:
        unpack(emitter, names, WORD, results)


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"${index}" for index in range(first, first + count)) + "}"


MMA_SYNC = Record(
    name="mma_sync",
    result_types=lambda operands, attributes: tuple(_parts(attributes, operands)[0]),
    llvm={"nvidia": _emit},
    issue=_issue,
    scope=Scope.WARP,
    convergent=True,
    targets=frozenset({"nvidia"}),
)
