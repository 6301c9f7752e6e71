"""`glueball explain`: a kernel in a user's file, with arguments from the command line or from its first launch."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import glueball.language as gl
from glueball.errors import GlueballError
from glueball.explain import ArrayDescription, Report, explain
from glueball.runtime.jit import JITFunction
from glueball.runtime.parameters import parse_type
from glueball.runtime.specialization import ArgumentSpec
from glueball.tile.types import dtype

MODULE_NAME = "__explained__"
DESCRIBED_ARRAY = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
DESCRIBED_TYPE = re.compile(r"(\*?[\w.]+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that was asked for: its kernel, grid, and arguments by parameter or option."""

    kernel: JITFunction
    grid: Any
    arguments: dict[str, Any]


class FirstLaunch(BaseException):
    """Leaves the user's program at the launch that is to be explained; no `except Exception` catches it."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.launch = launch


def explained(
    path: Path, name: str, given: Sequence[str], grid: str | None, target: str | None, num_warps: int | None
) -> Report:
    """The report on the kernel `name` of a file. `click` errors say what is wrong with what was asked for."""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}")
    kernel, namespace = None, {}
    if given:
        namespace = vars(_load(path))
        kernel = _kernel_of(namespace, name, path)
    arguments = {} if kernel is None else _read_arguments(kernel, given, namespace)
    if kernel is None or not _complete(kernel, arguments):
        launch = _first_launch(path, name)
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


def _load(path: Path) -> ModuleType:
    """The file as a module that is not the main one."""
    specification = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if specification is None or specification.loader is None:
        raise click.UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[MODULE_NAME] = module
    try:
        with _as_program(path):
            specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _failed(path, error) from error
    finally:
        del sys.modules[MODULE_NAME]
    return module


def _first_launch(path: Path, name: str) -> Launch:
    """Runs a file as a program up to the first launch of a kernel; launches of others happen."""
    launched: dict[str, JITFunction] = {}
    original = JITFunction._launch

    def launch(function: JITFunction, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        launched[function.__name__] = function
        if function.__name__ == name and _is_from(function, path):
            options = {key: value for key, value in keywords.items() if key not in function.rules}
            raise FirstLaunch(Launch(function, grid, {**function.bind(arguments, keywords), **options}))
        return original(function, grid, arguments, keywords)

    namespace: dict[str, Any] = {}
    with _as_program(path), _replaced(JITFunction, "_launch", launch):
        try:
            namespace = runpy.run_path(str(path), run_name="__main__")
        except FirstLaunch as found:
            return found.launch
        except SystemExit as error:
            if error.code not in (None, 0):
                raise _failed(path, error) from error
        except Exception as error:
            raise _failed(path, error) from error
    kernel = namespace.get(name)
    if not isinstance(kernel, JITFunction) and namespace:
        _kernel_of(namespace, name, path)
    others = f"; it launched {', '.join(sorted(launched))}" if launched else ""
    wanted = f", such as {_usage(kernel)}" if isinstance(kernel, JITFunction) else ""
    raise click.UsageError(f"{path} ran to its end without launching {name}{others}. Give the arguments{wanted}")


def _usage(kernel: JITFunction) -> str:
    return " ".join(f"--arg {name}=..." for name in kernel.rules)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an attribute another value inside the block."""
    former = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)


@contextlib.contextmanager
def _as_program(path: Path) -> Iterator[None]:
    """What Python sets up for a program: its folder to import from, and its name as the only argument."""
    folder = str(path.resolve().parent)
    with _replaced(sys, "path", [folder, *sys.path]), _replaced(sys, "argv", [str(path)]):
        yield


def _is_from(function: JITFunction, path: Path) -> bool:
    return Path(function.fn.__code__.co_filename).resolve() == path.resolve()


def _kernel_of(namespace: Mapping[str, Any], name: str, path: Path) -> JITFunction:
    found = namespace.get(name)
    if isinstance(found, JITFunction):
        return found
    kernels = sorted(key for key, value in namespace.items() if isinstance(value, JITFunction))
    have = f"; it has {', '.join(kernels)}" if kernels else "; it has no function decorated with @glueball.jit"
    raise click.UsageError(f"{path} has no kernel {name}{have}")


def _failed(path: Path, error: BaseException) -> click.ClickException:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    where = f" at line {own[-1].lineno}" if own else ""
    return click.ClickException(f"{path} failed{where}: {type(error).__name__}: {error}")


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
