"""What `import glueball.language as gl` offers, and what it says of the rest."""

from __future__ import annotations

import inspect

import pytest

import glueball
import glueball.language as gl
from glueball import layouts
from glueball.language import core, names
from glueball.language.builder import is_builtin

NAMES = [name for group in names.NAMES.values() for name in group]


def test_names_are_listed_once():
    assert len(NAMES) == len(set(NAMES))
    assert set(gl.__all__) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_or_says_that_it_is_not_yet(name):
    try:
        value = getattr(gl, name)
    except AttributeError as error:
        assert str(error) == f"`gl.{name}` is not there yet in this version of glueball"
        assert name not in gl.__all__
    else:
        assert value is not None
        assert name in gl.__all__


def test_names_of_other_languages_say_what_to_use():
    with pytest.raises(AttributeError, match="use Python's range"):
        gl.range  # noqa: B018
    with pytest.raises(AttributeError, match=r"the language has no `gl\.softmax`"):
        gl.softmax  # noqa: B018
    with pytest.raises(AttributeError, match=r"no `gl\.constexpr_function`; use glueball\.constexpr_function"):
        gl.constexpr_function  # noqa: B018
    assert not hasattr(gl, "fpsan")


def test_other_paths_of_names():
    assert (gl._core.program_id, gl._core.constexpr) == (gl.program_id, gl.constexpr)
    assert all(getattr(gl._layouts, name) is getattr(layouts, name) for name in gl._layouts.__all__)
    assert (core.PropagateNan, core.constexpr, core._aggregate) == (gl.PropagateNan, gl.constexpr, glueball.aggregate)
    assert core.constexpr_function is glueball.constexpr_function and core.must_use_result is glueball.must_use_result
    with pytest.raises(AttributeError, match=r"the language has no `gl\.nonsense`"):
        core.nonsense  # noqa: B018


OPERATIONS = [name for name in gl.__all__ if is_builtin(getattr(gl, name))]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_documented_and_refuse_to_run_outside_of_kernels(name):
    operation = getattr(gl, name)
    assert operation.__doc__
    parameters = inspect.signature(operation).parameters
    assert "_builder" not in parameters
    arguments = [0 for p in parameters.values() if p.default is p.empty and p.kind.name.startswith("POSITIONAL")]
    with pytest.raises(ValueError, match=r"Did you forget to add @glueball\.jit"):
        operation(*arguments)


def test_library_functions_refuse_to_run_outside_of_kernels():
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        gl.cdiv(4, 2)


def test_cache_policies():
    policy = gl.CachePolicy(gl.constexpr(".cg"), "evict_first")
    assert policy == gl.CachePolicy(".cg", "evict_first")
    assert hash(policy) == hash(gl.CachePolicy(".cg", "evict_first"))
    with pytest.raises(ValueError, match="Unsupported cache modifier"):
        gl.CachePolicy(".xx")
    with pytest.raises(ValueError, match="Unsupported eviction policy"):
        gl.CachePolicy("", "never")
    with pytest.raises(TypeError, match="must be a string"):
        gl.CachePolicy(3)


def test_types_are_base_types():
    assert isinstance(gl.float32, gl.base_type)
    assert isinstance(gl.pointer_type(gl.float32), gl.base_type)
    assert isinstance(gl.tuple((1,)).type, gl.base_type)
