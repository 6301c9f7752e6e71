"""Install glueball's core into an empty virtual environment and check its size and its import time.

Usage: ``python scripts/check_install_size.py [--extra NAME] [--limit-megabytes N] [--limit-seconds S]``. The size is
that of all files that the install adds (1 MB = 10**6 bytes); the time is the best of five fresh interpreters. Exit
status 1 when a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TIMED_IMPORT = "from time import perf_counter as t; s = t(); import glueball; print(t() - s)"
IMPORT_RUNS = 5


def folder_bytes(folder: Path) -> int:
    """Add up the sizes of all regular files under a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def largest_packages(site_packages: Path, count: int) -> list[tuple[int, str]]:
    """Give the largest entries of ``site-packages`` as (bytes, name), largest first."""
    sizes = [(folder_bytes(path), path.name) for path in site_packages.iterdir() if path.is_dir()]
    return sorted(sizes, reverse=True)[:count]


def measure_import(python: Path) -> float:
    """Give the seconds that ``import glueball`` takes, best of several fresh interpreters."""
    command = [str(python), "-I", "-c", TIMED_IMPORT]
    outputs = (subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(IMPORT_RUNS))
    return min(float(output.stdout) for output in outputs)


def main() -> int:
    """Install, measure, print the numbers and give the exit status."""
    parser = argparse.ArgumentParser(description="check the installed size and the import time of glueball")
    parser.add_argument("--extra", default="", help="install this extra too, e.g. nvidia")
    parser.add_argument("--limit-megabytes", type=float, default=270.0)
    parser.add_argument("--limit-seconds", type=float, default=0.15)
    arguments = parser.parse_args()
    requirement = f"{REPOSITORY}[{arguments.extra}]" if arguments.extra else str(REPOSITORY)
    with tempfile.TemporaryDirectory() as temporary:
        environment = Path(temporary) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        before = folder_bytes(environment)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
        megabytes = (folder_bytes(environment) - before) / 1e6
        for size, name in largest_packages(next(environment.rglob("site-packages")), 5):
            print(f"  {size / 1e6:7.1f} MB  {name}")
        seconds = measure_import(python)
    print(f"installed size: {megabytes:.1f} MB (limit {arguments.limit_megabytes:g} MB)")
    print(f"import glueball: {seconds:.3f} s, best of {IMPORT_RUNS} (limit {arguments.limit_seconds:g} s)")
    return 0 if megabytes <= arguments.limit_megabytes and seconds <= arguments.limit_seconds else 1


if __name__ == "__main__":
    sys.exit(main())
