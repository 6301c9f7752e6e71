"""Launches with attributes: a C function with `cuLaunchKernel`'s signature that calls `cuLaunchKernelEx`.

It is made by LLVM, so whatever launches through `cuLaunchKernel`'s address can launch with attributes too.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

COOPERATIVE = 2
"""CUDA's number of the attribute that has all blocks of a grid resident at once, or the launch refused."""

CLUSTER_DIMENSION = 4
"""CUDA's number of the attribute for clusters, whose value is the blocks of one, along x. The grid counts clusters."""

PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CUDA's number of the attribute that lets a kernel start before the one before it in the stream ends."""

LAUNCH_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *(ctypes.c_uint,) * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
"""The type of `cuLaunchKernel`."""

_ATTRIBUTE_WORDS = 9
_INVALID_VALUE = 1

# CUlaunchConfig: grid x, y, z; block x, y, z; shared bytes (32 bits each), padding; stream; attributes; their number.
# CUlaunchAttribute: its number (32 bits), padding, a value of 64 bytes.
_TEMPLATE = """
@attributes = private constant [{words} x i64] [{content}]

declare {{i32, i1}} @llvm.umul.with.overflow.i32(i32, i32)

define i32 @launch(ptr %function, i32 %clusters_x, i32 %grid_y, i32 %grid_z, i32 %block_x, i32 %block_y, i32 %block_z,
                   i32 %shared, ptr %stream, ptr %parameters, ptr %extra) {{
  %config = alloca [7 x i64]
  %blocks = call {{i32, i1}} @llvm.umul.with.overflow.i32(i32 %clusters_x, i32 {cluster})
  %grid_x = extractvalue {{i32, i1}} %blocks, 0
  %too_many = extractvalue {{i32, i1}} %blocks, 1
  br i1 %too_many, label %refused, label %launched
refused:
  ret i32 {invalid_value}
launched:
{stores}
  %stream_slot = getelementptr i64, ptr %config, i64 4
  store ptr %stream, ptr %stream_slot
  %attributes_slot = getelementptr i64, ptr %config, i64 5
  store ptr @attributes, ptr %attributes_slot
  %count_slot = getelementptr i64, ptr %config, i64 6
  store i64 {count}, ptr %count_slot
  %status = call i32 inttoptr (i64 {address} to ptr)(ptr %config, ptr %function, ptr %parameters, ptr %extra)
  ret i32 %status
}}
"""
_WORDS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")


@dataclass(frozen=True, slots=True)
class LaunchFunction:
    """A launch function by its address; `owner` keeps its code alive."""

    address: int
    owner: Any = None


def launch_with_attributes(launch_address: int, attributes: tuple[tuple[int, int], ...]) -> LaunchFunction:
    """What launches with `(number, value)` attributes through `cuLaunchKernelEx`, whose address is given."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    words = []
    for number, value in attributes:
        content = [value | 1 << 32, 1] if number == CLUSTER_DIMENSION else [value, 0]
        words += [number, *content, *[0] * (_ATTRIBUTE_WORDS - 3)]
    stores = [
        f"  %{name}_slot = getelementptr i32, ptr %config, i64 {place}\n  store i32 %{name}, ptr %{name}_slot"
        for place, name in enumerate(_WORDS)
    ]
    text = _TEMPLATE.format(
        words=len(words),
        content=", ".join(f"i64 {word}" for word in words),
        stores="\n".join(stores),
        count=len(attributes),
        cluster=dict(attributes).get(CLUSTER_DIMENSION, 1),
        invalid_value=_INVALID_VALUE,
        address=launch_address,
    )
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return LaunchFunction(engine.get_function_address("launch"), engine)
