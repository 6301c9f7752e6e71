"""From a kernel and its arguments to a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glueball.explain.costs import analyse
from glueball.explain.report import Report
from glueball.runtime.compiler import CompilationRequest, Pipeline
from glueball.runtime.devices import default_target
from glueball.runtime.grid import normalise_grid
from glueball.runtime.host import allocation_address
from glueball.runtime.jit import JITFunction
from glueball.runtime.options import read_options
from glueball.runtime.specialization import ALIGNMENT, Argument, ArgumentSpec, specialize
from glueball.targets import Target, target_named
from glueball.tensor_map import TensorMap
from glueball.tile.types import dtype, pointer_type


@dataclass(frozen=True, slots=True)
class ArrayDescription:
    """Stands for an array of which no data is needed, contiguous in row-major order and aligned to 32 bytes."""

    dtype: dtype
    shape: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def stride(self, axis: int) -> int:
        """Elements between neighbours along one dimension."""
        return self.strides[axis]


def explain(
    kernel: JITFunction,
    arguments: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    target: str | Target | None = None,
    grid: Any = None,
    registers: int | None = None,
) -> Report:
    """What a launch `kernel[grid](*arguments, **keywords)` would cost, without running it.

    An argument is what a launch passes, or stands for it: an `ArrayDescription`, or an `ArgumentSpec` for a number or
    an address of which only that much is known. The storage of host arrays and of described ones counts as starting at
    a multiple of 32 bytes, as that of every device allocation does. `target` is that of the first device by default,
    else `sm_90a`. Without a `grid` (also a callable, as for launches) the report has the costs of one program. With
    `registers` of a thread, as the assembler says them (`n_regs` of a compiled kernel), the occupancy counts with them.
    Errors: as those of a launch before the kernel runs; `TargetError` for an unknown target.
    """
    keywords = keywords or {}
    chosen = default_target() if target is None else target_named(target) if isinstance(target, str) else target
    options = read_options(kernel.__name__, keywords, frozenset(kernel.rules), kernel.debug)
    bound = kernel.bind(tuple(arguments), keywords)
    described = {name: _as_specification(value) for name, value in bound.items()}
    specialization = specialize(kernel.rules, described)
    request = CompilationRequest(kernel, specialization.without_values(), options, chosen, kernel.__name__)
    values = {argument.name: _value(argument) for argument in specialization.run_time}
    extents = None if grid is None else normalise_grid(grid(bound) if callable(grid) else grid)
    pipeline = Pipeline(request)
    function = pipeline.tile
    # What workers are given goes through shared memory of which only lowering knows how much it is.
    partitioned = any(operation.opcode == "warp_specialize" for operation in function.body.walk())
    shared_bytes = pipeline.thread.shared_bytes if partitioned else function.shared_bytes
    return analyse(function, chosen, values, extents, shared_bytes, registers)


def _as_specification(value: Any) -> Any:
    return ArgumentSpec(pointer_type(value.dtype), ALIGNMENT) if isinstance(value, ArrayDescription) else value


def _value(argument: Argument) -> int | TensorMap | None:
    """An integer's value, the address of an array, a host array's from where its storage starts, or a tensor map."""
    if argument.array is not None:
        address = argument.array.pointer
        if argument.array.kind == "host":
            start = allocation_address(argument.value)
            address -= (address if start is None else start) // ALIGNMENT * ALIGNMENT
        return address if argument.tensor_map is None else replace(argument.tensor_map, base=address)
    if isinstance(argument.type, pointer_type):
        return 0
    return int(argument.value) if isinstance(argument.value, int) else None
