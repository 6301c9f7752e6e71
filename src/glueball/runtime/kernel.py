"""A compiled kernel: its stages, what is known of it, and launches of it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.errors import OptionError, OutOfResources, TargetError
from glueball.gpu_target import described_target
from glueball.knob_groups import COMPILATION as COMPILATION_KNOBS
from glueball.knob_groups import RUNTIME, refresh_knobs
from glueball.runtime.allocation import SCRATCH_ALIGNMENT, allocate_scratch
from glueball.runtime.cache import disk_cache
from glueball.runtime.compiler import CompilationRequest, Pipeline, check_shared, check_threads
from glueball.runtime.executors import Placement, place
from glueball.runtime.grid import Grid, normalise_grid
from glueball.runtime.host import run_on_reference, run_on_simulator
from glueball.runtime.launchable import Launchable
from glueball.runtime.locks import COMPILATION
from glueball.runtime.machine_code import MachineCode, assembler
from glueball.runtime.metadata import CompileTimes, KernelMetadata, LazyDict
from glueball.runtime.specialization import Specialization, fit_argument
from glueball.runtime.stages import Stages

if TYPE_CHECKING:
    from glueball.codegen import GeneratedCode
    from glueball.drivers.cuda import LoadedKernel
    from glueball.runtime.allocation import Buffer
    from glueball.runtime.ast_source import GluonASTSource
    from glueball.sim import Report
    from glueball.thread.ir import Function
    from glueball.tile.ir import TileFunction

_STAGES_OF = {
    "gpu": ("machine_code",),
    "assembly": ("tile", "thread", "generated"),
    "sim": ("tile", "thread"),
    "reference": ("source_tile",),
}
_FIRST_STAGES = ("tile", "source_tile")
_HOST_CHECKS = "consan"


class CompiledKernel(Launchable):
    """A kernel compiled for one target, set of options and kind of arguments.

    `asm` has its stages, `metadata` what it takes; `report` is what the simulator counted in its last run there, else
    `None`. Stages are made when asked for; which errors that can raise is told by `glueball.compile_only`.

    `kernel[grid](*arguments, stream=None)` launches it with every argument in order, `prepared_launch` makes a callable
    that repeats one launch.
    """

    def __init__(self, request: CompilationRequest) -> None:
        super().__init__()
        self.request: CompilationRequest = request
        self.name = request.name
        self.asm = Stages(self)
        self.report: Report | None = None
        self._pipeline = Pipeline(request)
        self._loaded: dict[int, LoadedKernel] = {}
        self._refused: dict[int, OutOfResources] = {}
        self._prepared: set[str] = set()
        self._times: dict[str, int] = {}
        self._from_cache = False

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name}, {self.request.target.name}, num_warps={self.request.options.num_warps})"

    @cached_property
    def hash(self) -> str:
        """The key in the disk cache; where there is none, a hash of the kernel's key in this process."""
        return self.request.cache_key() or hashlib.sha256(repr(self.request).encode()).hexdigest()

    @cached_property
    def metadata(self) -> KernelMetadata:
        """What the kernel was compiled for and what it takes."""
        target = self.request.target
        described = described_target(target)
        options = asdict(self.request.options.for_target(target)) | {"num_warps": self.launched_warps}
        return KernelMetadata(
            **options,
            name=self.name,
            hash=self.hash,
            target=described,
            arch=target.name,
            backend_name=described.backend,
            glueball_version=importlib.import_module("glueball").__version__,
            warp_size=target.lanes,
            shared=self.shared_bytes,
            tmem_size=0,
            global_scratch_size=self.global_scratch_bytes,
            global_scratch_align=SCRATCH_ALIGNMENT if self.global_scratch_bytes else 1,
            profile_scratch_size=0,
            profile_scratch_align=1,
            tensordesc_meta=(),
        )

    @property
    def packed_metadata(self) -> tuple[int, int, int]:
        """Warps, CTAs of a cluster, and bytes of shared memory of a block."""
        return self.metadata.num_warps, self.metadata.num_ctas, self.metadata.shared

    @property
    def metadata_group(self) -> dict[str, str]:
        """The files of the kernel in the disk cache, by name; empty where it is not there."""
        key = self.request.cache_key()
        folder = None if key is None else disk_cache().folder / key
        if folder is None or not folder.is_dir():
            return {}
        return {path.name: str(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")}

    @cached_property
    def src(self) -> GluonASTSource:
        """The function, its signature and constants."""
        from glueball.runtime.ast_source import source_of

        return source_of(self.request.function, self.request.specialization)

    @property
    def kernel(self) -> bytes:
        """The binary."""
        return self.machine_code.binary

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block in bytes."""
        code = self.__dict__.get("machine_code")
        return code.shared_bytes if code is not None else self.thread.shared_bytes

    @property
    def global_scratch_bytes(self) -> int:
        """Global memory in bytes that a launch provides for every program."""
        code = self.__dict__.get("machine_code")
        return code.global_scratch_bytes if code is not None else self.thread.global_scratch_bytes

    @property
    def threads(self) -> int:
        """Threads of a block, those of workers among them."""
        return self.launched_warps * self.request.target.lanes

    @property
    def launched_warps(self) -> int:
        """Warps of a block, those of workers among them."""
        from glueball.thread.control import launched_warps

        code = self.__dict__.get("machine_code")
        return code.warps if code is not None else launched_warps(self.thread)

    @property
    def source_tile(self) -> TileFunction:
        """The tile IR before its passes."""
        with COMPILATION:
            return self._pipeline.source_tile

    @property
    def tile(self) -> TileFunction:
        """The tile IR after its passes."""
        with COMPILATION:
            return self._pipeline.tile

    @property
    def thread(self) -> Function:
        """The thread IR."""
        with COMPILATION:
            return self._pipeline.thread

    @property
    def generated(self) -> GeneratedCode:
        """LLVM IR and assembly."""
        with COMPILATION:
            return self._pipeline.generated

    @cached_property
    def machine_code(self) -> MachineCode:
        """Assembly and binary: from the disk cache, else made now."""
        with COMPILATION:
            check_threads(self.request)
            key = self.request.cache_key()
            code = None if key is None or knobs.ALWAYS_COMPILE.read() else MachineCode.load(key)
            if code is None:
                for stage in ("tile", "thread", "generated"):
                    self._timed(stage, functools.partial(getattr, self._pipeline, stage))
                code = made = self._timed("binary", self._pipeline.assemble)
                if key is not None:
                    self._timed("store", lambda: made.store(key, self.request.described()))
            else:
                self._from_cache = True
            check_shared(code.shared_bytes, self.request)
            return code

    def _timed(self, stage: str, make: Callable[[], Any]) -> Any:
        start = time.perf_counter_ns()
        made = make()
        self._times[stage] = (time.perf_counter_ns() - start) // 1000
        return made

    @property
    def n_regs(self) -> int | None:
        """32-bit registers of a thread; `None` where no assembler tells."""
        return self.machine_code.registers if assembler(self.request.target) else None

    @property
    def n_spills(self) -> int | None:
        """Bytes of a thread's registers that spilled to local memory; `None` where no assembler tells."""
        return self.machine_code.spilled_bytes if assembler(self.request.target) else None

    @property
    def n_max_threads(self) -> int | None:
        """The most threads of a block that the kernel's registers permit; `None` before it is in a device's memory."""
        return None if self._loaded_anywhere is None else self._loaded_anywhere.max_threads

    @property
    def function(self) -> int | None:
        """The driver's handle of the kernel; `None` before it is in a device's memory."""
        return None if self._loaded_anywhere is None else self._loaded_anywhere.function

    @property
    def module(self) -> Any:
        """The driver's handle of the module; `None` before it is in a device's memory."""
        return None if self._loaded_anywhere is None else self._loaded_anywhere.module

    @property
    def _loaded_anywhere(self) -> LoadedKernel | None:
        return next(iter(self._loaded.values()), None)

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that have the kernel in their memory, by index."""
        return tuple(self._loaded)

    def _init_handles(self) -> None:
        """Loads the kernel on the current device, as its first launch does."""
        self.load(cuda_driver().current_device())

    def prepare(self, executor: str) -> None:
        """Makes every stage that an executor needs, and no other; writes the stages where the knob asks for it.

        `executor` is one of `gpu`, `sim`, `reference`, or `assembly` for one that is not there.
        """
        if executor in self._prepared:
            return
        with COMPILATION:
            self._check_instrumentation(executor)
            if RUNTIME.add_stages_inspection_hook is not None:
                target = self.request.target
                makers = MappingProxyType({name: functools.partial(self.asm.__getitem__, name) for name in self.asm})
                RUNTIME.add_stages_inspection_hook(self, makers, self.request.options, "gluon", target.name)
            for stage in _STAGES_OF[executor]:
                self._timed(stage, functools.partial(getattr, self, stage))
            self._write_stages()
            self._prepared.add(executor)
            self._tell_listener()

    def is_prepared(self, executor: str) -> bool:
        """Whether every stage that an executor needs is made."""
        return executor in self._prepared

    def _check_instrumentation(self, executor: str) -> None:
        mode = self.request.options.instrumentation_mode
        if not mode:
            return
        if executor in ("gpu", "assembly"):
            raise OptionError(
                f"instrumentation_mode={mode}: machine code has no checks built in; GLUEBALL_EXECUTOR=sim runs the "
                f"kernel on the simulator, which always makes those of consan"
            )
        if mode != _HOST_CHECKS:
            raise OptionError(f"instrumentation_mode={mode}: of these checks only consan's are there")

    def _write_stages(self) -> None:
        folder = knobs.DUMP.read()
        if folder is not None:
            try:
                self.asm.write(Path(folder) / f"{self.name}-{self.hash[:16]}")
            except OSError as error:
                raise OSError(f"{knobs.DUMP.variable}={folder}: the stages cannot be written: {error}") from None

    def _tell_listener(self) -> None:
        if COMPILATION_KNOBS.listener is None:
            return
        stages = [
            (name, time) for name, time in self._times.items() if name not in (*_FIRST_STAGES, "store", "machine_code")
        ]
        first = sum(self._times.get(name, 0) for name in _FIRST_STAGES)
        COMPILATION_KNOBS.listener(
            src=self.src,
            metadata=self.metadata._asdict(),
            metadata_group=self.metadata_group,
            times=CompileTimes(first, stages, self._times.get("store", 0)),
            cache_hit=self._from_cache,
        )

    def load(self, device_index: int) -> LoadedKernel:
        """The kernel in a device's memory, loaded on first use. `OutOfResources` where its registers are too many."""
        found = self._loaded.get(device_index)
        if found is not None:
            return found
        with COMPILATION:
            if device_index in self._refused:
                raise self._refused[device_index].with_traceback(None)
            if device_index not in self._loaded:
                self._loaded[device_index] = self._load(device_index)
            return self._loaded[device_index]

    def _load(self, device_index: int) -> LoadedKernel:
        code, driver = self.machine_code, cuda_driver()
        if RUNTIME.kernel_load_start_hook:
            RUNTIME.kernel_load_start_hook(None, None, self.name, self.metadata_group, self.hash)
        loaded = driver.load(code.binary, self.name, code.shared_bytes, device_index, self.request.options.num_ctas)
        if loaded.max_threads < self.threads:
            driver.unload(loaded)
            detail = f"{self.name} uses {loaded.registers} registers"
            self._refused[device_index] = OutOfResources(self.threads, loaded.max_threads, "threads", detail)
            raise self._refused[device_index]
        if RUNTIME.kernel_load_end_hook:
            RUNTIME.kernel_load_end_hook(loaded.module, loaded.function, self.name, self.metadata_group, self.hash)
        return loaded

    def unload(self) -> None:
        """Takes the kernel out of every device's memory; a later launch loads it anew.

        No launch of it may be under way, and no graph that another library captured may hold one.
        """
        with COMPILATION:
            refresh_knobs()
            self._launchers.clear()
            for loaded in self._loaded.values():
                if RUNTIME.kernel_unload_hook:
                    RUNTIME.kernel_unload_hook(
                        loaded.module, loaded.function, self.name, self.metadata_group, self.hash
                    )
                cuda_driver().unload(loaded)
            self._loaded.clear()

    def launch(self, grid: Grid, arguments: Specialization, placement: Placement, stream: int | None = None) -> None:
        """Runs the kernel where `placement` says; an empty grid runs nothing."""
        if 0 in grid:
            return
        if placement.executor == "gpu":
            from glueball.runtime.device import launch_on_device, stream_for

            loaded = self.load(placement.device_index)
            if stream is None:
                stream = stream_for(loaded, arguments.run_time)
            with self._hooked(grid, stream, arguments, loaded.function):
                launch_on_device(
                    loaded, grid, self.request.options, self.threads, arguments.run_time, stream,
                    self._scratch(grid, stream),
                )  # fmt: skip
            return
        with self._hooked(grid, stream, arguments, None):
            if placement.executor == "sim":
                self.report = run_on_simulator(self.thread, self.request.target, grid, arguments.run_time)
            else:
                run_on_reference(self.source_tile, grid, arguments.run_time)

    def _scratch(self, grid: Grid, stream: int) -> Buffer | None:
        """The global memory that a launch needs beside the arguments, from the allocator that is set."""
        size = math.prod(grid) * self.request.options.num_ctas * self.global_scratch_bytes
        return allocate_scratch(self.name, size, SCRATCH_ALIGNMENT, stream) if size else None

    @contextlib.contextmanager
    def _hooked(
        self, grid: Grid, stream: int | None, arguments: Specialization, function: int | None
    ) -> Iterator[None]:
        """Calls the launch hooks around the block."""
        if not (RUNTIME.launch_enter_hook or RUNTIME.launch_exit_hook):
            yield
            return
        metadata = LazyDict({"name": self.name, "function": function, "stream": stream})
        extra = getattr(self.request.function, "launch_metadata", None)
        if extra is not None:
            given = {argument.name: argument.given for argument in arguments.arguments}
            metadata.add(extra, (grid, self.metadata, given))
        RUNTIME.launch_enter_hook(metadata)
        yield
        RUNTIME.launch_exit_hook(metadata)

    def prepared_launch(self, *arguments: Any, grid: Any, stream: int | None = None) -> Callable[[], CompiledKernel]:
        """A callable without arguments that repeats one launch with the least host time.

        Every argument of the kernel is given in order. Numbers and the addresses of arrays are read now, and the arrays
        are kept alive: a new value needs a new callable, new contents of an array do not. `stream` is a handle; left
        out, each launch goes to the caller's current stream. Errors: those of a launch.
        """
        extents = normalise_grid(grid)
        given, placement = self._fit(arguments)

        def again() -> CompiledKernel:
            self.launch(extents, given, placement, stream)
            return self

        self.prepare(placement.executor)
        if placement.executor != "gpu":
            return again
        if self.global_scratch_bytes:
            return again
        from glueball.runtime.device import is_hooked, new_variant, raw_words

        words, indices, kept = raw_words(given)

        def renew(_: object = kept) -> Any:
            if is_hooked():
                return None
            return new_variant(self, placement.device_index, (), given.run_time, indices, stream)

        repeater: Callable[[], CompiledKernel] = self._table.repeater(extents, words, again, renew)
        return repeater

    def _make_launcher(self, grid: Grid) -> Callable[..., CompiledKernel]:
        if self._table is None:
            return lambda *arguments, **keywords: self._launch_fitting(grid, arguments, keywords)
        launcher: Callable[..., CompiledKernel] = self._table.launcher(grid)
        return launcher

    @cached_property
    def _table(self) -> Any:
        """The native launcher's table; `None` where there is no device."""
        if not cuda_available().ok:
            return None
        from glueball.runtime.device import new_kernel_table

        with COMPILATION:
            return self.__dict__.get("_table") or new_kernel_table(
                self._launch_fitting, self.request.specialization.arguments
            )

    def _launch_fitting(self, grid: Grid, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> CompiledKernel:
        """The whole work of a launch of this kernel, every argument given in order."""
        stream = keywords.get("stream")
        if unknown := keywords.keys() - {"stream"}:
            raise TypeError(f"{self.name} is compiled: it takes all its arguments in order, not {', '.join(unknown)}")
        given, placement = self._fit(arguments)
        self.launch(grid, given, placement, stream)
        if placement.executor == "gpu" and self._table is not None:
            from glueball.runtime.device import remember

            names = [*(argument.name for argument in given.arguments), *keywords]
            remember(self._table, self, placement.device_index, (), given, (arguments, keywords), names, stream)
        return self

    def _fit(self, values: tuple[Any, ...]) -> tuple[Specialization, Placement]:
        """Arguments of the kinds that the kernel was compiled for, and where they are."""
        compiled = self.request.specialization.arguments
        if len(values) != len(compiled):
            raise TypeError(f"{self.name} takes all its {len(compiled)} arguments here, and {len(values)} were given")
        given = Specialization(
            tuple(fit_argument(argument, value) for argument, value in zip(compiled, values, strict=True))
        )
        placement = place(given.run_time)
        if placement.target is not self.request.target:
            raise TargetError(
                f"{self.name} is compiled for {self.request.target.name}, not for {placement.target.name}"
            )
        return given, placement
