"""The same kernels for the peer: the source of a kernel module with only its import lines changed."""

from __future__ import annotations

import importlib.util
import inspect
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from glueball.kernels import copy
from glueball.language import BlockedLayout, DistributedLinearLayout, NVMMASharedLayout, SwizzledSharedLayout
from glueball.language.nvidia.hopper import CachePolicy, FractionalEvictionPolicy
from glueball.nvidia.hopper import TensorDescriptor

IMPORTS = {
    "import glueball\n": "from triton.experimental import gluon as glueball\n",
    "import glueball.language as gl\n": "from triton.experimental.gluon import language as gl\n",
    "from glueball.language.nvidia.": "from triton.experimental.gluon.language.nvidia.",
}


def peer_module() -> ModuleType | None:
    """The copy kernels as Gluon kernels; None where Triton with Gluon is not installed."""
    try:
        importlib.import_module("triton.experimental.gluon")
    except ImportError:
        return None
    return translated(inspect.getsource(copy), "gluon_copy")


def translated(source: str, name: str) -> ModuleType:
    """A module of the peer's made from a module of ours."""
    for ours, theirs in IMPORTS.items():
        source = source.replace(ours, theirs)
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(source)
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def peer_keywords(keywords: dict[str, Any]) -> dict[str, Any]:
    """Launch keywords with the peer's layout and policy classes."""
    return {name: peer_value(value) for name, value in keywords.items()}


def peer_arguments(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Launch arguments with the peer's descriptors."""
    return tuple(peer_value(value) for value in arguments)


def lists(bases: Any) -> list[list[int]]:
    """Bases as the peer's layouts take them."""
    return [list(basis) for basis in bases]


def peer_value(value: Any) -> Any:
    """The peer's counterpart of a layout, a cache policy or a descriptor; anything else as it is."""
    from triton.experimental.gluon import language
    from triton.experimental.gluon.language.nvidia import ampere
    from triton.experimental.gluon.nvidia import hopper

    match value:
        case BlockedLayout():
            parts = (value.size_per_thread, value.threads_per_warp, value.warps_per_cta, value.order)
            return language.BlockedLayout(*map(list, parts), cga_layout=lists(value.cga_layout))
        case DistributedLinearLayout():
            bases = (value.reg_bases, value.lane_bases, value.warp_bases, value.block_bases)
            return language.DistributedLinearLayout(*map(lists, bases), list(value.shape))
        case SwizzledSharedLayout():
            swizzle = (value.vec, value.per_phase, value.max_phase, list(value.order))
            return language.SwizzledSharedLayout(*swizzle, cga_layout=lists(value.cga_layout))
        case NVMMASharedLayout():
            kind = (value.swizzle_byte_width, value.element_bitwidth, value.rank)
            return language.NVMMASharedLayout(*kind, cga_layout=lists(value.cga_layout))
        case CachePolicy(cache_modifier=modifier, l2=FractionalEvictionPolicy(primary=primary, fraction=fraction)):
            return ampere.CachePolicy(modifier, l2=ampere.FractionalEvictionPolicy(primary, fraction))
        case TensorDescriptor():
            shape, strides, block = list(value.shape), list(value.strides), list(value.block_shape)
            return hopper.TensorDescriptor(value.base, shape, strides, block, peer_value(value.layout))
    return value
