"""The subcommands around the runtime: `cache`, `bench` and `repro`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from glueball.knobs import parse_size


def _size(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Bytes from a text such as `2GB`."""
    if text is None:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", context, parameter) from None


@click.group()
def cache() -> None:
    """Look at the disk cache of compiled kernels, or make it smaller."""


@cache.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
def cache_list(as_json: bool) -> None:
    """List the kernels in the cache, the one used last first."""
    from glueball.cli.caching import contents, print_list

    print_list(contents(), as_json, Console())


@cache.command("show")
@click.argument("key", metavar="KEY|KERNEL")
@click.option("--json", "as_json", is_flag=True, help="Print the entry as JSON.")
def cache_show(key: str, as_json: bool) -> None:
    """Show one entry, by the start of its key or its kernel's name, and check its hashes."""
    from glueball.cli.caching import contents, print_entry

    print_entry(contents(), key, as_json, Console())


@cache.command("purge")
@click.argument("names", nargs=-1, metavar="[KEY|KERNEL]...")
def cache_purge(names: tuple[str, ...]) -> None:
    """Remove entries by the start of their key or their kernel's name; without arguments, all."""
    from glueball.cli.caching import contents, purge_entries

    purge_entries(contents(), names, Console())


@cache.command("limit")
@click.argument("size", required=False, callback=_size, metavar="[SIZE]")
def cache_limit(size: int | None) -> None:
    """Cut the cache to SIZE, such as 500MB, least recently used kernels first; without SIZE, say the limit."""
    from glueball.cli.caching import contents, set_limit

    set_limit(contents(), size, Console())


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--select", metavar="NAME", multiple=True, help="Run these benchmarks only; may be given repeatedly.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help=(
    "The JSON file that is written; by default FILE's name with .bench.json, in this folder."
))  # fmt: skip
@click.option("--charts", type=click.Path(file_okay=False, path_type=Path), help="A folder for tables and charts.")
def bench(file: Path, select: tuple[str, ...], output: Path | None, charts: Path | None) -> None:
    """Run the benchmarks of FILE: functions marked with glueball.testing's perf_report or benchmark."""
    from glueball.cli.benchmarking import run_file

    run_file(file, select, output or Path(f"{file.stem}.bench.json"), charts, Console())


@click.command()
@click.argument("file_and_kernel", metavar="FILE[:KERNEL]")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("repro"), show_default=True, help=(
    "A folder that receives the bundle's, or an archive that ends in .zip."
))  # fmt: skip
def repro(file_and_kernel: str, output: Path) -> None:
    """Write a bundle that makes one launch of FILE again on its own, for a bug report.

    FILE is run as a program, up to the first launch of KERNEL; without KERNEL, up to the first launch that fails.
    """
    from glueball.cli.reproducing import write_bundle

    path, separator, kernel = file_and_kernel.rpartition(":")
    if not separator or Path(file_and_kernel).is_file():
        path, kernel = file_and_kernel, ""
    write_bundle(Path(path), kernel, output, Console())


COMMANDS = (cache, bench, repro)
