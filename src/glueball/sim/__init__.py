"""The simulator: thread IR executed for all lanes of many blocks at once in NumPy, each access checked and counted."""

from __future__ import annotations

from glueball.sim.counters import Counts, InstructionCounts, Report
from glueball.sim.engine import run
from glueball.sim.memory import HostArray

__all__ = ["Counts", "HostArray", "InstructionCounts", "Report", "run"]
