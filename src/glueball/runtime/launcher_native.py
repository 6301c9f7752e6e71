"""The native launcher: LLVM makes one function from `launcher_ir`, and CPython calls it as a built-in.

A launch then runs no Python bytecode: arguments become a key, the key finds a variant, the driver is called. No C
compiler takes part, and the code is made once for all kernels of a process.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from glueball.knob_groups import LAUNCH_EPOCH
from glueball.runtime.launcher_graph import GraphSwitch
from glueball.runtime.launcher_ir import MAXIMUM_ARGUMENTS, TEMPLATE
from glueball.runtime.launcher_table import Entry, Repetition, TableState, TensorType, Variant

MAXIMUM_TENSOR_TYPES = 64

_METH_NOARGS = 0x0004
_METH_FASTCALL = 0x0080
_METH_KEYWORDS = 0x0002
_OBJECT_HEADER_BYTES = 16


def native_supported() -> bool:
    """Whether this interpreter's objects are laid out as the native code reads them.

    That is CPython with the global interpreter lock, 64 bits, little-endian, no reference tracing.
    """
    return (
        sys.implementation.name == "cpython"
        and sys.byteorder == "little"
        and struct.calcsize("P") == 8
        and object.__basicsize__ == _OBJECT_HEADER_BYTES
    )


class _MethodDefinition(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@dataclass(frozen=True, slots=True)
class NativeCode:
    """The machine code of the process, and what makes built-in functions of it.

    `key`, `launch` and `repeat` describe the functions; `engine` owns their code and `names` the attribute names in it.
    """

    engine: Any
    names: tuple[str, ...]
    key: _MethodDefinition
    launch: _MethodDefinition
    repeat: _MethodDefinition

    def bind(self, definition: _MethodDefinition, self_object: tuple[object, ...]) -> Callable[..., Any]:
        """A built-in function whose `self` is `self_object`, the first item being the state's bytes."""
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        make = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
        function: Callable[..., Any] = make(ctypes.addressof(definition), self_object, None)
        return function


@functools.cache
def native_code() -> NativeCode:
    """The launcher's machine code, made on first use (a few milliseconds) and kept for the life of the process."""
    names = tuple(sys.intern(name) for name in ("data_ptr", "dtype", "get_device"))
    engine = _compile(_fill_in(TEMPLATE, names))
    flags = _METH_FASTCALL | _METH_KEYWORDS
    code = NativeCode(
        engine,
        names,
        _MethodDefinition(b"key", engine.get_function_address("key"), flags, None),
        _MethodDefinition(b"launch", engine.get_function_address("launch"), flags, None),
        _MethodDefinition(b"repeat", engine.get_function_address("repeat"), _METH_NOARGS, None),
    )
    # Built-in functions may outlive every module at interpreter exit, so what they point at is never freed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code


def _fill_in(template: str, names: tuple[str, ...]) -> str:
    """The template with every `$name` replaced by a constant address or number."""
    objects = {"int": int, "float": float, "bool": bool, "true": True, "none": None} | {name: name for name in names}
    values = {name: _pointer(id(value)) for name, value in objects.items()}
    values["epoch"] = _pointer(ctypes.addressof(LAUNCH_EPOCH))
    values["maximum"] = str(MAXIMUM_ARGUMENTS)
    values["words"] = str(1 + 3 * MAXIMUM_ARGUMENTS)
    values["tuple_items"] = str(tuple.__basicsize__)
    values["bytes_content"] = str(bytes.__basicsize__ - 1)
    for function in set(re.findall(r"\$(Py\w+)", template)):
        address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
        values[function] = _pointer(address or 0)
    return Template(template).substitute(values)


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


def _compile(text: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Inlining saves some 30 of 450 ns a launch and costs nothing; the rest of level 2 saves 20 more and costs 70 ms.
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    module = llvm.parse_assembly(text)
    module.verify()
    inlining = llvm.create_new_module_pass_manager()
    inlining.add_always_inliner_pass()
    inlining.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


class NativeBackend:
    """One table's view for the native code: the tensor types, the parameters, the key function.

    The memory blocks have a fixed address, and each built-in function's `self` keeps them alive.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._code = native_code()
        self._latest = (ctypes.c_int64 * 1)()
        self._types = (ctypes.c_int64 * (1 + 3 * MAXIMUM_TENSOR_TYPES))()
        self._parameters = (ctypes.c_int64 * (1 + 2 * len(state.parameters)))(len(state.parameters))
        for index, (name, flags) in enumerate(state.parameters):
            self._parameters[1 + 2 * index] = id(name)
            self._parameters[2 + 2 * index] = int(flags)
        self._key = self._code.bind(self._code.key, self._self_object((0, 0, 0)))

    def add_tensor_type(self, tensor_type: type, reading: TensorType) -> None:
        """Announces one more tensor type, which `state.tensor_types` already keeps alive."""
        count = self._types[0]
        if count == MAXIMUM_TENSOR_TYPES:
            raise ValueError(f"a variant table knows at most {MAXIMUM_TENSOR_TYPES} tensor types")
        self._types[1 + 3 * count] = id(tensor_type)
        self._types[2 + 3 * count] = 0 if reading.exchange is None else reading.exchange.read_address
        self._types[3 + 3 * count] = 0 if reading.reader is None else id(reading.reader)
        self._types[0] = count + 1

    def forget_latest(self) -> None:
        """The latest entry hit is known by address only; any that left the table must not be it."""
        self._latest[0] = 0

    def key(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> tuple[bytes, list[object]] | None:
        """The key of a call and the objects whose addresses are in it; `None` for a call without a key."""
        references: list[object] = []
        key: bytes | None = self._key(references, *arguments, **keywords)
        return None if key is None else (key, references)

    def entry(self, variant: Variant, key: bytes, references: list[object]) -> Entry:
        """What the table stores: the record the native code reads, and owners of every address in it."""
        guards = tuple((namespace, sys.intern(name), value) for namespace, name, value in variant.guards)
        switch = None if variant.graph is None else GraphSwitch(variant.graph, len(variant.argument_indices))
        words = [
            variant.launch_address,
            variant.function_handle,
            *variant.block,
            variant.shared_bytes,
            variant.context_address,
            variant.context_handle,
            id(variant.kernel),
            0 if variant.stream_exchange is None else variant.stream_exchange.stream_address,
            *(part & 0xFFFFFFFF for part in variant.stream_device),
            0 if variant.stream_callable is None else id(variant.stream_callable),
            variant.stream if variant.stream_callable is None else id(variant.stream_argument),
            id(variant.launch_failed),
            len(key) // 8,
            len(guards),
            len(variant.argument_indices),
            0 if switch is None else ctypes.addressof(switch.words),
            LAUNCH_EPOCH[0],
            *struct.unpack(f"<{len(key) // 8}Q", key),
            *(id(part) for guard in guards for part in guard),
            *variant.argument_indices,
        ]
        return struct.pack(f"<{len(words)}Q", *words), variant, (references, guards, switch)

    def launcher(self, grid: tuple[int, int, int]) -> Callable[..., Any]:
        """The built-in function that launches on one grid."""
        return self._code.bind(self._code.launch, self._self_object(grid))

    def repeater(self, repetition: Repetition, grid: tuple[int, int, int], values: Sequence[int]) -> Callable[[], Any]:
        """The built-in function that launches a repetition's entry with the same raw values each time."""
        block = (ctypes.c_uint64 * max(1, len(values)))(*values)
        current = ctypes.addressof(repetition.current)
        words = struct.pack("<10Q", current, id(repetition), 0, 0, 0, 0, *grid, ctypes.addressof(block))
        return self._code.bind(self._code.repeat, (words, repetition, block))

    def _self_object(self, grid: tuple[int, int, int]) -> tuple[object, ...]:
        variants, miss = self._state.variants, self._state.miss
        blocks = (self._latest, self._types, self._parameters)
        words = struct.pack("<9Q", id(variants), id(miss), id(grid), *map(ctypes.addressof, blocks), *grid)
        return (
            words,
            variants,
            miss,
            grid,
            blocks,
            self._state.parameters,
            self._state.tensor_types,
        )
