"""One side of `compile.py`, in a process of its own: reads jobs, compiles each once, prints the milliseconds.

    python compile_worker.py glueball|gluon < jobs.json

Before the clock runs for the first job, another kernel has been compiled, so that all that a process loads is there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORTS = {
    "import glueball\n": "from triton.experimental import gluon as glueball\n",
    "import glueball.language as gl\n": "from triton.experimental.gluon import language as gl\n",
}
WARM_UP = """

@glueball.jit
def warm_up(x_ptr, n, layout: gl.constexpr):
    place = gl.arange(0, 512, layout=layout)
    x = gl.load(x_ptr + place, mask=place < n, other=0.0)
    gl.store(x_ptr + place, x + gl.sum(x, axis=0), mask=place < n)
"""
WARM_UP_JOB = {
    "name": "warm-up",
    "source": "warm_up",
    "kernel": "warm_up",
    "types": {"x_ptr": ("*fp32", 16), "n": ("i32", 1)},
    "constants": {"layout": "BlockedLayout([1], [32], [4], [0])"},
    "options": {"num_warps": 4},
}
Compile = Callable[[Any, dict[str, Any], str], object]


def load(text: str, name: str, side: str, folder: Path) -> ModuleType:
    """A module of a side's made from a module of ours: only its import lines change."""
    if side == "gluon":
        for ours, theirs in IMPORTS.items():
            text = text.replace(ours, theirs)
    path = folder / f"{name}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def compile_glueball(kernel: Any, job: dict[str, Any], target: str) -> object:
    """To machine code, or to PTX where there is no assembler."""
    import glueball
    from glueball import language

    arguments = {name: f"{kind}:{divisor}" for name, (kind, divisor) in job["types"].items()}
    constants = {name: language.constexpr(eval(text, vars(language))) for name, text in job["constants"].items()}
    return glueball.compile_only(kernel, **arguments, **constants, **job["options"], target=target)


def compile_gluon(kernel: Any, job: dict[str, Any], target: str) -> object:
    """The peer's counterpart, whose assembler comes with it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language
    from triton.experimental.gluon._runtime import GluonASTSource

    types, names = job["types"], list(kernel.arg_names)
    signature = {name: types[name][0] if name in types else "constexpr" for name in names}
    constants = {(names.index(name),): eval(text, vars(language)) for name, text in job["constants"].items()}
    attributes = {
        (names.index(name),): [["tt.divisibility", 16]] for name, (_, divisor) in types.items() if divisor % 16 == 0
    }
    source = GluonASTSource(kernel, signature, constants, attributes)
    generation = int(target.removeprefix("sm_").rstrip("a"))
    return triton.compile(source, target=GPUTarget("cuda", generation, 32), options=job["options"])


def main() -> None:
    """Reads `{"target": ..., "sources": ..., "jobs": ...}`, prints one line of JSON: milliseconds by job."""
    side, folder = sys.argv[1], Path(tempfile.mkdtemp())
    for variable in ("TRITON_CACHE_DIR", "GLUEBALL_CACHE_DIR"):
        os.environ[variable] = tempfile.mkdtemp()
    work = json.load(sys.stdin)
    compile_job: Compile = compile_glueball if side == "glueball" else compile_gluon
    header = "import glueball\nimport glueball.language as gl\n"
    modules = {name: load(text, name, side, folder) for name, text in work["sources"].items()}
    modules["warm_up"] = load(header + WARM_UP, "warm_up", side, folder)
    compile_job(modules["warm_up"].warm_up, WARM_UP_JOB, work["target"])
    times = {}
    for job in work["jobs"]:
        kernel = getattr(modules[job["source"]], job["kernel"])
        start = time.perf_counter()
        compile_job(kernel, job, work["target"])
        times[job["name"]] = (time.perf_counter() - start) * 1000
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
