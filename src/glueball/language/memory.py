"""Loads and stores of global memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glueball.language.broadcasting import broadcast_all, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.cache_policies import CachePolicy as HardwarePolicy
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import convert
from glueball.language.features import require
from glueball.language.tensor import tensor
from glueball.tile.operations.memory import EVICTION_POLICIES, LOAD_MODIFIERS, STORE_MODIFIERS
from glueball.tile.types import distributed_type, dtype, pointer_type


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How an access uses the caches, as a compile-time value for `load` and `store`, on every target.

    Loads take the modifiers `.ca .cg .cs .cv`, stores `.wb .cg .cs .wt`; eviction is `evict_first` or `evict_last`.
    Errors: `ValueError` for other strings, `TypeError` for what is no string.
    """

    cache_modifier: str = ""
    eviction_policy: str = ""

    def __init__(self, cache_modifier: Any = "", eviction_policy: Any = "") -> None:
        known = (*LOAD_MODIFIERS, *STORE_MODIFIERS)
        object.__setattr__(self, "cache_modifier", _word("cache modifier", cache_modifier, known))
        object.__setattr__(self, "eviction_policy", _word("eviction policy", eviction_policy, EVICTION_POLICIES))


def _word(what: str, value: Any, known: tuple[str, ...]) -> str:
    word = _unwrap_if_constexpr(value)
    if word is None:
        return ""
    if not isinstance(word, str):
        raise TypeError(f"the {what} must be a string, not {word!r}")
    if word not in known:
        raise ValueError(f"Unsupported {what} {word!r}; there are {', '.join(dict.fromkeys(filter(None, known)))}")
    return word


def one_policy(cache_modifier: Any, eviction_policy: Any, cache_policy: Any) -> CachePolicy | HardwarePolicy:
    """The policy that the arguments of an access spell. `AssertionError` for two, `TypeError` for what is none."""
    given = _unwrap_if_constexpr(cache_policy)
    if given is None:
        return CachePolicy(cache_modifier, eviction_policy)
    for name, word in (("cache_modifier", cache_modifier), ("eviction_policy", eviction_policy)):
        assert _unwrap_if_constexpr(word) is None, f"cache_policy and {name} are mutually exclusive"
    if not isinstance(given, CachePolicy | HardwarePolicy):
        raise TypeError(f"cache_policy must be a CachePolicy, not {given!r}")
    return given


def _policy_attributes(policy: CachePolicy | HardwarePolicy, access: str, builder: KernelBuilder) -> dict[str, Any]:
    """What a policy says of a load or a store, as attributes; `ValueError` for what the access does not have."""
    if isinstance(policy, CachePolicy):
        found: dict[str, Any] = {
            "cache_modifier": policy.cache_modifier,
            "eviction_policy": policy.eviction_policy,
        }
    else:
        require(builder, "async_copy", "a CachePolicy of NVIDIA GPUs", "sm_80")
        if policy.cache_modifier is not None and policy.l1 is not None:
            raise ValueError("cache modifier cannot be combined with an L1 eviction priority")
        found = {
            "cache_modifier": f".{policy.cache_modifier}" if policy.cache_modifier else "",
            "eviction_policy": policy.l1 or "",
            "cache_policy": policy.l2,
        }
        if policy.l2_prefetch_size is not None:
            if access != "load":
                raise ValueError("L2 prefetch size is only supported on loads")
            found["prefetch"] = policy.l2_prefetch_size
    supported = LOAD_MODIFIERS if access == "load" else STORE_MODIFIERS
    if found["cache_modifier"] not in supported:
        raise ValueError(
            f"the cache modifier '{found['cache_modifier']}' is not supported for {access}s; there are "
            f"{', '.join(filter(None, supported))}"
        )
    return found


def pointer_argument(pointer: Any, access: str) -> tuple[tensor, dtype]:
    """An argument that is a pointer or tile of pointers, and the type of what it points to; `ValueError` otherwise."""
    if not isinstance(pointer, tensor) or not isinstance(pointer.dtype, pointer_type):
        raise ValueError(
            f"Unsupported ptr type {getattr(pointer, 'type', pointer)} in `gl.{access}`: pointers are "
            "needed, such as an array's parameter plus offsets"
        )
    return pointer, pointer.dtype.element_ty


def mask_argument(mask: Any, builder: KernelBuilder) -> tensor | None:
    """A mask, None where it lets everything through; `ValueError` where it is not boolean."""
    mask = _unwrap_if_constexpr(mask)
    if mask is None or mask is True:
        return None
    value = to_operand(mask, builder)
    if not value.dtype.is_bool():
        raise ValueError(f"a mask must be boolean (int1), not {value.dtype}; compare it with 0")
    return value


def scalar_access(pointer: tensor, **others: tensor | None) -> None:
    """Check that nothing that goes with a scalar pointer is a tile; `ValueError` otherwise."""
    if isinstance(pointer.type, distributed_type):
        return
    for name, value in others.items():
        if value is not None and isinstance(value.type, distributed_type):
            raise ValueError(
                f"`{name}` cannot be block type if pointer argument is not a block; add a tile of offsets to the "
                "pointer"
            )


@builtin
def load(
    pointer: tensor,
    mask: Any = None,
    other: Any = None,
    *,
    cache_modifier: str | constexpr | None = None,
    eviction_policy: str | constexpr | None = None,
    volatile: bool | constexpr = False,
    cache_policy: CachePolicy | HardwarePolicy | constexpr | None = None,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The elements that a pointer, or tile of pointers, points to, with the pointer's shape and layout.

    `mask` (int1) says which elements are read; the others are `other`, or undefined without it. Pointer, mask and
    `other` broadcast against each other. Elements of int1 are bytes in memory, true where not zero.
    Errors: `ValueError` for what is no pointer, a mask that is not boolean, `other` without `mask`, a tile as mask of
    a scalar pointer, unknown cache or eviction words; `AssertionError` for `cache_policy` beside those words;
    `LayoutError` where mask and pointer are placed differently.
    """
    address, element = pointer_argument(pointer, "load")
    policy = _policy_attributes(one_policy(cache_modifier, eviction_policy, cache_policy), "load", _builder)
    other = _unwrap_if_constexpr(other)
    if other is not None and _unwrap_if_constexpr(mask) is None:
        raise ValueError(
            "`other` cannot be provided without `mask`: it stands for the elements that the mask leaves out"
        )
    chosen = mask_argument(mask, _builder)
    operands = [address] if chosen is None else [address, chosen]
    if chosen is not None and other is not None:
        default = convert(to_operand(other, _builder), element, _builder)
        operands.append(default)
        scalar_access(address, other=default)
    scalar_access(address, mask=chosen)
    operands = broadcast_all(operands, _builder)
    return _builder.emit(
        "load",
        operands,
        operands[0].type.with_element_ty(element),
        **policy,
        volatile=bool(_unwrap_if_constexpr(volatile)),
    )


@builtin
def store(
    pointer: tensor,
    value: Any,
    mask: Any = None,
    *,
    cache_modifier: str | constexpr | None = None,
    eviction_policy: str | constexpr | None = None,
    cache_policy: CachePolicy | HardwarePolicy | constexpr | None = None,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Write a value to where a pointer, or tile of pointers, points to, except where `mask` (int1) is false.

    The value is converted to the element type; value and mask broadcast to the pointer's shape. Where the layout
    holds an element several times, one holder writes it.
    Errors: as `load`; `ValueError` also for a constant pointer and where the pointer would have to grow.
    """
    address, element = pointer_argument(pointer, "store")
    assert isinstance(address.dtype, pointer_type)
    if address.dtype.const:
        raise ValueError("Cannot store to a constant pointer: its parameter is annotated or described as const")
    policy = _policy_attributes(one_policy(cache_modifier, eviction_policy, cache_policy), "store", _builder)
    chosen = mask_argument(mask, _builder)
    data = convert(to_operand(value, _builder), element, _builder)
    scalar_access(address, value=data, mask=chosen)
    operands = broadcast_all([address, data] if chosen is None else [address, data, chosen], _builder)
    if operands[0].extents != address.extents:
        raise ValueError(
            f"Expected pointer argument to have shape {operands[0].extents}, but it has {address.extents}: "
            "the pointer of a store does not broadcast"
        )
    _builder.create(
        "store",
        [operand.handle for operand in operands],
        attributes=policy,
    )
