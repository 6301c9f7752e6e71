"""From the arguments of a launch to the types, constants and facts that a kernel is compiled for.

| argument | compiled as |
|---|---|
| int equal to 1 | the constant 1 |
| int | `int32`, `int64` or `uint64`, the first that holds it; known to be divisible by 16 where it is |
| bool | `int1` |
| float | `float32` |
| `None` | a constant |
| array | pointer to its elements; known to be aligned to 16 bytes where it is |
| tensor descriptor | a tensor descriptor, its extents as `int32` and its strides as `int64` |
| tuple | a constant where every element is one, else a tuple of what its elements are compiled as |
| `constexpr`, function of the language, anything for a parameter annotated `constexpr` | a constant |

A dtype as annotation forces the type and no value is told apart. NumPy's scalars (`numpy.int64(3)`, `numpy.float32(2)`)
count as Python's; an array without dimensions is an array, hence a pointer, in NumPy as in every framework.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from glueball.drivers.arrays import DeviceArray, read_array
from glueball.errors import DriverError
from glueball.language.constexpr import constexpr
from glueball.language.source import SourceFunction
from glueball.language.values import tuple_type
from glueball.runtime.constants import constant_key
from glueball.runtime.parameters import ParameterRule
from glueball.runtime.tensor_wrapper import TensorWrapper
from glueball.tile.ir import ArgumentFacts
from glueball.tile.types import (
    DESCRIPTOR_PARTS,
    DTYPES,
    ScalarType,
    dtype,
    float32,
    int1,
    int32,
    int64,
    pointer_type,
    tensor_descriptor_type,
    uint64,
)

if TYPE_CHECKING:
    from glueball.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col
    from glueball.tensor_map import TensorMap

ALIGNMENT = 16

SpecializationKey: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as the compiler sees it (`type`, `divisibility`) and as a launch passes it (`value`, `array`).

    `value` is what the caller gave; `array` describes it where it is an array; `elements` are those of a tuple, or the
    parts of a tensor descriptor, which are passed one by one. The first part of a descriptor has its base as `value`
    and its `tensor_map`.
    """

    name: str
    type: ScalarType | constexpr | tuple_type | tensor_descriptor_type
    divisibility: int = 1
    value: Any = None
    array: DeviceArray | None = None
    elements: tuple[Argument, ...] = ()
    tensor_map: TensorMap | None = None

    @property
    def number(self) -> bool | int | float:
        """The value of a scalar as a Python number of the parameter's type."""
        value = _plain_scalar(self.value)
        if not isinstance(self.type, dtype) or self.type.is_bool():
            return bool(value)
        return float(value) if self.type.is_floating() else int(value)

    @property
    def given(self) -> Any:
        """What the caller gave, also for a constant and for a tuple."""
        if isinstance(self.type, constexpr):
            return self.type.value
        if isinstance(self.type, tuple_type):
            return tuple(element.given for element in self.elements)
        return self.value

    @property
    def key(self) -> object:
        """What tells compiled kernels apart."""
        if isinstance(self.type, constexpr):
            return constant_key(self.type.value)
        if isinstance(self.type, tuple_type):
            return ("tuple", str(self.type.fields), *(element.key for element in self.elements))
        const = isinstance(self.type, pointer_type) and self.type.const
        return (str(self.type), const, self.divisibility)

    @property
    def leaves(self) -> Iterator[Argument]:
        """The arguments that are passed at run time: itself, or those in a tuple."""
        if self.elements:
            for element in self.elements:
                yield from element.leaves
        elif not isinstance(self.type, constexpr | tuple_type):
            yield self

    def without_values(self) -> Argument:
        """The same without what the caller gave."""
        elements = tuple(element.without_values() for element in self.elements)
        return replace(self, value=None, array=None, elements=elements, tensor_map=None)


@dataclass(frozen=True, slots=True)
class Specialization:
    """The arguments of one launch, in the order of the kernel's parameters."""

    arguments: tuple[Argument, ...]

    @property
    def key(self) -> SpecializationKey:
        """What tells compiled kernels apart."""
        return tuple(argument.key for argument in self.arguments)

    def without_values(self) -> Specialization:
        """The same for the compiler, which must not keep arrays alive."""
        return Specialization(tuple(argument.without_values() for argument in self.arguments))

    @property
    def types(self) -> dict[str, Any]:
        """A type or a `constexpr` for every parameter."""
        return {argument.name: argument.type for argument in self.arguments}

    @property
    def facts(self) -> dict[str, ArgumentFacts]:
        """What is known of the values of run-time arguments."""
        return {argument.name: ArgumentFacts(argument.divisibility) for argument in self.run_time}

    @property
    def run_time(self) -> tuple[Argument, ...]:
        """The arguments that are passed at run time."""
        return tuple(leaf for argument in self.arguments for leaf in argument.leaves)


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """Stands for an argument where none is at hand: `ArgumentSpec(pointer_type(float32), divisibility=16)`.

    `divisibility` is a power of two that divides the integer, or the address in bytes.
    """

    type: ScalarType
    divisibility: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.type, dtype | pointer_type):
            raise TypeError(f"an argument is described by an element or pointer type, not by {self.type!r}")
        if self.divisibility < 1 or self.divisibility & (self.divisibility - 1):
            raise ValueError(f"divisibility {self.divisibility} is not a power of two")


def specialize(rules: Mapping[str, ParameterRule], bound: Mapping[str, Any]) -> Specialization:
    """Specialises every bound argument; `TypeError` names the parameter whose argument cannot be one."""
    return Specialization(tuple(specialize_argument(rule, bound[name]) for name, rule in rules.items()))


def specialize_argument(rule: ParameterRule, value: Any) -> Argument:
    """Specialises one argument by the table above."""
    if isinstance(value, constexpr):
        return _constant(rule, value.value)
    if rule.is_constexpr or value is None or isinstance(value, SourceFunction):
        return _constant(rule, value)
    if isinstance(value, ArgumentSpec):
        return Argument(rule.name, _forced(rule, value.type), value.divisibility)
    number = _plain_scalar(value)
    if isinstance(number, bool | int | float):
        found = _number(rule, number) if rule.type is None else _forced_number(rule, number)
        return found if isinstance(found.type, constexpr) else replace(found, value=value)
    if isinstance(value, tuple):
        return _tuple(rule, value)
    hopper = sys.modules.get("glueball.nvidia.hopper")
    if hopper is not None and isinstance(value, hopper.TensorDescriptor | hopper.TensorDescriptorIm2Col):
        return _descriptor(rule, value)
    array = _array(rule, value)
    if array is None:
        raise TypeError(
            f"failed to specialize argument of type {type(value).__name__} for parameter `{rule.name}`: pass an array "
            f"or a number, or annotate the parameter `constexpr`"
        )
    aligned = rule.specialize_alignment and array.pointer % ALIGNMENT == 0
    pointer = _forced(rule, pointer_type(DTYPES[array.dtype], const=rule.is_const))
    return Argument(rule.name, pointer, ALIGNMENT if aligned else 1, value, array)


def _array(rule: ParameterRule, value: Any) -> DeviceArray | None:
    """The array that an argument is, if it is one; errors name the parameter."""
    try:
        return value.array() if isinstance(value, TensorWrapper) else read_array(value)
    except TypeError as error:
        raise TypeError(f"parameter `{rule.name}`: {error}") from None
    except DriverError as error:
        raise DriverError(f"parameter `{rule.name}` was given an array of a device: {error}") from None


def _constant(rule: ParameterRule, value: Any) -> Argument:
    value = _plain_scalar(value)
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"parameter `{rule.name}` is compile-time (constexpr) and takes a hashable value, which a "
            f"{type(value).__name__} is not"
        ) from None
    return Argument(rule.name, constexpr(value))


def _plain_scalar(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    return value


def _plain_constant(value: Any) -> Any:
    """A compile-time value without the wrappers around it, or around what tuples hold."""
    if isinstance(value, constexpr):
        return _plain_constant(value.value)
    if not isinstance(value, tuple):
        return _plain_scalar(value)
    elements = tuple(map(_plain_constant, value))
    return type(value)(*elements) if hasattr(value, "_fields") else elements


def _number(rule: ParameterRule, value: bool | int | float) -> Argument:
    if isinstance(value, bool):
        return Argument(rule.name, int1)
    if isinstance(value, float):
        return Argument(rule.name, float32)
    if value == 1 and rule.specialize_value:
        return Argument(rule.name, constexpr(1))
    for candidate in (int32, int64, uint64):
        if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
            return Argument(rule.name, candidate, _divisibility(rule, value))
    raise OverflowError(f"parameter `{rule.name}`: the integer {value} does not fit 64 bits")


def _forced_number(rule: ParameterRule, value: bool | int | float) -> Argument:
    forced = rule.type
    if not isinstance(forced, dtype):
        raise TypeError(f"parameter `{rule.name}` is annotated {forced} and takes an array, not {value!r}")
    if forced.is_floating():
        return Argument(rule.name, forced)
    if isinstance(value, float):
        raise TypeError(
            f"parameter `{rule.name}` is annotated {forced.name} and takes an integer, not the float {value!r}"
        )
    if not forced.get_int_min_value() <= int(value) <= forced.get_int_max_value():
        raise OverflowError(f"parameter `{rule.name}`: {value} does not fit the annotated {forced.name}")
    if forced.is_bool():
        return Argument(rule.name, forced)
    return Argument(rule.name, forced, _divisibility(rule, int(value)))


def _forced(rule: ParameterRule, found: ScalarType) -> ScalarType:
    if rule.type is None:
        return found
    if rule.type.is_ptr() != found.is_ptr():
        raise TypeError(f"parameter `{rule.name}` is annotated {rule.type} and cannot take a {found}")
    return rule.type


def _divisibility(rule: ParameterRule, value: int) -> int:
    return ALIGNMENT if rule.specialize_alignment and value % ALIGNMENT == 0 else 1


def _tuple(rule: ParameterRule, values: tuple[Any, ...]) -> Argument:
    elements = tuple(
        specialize_argument(replace(rule, name=f"{rule.name}.{position}"), value)
        for position, value in enumerate(values)
    )
    fields = getattr(values, "_fields", None)
    constants = [element.type.value for element in elements if isinstance(element.type, constexpr)]
    if len(constants) == len(elements):
        return Argument(rule.name, constexpr(tuple(constants) if fields is None else type(values)(*constants)))
    kind = tuple_type([element.type for element in elements], None if fields is None else list(fields))
    return Argument(rule.name, kind, value=values, elements=elements)


def _descriptor(rule: ParameterRule, value: TensorDescriptor | TensorDescriptorIm2Col) -> Argument:
    """A tensor descriptor: the tensor map, whose array decides where the kernel runs, then extents and strides."""
    from glueball.nvidia.hopper import read_base

    try:
        array = read_base(value.base)
        kind, tensor_map = value.describe(array)
    except AssertionError as error:
        raise AssertionError(f"parameter `{rule.name}`: {error}") from None
    numbers = iter((*tensor_map.shape, *tensor_map.strides))
    described = described_descriptor(rule.name, kind)
    handle, *parts = described.elements
    elements = (
        replace(handle, value=value.base, array=array, tensor_map=tensor_map),
        *(replace(part, value=next(numbers)) for part in parts),
    )
    return replace(described, value=value, elements=elements)


def described_descriptor(name: str, kind: tensor_descriptor_type) -> Argument:
    """A tensor descriptor of a type, without values."""
    parts = [
        Argument(f"{name}.{part}.{axis}", element) for part, element in DESCRIPTOR_PARTS for axis in range(kind.rank)
    ]
    return Argument(name, kind, elements=(Argument(name, kind), *parts))


def scalar_value(argument: Argument) -> Any:
    """A scalar argument as a NumPy scalar of the parameter's type."""
    if not isinstance(argument.type, dtype):
        raise TypeError(f"argument `{argument.name}` is compiled as a {argument.type} and takes an array, not a number")
    import numpy

    with numpy.errstate(over="ignore"):
        return argument.type.numpy.type(argument.number)


def fit_argument(compiled: Argument, value: Any) -> Argument:
    """An argument for a kernel that is compiled already; `TypeError` where it is not of the kind compiled for."""
    if isinstance(compiled.type, constexpr):
        given = _plain_constant(value)
        if constant_key(given) != constant_key(_plain_constant(compiled.type.value)):
            raise TypeError(
                f"argument `{compiled.name}` is compiled as the constant {compiled.type.value!r}, not {given!r}"
            )
        return compiled
    if isinstance(compiled.type, tuple_type):
        if not isinstance(value, tuple) or len(value) != len(compiled.elements):
            raise TypeError(
                f"argument `{compiled.name}` is compiled as a tuple of {len(compiled.elements)}, not for {value!r}"
            )
        return replace(compiled, value=value, elements=tuple(map(fit_argument, compiled.elements, value)))
    if isinstance(compiled.type, tensor_descriptor_type):
        found = specialize_argument(ParameterRule(compiled.name), value)
        if found.key != compiled.key:
            raise TypeError(f"argument `{compiled.name}` is compiled as {compiled.type}, and {value!r} was given")
        return found
    found = specialize_argument(ParameterRule(compiled.name, type=compiled.type), value)
    if isinstance(found.type, constexpr):
        raise TypeError(f"argument `{compiled.name}` is compiled as {compiled.type}, and {value!r} was given")
    element = compiled.type.element_ty if isinstance(compiled.type, pointer_type) else None
    if found.array is not None and element is not None and DTYPES[found.array.dtype] != element:
        raise TypeError(
            f"argument `{compiled.name}` is compiled as {compiled.type}, not for an array of {found.array.dtype}"
        )
    number = found.array.pointer if found.array is not None else found.number
    if compiled.divisibility > 1 and number % compiled.divisibility:
        raise TypeError(
            f"argument `{compiled.name}` is compiled as a multiple of {compiled.divisibility}, and {number} was given"
        )
    return replace(found, divisibility=compiled.divisibility)
