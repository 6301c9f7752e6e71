"""What remembers what a launch does and finds the faults in it: the sanitizer, on or off.

Off, all that looks back is a stand-in that remembers nothing. What an instruction can tell by itself stays: bounds and
alignment, threads that do not come together, the state of mbarriers. So nothing but the arrays can be changed, and what
waits for ever is still a deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass

from glueball.sim import unchecked
from glueball.sim.clocks import Clocks
from glueball.sim.overflows import Overflows
from glueball.sim.poison import PoisonAnalysis
from glueball.sim.shadow import Shadow
from glueball.sim.transfers import Transfers
from glueball.sim.warpgroup import Products


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """The classes of what checks: `shadow`, `clocks`, `transfers`, `poison`, `overflows` and `products`."""

    shadow: type[Shadow]
    clocks: type[Clocks]
    transfers: type[Transfers]
    poison: type[PoisonAnalysis]
    overflows: type[Overflows]
    products: type[Products]


CHECKED = Sanitizer(Shadow, Clocks, Transfers, PoisonAnalysis, Overflows, Products)
UNCHECKED = Sanitizer(
    unchecked.NoShadow,
    unchecked.NoClocks,
    unchecked.NoTransfers,
    unchecked.NoPoison,
    unchecked.NoOverflows,
    unchecked.UnwatchedProducts,
)
