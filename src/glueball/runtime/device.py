"""Launches on a GPU: packing arguments, and the variant that lets the native launcher repeat a launch."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.drivers.arrays import current_stream, stream_callable
from glueball.drivers.cuda import cuda_driver
from glueball.drivers.exchange import CUDA_DEVICE_TYPE, exchange_api
from glueball.drivers.launch_attributes import CLUSTER_DIMENSION, COOPERATIVE, PROGRAMMATIC_STREAM_SERIALIZATION
from glueball.drivers.tensor_maps import encoded
from glueball.knob_groups import RUNTIME
from glueball.language.constexpr import constexpr
from glueball.language.values import tuple_type
from glueball.runtime.descriptors import launch_words, part_offsets
from glueball.runtime.grid import Grid
from glueball.runtime.launcher import GraphSource, KeyFlag, Miss, Variant, VariantTable, part_index
from glueball.runtime.options import OPTION_NAMES, LaunchOptions
from glueball.runtime.parameters import ParameterRule
from glueball.runtime.specialization import Argument, Specialization, scalar_value
from glueball.runtime.tensor_wrapper import TensorWrapper
from glueball.runtime.tuples import passes_as_words, tuple_words, word_offsets
from glueball.tile.types import float32, float64, int1, int32, int64, tensor_descriptor_type, uint64

if TYPE_CHECKING:
    from glueball.drivers.cuda import LoadedKernel
    from glueball.runtime.allocation import Buffer
    from glueball.runtime.captures import Guard
    from glueball.runtime.kernel import CompiledKernel

PARAMETER_BYTES = 8
_PASSED_AS_GIVEN = {bool: (int1,), int: (int32, int64, uint64), float: (float32, float64)}


def launch_on_device(
    loaded: LoadedKernel, grid: Grid, options: LaunchOptions, threads: int, arguments: Sequence[Argument], stream: int,
    scratch: Buffer | None = None,
) -> None:  # fmt: skip
    """Enqueues a kernel on a stream; `scratch` is the global memory that it needs beside its arguments."""
    packed = [pack(argument) for argument in arguments]
    if scratch is not None:
        packed.append(struct.pack("<Q", scratch.data_ptr()))
    cuda_driver().launch(loaded, grid, (threads, 1, 1), stream, packed, launch_attributes(options))


def launch_attributes(options: LaunchOptions) -> tuple[tuple[int, int], ...]:
    """The attributes of a launch, by the driver's numbers, that options ask for."""
    asked = {
        COOPERATIVE: int(options.launch_cooperative_grid),
        PROGRAMMATIC_STREAM_SERIALIZATION: int(options.launch_pdl),
        CLUSTER_DIMENSION: options.num_ctas if options.num_ctas > 1 else 0,
    }
    return tuple((number, value) for number, value in asked.items() if value)


def stream_for(loaded: LoadedKernel, arguments: Sequence[Argument]) -> int:
    """The caller's current stream on a kernel's device."""
    return current_stream(loaded.device_index, _first_array(arguments))


def _first_array(arguments: Sequence[Argument]) -> object:
    """The array whose framework says which stream is current."""
    return next((argument.value for argument in arguments if argument.array is not None), None)


def pack(argument: Argument) -> bytes:
    """A run-time argument as the kernel's parameter, padded to eight bytes."""
    if argument.tensor_map is not None:
        return encoded(argument.tensor_map)
    if argument.array is not None:
        return struct.pack("<Q", argument.array.pointer)
    number: bytes = scalar_value(argument).tobytes()
    return number.ljust(PARAMETER_BYTES, b"\0")


def new_table(miss: Miss, rules: Mapping[str, ParameterRule]) -> VariantTable:
    """The native launcher's table of a function."""
    return VariantTable(miss, [(name, _flags(rule)) for name, rule in rules.items()])


def new_kernel_table(miss: Miss, compiled: Sequence[Argument]) -> VariantTable:
    """The native launcher's table of a compiled kernel: no value is told apart that it does not depend on."""
    parameters = []
    for argument in compiled:
        flags = KeyFlag.NO_VALUE
        if isinstance(argument.type, constexpr):
            flags |= KeyFlag.CONSTEXPR
        elif argument.divisibility == 1:
            flags |= KeyFlag.NO_ALIGNMENT
        if argument.type == float64:
            flags |= KeyFlag.FLOAT64
        parameters.append((argument.name, flags))
    return VariantTable(miss, parameters)


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
    arguments: Specialization,
    call: tuple[tuple[Any, ...], dict[str, Any]],
    names: list[str],
    stream: int | None = None,
) -> None:
    """Lets the native launcher repeat a launch, if it passes every argument just as `pack` does.

    `names` are the parameters that the call gave, positional ones first. While there are launch hooks nothing is
    repeated, so that they are called; nor where every launch needs scratch memory from the allocator.
    """
    if is_hooked() or kernel.global_scratch_bytes:
        return
    indices: list[int] = []
    for argument in arguments.arguments:
        if isinstance(argument.type, constexpr):
            continue
        if argument.name not in names or not _native(table, argument):
            return
        indices += _parts(argument, names.index(argument.name))
    table.add(new_variant(kernel, device_index, guards, arguments.run_time, tuple(indices), stream), *call)


def _parts(argument: Argument, index: int) -> list[int]:
    """How the native launcher counts what becomes of one of the call's arguments."""
    if isinstance(argument.type, tensor_descriptor_type):
        return [part_index(index, offset) for offset in part_offsets(argument.type)]
    if isinstance(argument.type, tuple_type):
        return [part_index(index, offset) for offset in word_offsets(argument)]
    return [index]


def raw_words(arguments: Specialization) -> tuple[list[int], tuple[int, ...], object]:
    """The values of a launch in 64 bits each, how the native launcher counts them, and what must live with them."""
    words: list[int] = []
    indices: list[int] = []
    kept: list[object] = []
    for argument in _passed(arguments.arguments):
        indices += _parts(argument, len(words))
        if isinstance(argument.type, tensor_descriptor_type):
            found = launch_words(argument.value)
            assert found is not None, f"argument `{argument.name}` is no descriptor of device memory"
            words.append(ctypes.cast(ctypes.c_char_p(found[0]), ctypes.c_void_p).value or 0)
            kept.append(found)
        else:
            words.append(int.from_bytes(pack(argument), "little"))
    return words, tuple(indices), kept


def _passed(arguments: Sequence[Argument]) -> Iterator[Argument]:
    """The arguments that are passed at run time, descriptors whole."""
    for argument in arguments:
        if isinstance(argument.type, tuple_type):
            yield from _passed(argument.elements)
        elif not isinstance(argument.type, constexpr):
            yield argument


def is_hooked() -> bool:
    """Whether every launch must be made by Python, so that launch hooks are called."""
    return bool(RUNTIME.launch_enter_hook or RUNTIME.launch_exit_hook)


def new_variant(
    kernel: CompiledKernel,
    device_index: int,
    guards: tuple[Guard, ...],
    arguments: Sequence[Argument],
    indices: tuple[int, ...],
    stream: int | None,
) -> Variant:
    """A kernel as the native launcher launches it: on `stream`, or on the caller's current one."""
    driver, loaded = cuda_driver(), kernel.load(device_index)
    attributes = launch_attributes(kernel.request.options)
    described = any(argument.tensor_map is not None for argument in arguments)  # a graph compares 8 bytes of each
    block = (kernel.threads, 1, 1)
    return Variant(
        kernel=kernel,
        launch_address=driver.launch_function(attributes).address,
        function_handle=loaded.function,
        block=block,
        shared_bytes=loaded.shared_bytes,
        argument_indices=indices,
        context_address=driver.context_address,
        context_handle=loaded.context,
        stream_exchange=None if stream is not None else exchange_api(type(_first_array(arguments))),
        stream_device=(CUDA_DEVICE_TYPE, loaded.device_index),
        stream_callable=None if stream is not None else stream_callable(),
        stream_argument=loaded.device_index,
        stream=stream or 0,
        guards=guards,
        graph=None if attributes or described else _graph_source(loaded, block, len(arguments)),
    )


def _graph_source(loaded: LoadedKernel, block: tuple[int, int, int], parameter_count: int) -> GraphSource | None:
    """How launches go through a graph once they repeat; `None` where the driver or the knob does not let them."""
    graphs = cuda_driver().graphs if knobs.LAUNCH_GRAPH.read() else None
    if graphs is None:
        return None
    return GraphSource(graphs.functions, functools.partial(graphs.make, loaded, block, parameter_count))


def _native(table: VariantTable, argument: Argument) -> bool:
    """Whether the native launcher passes an argument rightly; makes its type known to the table."""
    if isinstance(argument.type, tensor_descriptor_type):
        table.register_reader(type(argument.value), launch_words)
        return True
    if isinstance(argument.type, tuple_type):
        table.register_reader(type(argument.value), tuple_words)
        return passes_as_words(argument)
    if argument.array is None:
        if argument.type == uint64 and argument.value < 1 << 63:
            return False  # a later negative value would have the same key
        return argument.type in _PASSED_AS_GIVEN.get(type(argument.value), ())
    kind, torch = type(argument.value), sys.modules.get("torch")
    is_read = exchange_api(kind) is not None or kind is TensorWrapper
    if not is_read and (torch is None or not issubclass(kind, torch.Tensor)):
        return False
    table.register_tensor_type(kind)
    return True
