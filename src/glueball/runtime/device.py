"""Launches on a GPU: packing arguments, and the variant that lets the native launcher repeat a launch."""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.drivers.arrays import current_stream, stream_callable
from glueball.drivers.cuda import cuda_driver
from glueball.drivers.exchange import CUDA_DEVICE_TYPE, exchange_api
from glueball.runtime.grid import Grid
from glueball.runtime.launcher import GraphSource, KeyFlag, Miss, Variant, VariantTable
from glueball.runtime.options import OPTION_NAMES
from glueball.runtime.parameters import ParameterRule
from glueball.runtime.specialization import Argument, scalar_value
from glueball.tile.types import float32, float64, int1, int32, int64, uint64

if TYPE_CHECKING:
    from glueball.drivers.cuda import LoadedKernel
    from glueball.runtime.captures import Guard
    from glueball.runtime.kernel import CompiledKernel

PARAMETER_BYTES = 8
_PASSED_AS_GIVEN = {bool: (int1,), int: (int32, int64, uint64), float: (float32, float64)}


def launch_on_device(
    loaded: LoadedKernel, grid: Grid, threads: int, arguments: Sequence[Argument], stream: int | None
) -> None:
    """Enqueues a kernel on a stream, by default the caller's current one on the kernel's device."""
    if stream is None:
        stream = current_stream(loaded.device_index, _first_array(arguments))
    packed = [pack(argument) for argument in arguments]
    cuda_driver().launch(loaded, grid, (threads, 1, 1), stream, packed)


def _first_array(arguments: Sequence[Argument]) -> object:
    """The array whose framework says which stream is current."""
    return next((argument.value for argument in arguments if argument.array is not None), None)


def pack(argument: Argument) -> bytes:
    """A run-time argument as the kernel's parameter, padded to eight bytes."""
    if argument.array is not None:
        return struct.pack("<Q", argument.array.pointer)
    number: bytes = scalar_value(argument).tobytes()
    return number.ljust(PARAMETER_BYTES, b"\0")


def new_table(miss: Miss, rules: Mapping[str, ParameterRule]) -> VariantTable:
    """The native launcher's table of a function."""
    return VariantTable(miss, [(name, _flags(rule)) for name, rule in rules.items()])


def _flags(rule: ParameterRule) -> KeyFlag:
    flags = KeyFlag.NORMAL
    if rule.is_constexpr or rule.name in OPTION_NAMES:
        flags |= KeyFlag.CONSTEXPR
    if not rule.specialize_value:
        flags |= KeyFlag.NO_VALUE
    if not rule.specialize_alignment:
        flags |= KeyFlag.NO_ALIGNMENT
    if rule.type == float64:
        flags |= KeyFlag.FLOAT64
    return flags


def remember(
    table: VariantTable,
    kernel: CompiledKernel,
    device_index: int,
    guards: tuple[Guard, ...],
    arguments: Sequence[Argument],
    call: tuple[tuple[Any, ...], dict[str, Any]],
    names: list[str],
) -> None:
    """Lets the native launcher repeat a launch, if it passes every argument just as `pack` does.

    `names` are the parameters that the call gave, positional ones first.
    """
    for argument in arguments:
        if argument.name not in names or not _native(table, argument):
            return
    driver, loaded = cuda_driver(), kernel.load(device_index)
    variant = Variant(
        kernel=kernel,
        launch_address=driver.launch_address,
        function_handle=loaded.function,
        block=(kernel.threads, 1, 1),
        shared_bytes=loaded.shared_bytes,
        argument_indices=tuple(names.index(argument.name) for argument in arguments),
        context_address=driver.context_address,
        context_handle=loaded.context,
        stream_exchange=exchange_api(type(_first_array(arguments))),
        stream_device=(CUDA_DEVICE_TYPE, loaded.device_index),
        stream_callable=stream_callable(),
        stream_argument=loaded.device_index,
        guards=guards,
        graph=_graph_source(loaded, (kernel.threads, 1, 1), len(arguments)),
    )
    table.add(variant, *call)


def _graph_source(loaded: LoadedKernel, block: tuple[int, int, int], parameter_count: int) -> GraphSource | None:
    """How launches go through a graph once they repeat; `None` where the driver or the knob does not let them."""
    graphs = cuda_driver().graphs if knobs.LAUNCH_GRAPH.read() else None
    if graphs is None:
        return None
    return GraphSource(graphs.functions, functools.partial(graphs.make, loaded, block, parameter_count))


def _native(table: VariantTable, argument: Argument) -> bool:
    """Whether the native launcher passes an argument rightly; makes its type known to the table."""
    if argument.array is None:
        if argument.type == uint64 and argument.value < 1 << 63:
            return False  # a later negative value would have the same key
        return argument.type in _PASSED_AS_GIVEN.get(type(argument.value), ())
    kind, torch = type(argument.value), sys.modules.get("torch")
    if exchange_api(kind) is None and (torch is None or not issubclass(kind, torch.Tensor)):
        return False
    table.register_tensor_type(kind)
    return True
