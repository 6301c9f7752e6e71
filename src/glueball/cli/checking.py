"""`glueball check`: a program run on the simulator, and a report on everything that it found wrong there."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glueball import errors, knobs
from glueball.cli.cuda_stand_in import host_for_cuda
from glueball.cli.programs import as_program, replaced
from glueball.errors import NotSimulatedError, SimulationError
from glueball.runtime.devices import default_target
from glueball.runtime.jit import JITFunction
from glueball.runtime.kernel import CompiledKernel

CLEAN, FAULTY, INCOMPLETE = 0, 1, 3

NEVER_COVERED = (
    "time: nothing here says how fast a kernel is",
    "races of blocks on global memory, other than those that change the result in this order of blocks",
    "kernels that other libraries launch, and launches from other processes",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for. Of each kernel the first `launches` launches are simulated, `None` for all."""

    schedule: str = "in_order"
    seed: int = 0
    launches: int | None = None
    stop: bool = False
    target: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """As environment variables."""
        chosen = {
            knobs.EXECUTOR.variable: "sim",
            knobs.SANITIZE.variable: "1",
            knobs.SCHEDULE.variable: self.schedule,
            knobs.SEED.variable: str(self.seed),
            knobs.PRINT_LANES.variable: "1",
        }
        return chosen if self.target is None else {**chosen, knobs.TARGET.variable: self.target}


@dataclass(slots=True)
class Finding:
    """One fault, or one thing that could not be simulated, and in which launches of its kernel it came up."""

    kernel: str
    error: SimulationError
    launches: list[int]


@dataclass(slots=True)
class Kernel:
    """What was seen of a kernel; `place` is that of its definition."""

    name: str
    place: str
    simulated: int = 0
    skipped: int = 0
    elsewhere: int = 0
    faulty: int = 0
    unsupported: int = 0

    @property
    def launches(self) -> int:
        """All launches."""
        return self.simulated + self.skipped + self.elsewhere


class Stopped(BaseException):
    """Leaves the program at its first fault; no `except Exception` catches it."""


@dataclass(slots=True)
class Check:
    """A run of a program: what its launches gave, `failure` being what ended it early."""

    settings: Settings
    kernels: dict[tuple[str, str], Kernel] = field(default_factory=dict)
    faults: list[Finding] = field(default_factory=list)
    unsupported: list[Finding] = field(default_factory=list)
    failure: str = ""
    exit_code: int = 0
    host_for_cuda: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def status(self) -> int:
        """The exit status: 1 for faults or a program that failed, 3 where something could not be checked, else 0."""
        if self.faults or self.failure:
            return FAULTY
        if self.exit_code:
            return self.exit_code
        launched = any(kernel.simulated for kernel in self.kernels.values())
        return CLEAN if launched and not self.unsupported else INCOMPLETE

    def launch(self, kernel: CompiledKernel, original: Any, grid: Any, arguments: Any, placement: Any) -> None:
        """A launch, whose faults are noted rather than raised."""
        with self.lock:
            location = kernel.request.function.source
            place = f"{location.file}:{location.first_line}"
            seen = self.kernels.setdefault((kernel.name, place), Kernel(kernel.name, place))
            limit = self.settings.launches
            spare = placement.executor == "sim" and limit is not None and seen.simulated >= limit
            if placement.executor != "sim":
                seen.elsewhere += 1
            elif spare:
                seen.skipped += 1
            else:
                seen.simulated += 1
            number = seen.launches
        try:
            original(kernel, grid, arguments, replace(placement, executor="reference") if spare else placement)
        except NotSimulatedError as error:
            with self.lock:
                seen.unsupported += 1
                _note(self.unsupported, kernel.name, error, number)
        except SimulationError as error:
            with self.lock:
                seen.faulty += 1
                _note(self.faults, kernel.name, error, number)
            if self.settings.stop:
                raise Stopped from None


def _note(findings: list[Finding], kernel: str, error: SimulationError, launch: int) -> None:
    """Adds a finding, or the launch to the same one: of the same kind at the same line."""
    for known in findings:
        same = (known.kernel, type(known.error), known.error.location) == (kernel, type(error), error.location)
        if same:
            known.launches.append(launch)
            return
    findings.append(Finding(kernel, error, [launch]))


def check(path: Path, arguments: Sequence[str], settings: Settings) -> Check:
    """Runs a file as a program on the simulator. What the program prints goes where it goes always."""
    found = Check(settings)
    original_launch, original_run = JITFunction._launch, CompiledKernel.launch

    def with_assertions(function: JITFunction, grid: Any, given: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if function.debug is None and "debug" not in keywords:
            keywords = {**keywords, "debug": True}
            keywords.setdefault("sanitize_overflow", False)
        return original_launch(function, grid, given, keywords)

    def watched(kernel: CompiledKernel, grid: Any, given: Any, placement: Any, *rest: Any) -> None:
        if 0 in grid:
            return original_run(kernel, grid, given, placement, *rest)
        return found.launch(kernel, original_run, grid, given, placement)

    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(settings.environment))
        found.host_for_cuda = stack.enter_context(host_for_cuda(default_target()))
        stack.enter_context(as_program(path))
        stack.enter_context(replaced(sys, "argv", [str(path), *arguments]))
        stack.enter_context(replaced(JITFunction, "_launch", with_assertions))
        stack.enter_context(replaced(CompiledKernel, "launch", watched))
        _run(path, found)
    return found


def _run(path: Path, found: Check) -> None:
    try:
        runpy.run_path(str(path), run_name="__main__")
    except Stopped:
        found.failure = "stopped at the first fault, as --stop asks"
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        found.exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception as error:
        traceback.print_exception(error.with_traceback(_own_frames(error, path)))
        found.failure = (
            f"the program failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )


def _own_frames(error: BaseException, path: Path) -> Any:
    """The traceback from the program's first frame on."""
    trace = error.__traceback__
    while trace is not None and Path(trace.tb_frame.f_code.co_filename).resolve() != path.resolve():
        trace = trace.tb_next
    return trace or error.__traceback__


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables inside the block."""
    former = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def report(found: Check, path: Path, target: str) -> str:
    """The text at the end of a run."""
    settings = found.settings
    order = settings.schedule if settings.schedule != "random" else f"random, seed {settings.seed}"
    lines = [f"glueball check {path}: simulated as {target}, schedule {order}", ""]
    lines += _kernel_lines(found)
    for title, findings in (("fault", found.faults), ("thing that cannot be simulated", found.unsupported)):
        if findings:
            lines += ["", f"{_counted(len(findings), title)}:"]
        for number, finding in enumerate(findings, 1):
            lines += ["", _finding_text(number, finding)]
    if found.failure or found.exit_code:
        lines += ["", found.failure or f"the program ended with exit status {found.exit_code}"]
    lines += ["", "Looked for:", *_wrapped(", ".join(_kinds()))]
    lines += ["Not covered:", *(line for item in _uncovered(found) for line in _wrapped(item, "- "))]
    return "\n".join([*lines, "", _verdict(found), ""])


def _kernel_lines(found: Check) -> list[str]:
    if not found.kernels:
        return ["no kernel was launched"]
    width = max(len(kernel.name) for kernel in found.kernels.values())
    return [
        f"  {kernel.name:{width}}  {_counted(kernel.launches, 'launch'):>13}  {_outcome(kernel):12}  {kernel.place}"
        for kernel in found.kernels.values()
    ]


def _outcome(kernel: Kernel) -> str:
    parts = []
    if kernel.faulty:
        parts.append(f"{kernel.faulty} faulty")
    if kernel.unsupported:
        parts.append(f"{kernel.unsupported} unsupported")
    if not parts:
        parts.append("clean" if kernel.simulated else "not checked")
    return ", ".join(parts)


def _finding_text(number: int, finding: Finding) -> str:
    first, *others = finding.launches
    more = f" and {_counted(len(others), 'later one')}" if others else ""
    head = f"{number}. {type(finding.error).__name__} in {finding.kernel}, launch {first}{more}"
    return "\n".join([head, textwrap.indent(str(finding.error), "   ")])


def _kinds() -> list[str]:
    """The kinds of faults that the simulator tells apart."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SimulationError)]
    return [kind.__name__ for kind in kinds if kind not in (SimulationError, NotSimulatedError)]


def _uncovered(found: Check) -> list[str]:
    """What this run says nothing about."""
    items = []
    kernels = found.kernels.values()
    if skipped := sum(kernel.skipped for kernel in kernels):
        first = f"{_counted(skipped, 'launch')} after the first {found.settings.launches} of a kernel"
        items.append(f"{first}: run tile by tile on the reference executor, threads and barriers unseen")
    if elsewhere := sum(kernel.elsewhere for kernel in kernels):
        items.append(f"{_counted(elsewhere, 'launch')} that the program sent to another executor than the simulator")
    if found.unsupported:
        items.append("launches of what cannot be simulated; their results are missing, and so may be later faults")
    if found.host_for_cuda:
        items.append('CUDA itself: there is none here, so what torch put on "cuda" lay on the host')
    items.append("what follows a fault in its launch, and what the results that it lacks lead to")
    items.append(f"other orders of blocks than {found.settings.schedule}; --schedule chooses another")
    items.append("branches that these arguments did not take")
    return items + list(NEVER_COVERED)


def _verdict(found: Check) -> str:
    match found.status:
        case 0:
            launches = sum(kernel.simulated for kernel in found.kernels.values())
            return f"no fault in {_counted(launches, 'launch')}"
        case 3 if not found.exit_code:
            return "unsupported: no fault was found, but not all was checked" if found.kernels else "nothing to check"
        case _:
            return _counted(len(found.faults), "fault") if found.faults else "the program failed"


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    first, _, rest = noun.partition(" that ")
    plural = f"{first}es" if first.endswith("ch") else f"{first}s"
    return f"{count} {plural}{' that ' + rest if rest else ''}"


def _wrapped(text: str, mark: str = "") -> list[str]:
    return textwrap.wrap(text, 110, initial_indent=f"  {mark}", subsequent_indent="  " + " " * len(mark))
