"""A compiled kernel: its stages, what is known of it, and launches of it."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from glueball import knobs
from glueball.drivers.cuda import cuda_driver
from glueball.errors import OutOfResources, TargetError
from glueball.runtime.compiler import CompilationRequest, Pipeline, check_shared, check_threads
from glueball.runtime.device import launch_on_device
from glueball.runtime.executors import Placement, place
from glueball.runtime.grid import Grid, normalise_grid
from glueball.runtime.host import run_on_reference, run_on_simulator
from glueball.runtime.machine_code import MachineCode, assembler
from glueball.runtime.specialization import Specialization, fit_argument
from glueball.runtime.stages import Stages

if TYPE_CHECKING:
    from glueball.codegen import GeneratedCode
    from glueball.drivers.cuda import LoadedKernel
    from glueball.sim import Report
    from glueball.thread.ir import Function
    from glueball.tile.ir import TileFunction


class KernelMetadata(NamedTuple):
    """What a kernel was compiled for and what it takes; `shared` is in bytes per block."""

    name: str
    hash: str
    target: str
    warp_size: int
    num_warps: int
    num_ctas: int
    num_stages: int
    maxnreg: int | None
    debug: bool
    enable_fp_fusion: bool
    sanitize_overflow: bool
    shared: int


class CompiledKernel:
    """A kernel compiled for one target, set of options and kind of arguments.

    `asm` has its stages, `metadata` what it takes; `report` is what the simulator counted in its last run there, else
    `None`. Stages are made when asked for; which errors that can raise is told by `glueball.compile_only`.
    """

    def __init__(self, request: CompilationRequest) -> None:
        self.request: CompilationRequest = request
        self.name = request.name
        self.asm = Stages(self)
        self.report: Report | None = None
        self._pipeline = Pipeline(request)
        self._loaded: dict[int, LoadedKernel] = {}
        self._prepared: set[str] = set()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name}, {self.request.target.name}, num_warps={self.request.options.num_warps})"

    @cached_property
    def hash(self) -> str:
        """The key in the disk cache; where there is none, a hash of the kernel's key in this process."""
        return self.request.cache_key() or hashlib.sha256(repr(self.request).encode()).hexdigest()

    @cached_property
    def metadata(self) -> KernelMetadata:
        """What the kernel was compiled for and what it takes."""
        options, target = self.request.options, self.request.target
        return KernelMetadata(
            name=self.name,
            hash=self.hash,
            target=target.name,
            warp_size=target.lanes,
            num_warps=options.num_warps,
            num_ctas=options.num_ctas,
            num_stages=options.num_stages,
            maxnreg=options.maxnreg,
            debug=options.debug,
            enable_fp_fusion=options.enable_fp_fusion,
            sanitize_overflow=options.sanitize_overflow,
            shared=self.shared_bytes,
        )

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes."""
        code = self.__dict__.get("machine_code")
        return code.shared_bytes if code is not None else self.thread.shared_bytes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.request.options.num_warps * self.request.target.lanes

    @property
    def source_tile(self) -> TileFunction:
        """The tile IR before its passes."""
        with self._lock:
            return self._pipeline.source_tile

    @property
    def tile(self) -> TileFunction:
        """The tile IR after its passes."""
        with self._lock:
            return self._pipeline.tile

    @property
    def thread(self) -> Function:
        """The thread IR."""
        with self._lock:
            return self._pipeline.thread

    @property
    def generated(self) -> GeneratedCode:
        """LLVM IR and assembly."""
        with self._lock:
            return self._pipeline.generated

    @cached_property
    def machine_code(self) -> MachineCode:
        """Assembly and binary: from the disk cache, else made now."""
        with self._lock:
            check_threads(self.request)
            key = self.request.cache_key()
            code = None if key is None or knobs.ALWAYS_COMPILE.read() else MachineCode.load(key)
            if code is None:
                code = self._pipeline.assemble()
                if key is not None:
                    code.store(key)
            check_shared(code.shared_bytes, self.request)
            return code

    @property
    def n_regs(self) -> int | None:
        """32-bit registers of a thread; `None` where no assembler tells."""
        return self.machine_code.registers if assembler(self.request.target) else None

    @property
    def n_spills(self) -> int | None:
        """Bytes of a thread's registers that spilled to local memory; `None` where no assembler tells."""
        return self.machine_code.spilled_bytes if assembler(self.request.target) else None

    def prepare(self, executor: str) -> None:
        """Makes every stage that an executor needs, and no other; writes the stages where the knob asks for it.

        `executor` is one of `gpu`, `sim`, `reference`, or `assembly` for one that is not there.
        """
        if executor in self._prepared:
            return
        if executor == "gpu":
            _ = self.machine_code
        elif executor == "assembly":
            _ = self.generated
        elif executor == "sim":
            _ = self.thread
        else:
            _ = self.source_tile
        folder = knobs.DUMP.read()
        if folder is not None:
            try:
                self.asm.write(folder / f"{self.name}-{self.hash[:16]}")
            except OSError as error:
                raise OSError(f"{knobs.DUMP.variable}={folder}: the stages cannot be written: {error}") from None
        self._prepared.add(executor)

    def load(self, device_index: int) -> LoadedKernel:
        """The kernel in a device's memory, loaded on first use. `OutOfResources` where its registers are too many."""
        with self._lock:
            if device_index not in self._loaded:
                code = self.machine_code
                loaded = cuda_driver().load(code.binary, self.name, code.shared_bytes, device_index)
                if loaded.max_threads < self.threads:
                    raise OutOfResources(
                        self.threads, loaded.max_threads, "threads", f"{self.name} uses {loaded.registers} registers"
                    )
                self._loaded[device_index] = loaded
            return self._loaded[device_index]

    def launch(self, grid: Grid, arguments: Specialization, placement: Placement, stream: int | None = None) -> None:
        """Runs the kernel where `placement` says; an empty grid runs nothing."""
        if 0 in grid:
            return
        if placement.executor == "gpu":
            loaded = self.load(placement.device_index)
            launch_on_device(loaded, grid, self.threads, arguments.run_time, stream)
        elif placement.executor == "sim":
            self.report = run_on_simulator(self.thread, self.request.target, grid, arguments.run_time)
        else:
            run_on_reference(self.source_tile, grid, arguments.run_time)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """A callable that launches on a grid, with every argument of the kernel in order."""
        return functools.partial(self._launch_prepared, normalise_grid(grid))

    def _launch_prepared(self, grid: Grid, *arguments: Any, stream: int | None = None) -> None:
        given = self._fit(arguments)
        placement = place(given.run_time)
        if placement.target is not self.request.target:
            raise TargetError(
                f"{self.name} is compiled for {self.request.target.name}, not for {placement.target.name}"
            )
        self.launch(grid, given, placement, stream)

    def _fit(self, values: tuple[Any, ...]) -> Specialization:
        """Arguments for a kernel that is compiled already: each must be of the kind that it was compiled for."""
        compiled = self.request.specialization.arguments
        if len(values) != len(compiled):
            raise TypeError(f"{self.name} takes all its {len(compiled)} arguments here, and {len(values)} were given")
        return Specialization(
            tuple(fit_argument(argument, value) for argument, value in zip(compiled, values, strict=True))
        )
