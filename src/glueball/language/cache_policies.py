"""How accesses use the caches of NVIDIA GPUs (PTX ISA, `createpolicy` and the cache operators)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from glueball.language.constexpr import _unwrap_if_constexpr

PRIORITIES = ("evict_normal", "evict_unchanged", "evict_first", "evict_last")
SECONDARY_PRIORITIES = ("evict_unchanged", "evict_first")
MODIFIERS = ("ca", "cg", "wb", "cs", "wt", "cv")
PREFETCH_SIZES = (64, 128, 256)


@dataclass(frozen=True, slots=True)
class FractionalEvictionPolicy:
    """A priority in the second-level cache for a fraction of the accesses, another one for the rest.

    Errors: `ValueError` for an unknown priority and a fraction that is no number in (0, 1].
    """

    primary: str
    fraction: float
    secondary: str = "evict_unchanged"

    def __post_init__(self) -> None:
        for name in ("primary", "fraction", "secondary"):
            object.__setattr__(self, name, _unwrap_if_constexpr(getattr(self, name)))
        _check_word("L2 primary eviction priority", self.primary, PRIORITIES)
        share: Any = self.fraction
        if not isinstance(share, int | float) or not math.isfinite(share):
            raise ValueError(f"L2 eviction fraction must be finite, not {share!r}")
        if not 0 < share <= 1:
            raise ValueError(f"L2 eviction fraction must be in (0, 1], not {share}")
        _check_word("L2 secondary eviction priority", self.secondary, SECONDARY_PRIORITIES)

    def mangle(self) -> str:
        """Text that identifies the policy, for a specialised function's name."""
        share = float(self.fraction).hex().replace(".", "d").replace("+", "p").replace("-", "m")
        return f"FEP_{self.primary}_{share}_{self.secondary}_FEP"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """A cache operator, priorities in the first and second level, and how much the second one prefetches.

    `cache_modifier` is one of ca, cg, wb, cs, wt, cv; `l1` is a priority or `no_allocate`, `l2` a
    `FractionalEvictionPolicy`, `l2_prefetch_size` 64, 128 or 256 bytes.
    Errors: `ValueError` for other values and where nothing is given; `TypeError` for an `l2` of another type.
    """

    cache_modifier: str | None = None
    l1: str | None = None
    l2: FractionalEvictionPolicy | None = None
    l2_prefetch_size: int | None = None

    def __post_init__(self) -> None:
        given = {name: _unwrap_if_constexpr(getattr(self, name)) for name in self.__slots__}
        if isinstance(given["cache_modifier"], str):
            given["cache_modifier"] = given["cache_modifier"].removeprefix(".")
        for name, value in given.items():
            object.__setattr__(self, name, value)
        if all(value is None for value in given.values()):
            raise ValueError("CachePolicy requires a cache modifier, L1 policy, L2 policy, or L2 prefetch size")
        if self.cache_modifier is not None:
            _check_word("cache modifier", self.cache_modifier, MODIFIERS)
        if self.l1 is not None:
            _check_word("L1 eviction priority", self.l1, (*PRIORITIES, "no_allocate"))
        if self.l2 is not None and not isinstance(self.l2, FractionalEvictionPolicy):
            raise TypeError(f"l2 must be a FractionalEvictionPolicy, not {self.l2!r}")
        if self.l2_prefetch_size is not None and self.l2_prefetch_size not in PREFETCH_SIZES:
            raise ValueError(f"L2 prefetch size must be 64, 128, or 256 bytes, not {self.l2_prefetch_size!r}")

    def mangle(self) -> str:
        """Text that identifies the policy, for a specialised function's name."""
        second = "none" if self.l2 is None else self.l2.mangle()
        parts = (self.cache_modifier or "none", self.l1 or "none", second, self.l2_prefetch_size or "none")
        return f"CP_{'_'.join(map(str, parts))}_CP"


def _check_word(what: str, word: Any, known: tuple[str, ...]) -> None:
    if word not in known:
        raise ValueError(f"Unsupported {what} {word!r}; there are {', '.join(known)}")


def bulk_policy(cache_policy: Any) -> FractionalEvictionPolicy | None:
    """The priority of a bulk copy. `ValueError` where the policy asks for more, `TypeError` for what is none."""
    policy = _unwrap_if_constexpr(cache_policy)
    if policy is None:
        return None
    if not isinstance(policy, CachePolicy):
        raise TypeError(f"TMA cache_policy must be a CachePolicy, not {policy!r}")
    if policy.cache_modifier is not None:
        raise ValueError("TMA operations do not support cache modifiers; they take a policy with `l2` alone")
    if policy.l1 is not None:
        raise ValueError("TMA operations do not support L1 eviction policies; they take a policy with `l2` alone")
    if policy.l2_prefetch_size is not None:
        raise ValueError("TMA operations do not support L2 prefetch size; they take a policy with `l2` alone")
    return policy.l2
