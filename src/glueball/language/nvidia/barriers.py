"""Mbarriers: the layout of their words, and what threads do with them.

A word is in phase 0 once it is initialised, and in the next one whenever all arrivals of a phase have come, and all
bytes that were expected. A wait names the parity of a phase and ends when that phase is over: on a fresh word a wait
for phase 0 blocks, one for phase 1 does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.conversion import convert
from glueball.language.features import require
from glueball.language.nvidia.words import count_argument, phase_argument, predicate_argument, word_argument
from glueball.language.shared_memory import allocate_shared_memory, shared_memory_descriptor
from glueball.layouts import SwizzledSharedLayout
from glueball.tile.mbarriers import GREATEST_COUNT
from glueball.tile.types import int32, int64

MOST_CTAS = 16
"""CTAs of a cluster."""


class MBarrierLayout(SwizzledSharedLayout):
    """The layout of mbarriers: int64 words side by side, one for each CTA or group of CTAs that `cga_layout` tells."""

    __slots__ = ()

    def __init__(self, cga_layout: Sequence[Sequence[int]] | None = None) -> None:
        super().__init__(1, 1, 1, [0], cga_layout or ())

    @staticmethod
    def multicta(num_ctas: Any, two_cta: Any = False) -> MBarrierLayout:
        """One word a CTA, or one a pair of CTAs.

        Errors: `AssertionError` for a number that is no power of two up to 16, and for pairs of a single CTA.
        """
        ctas, pairs = _unwrap_if_constexpr(num_ctas), bool(_unwrap_if_constexpr(two_cta))
        assert isinstance(ctas, int) and ctas > 0 and not ctas & (ctas - 1), (
            f"num_ctas must be a power of two, not {ctas!r}"
        )
        assert ctas <= MOST_CTAS, f"num_ctas must be at most {MOST_CTAS}, not {ctas}"
        assert ctas > 1 or not pairs, f"num_ctas must be even for two-CTA mode, not {ctas}"
        bases = [[1 << bit] for bit in range(ctas.bit_length() - 1)]
        return MBarrierLayout([[0], *bases[:-1]] if pairs else bases)


@builtin
def allocate_mbarrier(
    batch: Any = None, two_ctas: Any = False, *, _builder: KernelBuilder = HIDDEN
) -> shared_memory_descriptor:
    """A word, or `batch` of them one after another to be told apart by `.index(i)`; not initialised yet."""
    layout = MBarrierLayout.multicta(_builder.num_ctas, two_ctas)
    words = _builder.num_ctas // (2 if _unwrap_if_constexpr(two_ctas) else 1)
    count = _unwrap_if_constexpr(batch)
    shape = [words] if count is None else [count_argument(count, "batch", 1, 1 << 16), words]
    return allocate_shared_memory(int64, shape, layout, _builder=_builder)


@builtin
def init(mbarrier: Any, count: Any, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Makes a word an mbarrier in phase 0 that takes `count` arrivals (1 to 2^20 - 1, known when compiled) a phase."""
    require(_builder, "async_copy", "mbarrier.init", "sm_80")
    word = word_argument(mbarrier, "mbarrier")
    _builder.create("mbarrier_init", [word.handle], [], {"count": count_argument(count, "count", 1, GREATEST_COUNT)})


@builtin
def invalidate(mbarrier: Any, *, _builder: KernelBuilder = HIDDEN) -> None:
    """The word is no mbarrier any more; only then may its memory serve for anything else, or be initialised again."""
    require(_builder, "async_copy", "mbarrier.invalidate", "sm_80")
    _builder.create("mbarrier_invalidate", [word_argument(mbarrier, "mbarrier").handle])


@builtin
def wait(mbarrier: Any, phase: Any, pred: Any = True, deps: Any = (), *, _builder: KernelBuilder = HIDDEN) -> None:
    """All threads wait until the phase of parity `phase` (0 or 1) is over; not at all where `pred` is false.

    `deps` are views that stay allocated until here.
    """
    require(_builder, "async_copy", "mbarrier.wait", "sm_80")
    word = word_argument(mbarrier, "mbarrier")
    parity = convert(phase_argument(phase, _builder), int32, _builder)
    predicate = predicate_argument(pred, "pred", _builder)
    operands = [word.handle, parity.handle, *(() if predicate is None else (predicate.handle,))]
    _builder.create("mbarrier_wait", operands)
    for view in _unwrap_if_constexpr(deps) or ():
        if isinstance(view, shared_memory_descriptor):
            _builder.create("keep_alive", [view.handle])


@builtin
def arrive(
    mbarrier: Any, *, count: Any = 1, pred: Any = True, from_cta: Any = None, _builder: KernelBuilder = HIDDEN
) -> None:
    """The threads of the partition arrive together, as `count` arrivals, once all of them have come here.

    In a cluster every CTA arrives, at its own mbarrier or that of the first CTA of its group. With `from_cta`, a mask
    of rank bits, CTAs whose other bits are zero arrive, each in all CTAs that differ from it in those only: with 0,
    the first CTA arrives in every one.
    """
    require(_builder, "bulk_copy", "mbarrier.arrive with a count", "sm_90")
    _arrive(_builder, mbarrier, count_argument(count, "count", 1, GREATEST_COUNT), pred, from_cta)


@builtin
def arrive_once(mbarrier: Any, *, pred: Any = True, from_cta: Any = None, _builder: KernelBuilder = HIDDEN) -> None:
    """The threads of the partition arrive together, as one arrival, once all of them have come here."""
    require(_builder, "async_copy", "mbarrier.arrive", "sm_80")
    _arrive(_builder, mbarrier, 1, pred, from_cta)


def _arrive(builder: KernelBuilder, mbarrier: Any, count: int, pred: Any, from_cta: Any) -> None:
    kept = _kept_bits(builder, from_cta)
    word, predicate = word_argument(mbarrier, "mbarrier"), predicate_argument(pred, "pred", builder)
    operands = [word.handle, *(() if predicate is None else (predicate.handle,))]
    builder.create("mbarrier_arrive", operands, [], {"count": count, **kept})


@builtin
def expect(
    mbarrier: Any,
    bytes_per_cta: Any = None,
    pred: Any = True,
    *,
    from_cta: Any = None,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """One arrival, and `bytes_per_cta` (given, and known at compile time) bytes more that the phase waits for.

    In a cluster every CTA arrives, or with `from_cta` as `arrive` says.
    """
    require(_builder, "bulk_copy", "mbarrier.expect", "sm_90")
    kept = _kept_bits(_builder, from_cta)
    word, predicate = word_argument(mbarrier, "mbarrier"), predicate_argument(pred, "pred", _builder)
    operands = [word.handle, *(() if predicate is None else (predicate.handle,))]
    size = count_argument(bytes_per_cta, "bytes_per_cta", 0, GREATEST_COUNT)
    _builder.create("mbarrier_expect", operands, [], {"bytes": size, **kept})


def _kept_bits(builder: KernelBuilder, from_cta: Any) -> dict[str, int]:
    """The attribute of a mask of rank bits; `ValueError` for one of CTAs that the launch does not have."""
    mask = _unwrap_if_constexpr(from_cta)
    if mask is None:
        return {}
    if isinstance(mask, bool) or not isinstance(mask, int) or not 0 <= mask < builder.num_ctas:
        raise ValueError(
            f"fromCTA must be in the range [0, num_ctas - 1]: a mask from 0 to {builder.num_ctas - 1}, not {mask!r}"
        )
    return {"from_cta": mask}
