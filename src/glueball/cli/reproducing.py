"""`glueball repro`: a user's program run up to a launch, which is written as a bundle."""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from glueball.cli.programs import as_program, failed, replaced
from glueball.runtime.jit import JITFunction
from glueball.runtime.repro import Bundle, ReproError


class BundleReadyError(BaseException):
    """Leaves the user's program once the launch is recorded; no `except Exception` catches it."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.bundle = bundle


@dataclass(slots=True)
class Watch:
    """Records the launch that is waited for: the first of a kernel, or without its name the first that fails."""

    kernel: str

    def hook(self) -> Any:
        """A method that stands in the place of `JITFunction._recorded`."""

        def recorded(function: JITFunction, *launch: Any) -> Any:
            return self.record(function, *launch)

        return recorded

    @contextlib.contextmanager
    def record(
        self, function: JITFunction, grid: Any, arguments: Any, keywords: Any, placement: Any, _: Any
    ) -> Iterator[None]:
        """Around one launch."""
        if self.kernel and function.__name__ != self.kernel:
            yield
            return
        bundle = Bundle.capture(function, grid, arguments, keywords, placement)
        try:
            yield
            bundle.note_end()
        except Exception as error:
            bundle.note_error(error)
            raise BundleReadyError(bundle) from error
        if self.kernel:
            raise BundleReadyError(bundle)


def write_bundle(path: Path, kernel: str, output: Path, console: Console) -> None:
    """Runs a program and writes the bundle; `click` errors where there is no such launch."""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    bundle = _recorded_launch(path, kernel)
    try:
        place = bundle.write(output)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error}") from error
    outcome = bundle.outcome["error"] or "no error"
    console.print(f"{bundle.kernel.__name__} ended in {outcome}; its launch is in {place}", highlight=False,
                  soft_wrap=True)  # fmt: skip
    if place.is_dir():
        console.print(f"python {place / 'run.py'} makes it again", highlight=False, soft_wrap=True)


def _recorded_launch(path: Path, kernel: str) -> Bundle:
    watch = Watch(kernel)
    with as_program(path), replaced(JITFunction, "_recorded", watch.hook()):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except BundleReadyError as ready:
            return ready.bundle
        except ReproError as error:
            raise click.ClickException(str(error)) from error
        except SystemExit as error:
            if error.code not in (None, 0):
                raise failed(path, error) from error
        except Exception as error:
            raise failed(path, error) from error
    wanted = f"without launching {kernel}" if kernel else "and no launch failed; name a kernel: FILE:KERNEL"
    raise click.UsageError(f"{path} ran to its end {wanted}")
