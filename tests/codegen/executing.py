"""Runs a hand-made kernel as one thread on this machine: LLVM text of an AMD target, compiled for the host.

Global memory accesses, arithmetic and control flow of that text are LLVM's own, so they mean the same on any machine.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from glueball.codegen.printer import print_module
from tests.codegen.building import Kernel

C_TYPES = {"i1": ctypes.c_bool, "i8": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64}


def run_on_host(kernel: Kernel, x: np.ndarray, y: np.ndarray, **arguments: int) -> None:
    """Runs a kernel made for an AMD target that uses no lanes, no barriers and no shared memory."""
    text = print_module(kernel.function, kernel.function.target, lines=False).text
    text = text.replace("amdgpu_kernel ", "").replace(" !reqd_work_group_size !0", "")
    text = re.sub(r"^(attributes|!).*$", "", text, flags=re.MULTILINE).replace("#0", "nounwind")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.verify()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(opt=0))
    engine.finalize_object()
    kinds: list[Any] = [C_TYPES[value.type] for value in kernel.parameters.values()]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *kinds)(engine.get_function_address("kernel"))
    entry(x.ctypes.data, y.ctypes.data, *(arguments[name] for name in kernel.parameters))
