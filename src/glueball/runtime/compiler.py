"""The pipeline: what is compiled, and its stages, each made when an executor or a reader asks for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.errors import OutOfResources
from glueball.knob_groups import RUNTIME
from glueball.language.function import JITCallable
from glueball.runtime import cache
from glueball.runtime.captures import function_text
from glueball.runtime.constants import lasting_text
from glueball.runtime.machine_code import MachineCode, assemble, assembler
from glueball.runtime.options import LaunchOptions
from glueball.runtime.specialization import Specialization
from glueball.targets import Target

if TYPE_CHECKING:
    from glueball.codegen import GeneratedCode
    from glueball.thread.ir import Function
    from glueball.tile.ir import TileFunction


@dataclass(frozen=True, slots=True)
class CompilationRequest:
    """Everything that decides code, apart from glueball and its libraries themselves."""

    function: JITCallable
    specialization: Specialization
    options: LaunchOptions
    target: Target
    name: str

    def cache_key(self) -> str | None:
        """The disk cache's key; `None` where a compile-time value has no text that lasts longer than the process."""
        signature = []
        for argument in self.specialization.arguments:
            text = lasting_text(argument.key, function_text)
            if text is None:
                return None
            signature.append([argument.name, text])
        source = function_text(self.function)
        if source is None:
            return None
        return cache.hash_key(
            {
                "function": source,
                "name": self.name,
                "signature": signature,
                "options": self.options.code_key(),
                "target": self.target.name,
                "knobs": {knob.name: str(knob.read()) for knob in knobs.KNOBS if knob.affects_code},
                "stages_hook": _stages_hook_hash(),
                "toolchain": toolchain(self.target),
            }
        )

    def described(self) -> dict[str, Any]:
        """What is compiled, as JSON values for people: kernel, place, signature, target, options."""
        kinds = self.specialization.types
        return {
            "kernel": self.name,
            "place": f"{self.function.fn.__code__.co_filename}:{self.function.fn.__code__.co_firstlineno}",
            "target": self.target.name,
            "signature": {name: str(kind) for name, kind in kinds.items()},
            "options": self.options.code_key(),
        }


def _stages_hook_hash() -> str | None:
    """What the hook that sees the stages of kernels adds to their keys."""
    hook = RUNTIME.add_stages_inspection_hook
    return None if hook is None else str(hook()[1])


def toolchain(target: Target) -> dict[str, str]:
    """What else decides code: glueball's own sources and the versions of Python, LLVM and the assembler."""
    import llvmlite

    from glueball import codegen

    return {
        "glueball": cache.source_hash(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "llvm": codegen.llvm_version(),
        "llvmlite": llvmlite.__version__,
        "assembler": assembler(target),
    }


class Pipeline:
    """The stages of one request."""

    def __init__(self, request: CompilationRequest) -> None:
        self.request = request

    @cached_property
    def source_tile(self) -> TileFunction:
        """The tile IR as the frontend made it, every layout known."""
        return self._build_tile()

    @cached_property
    def tile(self) -> TileFunction:
        """The tile IR after its passes."""
        from glueball.tile.passes import run_passes
        from glueball.tile.verifier import verify

        function = self._build_tile()
        run_passes(function, self.request.target, verify if knobs.VERIFY.read() else None)
        check_shared(function.shared_bytes, self.request)
        return function

    @cached_property
    def thread(self) -> Function:
        """What one thread does."""
        from glueball.lower import lower

        return lower(self.tile, self.request.target)

    @cached_property
    def generated(self) -> GeneratedCode:
        """LLVM IR and assembly."""
        from glueball import codegen

        return codegen.generate(
            self.thread,
            self.request.target,
            lines=not self.request.options.disable_line_info,
            isolate=knobs.ISOLATE_CODEGEN.read(),
        )

    def assemble(self) -> MachineCode:
        """Assembly and the binary made of it. `CodeGenerationError` where no assembler for the target is there."""
        from glueball.thread.control import launched_warps

        generated, thread = self.generated, self.thread
        binary = assemble(generated.assembly, self.request.target)
        return MachineCode(
            generated.assembly,
            binary.data,
            binary.registers,
            binary.spills,
            thread.shared_bytes,
            launched_warps(thread),
            thread.global_scratch_bytes,
        )

    def _build_tile(self) -> TileFunction:
        from glueball import frontend
        from glueball.tile import verifier
        from glueball.tile.passes.layouts import resolve_layouts
        from glueball.tile.passes.ordering import order_reductions

        request = self.request
        check_threads(request)
        function = frontend.build(
            request.function,
            request.specialization.types,
            request.specialization.facts,
            num_warps=request.options.num_warps,
            num_ctas=request.options.num_ctas,
            target=request.target,
            name=request.name,
            debug=request.options.debug,
            checks_overflow=request.options.checks_overflow,
        )
        function.options.update(request.options.code_key())
        resolve_layouts(function, request.target)
        if request.options.deterministic:
            order_reductions(function, request.target)
        verifier.verify_placement(function, request.target)
        if knobs.VERIFY.read():
            verifier.verify_structure(function)
        return function


def check_threads(request: CompilationRequest) -> None:
    """Raises `OutOfResources` for a block of more threads than the target has."""
    threads = request.options.num_warps * request.target.lanes
    if threads > request.target.threads_per_block:
        raise OutOfResources(
            threads, request.target.threads_per_block, "threads",
            f"num_warps={request.options.num_warps} of {request.target.lanes} lanes on {request.target.name}",
        )  # fmt: skip


def check_shared(shared_bytes: int, request: CompilationRequest) -> None:
    """Raises `OutOfResources` for a block of more shared memory than the target has."""
    if shared_bytes > request.target.shared_bytes:
        raise OutOfResources(
            shared_bytes,
            request.target.shared_bytes,
            "shared memory",
            f"in bytes, {request.name} on {request.target.name}",
        )
