"""Functions to be compiled without arguments at hand: a signature of texts, constants and facts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glueball.language.constexpr import constexpr
from glueball.language.values import tuple_type
from glueball.runtime.devices import chosen_target
from glueball.runtime.jit import JITFunction
from glueball.runtime.kernel import CompiledKernel
from glueball.runtime.machine_code import assembler
from glueball.runtime.options import read_options
from glueball.runtime.parameters import parse_descriptor_type, parse_type
from glueball.runtime.specialization import Argument, Specialization, described_descriptor
from glueball.tile.types import pointer_type, tensor_descriptor_type

DIVISIBILITY = "tt.divisibility"

Path_ = tuple[int, ...]


class GluonASTSource:
    """A function with the types of its parameters.

    `signature` has a text for each parameter: `"*fp32"`, `"i32"`, `"constexpr"`, that of a tensor descriptor
    (`"tensordesc<fp16[64,64],NVMMASharedLayout(...)>"`), or a tuple of such. `constexprs` has constants, `attrs` facts
    such as `[["tt.divisibility", 16]]`, by the parameter's name or by a tuple of its position and, in tuples, of those
    within. The signature may leave out what is a constant. Errors: `TypeError` for one that is not the function's.
    """

    ext = "tile"

    def __init__(
        self,
        fn: Any,
        signature: Mapping[Any, Any],
        constexprs: Mapping[Any, Any] | None = None,
        attrs: Mapping[Any, Sequence[Sequence[Any]]] | None = None,
    ) -> None:
        if not isinstance(fn, JITFunction):
            raise TypeError(f"a function decorated with @glueball.jit is needed, not {fn!r}")
        self.fn = fn
        self.name = fn.__name__
        names = list(fn.rules)
        self.constants = {_path(names, key): value for key, value in (constexprs or {}).items()}
        self.signature = {names[key] if isinstance(key, int) else key: kind for key, kind in signature.items()}
        for path in self.constants:
            self.signature.setdefault(names[path[0]], "constexpr")
        self.attrs = {_path(names, key): list(facts) for key, facts in (attrs or {}).items()}
        if set(self.signature) != set(names):
            raise TypeError(
                f"the signature names {', '.join(self.signature)}, and {self.name} takes {', '.join(names)}"
            )

    def hash(self) -> str:
        """A hash of the function's source, of what it uses, and of the signature."""
        parts = (self.fn.cache_key, sorted(self.signature.items()), sorted(self.constants.items(), key=str), self.attrs)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def specialization(self) -> Specialization:
        """What the function is to be compiled for."""
        return Specialization(
            tuple(
                self._argument(name, (position,), self.signature[name]) for position, name in enumerate(self.fn.rules)
            )
        )

    def _argument(self, name: str, path: Path_, kind: Any) -> Argument:
        if path in self.constants:
            value = self.constants[path]
            return Argument(name, value if isinstance(value, constexpr) else constexpr(value))
        if isinstance(kind, tuple | list):
            elements = tuple(
                self._argument(f"{name}.{position}", (*path, position), element)
                for position, element in enumerate(kind)
            )
            values = [element.type.value for element in elements if isinstance(element.type, constexpr)]
            if len(values) == len(elements):
                return Argument(name, constexpr(tuple(values)))
            return Argument(name, tuple_type([element.type for element in elements]), elements=elements)
        if kind == "constexpr":
            raise TypeError(f"parameter `{name}` of {self.fn.__name__} is a constant, and `constexprs` has none for it")
        if not isinstance(kind, str):
            raise TypeError(f"the type of parameter `{name}` is a text such as '*fp32', not {kind!r}")
        descriptor = parse_descriptor_type(kind)
        if descriptor is not None:
            return described_descriptor(name, descriptor)
        facts = {fact[0]: fact[1] for fact in self.attrs.get(path, [])}
        return Argument(name, parse_type(kind), int(facts.get(DIVISIBILITY, 1)))


def compile(src: Any, target: Any = None, options: Mapping[str, Any] | None = None) -> CompiledKernel:  # noqa: A001 - the name that programs call
    """Compiles a `GluonASTSource` for a `GPUTarget`, whether or not such a GPU is there.

    `target` may also be a name such as `"sm_100a"`; left out, it is that of the first device, else `sm_90a`. `options`
    are those of a launch. Errors: as those of a launch before the kernel runs; `TargetError` for an unknown target.
    """
    if isinstance(src, str | Path):
        raise TypeError(f"{str(src)!r}: intermediate code in files is not compiled; pass a GluonASTSource")
    if not isinstance(src, GluonASTSource):
        raise TypeError(f"a GluonASTSource is compiled, not {src!r}")
    chosen = chosen_target(target)
    read = read_options(src.name, options or {}, frozenset(), src.fn.debug)
    executor = "gpu" if assembler(chosen) else "assembly"
    return src.fn.compile(src.specialization(), read, chosen, executor)


def source_of(function: Any, specialization: Specialization) -> GluonASTSource:
    """The source that a specialised function is compiled from."""
    constants: dict[Path_, Any] = {}
    attrs: dict[Path_, list[list[Any]]] = {}
    signature = {
        argument.name: _described(argument, (position,), constants, attrs)
        for position, argument in enumerate(specialization.arguments)
    }
    return GluonASTSource(function, signature, constants, attrs)


def _described(
    argument: Argument, path: Path_, constants: dict[Path_, Any], attrs: dict[Path_, list[list[Any]]]
) -> Any:
    if isinstance(argument.type, constexpr):
        constants[path] = argument.type.value
        return "constexpr"
    if isinstance(argument.type, tuple_type):
        return tuple(
            _described(element, (*path, position), constants, attrs)
            for position, element in enumerate(argument.elements)
        )
    if argument.divisibility > 1:
        attrs[path] = [[DIVISIBILITY, argument.divisibility]]
    if isinstance(argument.type, pointer_type):
        return f"*{'k' if argument.type.const else ''}{argument.type.element_ty.mangle()}"
    return str(argument.type) if isinstance(argument.type, tensor_descriptor_type) else argument.type.mangle()


def _path(names: list[str], key: Any) -> Path_:
    if isinstance(key, str):
        if key not in names:
            raise TypeError(f"{key!r} is no parameter; they are {', '.join(names)}")
        return (names.index(key),)
    return (key,) if isinstance(key, int) else tuple(key)
