"""The subcommands and their options."""

from __future__ import annotations

import json
import os
import re
from contextlib import nullcontext
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import glueball
from glueball import knobs
from glueball.cli.runtime_commands import COMMANDS
from glueball.errors import GlueballError, LayoutError
from glueball.targets import TARGETS

TARGET_NAMES = click.Choice(list(TARGETS))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(glueball.__version__, prog_name="glueball")
def commands() -> None:
    """A layout-explicit GPU kernel language with its own compiler and a CPU simulator."""


def _read_size(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Two positive extents from `ROWSxCOLUMNS`."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)[xX](\d+)", text)
    if match is None or 0 in (extents := (int(match[1]), int(match[2]))):
        raise click.BadParameter(f"{text!r} is no size such as 512x512", context, parameter)
    return extents


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option(
    "--size",
    callback=_read_size,
    metavar="ROWSxCOLUMNS",
    help="Size of the tensors; by default 512x512 simulated, 32768x32768 on a GPU.",
)
@click.option(
    "--executor", type=click.Choice(["gpu", "sim"]), help="What runs the kernels; by default a GPU if there is one."
)
@click.option(
    "--target", type=TARGET_NAMES, help="What the simulator plays; by default the GPU that is there, else sm_90a."
)
def tour(as_json: bool, size: tuple[int, int] | None, executor: str | None, target: str | None) -> None:
    """Run the memcpy ladder here: the same copy with better and better layouts, predicted and then measured."""
    from glueball.cli import tour as ladder
    from glueball.drivers.cuda import cuda_available

    errors = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=errors, transient=True,
    )  # fmt: skip
    try:
        asked = executor or knobs.EXECUTOR.read()
        chosen = asked if asked in ("gpu", "sim") else "gpu" if cuda_available().ok else "sim"
        os.environ[knobs.EXECUTOR.variable] = chosen
        if target is not None:
            os.environ[knobs.TARGET.variable] = target
        with bar if errors.is_terminal else nullcontext():
            results = ladder.run(chosen, size, bar)
    except (GlueballError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(results.as_data(), indent=1))
    else:
        ladder.print_results(results, Console())
    if not results.verified:
        raise click.ClickException("a copy differs from its source; see above")


@commands.command()
@click.argument("file_and_kernel", metavar="FILE:KERNEL")
@click.option("--arg", "given", multiple=True, metavar="NAME=VALUE", help=(
    "An argument: a Python literal, a layout (BlockedLayout([4], [32], [4], [0])), a described array "
    "(x=fp32[1024,1024], row-major), or a described pointer or number (x=*fp32:16, n=i32). Earlier arguments can be "
    "used in later ones (pitch=x.stride(0)). Without all of them FILE is run as a program and the first launch of "
    "KERNEL is explained."
))  # fmt: skip
@click.option("--grid", metavar="X[,Y[,Z]]", help="How many programs run; without it, the costs are those of one.")
@click.option("--target", type=TARGET_NAMES, help="By default the GPU that is there, else sm_90a.")
@click.option("--num-warps", type=int, help="Warps of a program.")
def explain(
    file_and_kernel: str, given: tuple[str, ...], grid: str | None, target: str | None, num_warps: int | None
) -> None:
    """Say what each line of a kernel costs: sectors, vectors, conversions, barriers. Nothing of it is run for that."""
    from glueball.cli.explaining import explained
    from glueball.explain.text import print_report

    file, separator, kernel = file_and_kernel.rpartition(":")
    if not separator or not file or not kernel:
        raise click.UsageError(f"{file_and_kernel!r} should be FILE:KERNEL, such as copy.py:copy_kernel")
    report = explained(Path(file), kernel, given, grid, target, num_warps)
    print_report(report, Console())


@commands.command()
@click.argument("layout")
@click.option("--shape", required=True, metavar="32x16", help="The tensor's extents.")
@click.option("--view", type=click.Choice(["tensor", "hardware", "both"]), default="tensor", show_default=True, help=(
    "Who holds each element, what each lane holds, or both."
))  # fmt: skip
@click.option("--width", type=click.Choice(["8", "16", "32", "64"]), help="Bits of an element; by default 32.")
@click.option("--memory", default="row", metavar="row|col|STRIDES", show_default=True, help=(
    "How the tensor lies in global memory: row by row, column by column, or with strides in elements."
))  # fmt: skip
@click.option("--convert-to", metavar="LAYOUT", help="Another layout: what the conversion, or the access to it, costs.")
@click.option("--svg", "svg_file", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path), help=(
    "Write a page on which elements are pointed at and the layout is edited."
))  # fmt: skip
@click.option("--target", type=TARGET_NAMES, help="Whose banks and shared memory count; its lanes are then checked.")
def layout(
    layout: str, shape: str, view: str, width: str | None, memory: str, convert_to: str | None,
    svg_file: Path | None, html_file: Path | None, target: str | None,
) -> None:  # fmt: skip
    """Show a layout: who holds what, and what that costs.

    LAYOUT is spelled as in a kernel, such as "BlockedLayout([1,4],[8,4],[4,1],[1,0])", or as a compiler attribute,
    such as "#ttg.blocked<{...}>".
    """
    from glueball.cli import layouts

    try:
        bits, chosen = int(width) if width else None, TARGETS[target] if target else None
        question = layouts.read_question(layout, shape, bits, memory, convert_to, chosen)
        layouts.print_layout(question, view, Console())
        for path, draw in ((svg_file, question.svg), (html_file, question.page)):
            if path is not None:
                _write(draw(view), path)
    except GlueballError as error:
        raise click.ClickException(str(error)) from error


@commands.command("tensor-layout")
@click.option("-l", "layout", metavar="LAYOUT", help="The layout, as an attribute or as in a kernel.")
@click.option("-t", "tensor", metavar="TYPE", help="The tensor's type, such as tensor<128x256xf16>.")
@click.option("-i", "source", type=click.Path(path_type=Path), help="A file of lines #alias = #ttg...; printed first.")
@click.option("-alias-names", metavar="A,B", help="Print these aliases of the file only.")
@click.option("-use-hw-view", is_flag=True, help="Print what each lane holds instead of who holds each element.")
@click.option("-o", "output", type=click.Path(path_type=Path), help="Write to a file.")
def tensor_layout(
    layout: str | None, tensor: str | None, source: Path | None, alias_names: str | None, use_hw_view: bool,
    output: Path | None,
) -> None:  # fmt: skip
    """Print layout attributes with the options and the output of Triton's triton-tensor-layout."""
    from glueball.cli import layouts

    try:
        if tensor is None:
            raise LayoutError("a tensor type is needed: -t tensor<128x256xf16>")
        if layout is None and source is None:
            raise LayoutError("a layout is needed: -l LAYOUT or -i FILE")
        _write(layouts.attribute_text(layout, tensor, source, alias_names, use_hw_view), output)
    except GlueballError as error:
        raise click.ClickException(str(error)) from error


def _write(text: str, path: Path | None) -> None:
    """Writes text to a file, or prints it."""
    if path is None:
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error


@commands.command()
def doctor() -> None:
    """Say what was found on this machine, and what each missing piece would give."""
    from glueball.cli.doctor import examine, print_findings

    print_findings(examine(), Console())


@commands.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--schedule", type=click.Choice(knobs.SCHEDULES), default="in_order", show_default=True, help=(
    "The order in which blocks run: one after the other, mixed, or as late as can be."
))  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random schedule.")
@click.option("--launches", type=click.IntRange(min=1), metavar="N", help=(
    "Simulate the first N launches of each kernel; later ones run tile by tile, which is faster and sees less."
))  # fmt: skip
@click.option("--stop", is_flag=True, help="End the program at the first fault.")
@click.option("--target", type=TARGET_NAMES, help="What is simulated; by default the GPU that is there, else sm_90a.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def check(
    context: click.Context, schedule: str, seed: int, launches: int | None, stop: bool, target: str | None,
    script: Path, arguments: tuple[str, ...],
) -> None:  # fmt: skip
    """Run a program on the simulator and report every fault of its kernels, each at its line.

    A launch ends at its first fault, and the program goes on. The exit status is 0 for no fault, 1 for a fault or a
    program that failed, 3 where nothing was launched or something cannot be simulated.
    """
    from glueball.cli import checking
    from glueball.runtime.devices import default_target

    settings = checking.Settings(schedule, seed, launches, stop, target)
    found = checking.check(script, arguments, settings)
    click.echo(checking.report(found, script, target or default_target().name))
    context.exit(found.status)


for command in COMMANDS:
    commands.add_command(command)
