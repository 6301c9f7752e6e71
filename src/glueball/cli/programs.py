"""Users' files run by the command: as modules, or as programs up to a launch."""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from glueball.runtime.jit import JITFunction

MODULE_NAME = "__examined__"


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


def load(path: Path) -> ModuleType:
    """The file as a module that is not the main one."""
    specification = importlib.util.spec_from_file_location(MODULE_NAME, path)
    if specification is None or specification.loader is None:
        raise click.UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[MODULE_NAME] = module
    try:
        with as_program(path):
            specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise failed(path, error) from error
    finally:
        del sys.modules[MODULE_NAME]
    return module


def first_launch(path: Path, name: str) -> Launch:
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
    with as_program(path), replaced(JITFunction, "_launch", launch):
        try:
            namespace = runpy.run_path(str(path), run_name="__main__")
        except FirstLaunch as found:
            return found.launch
        except SystemExit as error:
            if error.code not in (None, 0):
                raise failed(path, error) from error
        except Exception as error:
            raise failed(path, error) from error
    kernel = namespace.get(name)
    if not isinstance(kernel, JITFunction) and namespace:
        kernel_of(namespace, name, path)
    others = f"; it launched {', '.join(sorted(launched))}" if launched else ""
    wanted = f", such as {_usage(kernel)}" if isinstance(kernel, JITFunction) else ""
    raise click.UsageError(f"{path} ran to its end without launching {name}{others}. Give the arguments{wanted}")


def _usage(kernel: JITFunction) -> str:
    return " ".join(f"--arg {name}=..." for name in kernel.rules)


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an attribute another value inside the block."""
    former = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)


@contextlib.contextmanager
def as_program(path: Path) -> Iterator[None]:
    """What Python sets up for a program: its folder to import from, and its name as the only argument."""
    folder = str(path.resolve().parent)
    with replaced(sys, "path", [folder, *sys.path]), replaced(sys, "argv", [str(path)]):
        yield


def _is_from(function: JITFunction, path: Path) -> bool:
    return Path(function.fn.__code__.co_filename).resolve() == path.resolve()


def kernel_of(namespace: Mapping[str, Any], name: str, path: Path) -> JITFunction:
    """The kernel of that name; a `click` error with those that are there otherwise."""
    found = namespace.get(name)
    if isinstance(found, JITFunction):
        return found
    kernels = sorted(key for key, value in namespace.items() if isinstance(value, JITFunction))
    have = f"; it has {', '.join(kernels)}" if kernels else "; it has no function decorated with @glueball.jit"
    raise click.UsageError(f"{path} has no kernel {name}{have}")


def failed(path: Path, error: BaseException) -> click.ClickException:
    """What went wrong in the user's file, with the last of its lines that was being run."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    where = f" at line {own[-1].lineno}" if own else ""
    return click.ClickException(f"{path} failed{where}: {type(error).__name__}: {error}")
