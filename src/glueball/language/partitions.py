"""Warp specialisation: functions that run side by side, each on warps of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.errors import CompilationError
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.function import JITCallable
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap, wrap
from glueball.language.values import base_value
from glueball.tile.ir import Region
from glueball.tile.types import distributed_type

MOST_WORKERS = 14
"""Partitions of several warps need a hardware barrier each, of which there are 16 (PTX ISA, `barrier.cta`)."""
MOST_REGISTERS = 256
"""Registers that `setmaxnreg` can ask for (PTX ISA)."""
GROUP = 4
"""Warps start in groups of so many."""


@builtin
def warp_specialize(
    functions_and_args: Any, worker_num_warps: Any, worker_num_regs: Any = None, *, _builder: KernelBuilder = HIDDEN
) -> Any:
    """Runs functions side by side: the first of `functions_and_args` on the warps of the kernel, the others on more.

    Every entry is a function with the tuple of its arguments; `worker_num_warps` has the warps of every worker, a power
    of two, `worker_num_regs` the registers that a thread of it asks for. All have ended where this ends; the result is
    the first function's. Workers take scalars, pointers, views and descriptors, and talk through shared memory and
    mbarriers.
    Errors: `ValueError` for arguments that are no tuple, and a tile as argument of a worker; `AssertionError` for lists
    of different lengths; `CompilationError` for a call inside of another one.
    """
    entries = [_entry(entry) for entry in _listed(functions_and_args, "functions_and_args")]
    warps = [_count(value, "worker_num_warps") for value in _listed(worker_num_warps, "worker_num_warps")]
    given = None if _unwrap_if_constexpr(worker_num_regs) is None else _listed(worker_num_regs, "worker_num_regs")
    registers = None if given is None else [_count(value, "worker_num_regs") for value in given]
    _check(entries, warps, registers, _builder)
    regions: list[Region] = []
    results: list[Any] = []
    inline = _builder.inline
    assert inline is not None
    outer, own_warps = _builder.region, _builder.num_warps
    for (function, arguments), count in zip(entries, [own_warps, *warps], strict=True):
        region = Region()
        _builder.region, _builder.num_warps, _builder.partitioned = region, count, True
        try:
            found = inline(function, arguments)
            handles = list(wrap(found).flatten()) if not regions else []
            _builder.create("yield", handles)
        finally:
            _builder.region, _builder.num_warps, _builder.partitioned = outer, own_warps, False
        if not regions:
            results = [found, handles]
        regions.append(region)
    attributes = {"worker_warps": tuple(warps), "worker_registers": None if registers is None else tuple(registers)}
    value, handles = results
    operation = _builder.create("warp_specialize", [], [handle.type for handle in handles], attributes, regions)
    return wrap(value).rebuild(iter(operation.results))


def _listed(value: Any, name: str) -> list[Any]:
    if isinstance(value, constexpr):
        value = value.value
    if isinstance(value, language_tuple):
        return list(value.values)
    if not isinstance(value, tuple | list):
        raise ValueError(f"expected {name!r} to be a list, but got {unwrap(value)!r}")
    return list(value)


def _entry(entry: Any) -> tuple[JITCallable, list[base_value]]:
    parts = list(entry.values) if isinstance(entry, language_tuple) else _unwrap_if_constexpr(entry)
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise ValueError(f"warp_specialize takes pairs of a function and its arguments, not {unwrap(entry)!r}")
    function, arguments = _unwrap_if_constexpr(parts[0]), parts[1]
    if not isinstance(function, JITCallable):
        raise ValueError(f"warp_specialize takes functions decorated with @glueball.jit, not {function!r}")
    if not isinstance(arguments, language_tuple | tuple):
        raise ValueError(f"function arguments must be a tuple: those of {function.__name__} are {unwrap(arguments)!r}")
    return function, [wrap(argument) for argument in arguments]


def _count(value: Any, name: str) -> int:
    number = _unwrap_if_constexpr(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"{name} has integers known at compile time, not {number!r}")
    return number


def _check(
    entries: Sequence[tuple[JITCallable, list[base_value]]],
    warps: Sequence[int],
    registers: Sequence[int] | None,
    builder: KernelBuilder,
) -> None:
    workers = len(entries) - 1
    if workers < 0:
        raise ValueError("warp_specialize needs at least the function of the default partition")
    assert len(warps) == workers, f"warp specialize got {workers} partitions but {len(warps)} warp counts"
    if registers is not None:
        assert len(registers) == workers, (
            f"warp specialize got {workers} partitions but {len(registers)} register counts"
        )
        _check_registers(registers, builder)
    if builder.partitioned:
        raise CompilationError("`warp_specialize` cannot be nested inside another one")
    if not builder.target.supports("warp_specialize"):
        raise CompilationError(f"`warp_specialize` is not there for {builder.target.name}")
    _check_warps(warps, builder)
    for function, arguments in entries[1:]:
        _check_captures(function, arguments)


def _check_registers(registers: Sequence[int], builder: KernelBuilder) -> None:
    for number in registers:
        if not 0 < number <= MOST_REGISTERS:
            raise ValueError(f"a thread has at most {MOST_REGISTERS} registers, and {number} were asked for")
    if not builder.target.supports("register_reallocation"):
        raise ValueError(f"worker_num_regs needs sm_90 or later, and the kernel is compiled for {builder.target.name}")


def _check_warps(warps: Sequence[int], builder: KernelBuilder) -> None:
    for number in warps:
        if number < 1 or number & (number - 1):
            raise ValueError(f"the warps of a worker must be a power of 2, not {number}")
    if warps and builder.num_warps % GROUP:
        raise CompilationError(f"`warp_specialize` requires num_warps to be a multiple of 4, not {builder.num_warps}")
    if sum(number > 1 for number in warps) > MOST_WORKERS:
        raise CompilationError(f"`warp_specialize` takes at most {MOST_WORKERS} workers of several warps")
    target = builder.target
    total, most = builder.num_warps + -(-sum(warps) // GROUP) * GROUP, target.threads_per_block // target.lanes
    if total > most:
        raise CompilationError(f"the partitions take {total} warps, and a block of {target.name} has at most {most}")


def _check_captures(function: JITCallable, arguments: Sequence[base_value]) -> None:
    for argument in arguments:
        if any(isinstance(handle.type, distributed_type) for handle in argument.flatten()):
            raise ValueError(
                f"the worker {function.__name__} takes a tile as argument, which lies in the registers of other warps; "
                "pass it through shared memory"
            )
