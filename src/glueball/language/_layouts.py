"""Layouts, by the path that some programs import them from."""

from __future__ import annotations

from glueball.layouts import (
    AutoLayout,
    BlockedLayout,
    CoalescedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
)

__all__ = [
    "AutoLayout", "BlockedLayout", "CoalescedLayout", "DistributedLayout", "DistributedLinearLayout",
    "DotOperandLayout", "NVMMADistributedLayout", "NVMMASharedLayout", "PaddedSharedLayout", "SharedLayout",
    "SharedLinearLayout", "SliceLayout", "SwizzledSharedLayout",
]  # fmt: skip
