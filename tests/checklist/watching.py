"""Makes the compiler tell a recorder what the authors of kernels use, and which kernels are built and launched."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import MethodType
from typing import Any

from glueball import frontend
from glueball.frontend import calls, expressions, statements
from glueball.frontend.binary import BINARY
from glueball.runtime.jit import JITFunction
from tests.checklist.recording import Recorder, element_of, row_of

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-x", ast.Invert: "~x", ast.Not: "not x"}

Tell = Callable[[tuple[Any, ...], Any], None]
"""Is told the arguments of a call and its result."""


def after(module: Any, name: str, tell: Tell) -> None:
    """Have a function of a module tell of its calls."""
    original = getattr(module, name)

    def function(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        tell(arguments, result)
        return result

    setattr(module, name, function)


def watch_authors(recorder: Recorder) -> None:
    """Tell of operations that an author's function calls or spells; those of library functions are not the author's."""

    def operation(arguments: tuple[Any, ...], result: Any) -> None:
        frame, function, given, keywords = arguments
        owner = [function.__self__] if isinstance(function, MethodType) else []
        if not frame.function.is_library:
            recorder.note(row_of(function), [*owner, *given, *keywords.values()], result)

    def library_function(arguments: tuple[Any, ...], result: Any) -> None:
        if arguments[1].is_library:
            operation(arguments, result)

    def operator(spellings: Callable[[Any], str]) -> Tell:
        def tell(arguments: tuple[Any, ...], result: Any) -> None:
            frame, kind, left, right = arguments
            if not frame.function.is_library and element_of(result):
                recorder.note(f"x {spellings(kind)} y", [left, right], result)

        return tell

    after(calls, "_emit", operation)
    after(calls, "inline", library_function)
    for module in (expressions, statements):
        after(module, "apply_binary", operator(lambda kind: BINARY[kind][0]))
    after(expressions, "_compare_pair", operator(lambda kind: COMPARISONS.get(kind, "is")))
    after(expressions, "getitem", lambda arguments, result: recorder.note("x[:, None]", [arguments[0]], result))
    after(expressions, "trans", lambda arguments, result: recorder.note("x.trans()", [arguments[0]], result))
    unary = expressions.EXPRESSIONS[ast.UnaryOp]

    def told_unary(frame: Any, node: ast.UnaryOp) -> Any:
        result = unary(frame, node)
        if not frame.function.is_library and element_of(result):
            recorder.note(UNARY[type(node.op)], [result], result)
        return result

    vars(expressions)["EXPRESSIONS"][ast.UnaryOp] = told_unary


def watch_kernels(recorder: Recorder) -> None:
    """Tell of kernels whose source is built, and of those that an executor gets."""
    build, compile_kernel = frontend.build, JITFunction.compile

    def watched_build(*arguments: Any, **keywords: Any) -> Any:
        recorder.building = set()
        try:
            tile = build(*arguments, **keywords)
            recorder.built[id(tile)] = (tile, recorder.building)
        finally:
            recorder.building = None
        return tile

    def watched_compile(self: Any, specialization: Any, options: Any, target: Any, executor: str) -> Any:
        kernel = compile_kernel(self, specialization, options, target, executor)
        if recorder.compiled is not None:
            recorder.compiled.append((executor, kernel))
        return kernel

    vars(frontend)["build"] = watched_build
    JITFunction.compile = watched_compile  # type: ignore[method-assign]
