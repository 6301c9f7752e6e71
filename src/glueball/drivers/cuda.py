"""The CUDA driver: devices, contexts, loading and launching a binary, and the driver's own linker.

Everything goes through `cuda.bindings.driver`, imported on first use; a machine without it, without libcuda or
without a GPU imports this module all the same and gets an answer that says which piece is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from glueball.drivers.launch_attributes import LAUNCH_TYPE, LaunchFunction, launch_with_attributes
from glueball.drivers.launch_graph import LaunchGraphs, graph_functions
from glueball.errors import DriverError

STATIC_SHARED_LIMIT = 48 * 1024
"""Dynamic shared memory in bytes that a kernel may have without asking the driver."""

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that a kernel may have without asking the driver."""

_LOG_BYTES = 16 * 1024
_ENTRY_POINT_VERSION = 12000
_DEFAULT_STREAM_FLAG = 0
_NOT_INITIALIZED = 3
_FORK_REMEDY = "start processes with the `spawn` or `forkserver` method, or use CUDA in them only"


class CudaError(DriverError):
    """A CUDA call that failed: `action` is what was being done, `name` and `text` are CUDA's, `code` the number."""

    def __init__(self, action: str, code: int, name: str, text: str, log: str = "") -> None:
        super().__init__(action, code, name, text, log)
        self.action = action
        self.code = code
        self.name = name
        self.text = text
        self.log = log

    def __str__(self) -> str:
        message = f"{self.action}: {self.name} ({self.code}): {self.text}"
        return f"{message}\n{self.log}" if self.log else message


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether CUDA can be used here, and in one sentence why not, or what was found."""

    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel in a device's memory.

    `function` is the handle that `cuLaunchKernel` takes, `context` the handle of the context it lives in.
    `local_bytes` per thread is what spilled or was indexed; `static_shared_bytes` and `shared_bytes` (dynamic) are
    per block; `max_threads` per block is what its registers permit. `module` owns the code.
    """

    function: int
    module: Any
    context: int
    device_index: int
    registers: int
    local_bytes: int
    max_threads: int
    static_shared_bytes: int
    shared_bytes: int


class CudaDriver:
    """The driver of one process.

    `bindings` is `cuda.bindings.driver` or what stands in for it. Primary contexts are retained on first use and
    shared with every framework of the process.
    """

    def __init__(self, bindings: Any) -> None:
        self._bindings = bindings
        self._contexts: dict[int, Any] = {}
        self._launch_functions: dict[tuple[tuple[int, int], ...], LaunchFunction] = {}
        self.process_id = os.getpid()
        self.call("initialising CUDA", "cuInit", 0)

    @property
    def bindings(self) -> Any:
        """The module whose functions are called."""
        return self._bindings

    @functools.cached_property
    def launch_address(self) -> int:
        """The address of `cuLaunchKernel`."""
        return self._entry_point("cuLaunchKernel")

    def launch_function(self, attributes: tuple[tuple[int, int], ...]) -> LaunchFunction:
        """What launches with `(number, value)` attributes, called as `cuLaunchKernel` is; the driver keeps it."""
        if not attributes:
            return LaunchFunction(self.launch_address)
        if attributes not in self._launch_functions:
            address = self._entry_point("cuLaunchKernelEx")
            self._launch_functions[attributes] = launch_with_attributes(address, attributes)
        return self._launch_functions[attributes]

    @functools.cached_property
    def context_address(self) -> int:
        """The address of `cuCtxGetCurrent`."""
        return self._entry_point("cuCtxGetCurrent")

    @functools.cached_property
    def graphs(self) -> LaunchGraphs | None:
        """What makes graphs of one launch; `None` where the driver lacks a function for them."""
        functions = graph_functions(self._entry_point)
        return None if functions is None else LaunchGraphs(self, self._bindings, functions)

    def driver_version(self) -> tuple[int, int]:
        """The CUDA version the driver supports, such as (13, 0)."""
        version = self.call("reading the driver's version", "cuDriverGetVersion")
        return version // 1000, version % 1000 // 10

    def device_count(self) -> int:
        """The number of CUDA devices."""
        return int(self.call("counting devices", "cuDeviceGetCount"))

    def device_name(self, device_index: int) -> str:
        """The device's product name."""
        device = self._device(device_index)
        name: bytes = self.call(f"reading the name of device {device_index}", "cuDeviceGetName", 128, device)
        return name.split(b"\0")[0].decode()

    def compute_capability(self, device_index: int) -> tuple[int, int]:
        """Major and minor compute capability."""
        major = self._attribute(device_index, "COMPUTE_CAPABILITY_MAJOR")
        return major, self._attribute(device_index, "COMPUTE_CAPABILITY_MINOR")

    def architecture(self, device_index: int) -> str:
        """The target's name, such as `sm_90a`."""
        return architecture_name(*self.compute_capability(device_index))

    def max_shared_bytes(self, device_index: int) -> int:
        """The most shared memory one block may opt in to, in bytes."""
        return self._attribute(device_index, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")

    def multiprocessor_count(self, device_index: int) -> int:
        """The number of streaming multiprocessors."""
        return self._attribute(device_index, "MULTIPROCESSOR_COUNT")

    def current_device(self) -> int:
        """The device of this thread's current context; 0 where none is current."""
        if not int(self.call("reading the current context", "cuCtxGetCurrent")):
            return 0
        return int(self.call("reading the current device", "cuCtxGetDevice"))

    def device_of_pointer(self, pointer: int) -> int:
        """The device whose memory an address is in."""
        attribute = self._bindings.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        action = f"finding the device of address {pointer:#x}"
        return int(self.call(action, "cuPointerGetAttribute", attribute, pointer))

    def context(self, device_index: int) -> int:
        """The handle of the device's primary context."""
        return int(self._context(device_index))

    @contextlib.contextmanager
    def activated(self, device_index: int) -> Iterator[int]:
        """Makes the device's primary context current inside the block, and gives its handle.

        A thread that had no current context keeps this one, as frameworks do; otherwise the former one returns.
        """
        context = self._context(device_index)
        current = int(self.call("reading the current context", "cuCtxGetCurrent"))
        if current == int(context):
            yield int(context)
            return
        action = f"activating device {device_index}"
        if not current:
            self.call(action, "cuCtxSetCurrent", context)
            yield int(context)
            return
        self.call(action, "cuCtxPushCurrent", context)
        try:
            yield int(context)
        finally:
            self.call(f"leaving device {device_index}", "cuCtxPopCurrent")

    def load(
        self, binary: bytes, kernel_name: str, shared_bytes: int, device_index: int, cluster: int = 1
    ) -> LoadedKernel:
        """Loads a cubin and finds one kernel in it; `shared_bytes` is the dynamic shared memory of each launch.

        `cluster` is how many blocks its clusters have.
        `CudaError` when the binary is not for the device, lacks the kernel, or asks for more shared memory than
        `max_shared_bytes`.
        """
        with self.activated(device_index) as context:
            module = self.call(f"loading the module of {kernel_name}", "cuModuleLoadData", binary)
            try:
                function = self.call(
                    f"finding kernel {kernel_name}", "cuModuleGetFunction", module, kernel_name.encode()
                )
                if shared_bytes > STATIC_SHARED_LIMIT:
                    self.call(
                        f"giving {kernel_name} {shared_bytes} bytes of dynamic shared memory",
                        "cuFuncSetAttribute",
                        function,
                        self._function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES"),
                        shared_bytes,
                    )
                if cluster > PORTABLE_CLUSTER:
                    self.call(
                        f"giving {kernel_name} clusters of {cluster} blocks",
                        "cuFuncSetAttribute",
                        function,
                        self._function_attribute("NON_PORTABLE_CLUSTER_SIZE_ALLOWED"),
                        1,
                    )
                counts = {
                    name: self._read_function(kernel_name, function, name)
                    for name in ("NUM_REGS", "LOCAL_SIZE_BYTES", "MAX_THREADS_PER_BLOCK", "SHARED_SIZE_BYTES")
                }
            except DriverError:
                self.call(f"unloading the module of {kernel_name}", "cuModuleUnload", module)
                raise
        return LoadedKernel(
            function=int(function),
            module=module,
            context=context,
            device_index=device_index,
            registers=counts["NUM_REGS"],
            local_bytes=counts["LOCAL_SIZE_BYTES"],
            max_threads=counts["MAX_THREADS_PER_BLOCK"],
            static_shared_bytes=counts["SHARED_SIZE_BYTES"],
            shared_bytes=shared_bytes,
        )

    def unload(self, kernel: LoadedKernel) -> None:
        """Frees a kernel's module. No launch of it may follow or be under way."""
        with self.activated(kernel.device_index):
            self.call("unloading a module", "cuModuleUnload", kernel.module)

    def launch(
        self,
        kernel: LoadedKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int,
        arguments: Sequence[bytes],
        attributes: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Launches with arguments packed as the kernel's parameters are, one `bytes` each; an empty grid does nothing.

        The launch native code cannot do: another device current, arguments it has no key for.
        """
        if 0 in grid:
            return
        buffers = [ctypes.create_string_buffer(argument, len(argument)) for argument in arguments]
        pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(ctypes.addressof(buffer) for buffer in buffers))
        action = f"launching on grid {grid}, block {block}, {kernel.shared_bytes} bytes of dynamic shared memory"
        with self.activated(kernel.device_index):
            if attributes:
                launch = LAUNCH_TYPE(self.launch_function(attributes).address)
                status = launch(kernel.function, *grid, *block, kernel.shared_bytes, stream, pointers, None)
                if status:
                    self.raise_error(action, status)
                return
            self.call(
                action,
                "cuLaunchKernel",
                self._bindings.CUfunction(kernel.function),
                *grid,
                *block,
                kernel.shared_bytes,
                self._bindings.CUstream(stream),
                ctypes.addressof(pointers),
                0,
            )

    def synchronize(self, device_index: int) -> None:
        """Waits for all work on a device; reports what a kernel did wrong meanwhile."""
        with self.activated(device_index):
            self.call(f"waiting for device {device_index}", "cuCtxSynchronize")

    def link(self, ptx: str, name: str, device_index: int) -> tuple[bytes, str]:
        """Assembles PTX to a cubin for a device, with the driver's linker; also gives its log.

        `CudaError`, holding the assembler's log, when the text is refused.
        """
        information, errors = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
        option = self._bindings.CUjit_option
        options = {
            option.CU_JIT_INFO_LOG_BUFFER: information,
            option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_ERROR_LOG_BUFFER: errors,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_LOG_VERBOSE: 1,
            option.CU_JIT_GENERATE_LINE_INFO: 1,
        }
        text = ptx.encode() + b"\0"
        with self.activated(device_index):
            state = self.call(
                "starting the linker", "cuLinkCreate", len(options), list(options), list(options.values())
            )
            try:
                kind = self._bindings.CUjitInputType.CU_JIT_INPUT_PTX
                self.call(
                    f"assembling {name}",
                    "cuLinkAddData",
                    state,
                    kind,
                    text,
                    len(text),
                    name.encode(),
                    0,
                    [],
                    [],
                    log=errors,
                )
                address, size = self.call(f"linking {name}", "cuLinkComplete", state, log=errors)
                binary = ctypes.string_at(int(address), size)
            finally:
                self.call("closing the linker", "cuLinkDestroy", state)
        return binary, _log_text(information)

    def raise_error(self, action: str, code: int, log: str = "") -> NoReturn:
        """Raises the `CudaError` of a code."""
        name, text = "unknown error", "a code that the installed cuda-bindings does not know"
        with contextlib.suppress(ValueError):
            result = self._bindings.CUresult(code)
            name = self._bindings.cuGetErrorName(result)[1].decode()
            text = self._bindings.cuGetErrorString(result)[1].decode()
        raise CudaError(action, code, name, text, log)

    def call(self, action: str, name: str, *arguments: Any, log: bytearray | None = None) -> Any:
        """Calls one driver function: nothing, the one result, or a tuple of them; `CudaError` for a failure.

        `action` says in the error what was being done. The context must be current where the function needs one.
        """
        status, *results = getattr(self._bindings, name)(*arguments)
        if int(status):
            self.raise_error(action, int(status), "" if log is None else _log_text(log))
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    def _device(self, device_index: int) -> Any:
        return self.call(f"opening device {device_index}", "cuDeviceGet", device_index)

    def _attribute(self, device_index: int, name: str) -> int:
        attribute = getattr(self._bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        action = f"reading {name} of device {device_index}"
        return int(self.call(action, "cuDeviceGetAttribute", attribute, self._device(device_index)))

    def _context(self, device_index: int) -> Any:
        if device_index not in self._contexts:
            action = f"retaining the primary context of device {device_index}"
            context = self.call(action, "cuDevicePrimaryCtxRetain", self._device(device_index))
            self._contexts[device_index] = context
        return self._contexts[device_index]

    def _function_attribute(self, name: str) -> Any:
        return getattr(self._bindings.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")

    def _read_function(self, kernel_name: str, function: Any, name: str) -> int:
        action = f"reading {name} of {kernel_name}"
        return int(self.call(action, "cuFuncGetAttribute", self._function_attribute(name), function))

    def _entry_point(self, symbol: str) -> int:
        action = f"finding {symbol}"
        found = self.call(action, "cuGetProcAddress", symbol.encode(), _ENTRY_POINT_VERSION, _DEFAULT_STREAM_FLAG)
        address = int(found[0])
        if not address:
            raise DriverError(f"{action}: the driver has no such function")
        return address


def architecture_name(major: int, minor: int) -> str:
    """The target of a compute capability; from 9.0 on with the suffix of features special to one architecture."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def cuda_driver() -> CudaDriver:
    """The process's driver; `DriverError` saying what is missing where there is none."""
    found = _probe()
    if isinstance(found, str):
        raise DriverError(found)
    if found.process_id != os.getpid():
        raise DriverError(
            f"this process was forked from one that uses CUDA, which does not survive a fork: {_FORK_REMEDY}"
        )
    return found


def forked() -> bool:
    """Whether this process was forked from one that used CUDA through glueball, so that it has no GPU."""
    found = _probe()
    return not isinstance(found, str) and found.process_id != os.getpid()


def cuda_available() -> Availability:
    """Whether a CUDA device can be used. Never raises."""
    try:
        driver = cuda_driver()
        return Availability(True, f"{driver.device_count()} CUDA device(s), the first is {driver.device_name(0)}")
    except DriverError as error:
        return Availability(False, str(error))


def raise_launch_error(code: int) -> NoReturn:
    """Raises the `CudaError` of a launch that returned a nonzero code."""
    cuda_driver().raise_error("launching a kernel", code)


@functools.cache
def _probe() -> CudaDriver | str:
    """The driver, or what is missing."""
    try:
        return open_driver(importlib.import_module("cuda.bindings.driver"))
    except ImportError as error:
        return f"the package cuda-bindings is not installed ({error})"


def open_driver(bindings: Any) -> CudaDriver | str:
    """The driver behind `bindings`, or why it cannot be used."""
    try:
        driver = CudaDriver(bindings)
        count = driver.device_count()
    except CudaError as error:
        remedy = f"; if the process was forked from one that uses CUDA, {_FORK_REMEDY}"
        return f"the CUDA driver does not start: {error}{remedy if error.code == _NOT_INITIALIZED else ''}"
    except Exception as error:  # where libcuda is missing the type differs between versions of the bindings
        return f"the CUDA driver library cannot be loaded: {str(error).strip().splitlines()[0]}"
    return driver if count else "the CUDA driver finds no device"


def _log_text(buffer: bytearray) -> str:
    return bytes(buffer).split(b"\0")[0].decode(errors="replace").strip()
