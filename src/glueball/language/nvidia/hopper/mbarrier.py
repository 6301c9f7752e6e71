"""Barriers in shared memory that count arrivals and bytes, phase by phase (PTX ISA, `mbarrier`)."""

from __future__ import annotations

from glueball.language.module_names import missing
from glueball.language.nvidia.barriers import MBarrierLayout, allocate_mbarrier, arrive, expect, init, invalidate, wait

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]

__getattr__ = missing(__name__, __all__)
