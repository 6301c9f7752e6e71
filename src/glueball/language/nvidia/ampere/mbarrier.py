"""Barriers in shared memory that count arrivals, phase by phase (PTX ISA, `mbarrier`)."""

from __future__ import annotations

from glueball.language.module_names import missing
from glueball.language.nvidia.barriers import MBarrierLayout, allocate_mbarrier, arrive_once, init, invalidate, wait

arrive = arrive_once

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "init", "invalidate", "wait"]

__getattr__ = missing(__name__, __all__)
