"""Linear maps over F2, every layout kind as one of them, conversion plans, access counts and pictures."""

from __future__ import annotations

from glueball.layouts.conversion import (
    ConversionPlan,
    Nothing,
    RegisterPermutation,
    SharedAccess,
    SharedRoundTrip,
    Shuffles,
    plan_conversion,
)
from glueball.layouts.display import svg
from glueball.layouts.distributed import (
    HARDWARE,
    BlockedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    LayoutType,
    SliceLayout,
    expand_dims_layout,
    permute_layout,
    to_distributed_linear,
)
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import GlobalAccess, global_access, shared_wavefronts, wavefronts
from glueball.layouts.shuffles import Exchange, ShuffleRound, Stage, ThreadFunction, WarpMoves
from glueball.layouts.strides import coalesced_layout

__all__ = [
    # maps and layouts
    "HARDWARE",
    "BlockedLayout",
    "DistributedLayout",
    "DistributedLinearLayout",
    "LayoutType",
    "LinearLayout",
    "SliceLayout",
    "coalesced_layout",
    "expand_dims_layout",
    "permute_layout",
    "to_distributed_linear",
    # conversions
    "ConversionPlan",
    "Exchange",
    "Nothing",
    "RegisterPermutation",
    "SharedAccess",
    "SharedRoundTrip",
    "ShuffleRound",
    "Shuffles",
    "Stage",
    "ThreadFunction",
    "WarpMoves",
    "plan_conversion",
    # access counts
    "GlobalAccess",
    "global_access",
    "shared_wavefronts",
    "wavefronts",
    # pictures
    "svg",
]
