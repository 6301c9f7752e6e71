"""`glueball explain`: a kernel in a user's file, with arguments from the command line or from its first launch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import glueball.language as gl
from glueball.cli.programs import Launch, first_launch, kernel_of, load
from glueball.errors import GlueballError
from glueball.explain import ArrayDescription, Report, explain
from glueball.runtime.jit import JITFunction
from glueball.runtime.parameters import parse_type
from glueball.runtime.specialization import ArgumentSpec
from glueball.tile.types import dtype

DESCRIBED_ARRAY = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
DESCRIBED_TYPE = re.compile(r"(\*?[\w.]+)(?::(\d+))?")


def explained(
    path: Path, name: str, given: Sequence[str], grid: str | None, target: str | None, num_warps: int | None
) -> Report:
    """The report on the kernel `name` of a file. `click` errors say what is wrong with what was asked for."""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    kernel, namespace = None, {}
    if given:
        namespace = vars(load(path))
        kernel = kernel_of(namespace, name, path)
    arguments = {} if kernel is None else _read_arguments(kernel, given, namespace)
    if kernel is None or not _complete(kernel, arguments):
        launch = first_launch(path, name)
        arguments = {**launch.arguments, **arguments}
    else:
        launch = Launch(kernel, None, {})
    if num_warps is not None:
        arguments["num_warps"] = num_warps
    extents = launch.grid if grid is None else _read_grid(grid)
    try:
        return explain(launch.kernel, (), arguments, target=target, grid=extents)
    except (GlueballError, TypeError, ValueError, OverflowError) as error:
        raise click.ClickException(str(error)) from error


def _complete(kernel: JITFunction, arguments: Mapping[str, Any]) -> bool:
    """Whether every parameter without a default has its argument."""
    return all(item.name in arguments or item.default is not item.empty for item in kernel.params)


def _read_arguments(kernel: JITFunction, given: Sequence[str], namespace: Mapping[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for text in given:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not value:
            raise click.UsageError(f"--arg {text}: should be NAME=VALUE")
        if name not in kernel.rules:
            raise click.UsageError(
                f"--arg {text}: {kernel.__name__} has no parameter {name}; it has {', '.join(kernel.rules)}"
            )
        arguments[name] = _read_value(text, value, kernel.rules[name].is_constexpr, {**namespace, **arguments})
    return arguments


def _read_value(text: str, value: str, constant: bool, names: Mapping[str, Any]) -> Any:
    """A described array or type where a run-time argument stands, else a Python expression over `names` and `gl`."""
    if not constant and value not in names:
        described = _described(value)
        if described is not None:
            return described
    language = {name: getattr(gl, name) for name in dir(gl) if not name.startswith("_")}
    try:
        return eval(value, {**language, "gl": gl, **names})
    except Exception as error:
        raise click.UsageError(f"--arg {text}: {type(error).__name__}: {error}") from error


def _described(value: str) -> ArrayDescription | ArgumentSpec | None:
    with contextlib.suppress(ValueError):
        if match := DESCRIBED_ARRAY.fullmatch(value):
            element = parse_type(match[1])
            if isinstance(element, dtype):
                return ArrayDescription(element, tuple(int(extent) for extent in match[2].split(",")))
        if match := DESCRIBED_TYPE.fullmatch(value):
            return ArgumentSpec(parse_type(match[1]), int(match[2] or 1))
    return None


def _read_grid(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(extent) for extent in text.split(","))
    except ValueError:
        raise click.UsageError(f"--grid {text}: should be one to three integers, such as 1024 or 64,32") from None
