"""Functions of the language: source, parameters, what they depend on."""

from __future__ import annotations

import linecache
import types

import pytest

import glueball.language as gl
from glueball.language.function import ConstexprFunction, JITCallable, constexpr_function
from tests.language import helpers

SIZE = gl.constexpr(8)


@JITCallable
def leaf(x, scale=SIZE):
    return x * scale + helpers.OFFSET


@constexpr_function
def half(value):
    return value // helpers.DIVISOR


@JITCallable
def root(p, SIZE_OF_TILE: gl.constexpr, *, flag=None):
    x = leaf(half(SIZE_OF_TILE)) + SIZE
    helpers.store_it(p, x)
    for index in range(3):
        gl.store(p, index)


def test_parameters():
    assert root.arg_names == ["p", "SIZE_OF_TILE", "flag"]
    assert root.params[2].default is None
    assert root.__name__ == "root"
    assert root.qualified_name.endswith("test_function.root")


def test_source_is_the_text_from_def_with_the_files_lines():
    assert root.src.startswith("def root(p, SIZE_OF_TILE")
    source = root.source
    assert source.line(source.first_line) == "def root(p, SIZE_OF_TILE: gl.constexpr, *, flag=None):"
    call = source.tree.body[1]
    assert linecache.getline(source.file, call.lineno).strip() == "helpers.store_it(p, x)"


def test_indented_functions_keep_their_columns():
    if SIZE:

        @JITCallable
        def inner(p):
            """Text
            at the margin."""
            gl.store(p, 1)

    statement = inner.source.tree.body[1]
    line = linecache.getline(inner.source.file, statement.lineno)
    assert line[statement.col_offset :].startswith("gl.store(p, 1)")


def test_dependencies_are_transitive():
    found = root.dependencies()
    assert {function.__name__ for function in found.functions} == {"leaf", "half", "store_it", "deepest"}
    constants = {(item.function.rpartition(".")[2], item.name): item.value for item in found.constants}
    assert constants == {
        ("root", "SIZE"): 8,
        ("root", "default of flag"): None,
        ("leaf", "helpers.OFFSET"): 5,
        ("leaf", "default of scale"): 8,
        ("half", "helpers.DIVISOR"): 2,
        ("deepest", "LAYOUT"): helpers.LAYOUT,
    }


def test_dependencies_show_changed_values(monkeypatch):
    monkeypatch.setattr(helpers, "OFFSET", gl.constexpr(6))
    assert 6 in [item.value for item in root.dependencies().constants]


def test_closures_are_read():
    width = gl.constexpr(32)

    @JITCallable
    def kernel(p):
        gl.store(p, width)

    assert [(item.name, item.value) for item in kernel.dependencies().constants] == [("width", 32)]


def test_functions_made_by_exec_work_where_their_text_is_registered():
    text = "def made(p):\n    gl.store(p, 1)\n"
    linecache.cache["<made here>"] = (len(text), None, text.splitlines(True), "<made here>")
    namespace = {"gl": gl}
    exec(compile(text, "<made here>", "exec"), namespace)
    assert JITCallable(namespace["made"]).src == text
    exec(compile(text, "<nowhere>", "exec"), namespace)
    with pytest.raises(ValueError, match="Define the function in a Python file"):
        _ = JITCallable(namespace["made"]).source


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(ValueError, match="lambda"):
        JITCallable(lambda x: x)
    with pytest.raises(TypeError, match="written with `def`"):
        JITCallable(len)

    def keywords(**options):
        pass

    with pytest.raises(TypeError, match=r"do not support \*\*options"):
        JITCallable(keywords)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        leaf(1)


def test_compile_time_functions_run_on_the_host():
    assert half(gl.constexpr(9)) == 4
    assert isinstance(half, ConstexprFunction)

    class Holder:
        twice = constexpr_function(lambda_free)

    assert isinstance(Holder().twice, types.MethodType)


def lambda_free(self, value):
    return value * 2


def test_the_text_of_another_function_is_refused(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("def first(p):\n    return p\n")
    namespace = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    for other in ("def second(p):\n    return p\n", "def first(q, p):\n    return p\n"):
        file.write_text(other)
        kernel = JITCallable(namespace["first"])
        with pytest.raises(ValueError, match="no longer holds the source of `first`"):
            _ = kernel.source


def test_a_later_edit_of_the_file_changes_nothing(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text("def first(p):\n    return p\n")
    namespace = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    kernel = JITCallable(namespace["first"])
    file.write_text("# one line more\ndef first(p):\n    return p + 1\n")
    assert kernel.src == "def first(p):\n    return p\n"
