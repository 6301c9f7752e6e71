"""Cache policies of NVIDIA GPUs: what makes one, and what loads, stores and bulk copies make of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.nvidia.ampere import CachePolicy, FractionalEvictionPolicy

HALF = FractionalEvictionPolicy("evict_first", 0.5)
LINE = gl.BlockedLayout([4], [32], [4], [0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("evict_never", 1.0), "Unsupported L2 primary eviction priority 'evict_never'"),
        (("evict_first", 0.0), r"L2 eviction fraction must be in \(0, 1\]"),
        (("evict_first", 1.5), r"L2 eviction fraction must be in \(0, 1\]"),
        (("evict_first", float("nan")), "L2 eviction fraction must be finite"),
        (("evict_first", "all"), "L2 eviction fraction must be finite"),
        (("evict_first", 0.5, "evict_last"), "Unsupported L2 secondary eviction priority 'evict_last'"),
    ],
)
def test_wrong_fractional_policies(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FractionalEvictionPolicy(*fields)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({}, ValueError, "requires a cache modifier, L1 policy, L2 policy, or L2 prefetch size"),
        ({"cache_modifier": "cx"}, ValueError, "Unsupported cache modifier 'cx'"),
        ({"l1": "never"}, ValueError, "Unsupported L1 eviction priority 'never'"),
        ({"l2": "evict_first"}, TypeError, "l2 must be a FractionalEvictionPolicy"),
        ({"l2_prefetch_size": 32}, ValueError, "L2 prefetch size must be 64, 128, or 256"),
        ({"l2_prefetch_size": "64"}, ValueError, "L2 prefetch size must be 64, 128, or 256"),
    ],
)
def test_wrong_policies(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CachePolicy(**fields)


def test_policies_are_values() -> None:
    policy = CachePolicy(gl.constexpr(".cg"), l2=FractionalEvictionPolicy("evict_first", gl.constexpr(0.5)))
    assert policy == CachePolicy("cg", l2=HALF)
    assert hash(policy) == hash(CachePolicy("cg", l2=HALF))
    assert policy.cache_modifier == "cg"
    assert policy.mangle() == "CP_cg_none_FEP_evict_first_0x1d0000000000000pm1_evict_unchanged_FEP_none_CP"
    assert CachePolicy(l2_prefetch_size=128).mangle() == "CP_none_none_none_128_CP"


@glueball.jit
def copies(x, y, load: gl.constexpr, store: gl.constexpr, n, layout: gl.constexpr):
    place = gl.arange(0, 512, layout=layout)
    value = gl.load(x + place, mask=place < n, cache_policy=load)
    gl.store(y + place, value, cache_policy=store)


@pytest.mark.parametrize(
    ("load", "store", "loaded", "stored"),
    [
        (CachePolicy("ca"), CachePolicy("wb"), r"ld\.global\.ca\.v4", r"st\.global\.wb\.v4"),
        (CachePolicy(".cs"), CachePolicy("cs"), r"ld\.global\.cs\.v4", r"st\.global\.cs\.v4"),
        (
            CachePolicy(l1="no_allocate"), CachePolicy(l1="evict_unchanged"),
            r"ld\.global\.L1::no_allocate\.v4", r"st\.global\.L1::evict_unchanged\.v4",
        ),
        (
            CachePolicy(l2=HALF), CachePolicy("cg", l2=HALF),
            r"evict_first\.b64 policy, 0\.5;.*ld\.global\.L2::cache_hint\.v4\.b32 [^;]*, policy;",
            r"evict_first\.b64 policy, 0\.5;.*st\.global\.cg\.L2::cache_hint\.v4\.b32 [^;]*, policy;",
        ),
        (CachePolicy(l2_prefetch_size=256), None, r"ld\.global\.L2::256B\.v4", r"st\.global\.v4"),
        (
            CachePolicy(None, "evict_last", HALF, 64), CachePolicy(l1="evict_first", l2=HALF),
            r"ld\.global\.L1::evict_last\.L2::cache_hint\.L2::64B\.v4",
            r"st\.global\.L1::evict_first\.L2::cache_hint\.v4",
        ),
    ],
)  # fmt: skip
def test_loads_and_stores(load: Any, store: Any, loaded: str, stored: str) -> None:
    x = np.arange(512, dtype=np.float32)
    kernel = glueball.compile_only(copies, x, x, load, store, 512, LINE, target="sm_90a")
    assert re.search(loaded, kernel.asm["ptx"])
    assert re.search(stored, kernel.asm["ptx"])
    y = np.zeros_like(x)
    copies[(1,)](x, y, load, store, 512, LINE)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("load", "store", "message"),
    [
        (CachePolicy("wt"), None, "cache modifier '.wt' is not supported for loads"),
        (None, CachePolicy("ca"), "cache modifier '.ca' is not supported for stores"),
        (CachePolicy("cg", l1="evict_first"), None, "cache modifier cannot be combined with an L1 eviction priority"),
        (None, CachePolicy(l2_prefetch_size=64), "L2 prefetch size is only supported on loads"),
        (HALF, None, "cache_policy must be a CachePolicy"),
    ],
)
def test_policies_that_an_access_cannot_have(load: Any, store: Any, message: str) -> None:
    x = np.zeros(512, np.float32)
    with pytest.raises(CompilationError, match=message):
        glueball.compile_only(copies, x, x, load, store, 512, LINE, target="sm_90a")


def test_other_vendors_have_none() -> None:
    x = np.zeros(512, np.float32)
    layout = gl.BlockedLayout([4], [64], [2], [0])
    with pytest.raises(CompilationError, match="a CachePolicy of NVIDIA GPUs` needs sm_80"):
        glueball.compile_only(copies, x, x, CachePolicy("cg"), None, 512, layout, num_warps=2, target="gfx942")
