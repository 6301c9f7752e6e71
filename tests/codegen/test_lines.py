"""Source lines arrive in PTX, in the cubin's line table and in AMD's assembly, calls included."""

from __future__ import annotations

import os
import re

import pytest

from glueball import codegen
from glueball.codegen import disassembly
from glueball.codegen.debug import file_name, path_of
from glueball.location import UNKNOWN_LOCATION, SourceLocation
from glueball.targets import TARGETS
from tests.codegen.building import AMD, NVIDIA, Kernel

FILE, LIBRARY = "/project/kernels.py", '/project/my "library" 50% ü.py'
LOAD = SourceLocation(FILE, 12, 8, 30, "kernel", 8)
CALL = SourceLocation(FILE, 14, 4, 30, "kernel", 8)
INNER_CALL = SourceLocation(LIBRARY, 33, 11, 20, "scaled", 30, caller=CALL)
INNERMOST = SourceLocation(LIBRARY, 21, 15, 25, "twice", 20, caller=INNER_CALL)
STORE = SourceLocation(FILE, 16, 4, 30, "kernel", 8)


def located(target: str, inner: SourceLocation = INNERMOST) -> Kernel:
    kernel = Kernel(target)
    builder = kernel.builder
    builder.location = LOAD
    (value,) = kernel.load("i32")
    builder.location = inner
    value = builder.mul(value, value)
    builder.location = STORE
    kernel.keep(value)
    return kernel


@pytest.mark.parametrize("target", NVIDIA)
def test_ptx_and_cubin_have_the_lines(target: str) -> None:
    code = codegen.generate(located(target).function, TARGETS[target])
    assert re.search(r"\.loc\s+1 12 9$", code.assembly, re.M)
    assert re.search(r"\.loc\s+2 21 16$", code.assembly, re.M)
    assert f'.file\t1 "{FILE}"' in code.assembly
    table = disassembly.line_table(codegen.assemble(code.assembly, TARGETS[target]).data)
    lines = {name: item.line for item in table for name in ("LDG", "STG") if name in item.text}
    assert lines == {"LDG": (FILE, 12), "STG": (FILE, 16)}
    assert [item.text for item in table if item.line == (LIBRARY, 21)]


def test_call_chains_are_in_the_metadata() -> None:
    llir = codegen.generate(located("sm_90a").function, TARGETS["sm_90a"]).llir
    nodes = dict(re.findall(r"^(!\d+) = (.*)$", llir, re.M))
    (innermost,) = [text for text in nodes.values() if text.startswith("!DILocation(line: 21, column: 16")]
    inner_call = nodes[re.search(r"inlinedAt: (!\d+)", innermost)[1]]
    assert "line: 33, column: 12" in inner_call
    call = nodes[re.search(r"inlinedAt: (!\d+)", inner_call)[1]]
    assert "line: 14, column: 5" in call
    assert "inlinedAt" not in call


@pytest.mark.parametrize("target", AMD)
def test_amd_assembly_has_the_lines(target: str) -> None:
    assembly = codegen.generate(located(target).function, TARGETS[target]).assembly
    assert re.search(r"\.loc\s+1 12 9$", assembly, re.M)
    assert re.search(r"\.loc\s+2 21 16$", assembly, re.M)


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize(
    "inner", [UNKNOWN_LOCATION, SourceLocation(LIBRARY, 3, 0, 5, "elsewhere", 1)], ids=["unknown", "other file"]
)
def test_odd_locations(target: str, inner: SourceLocation) -> None:
    kernel = located(target, inner)
    assert codegen.generate(kernel.function, TARGETS[target]).assembly
    kernel.function.location = UNKNOWN_LOCATION
    assert codegen.generate(kernel.function, TARGETS[target]).assembly


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_without_lines(target: str) -> None:
    code = codegen.generate(located(target).function, TARGETS[target], lines=False)
    assert ".loc" not in code.assembly
    assert "!dbg" not in code.llir


def test_paths_that_are_no_unicode_keep_their_bytes() -> None:
    path = os.fsdecode(b"/k\xc3\xbc/\xff.py")
    assert path_of(file_name(path)) == path
    surrogates = b"/k\xc3\xbc.py".decode("ascii", "surrogateescape")
    assert file_name(surrogates) == "/k%C3%BC.py"
