"""Code generation in a child process, for input on which LLVM may end the process instead of raising an error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from glueball.codegen.llvm import compile_module
from glueball.errors import CodeGenerationError
from glueball.targets import Target, target_named


def compile_isolated(text: str, target: Target, version: int) -> str:
    """What `llvm.compile_module` gives; a crash of LLVM becomes a `CodeGenerationError` with LLVM's last words."""
    request = json.dumps({"text": text, "target": target.name, "version": version})
    package = str(Path(__file__).resolve().parents[2])
    program = f"import sys; sys.path.insert(0, {package!r}); from glueball.codegen.isolation import main; main()"
    done = subprocess.run([sys.executable, "-c", program], input=request, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(line.strip() for line in done.stderr.splitlines()[:3]) or "no message"
        raise CodeGenerationError(f"code generation for {target.name} ended with status {done.returncode}: {words}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise CodeGenerationError(answer["error"])
    return str(answer["assembly"])


def main() -> None:
    """The child: a request on standard input, the answer on standard output."""
    request = json.load(sys.stdin)
    try:
        answer = {"assembly": compile_module(request["text"], target_named(request["target"]), request["version"])}
    except CodeGenerationError as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout)
