"""Copies from global to shared memory that run while the threads go on (PTX ISA, `cp.async`)."""

from __future__ import annotations

from typing import Any

from glueball.language.broadcasting import broadcast_all
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.cache_policies import MODIFIERS, PRIORITIES, FractionalEvictionPolicy
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require
from glueball.language.memory import CachePolicy as PlainPolicy
from glueball.language.memory import mask_argument, one_policy, pointer_argument
from glueball.language.module_names import missing, removed
from glueball.language.nvidia.words import word_argument
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor

async_copy_global_to_shared = removed(__name__, "async_copy_global_to_shared", "async_load")


@builtin
def async_load(
    smem: shared_memory_descriptor,
    pointer: tensor,
    mask: Any = None,
    cache_modifier: Any = None,
    eviction_policy: Any = None,
    volatile: Any = False,
    cache_policy: Any = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Starts to copy what a tile of pointers points to into a view of the same shape and element type.

    Where `mask` (int1, broadcast against the pointers) is false, zeros are written. The view may be read once the copy
    was waited for, by `wait_group` or by an mbarrier. A thread copies 4, 8 or 16 bytes at a time: as many elements as
    lie side by side in its registers, in global memory (by what is known of the pointers and the mask) and in the view.
    Of the cache words only `ca` (keep 16-byte copies in the first level too) and those of the second level matter;
    there is no volatile form.
    Errors: `ValueError` for what is no view, another shape, elements of another width, unknown cache words;
    `AssertionError` for `cache_policy` beside such words; `CompilationError` where a thread would copy fewer than 4
    bytes at a time.
    """
    require(_builder, "async_copy", "async_copy.async_load", "sm_80")
    if not isinstance(smem, shared_memory_descriptor):
        raise ValueError(f"expected 'smem' to be a view of shared memory, but got {_unwrap_if_constexpr(smem)!r}")
    address, element = pointer_argument(pointer, "async_load")
    if tuple(address.extents) != smem.type.shape:
        raise ValueError(
            f"expected smem shape to match pointer shape but got smem.shape = {list(smem.type.shape)}, pointer.shape = "
            f"{address.extents}"
        )
    if element.primitive_bitwidth != smem.dtype.primitive_bitwidth:
        raise ValueError(f"expected smem dtype to match pointer dtype but got {smem.dtype} and {element}")
    chosen = mask_argument(mask, _builder)
    operands = [address] if chosen is None else broadcast_all([address, chosen], _builder)
    if operands[0].extents != address.extents:
        raise ValueError(f"expected smem shape to match pointer shape but the mask makes it {operands[0].extents}")
    attributes = _cache_attributes(cache_modifier, eviction_policy, cache_policy)
    _builder.create("async_copy", [smem.handle, *(operand.handle for operand in operands)], [], attributes)


def _cache_attributes(cache_modifier: Any, eviction_policy: Any, cache_policy: Any) -> dict[str, Any]:
    """What the cache words say of a copy, as attributes."""
    if _unwrap_if_constexpr(cache_policy) is None:
        modifier, eviction = _unwrap_if_constexpr(cache_modifier) or "", _unwrap_if_constexpr(eviction_policy) or ""
        if str(modifier).removeprefix(".") not in ("", *MODIFIERS):
            raise ValueError(f"Unsupported cache modifier {modifier!r}; there are {', '.join(MODIFIERS)}")
        if eviction not in ("", *PRIORITIES):
            raise ValueError(f"Unsupported eviction policy {eviction!r}; there are {', '.join(PRIORITIES)}")
        return _attributes(modifier, eviction)
    policy = one_policy(cache_modifier, eviction_policy, cache_policy)
    if isinstance(policy, PlainPolicy):
        return _attributes(policy.cache_modifier, policy.eviction_policy)
    found = _attributes(policy.cache_modifier or "", "")
    return {**found, "cache_policy": policy.l2, "prefetch": policy.l2_prefetch_size}


def _attributes(modifier: str, eviction: str) -> dict[str, Any]:
    second = FractionalEvictionPolicy(eviction, 1.0) if eviction not in ("", "evict_normal") else None
    modifier = ".ca" if modifier.removeprefix(".") == "ca" else ""
    return {"cache_modifier": modifier, "cache_policy": second, "prefetch": None}


@builtin
def commit_group(*, _builder: KernelBuilder = HIDDEN) -> None:
    """The copies that each thread has started since its last `commit_group` become its next group."""
    require(_builder, "async_copy", "async_copy.commit_group", "sm_80")
    _builder.create("async_copy_commit")


@builtin
def wait_group(num_outstanding: Any = 0, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Each thread waits until at most its latest `num_outstanding` groups are under way.

    Errors: `ValueError` for what is no compile-time integer from 0 on.
    """
    require(_builder, "async_copy", "async_copy.wait_group", "sm_80")
    pending = _unwrap_if_constexpr(num_outstanding)
    if isinstance(pending, bool) or not isinstance(pending, int) or pending < 0:
        raise ValueError(f"num_outstanding must be an int from 0 on, known at compile time, not {pending!r}")
    _builder.create("async_copy_wait", attributes={"pending": pending})


@builtin
def mbarrier_arrive(mbarrier: Any, increment_count: Any = True, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Every thread arrives at an mbarrier once all copies that it has started are done.

    With `increment_count` an arrival more becomes due for each thread, so that the count given to `init` is that of
    other arrivals; without, each thread's arrival is one of those.
    """
    require(_builder, "async_copy", "async_copy.mbarrier_arrive", "sm_80")
    word = word_argument(mbarrier, "mbarrier")
    attributes = {
        "increment": bool(_unwrap_if_constexpr(increment_count)),
        "threads": _builder.num_warps * _builder.target.lanes,
    }
    _builder.create("mbarrier_copy_arrive", [word.handle], [], attributes)


__all__ = ["async_copy_global_to_shared", "async_load", "commit_group", "mbarrier_arrive", "wait_group"]

__getattr__ = missing(__name__, __all__)
