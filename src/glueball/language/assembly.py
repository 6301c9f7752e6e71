"""The author's own assembly in a kernel.

Elsewhere than on a GPU the instructions of PTX that work on registers are interpreted. Whatever else there is needs
`simulate`, a Python function that says what the assembly does to NumPy arrays: it takes one array for each element that
the assembly takes, in the same order, and gives one, or a tuple of them, for each element that the assembly gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glueball.language.broadcasting import broadcast_all, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.core import element_type
from glueball.language.function import ConstexprFunction
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap
from glueball.ptx import Interpretation, Word
from glueball.tile.operations.assembly import Simulation, packed_words
from glueball.tile.types import TileType, distributed_type, dtype, pointer_type


def _text(value: Any, what: str) -> str:
    text = _unwrap_if_constexpr(value)
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a compile-time string, not {text!r}")
    return text


def _sequence(value: Any) -> list[Any]:
    plain = _unwrap_if_constexpr(value)
    if isinstance(plain, language_tuple):
        return list(plain.values)
    return list(plain) if isinstance(plain, tuple | list) else [plain]


def _is_sequence(value: Any) -> bool:
    return isinstance(_unwrap_if_constexpr(value), language_tuple | tuple | list)


def _words(kinds: Sequence[TileType], pack: int = 1) -> tuple[Word, ...]:
    """How elements of values lie in the registers of one thread that assembly takes or gives: `pack` of each."""
    return tuple(word for kind in kinds for word in packed_words(kind, pack))


def _simulation(name: str, simulate: Any, interpretation: Interpretation, builder: KernelBuilder) -> Simulation:
    """What stands for assembly elsewhere than on a GPU: the author's function, else what it says if it is PTX."""
    function = _unwrap_if_constexpr(simulate)
    if function is None and builder.target.supports("nvidia"):
        function = interpretation
    if function is not None and not callable(function):
        raise TypeError(f"simulate must be a Python function of NumPy arrays, not {function!r}")
    return Simulation(name, function, sum(word.count for word in interpretation.results))


@builtin
def inline_asm_elementwise(
    asm: str | constexpr,
    constraints: str | constexpr,
    args: Sequence[Any],
    dtype: Any,
    is_pure: bool | constexpr,
    pack: int | constexpr,
    simulate: Callable[..., Any] | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> Any:
    """Assembly applied to `pack` elements of each of `args` at a time, which broadcast; tiles of `dtype`, or of each.

    `constraints` is LLVM's string, results first. Elements narrower than 32 bits go packed, as many as `pack` allows.
    With `is_pure` the block may be dropped, merged and moved. `simulate` is what stands for it elsewhere than on a GPU.
    Errors: `TypeError` for what is no string, element type or function; `ValueError` for a thread that does not hold a
    multiple of `pack` elements.
    """
    text, bounds = _text(asm, "asm"), _text(constraints, "constraints")
    count = _unwrap_if_constexpr(pack)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1 or count & (count - 1):
        raise ValueError(f"pack must be a power of two, not {count!r}")
    elements = [element_type(each) for each in _sequence(dtype)]
    if not elements:
        raise ValueError("inline_asm_elementwise needs at least one result")
    operands = broadcast_all([to_operand(each, _builder) for each in _sequence(args)], _builder)
    scalar = not operands or not isinstance(operands[0].type, distributed_type)
    attributes = {"assembly": text, "constraints": bounds, "is_pure": bool(_unwrap_if_constexpr(is_pure))}
    words = _words([operand.type for operand in operands], count), _words(elements, count)
    interpretation = Interpretation(text, bounds, *words)
    simulation = _simulation("inline_asm_elementwise", simulate, interpretation, _builder)
    handles = [operand.handle for operand in operands]
    if scalar:
        if count != 1:
            raise ValueError(f"pack must be 1 for scalars, not {count}")
        operation = _builder.create("assembly", handles, elements, {**attributes, "simulate": simulation})
    else:
        tile = operands[0].type
        assert isinstance(tile, distributed_type)
        if count > 1 and (held := tile.linear.size("register")) % count:
            raise ValueError(
                f"inline_asm_elementwise takes {count} elements of a thread at a time, but each holds {held}"
            )
        types = [tile.with_element_ty(element) for element in elements]
        operation = _builder.create(
            "assembly_elementwise", handles, types, {**attributes, "simulate": simulation, "pack": count}
        )
    results = [tensor(result) for result in operation.results]
    return language_tuple(results) if _is_sequence(dtype) else results[0]


@builtin
def inline_asm(
    asm: Any,
    constraints: Any = "",
    args: Sequence[Any] = (),
    result_types: Any = (),
    is_pure: bool | constexpr = False,
    simulate: Callable[..., Any] | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> Any:
    """One block of assembly for each thread, with all registers of the tiles in `args`, copies included, and scalars.

    `constraints` is one string for all registers, results first, or a tuple with one entry for each result and
    argument, repeated for its registers. `asm` is a string, or a constexpr_function of two tuples, the names `$0`,
    `$1`, ... of the results' and of the arguments' registers. `result_types` is a type (gives a tensor) or several (a
    tuple). `simulate` is what stands for the block elsewhere than on a GPU.
    Errors: `TypeError` for what is no string, type or function; `ValueError` for another number of constraints.
    """
    operands = [to_operand(each, _builder) for each in _sequence(args)]
    types = [_result_type(each) for each in _sequence(result_types)]
    kinds = (*types, *(operand.type for operand in operands))
    counts = [_registers(kind) for kind in kinds]
    bounds = _constraints(constraints, counts)
    numbers = [f"${number}" for number in range(sum(counts))]
    outputs = sum(counts[: len(types)])
    function = unwrap(asm)
    if isinstance(function, ConstexprFunction):
        text = _text(function((*numbers[:outputs],), (*numbers[outputs:],)), "what asm returns")
    else:
        text = _text(asm, "asm")
    words = _words([kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)])
    interpretation = Interpretation(text, bounds, words[outputs:], words[:outputs])
    attributes = {
        "assembly": text,
        "constraints": bounds,
        "is_pure": bool(_unwrap_if_constexpr(is_pure)),
        "simulate": _simulation("inline_asm", simulate, interpretation, _builder),
    }
    operation = _builder.create("assembly", [operand.handle for operand in operands], types, attributes)
    results = [tensor(result) for result in operation.results]
    return language_tuple(results) if _is_sequence(result_types) else results[0]


def _result_type(value: Any) -> TileType:
    kind = _unwrap_if_constexpr(value)
    if not isinstance(kind, dtype | pointer_type | distributed_type):
        raise TypeError(f"a result type is an element type or a distributed_type, not {kind!r}")
    return kind


def _registers(kind: TileType) -> int:
    """Registers of one thread."""
    if not isinstance(kind, distributed_type):
        return 1
    try:
        return kind.linear.size("register")
    except NotImplementedError as error:
        raise ValueError(f"inline_asm requires explicit distributed layouts, not {kind.layout}") from error


def _constraints(constraints: Any, counts: list[int]) -> str:
    if not _is_sequence(constraints):
        return _text(constraints, "constraints")
    groups = [_text(each, "a constraint") for each in _sequence(constraints)]
    if len(groups) != len(counts):
        raise ValueError(
            f"inline_asm needs one constraint per output and input group: {len(counts)}, not {len(groups)}"
        )
    return ",".join(group for group, count in zip(groups, counts, strict=True) for _ in range(count))
