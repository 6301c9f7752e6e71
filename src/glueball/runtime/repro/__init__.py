"""Bundles for bug reports: a folder, or an archive of it, that makes one launch again in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glueball import knobs
from glueball.drivers.arrays import DeviceArray, read_array
from glueball.drivers.cuda import cuda_driver
from glueball.errors import GlueballError
from glueball.runtime.grid import Grid
from glueball.runtime.repro import memory
from glueball.runtime.repro.source import write_source
from glueball.runtime.repro.spelling import UnspellableError
from glueball.runtime.tensor_wrapper import TensorWrapper
from glueball.runtime.versions import describe_machine

if TYPE_CHECKING:
    from glueball.runtime.executors import Placement
    from glueball.runtime.jit import JITFunction

__all__ = ["Bundle", "ReproError", "recorded", "save"]

logger = logging.getLogger("glueball")

README = """A launch of `{kernel}` that runs alone: `python run.py`

Executor: {executor}, target: {target}. Outcome: {outcome}
`kernel.py` has the kernel, what it uses, and the launch; `manifest.json` the arrays, the outcome and all versions.
Before you hand it on, look at what it holds: the arrays' contents are in `memory/`.
"""


class ReproError(GlueballError, RuntimeError):
    """A bundle that cannot be written, with the reason."""


@dataclass(slots=True)
class Bundle:
    """A launch as it was made: its source text, and its arrays as they were before it."""

    kernel: JITFunction
    placement: Placement
    source: str
    arrays: list[dict[str, Any]]
    spans: list[memory.Span]
    described: list[dict[str, Any]]
    contents: list[bytes | None]
    outcome: dict[str, Any] = field(default_factory=dict)
    variant: str | None = None

    @classmethod
    def capture(
        cls,
        kernel: JITFunction,
        grid: Grid,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        placement: Placement,
    ) -> Bundle:
        """Reads a launch before it is made. `ReproError` for a value that cannot be written down."""
        numbers: dict[int, int] = {}
        found: list[tuple[Any, DeviceArray]] = []
        for value in _leaves((*arguments, *keywords.values())):
            array = None if id(value) in numbers else read_array(value)
            if array is not None:
                numbers[id(value)] = len(found)
                found.append((value, array))
        spans = memory.merged([memory.span_of(array) for _, array in found])
        try:
            source = write_source(kernel, grid, arguments, keywords, numbers)
        except (UnspellableError, ValueError, OSError) as error:
            raise ReproError(f"the launch of {kernel.__name__} cannot be put into a bundle: {error}") from error
        arrays = [memory.describe(array, spans, value) for value, array in found]
        contents = [span.read() if span.size <= memory.DATA_LIMIT else None for span in spans]
        described = []
        for number, span in enumerate(spans):
            value, array = next(pair for pair, one in zip(found, arrays, strict=True) if one["memory"] == number)
            facts = {"bytes": span.size, "alignment": memory.alignment_of(span, value)}
            seeded = {"seed": number, "dtype": array.dtype}
            described.append(facts | (seeded if contents[number] is None else {"file": f"memory/{number}.bin"}))
        return cls(kernel, placement, source, arrays, spans, described, contents)

    def note_end(self) -> None:
        """Notes a launch without an error: the hash of all memory, but of what a seed stands for."""
        if self.placement.executor == "gpu":
            cuda_driver().synchronize(self.placement.device_index)
        pairs = zip(self.spans, self.contents, strict=True)
        digests = [None if content is None else span.digest() for span, content in pairs]
        self.outcome = {"error": None, "memory": digests}

    def note_error(self, error: BaseException) -> None:
        """Notes the error that a launch ended in."""
        self.outcome = {"error": type(error).__name__, "message": str(getattr(error, "error_message", error))}

    @property
    def name(self) -> str:
        """The kernel's name and a hash: of the kernel and its variant where that is set, else of the whole launch."""
        if self.variant is None:
            parts = [self.source, self.arrays, self.placement.executor, self.placement.target.name]
        else:
            parts = [self.source.rpartition("def launch(")[0], self.variant]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        return f"{self.kernel.__name__}-{digest}"

    def write(self, path: Path) -> Path:
        """Writes the bundle: into an archive where the path ends in `.zip`, else a new folder of its name below it."""
        if path.suffix == ".zip":
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                self._fill(Path(folder) / self.name)
                made = shutil.make_archive(str(path.with_suffix("")), "zip", folder, self.name)
            return Path(made)
        return self._fill(path / self.name)

    def _fill(self, folder: Path) -> Path:
        (folder / "memory").mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(self.contents):
            if content is not None:
                (folder / "memory" / f"{number}.bin").write_bytes(content)
        (folder / "kernel.py").write_text(self.source, encoding="utf-8")
        template = Path(__file__).with_name("run.py")
        (folder / "run.py").write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
        manifest = {
            "kernel": self.kernel.__name__,
            "executor": self.placement.executor,
            "target": self.placement.target.name,
            "outcome": self.outcome,
            "arrays": self.arrays,
            "memory": self.described,
            **describe_machine(),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        outcome = self.outcome["error"] or "no error"
        text = README.format(**{**manifest, "outcome": outcome})
        (folder / "README.md").write_text(text, encoding="utf-8")
        return folder


@contextlib.contextmanager
def recorded(
    kernel: JITFunction,
    grid: Grid,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    placement: Placement,
    *,
    folder: Path,
    variant: str,
) -> Iterator[None]:
    """Writes bundles of the launch made inside the block: of the first one of each variant, and of each that fails.

    The first one's is there before the launch begins, so that it is kept where the process dies, and is completed with
    the outcome. A launch that cannot be put into a bundle is made all the same, with a warning.
    """
    try:
        bundle = Bundle.capture(kernel, grid, arguments, keywords, placement)
        bundle.variant = variant
        is_first = not (folder / bundle.name).exists()
        if is_first:
            bundle.outcome = {"error": "the process ended", "message": "the launch did not come to its end"}
            bundle.write(folder)
    except (ReproError, OSError) as error:
        logger.warning("glueball: %s: %s", knobs.REPRO.variable, error)
        yield
        return
    try:
        yield
        if is_first:
            bundle.note_end()
            bundle.write(folder)
    except Exception as error:
        bundle.note_error(error)
        if not is_first:
            bundle.variant = None
        bundle.write(folder)
        raise


def save(
    path: Path,
    kernel: JITFunction,
    grid: Grid,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    placement: Placement,
    launch: Callable[[], Any],
) -> Path:
    """Makes a launch by `launch()` and writes its bundle with the outcome; no error of the launch is raised."""
    bundle = Bundle.capture(kernel, grid, arguments, keywords, placement)
    try:
        launch()
        bundle.note_end()
    except Exception as error:  # whatever the launch ends in is what the bundle is about
        bundle.note_error(error)
    return bundle.write(path)


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """The values, those in tuples, tensor descriptors and wrapped tensors one by one."""
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        elif isinstance(value, TensorWrapper):
            yield from _leaves([value.base])
        elif dataclasses.is_dataclass(value) and read_array(value) is None:
            yield from _leaves(getattr(value, field.name) for field in dataclasses.fields(value))
        else:
            yield value
