"""Every error glueball raises on purpose. Each names what was wrong, where, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from glueball.location import SourceLocation

if TYPE_CHECKING:
    import ast


class GlueballError(Exception):
    """Base of all errors of glueball."""


class LayoutError(GlueballError, ValueError, RuntimeError):
    """A layout that cannot be, or two layouts that should agree and do not."""


class CompilationError(GlueballError, RuntimeError):
    """A kernel that cannot be compiled, told at the author's line.

    `location` is the innermost line of the author's, `error_message` the sentence; `src` is the text of the function
    that was being compiled and `node` the syntax in it. `__cause__` is the same error as the called function saw it,
    one for each call, and in the innermost function the underlying `ValueError`, `TypeError`, ... where there is one.
    """

    def __init__(self, message: str, location: SourceLocation | None = None) -> None:
        super().__init__(message, location)
        self.error_message = message
        self.location = location
        self.src: str | None = None
        self.node: ast.AST | None = None

    def __str__(self) -> str:
        return render(self.error_message, self.location)


class CompileTimeAssertionFailure(CompilationError):
    """A `static_assert` whose condition is false."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that the kernel language does not have."""


class VerificationError(CompilationError):
    """An operation that breaks a rule of the tile IR: a layout of the wrong warp count, types that disagree."""


class OutOfResources(GlueballError):
    """A kernel that needs more of a resource than the target has."""

    def __init__(self, required: int, limit: int, name: str, detail: str = "") -> None:
        super().__init__(required, limit, name, detail)
        self.required = required
        self.limit = limit
        self.name = name
        self.detail = detail

    def __str__(self) -> str:
        text = f"out of resource: {self.name}, required {self.required}, limit {self.limit}"
        return f"{text}\n{self.detail}" if self.detail else text


class TargetError(GlueballError, ValueError):
    """An unknown target, or something a target does not have."""


class CodeGenerationError(GlueballError, RuntimeError):
    """LLVM, an assembler or a linker refused what it was given."""


class AssemblerError(CodeGenerationError):
    """An assembler or a linker refused the assembly text of a kernel."""


class PerformanceWarning(UserWarning):
    """A kernel that is right, and slower than its author has reason to expect."""


class AutotunerError(GlueballError, RuntimeError):
    """A tuner that has nothing to choose from."""


class DriverError(GlueballError, RuntimeError):
    """The device's driver reported an error."""


class UnknownOptionError(GlueballError, KeyError):
    """A launch keyword that is neither a parameter of the kernel nor an option."""

    def __str__(self) -> str:
        return str(self.args[0])


class OptionError(GlueballError, ValueError, AssertionError):
    """A launch option with a value that it cannot have."""


class SimulationError(GlueballError, RuntimeError):
    """A fault found while a kernel ran on the simulator; one subclass per kind of fault."""

    def __init__(self, message: str, location: SourceLocation | None = None, **details: Any) -> None:
        super().__init__(message, location)
        self.error_message = message
        self.location = location
        self.details = details

    def __str__(self) -> str:
        return render(self.error_message, self.location)


class NotSimulatedError(SimulationError, NotImplementedError):
    """Something that runs on a GPU only: neither the simulator nor the reference can say what it does."""


class OutOfBoundsError(SimulationError, IndexError):
    """An access outside the storage reachable from its argument."""


class MisalignedAccessError(SimulationError):
    """An access whose address is not a multiple of its width."""


class ReadOnlyWriteError(SimulationError):
    """A store to an argument whose array is read-only."""


class UninitializedReadError(SimulationError):
    """A value nobody wrote was used: shared bytes never stored, or a masked-off lane loaded without `other`."""


class SharedMemoryRaceError(SimulationError):
    """Two threads touched the same shared byte, at least one writing, with no barrier between."""


class AsynchronousAccessError(SimulationError):
    """Data of an asynchronous copy used, or its source or destination overwritten, before the wait."""


class ReadBeforeWaitError(AsynchronousAccessError):
    """Bytes read that an asynchronous operation is still to write, or may not have written for all the reader knows."""


class OverwriteInFlightError(AsynchronousAccessError):
    """Source or destination of an asynchronous operation overwritten before it was waited for."""


class WaitCountError(AsynchronousAccessError):
    """Bytes used after a wait for groups that does not cover the operation they belong to."""


class ProxyFenceError(SimulationError):
    """Bytes stored by a thread used by a bulk copy or a matrix unit without the fence between the two proxies."""


class RemoteMemoryError(SimulationError):
    """Shared memory of another CTA of the cluster was used before that had started, or may be when it has ended."""


class BarrierError(SimulationError):
    """An mbarrier used in a way that it cannot follow; one subclass per kind of fault."""


class BarrierStateError(BarrierError):
    """An mbarrier used before it was initialised or after it was invalidated."""


class BarrierReinitializedError(BarrierError):
    """An mbarrier initialised again without having been invalidated."""


class BarrierMemoryError(BarrierError):
    """The memory of a live mbarrier read or written as data."""


class BarrierUnderflowError(BarrierError):
    """More arrivals in a phase than the mbarrier was initialised for."""


class TransactionCountError(BarrierError):
    """A count of bytes outside what an mbarrier can hold."""


class BarrierPhaseError(BarrierError):
    """A wait for a phase that is neither 0 nor 1."""


class PhaseOverrunError(BarrierError):
    """A phase over while a thread still waits for the one before it, so that the thread cannot tell them apart."""


class PendingAtExitError(BarrierError, AsynchronousAccessError):
    """A block at its end with asynchronous work in flight or an mbarrier in the middle of a phase."""


class IntegerOverflowError(SimulationError, OverflowError):
    """Signed index arithmetic wrapped around, or below zero was taken modulo, and an active thread used the result."""


class DeviceAssertionError(SimulationError, AssertionError):
    """A `device_assert` whose condition is false, in a kernel compiled with `debug`."""


class DeadlockError(SimulationError):
    """Every running context waits for something nobody will do."""


class ByteCountError(DeadlockError, BarrierError):
    """A deadlock because other bytes arrive at an mbarrier than were announced."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that names the known name closest to an unknown one; nothing where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), 1, 0.75)
    return f"; did you mean `{close[0]}`?" if close else ""


def render(message: str, location: SourceLocation | None) -> str:
    """The message as the author sees it: place, line with caret, sentence, and the calls that led there."""
    if location is None:
        return message
    relative = location.line - location.first_line + 1
    parts = [f"{location}: in {location.function}", f"at {relative}:{location.column}:"]
    excerpt = location.excerpt()
    if excerpt:
        parts.append(excerpt)
    parts.append(message)
    for call in list(location.chain())[1:]:
        parts.append(f"called from {call}: in {call.function}")
        if excerpt := call.excerpt():
            parts.append(excerpt)
    return "\n".join(parts)


# The names that programs for the language's first implementation catch.
TritonError = GlueballError
PTXASError = AssemblerError
InterpreterError = SimulationError
