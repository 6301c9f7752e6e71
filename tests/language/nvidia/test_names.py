"""The vendor modules: what is in them, and with which parameters."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, Union

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.builder import is_builtin
from glueball.language.nvidia import ampere, blackwell, hopper
from glueball.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

MODULES: dict[str, tuple[ModuleType, set[str]]] = {
    "ampere": (ampere, {"async_copy", "mbarrier", "mma_v2", "CachePolicy", "FractionalEvictionPolicy"}),
    "ampere.async_copy": (
        ampere.async_copy,
        {"async_load", "mbarrier_arrive", "commit_group", "wait_group", "async_copy_global_to_shared"},
    ),
    "ampere.mbarrier": (
        ampere.mbarrier,
        {"MBarrierLayout", "allocate_mbarrier", "init", "invalidate", "wait", "arrive"},
    ),
    "hopper": (
        hopper,
        {
            "async_copy", "mbarrier", "mma_v2", "CachePolicy", "FractionalEvictionPolicy", "async_store", "cluster",
            "fence_async_shared", "tma", "warpgroup_mma", "warpgroup_mma_init", "warpgroup_mma_wait",
            "warpgroup_mma_accumulator", "warpgroup_mma_accumulator_type",
        },
    ),
    "hopper.mbarrier": (
        hopper.mbarrier,
        {"MBarrierLayout", "allocate_mbarrier", "init", "invalidate", "wait", "arrive", "expect"},
    ),
    "hopper.cluster": (hopper.cluster, {"barrier"}),
    "hopper.tma": (
        hopper.tma,
        {
            "async_load", "async_load_im2col", "async_store", "async_atomic_add", "async_atomic_min",
            "async_atomic_max", "async_atomic_and", "async_atomic_or", "async_atomic_xor", "store_wait",
            "make_tensor_descriptor", "tensor_descriptor", "tensor_descriptor_type", "tensor_descriptor_im2col",
            "tensor_descriptor_im2col_type", "async_copy_global_to_shared", "async_copy_global_to_shared_im2col",
            "async_copy_shared_to_global",
        },
    ),
    "blackwell": (
        blackwell,
        {
            "async_copy", "mbarrier", "mma_v2", "CachePolicy", "FractionalEvictionPolicy", "async_store", "cluster",
            "fence_async_shared", "tma",
        },
    ),
    "blackwell.tma": (
        blackwell.tma,
        {
            "async_load", "async_load_im2col", "async_store", "async_atomic_add", "async_atomic_min",
            "async_atomic_max", "async_atomic_and", "async_atomic_or", "async_atomic_xor", "store_wait",
            "make_tensor_descriptor", "tensor_descriptor", "tensor_descriptor_type", "async_copy_global_to_shared",
            "async_copy_shared_to_global",
        },
    ),
}  # fmt: skip

SIGNATURES = {
    "ampere.async_copy.async_load": (
        "smem, pointer, mask=None, cache_modifier=None, eviction_policy=None, volatile=False, cache_policy=None"
    ),
    "ampere.async_copy.commit_group": "",
    "ampere.async_copy.wait_group": "num_outstanding=0",
    "ampere.async_copy.mbarrier_arrive": "mbarrier, increment_count=True",
    "ampere.mbarrier.allocate_mbarrier": "batch=None, two_ctas=False",
    "ampere.mbarrier.init": "mbarrier, count",
    "ampere.mbarrier.invalidate": "mbarrier",
    "ampere.mbarrier.wait": "mbarrier, phase, pred=True, deps=()",
    "ampere.mbarrier.arrive": "mbarrier, *, pred=True, from_cta=None",
    "hopper.mbarrier.arrive": "mbarrier, *, count=1, pred=True, from_cta=None",
    "hopper.mbarrier.expect": "mbarrier, bytes_per_cta=None, pred=True, *, from_cta=None",
    "hopper.fence_async_shared": "cluster=False",
    "hopper.async_store": "dst, value, mbarrier",
    "hopper.cluster.barrier": "relaxed=False",
    "hopper.tma.async_load": "tensor_desc, coord, barrier, result, pred=True, multicast=False, cache_policy=None",
    "hopper.tma.async_load_im2col": (
        "tensor_desc, coord, offsets, barrier, result, pred=True, multicast=False, cache_policy=None"
    ),
    "hopper.tma.async_store": "tensor_desc, coord, src, cache_policy=None",
    **{
        f"hopper.tma.async_atomic_{operator}": "tensor_desc, coord, src"
        for operator in ("add", "min", "max", "and", "or", "xor")
    },
    "hopper.tma.store_wait": "pendings, read_only=True",
    "hopper.tma.make_tensor_descriptor": "base, shape, strides, block_shape, layout, padding_option='zero'",
}


def at(path: str) -> Any:
    value: Any = gl.nvidia
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_their_names(name: str) -> None:
    module, expected = MODULES[name]
    assert at(name) is module
    assert expected <= set(module.__all__)
    for each in module.__all__:
        assert getattr(module, each) is not None
    with pytest.raises(AttributeError, match=f"has no {'wait_groups'!r}"):
        module.wait_groups  # noqa: B018


def text(value: Any) -> str:
    parameters = inspect.signature(value).parameters.values()
    parts, named = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parts.append(f"{parameter.name}{default}")
    return ", ".join(parts)


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(path: str) -> None:
    operation = at(path)
    assert text(operation) == SIGNATURES[path]
    assert operation.__doc__
    assert is_builtin(operation)
    required = [1 for each in inspect.signature(operation).parameters.values() if each.default is each.empty]
    with pytest.raises(ValueError, match=r"Did you forget to add @glueball\.jit"):
        operation(*required)


def test_host_signatures() -> None:
    common = "base, shape, strides, block_shape, layout, padding='zero', round_f32_to_tf32=False"
    corners = "element_strides=None, pixel_box_lower_corner=None, pixel_box_upper_corner=None"
    assert text(TensorDescriptor) == common
    assert text(TensorDescriptorIm2Col) == f"{common}, {corners}"
    whole = "tensor, block_shape, layout, padding='zero', round_f32_to_tf32=False"
    assert text(TensorDescriptor.from_tensor) == whole
    assert text(TensorDescriptorIm2Col.from_tensor) == f"{whole}, {corners}"
    assert glueball.nvidia.blackwell.TensorDescriptor is TensorDescriptor


REMOVED = {
    "async_copy.async_copy_global_to_shared": "async_load",
    "tma.async_copy_global_to_shared": "async_load",
    "tma.async_copy_global_to_shared_im2col": "async_load_im2col",
    "tma.async_copy_shared_to_global": "async_store",
}


LATER = (
    "TensorMemoryLayout", "allocate_tensor_memory", "clc", "tcgen05_commit", "tcgen05_mma", "tensor_memory_descriptor",
    "tma.async_gather",
)  # fmt: skip


@pytest.mark.parametrize("path", LATER)
def test_names_to_come_say_so_when_they_are_used(path: str) -> None:
    name = at(f"blackwell.{path}")
    message = rf"`glueball\.language\.nvidia\.blackwell\.{path}` is not there yet in this version of glueball"
    with pytest.raises(NotImplementedError, match=message):
        name([128, 64], 1)
    with pytest.raises(AttributeError, match=message):
        name.try_cancel  # noqa: B018


@glueball.aggregate
class Accumulator:
    """Holds either kind of accumulator, as programs for both generations do."""

    total: blackwell.tensor_memory_descriptor | gl.tensor
    again: Union[blackwell.tensor_memory_descriptor, gl.tensor]  # noqa: UP007 - as older programs write it


@glueball.jit
def for_either_generation(x, layout: gl.constexpr, IN_TENSOR_MEMORY: gl.constexpr):
    place = gl.arange(0, 128, layout=layout)
    value = gl.load(x + place)
    if IN_TENSOR_MEMORY:
        accumulator = Accumulator(blackwell.allocate_tensor_memory(gl.float32, [128, 128], layout), value)
    else:
        accumulator = Accumulator(value, value)
    gl.store(x + place, accumulator.total + accumulator.again)


def test_a_program_for_two_generations_runs_on_the_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, layout = np.arange(128, dtype=np.float32), gl.BlockedLayout([1], [32], [4], [0])
    for_either_generation[(1,)](x, layout, False)
    np.testing.assert_array_equal(x, 2 * np.arange(128))
    with pytest.raises(CompilationError, match=r"allocate_tensor_memory\(gl\.float32(.|\n)*is not there yet") as caught:
        for_either_generation[(1,)](x, layout, True)
    assert caught.value.location is not None and caught.value.location.file == __file__


@pytest.mark.parametrize("path", REMOVED)
def test_removed_names_say_what_took_their_place(path: str) -> None:
    with pytest.raises(RuntimeError, match=f"was removed; call `{REMOVED[path]}` instead"):
        at(f"hopper.{path}")(1, 2, three=3)


@glueball.jit
def calls_a_removed_name(x):
    hopper.tma.async_copy_shared_to_global(x, [0, 0], x)


def test_removed_names_in_kernels() -> None:
    import numpy as np

    with pytest.raises(CompilationError, match="was removed; call `async_store` instead"):
        glueball.compile_only(calls_a_removed_name, np.zeros(4, np.float32), target="sm_90a")
