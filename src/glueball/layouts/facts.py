"""What a layout costs, as short sentences: registers, copies, global accesses, shared accesses, conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from glueball.layouts.banks import SharedMemory, TileAccess, tile_access
from glueball.layouts.base import DistributedLayout, SharedLayout
from glueball.layouts.budget import register_budget
from glueball.layouts.conversion import plan_conversion
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import GlobalAccess, bytes_of, global_access
from glueball.layouts.padded import PaddedSharedLayout
from glueball.layouts.plans import ConversionPlan
from glueball.targets import Target

Facts = dict[str, str]


def dense_strides(shape: Sequence[int], order: Literal["row", "column"] = "row") -> list[int]:
    """Strides in elements of a dense tensor whose last dimension ("row") or first one ("column") is contiguous."""
    strides, step = [0] * len(shape), 1
    axes = range(len(shape))
    for axis in reversed(axes) if order == "row" else axes:
        strides[axis] = step
        step *= shape[axis]
    return strides


def register_facts(layout: LinearLayout, element_bits: int, strides: Sequence[int]) -> Facts:
    """Registers, copies, and the global access of a tensor with these strides (in elements)."""
    budget = register_budget(layout, element_bits)
    held, words = budget.elements, budget.registers
    copies = ["none: every element is held once"]
    if budget.holders > 1 or budget.copies:
        copies = [f"every element is held by {budget.holders} threads"] if budget.holders > 1 else []
        copies += [f"{budget.copies} elements of a thread are copies"] if budget.copies else []
    facts = {
        "registers": f"{held} element{'s' * (held != 1)} a thread, {words} register{'s' * (words != 1)} of 32 bits",
        "copies": ", ".join(copies),
    }
    load = global_access(layout, strides, element_bits)
    store = global_access(layout, strides, element_bits, store=True)
    facts["global load" if store != load else "global access"] = _access(layout, load, element_bits)
    if store != load:
        facts["global store"] = _access(layout, store, element_bits)
    return facts


def plan_on(target: Target, source: LinearLayout, destination: LinearLayout, element_bits: int) -> ConversionPlan:
    """How a tensor gets from one layout to another on a target."""
    return plan_conversion(
        source,
        destination,
        element_bits,
        banks=target.shared_banks,
        shared_bytes=target.shared_bytes,
        matrix_loads=target.supports("load_matrix"),
        matrix_stores=target.supports("store_matrix"),
    )


def conversion_facts(plan: ConversionPlan) -> Facts:
    """How a tensor gets from one layout to another."""
    facts = {"conversion": plan.describe()}
    if not plan.is_trivial:
        counts = (
            f"{plan.instructions} instructions a thread",
            f"{plan.shuffles} shuffles",
            f"{plan.shared_bytes} bytes of shared memory",
            f"{plan.wavefronts_write} + {plan.wavefronts_read} wavefronts a warp",
        )
        facts["its cost"] = ", ".join(counts)
    return facts


def shared_facts(layout: SharedLayout, shape: Sequence[int], element_bits: int) -> Facts:
    """Size and alignment of a tensor in shared memory."""
    linear = layout.linear(shape)
    elements = linear.size("offset") * linear.size("partition")
    if isinstance(layout, PaddedSharedLayout):
        elements = layout.allocated_elements()
    size = elements * bytes_of(element_bits)
    return {"shared memory": f"{size} bytes a CTA, aligned to {layout.alignment}"}


def traffic_facts(
    layout: DistributedLayout,
    shared: SharedLayout,
    shape: tuple[int, ...],
    element_bits: int,
    memory: SharedMemory | None = None,
) -> Facts:
    """Bank conflicts of the accesses to a shared tile by registers of a layout."""
    load, store = (
        tile_access(layout, shared, shape, element_bits, memory=memory, store=store) for store in (False, True)
    )
    if load == store:
        return {"shared access": _traffic(load, layout.warps, element_bits)}
    return {
        "shared load": _traffic(load, layout.warps, element_bits),
        "shared store": _traffic(store, layout.warps, element_bits),
    }


def _access(layout: LinearLayout, access: GlobalAccess, element_bits: int) -> str:
    warps = layout.size("warp") * layout.size("block")
    width = access.vector_elements * bytes_of(element_bits)
    each, sectors = access.requests / warps, access.sectors_per_request
    return (
        f"{width} bytes a lane, {each:g} request{'s' * (each != 1)} a warp, "
        f"{sectors:g} sector{'s' * (sectors != 1)} a request, {100 * access.efficiency:.3g} % of their bytes used"
    )


def _traffic(access: TileAccess, warps: int, element_bits: int) -> str:
    width = access.vector_elements * bytes_of(element_bits)
    count = access.instructions // warps
    accesses = f"{count} access{'es' * (count != 1)} in {access.wavefronts / warps:g} wavefronts a warp"
    text = f"{width} bytes a lane, {accesses}"
    if access.wavefronts == access.least:
        return f"{text}: no bank conflicts"
    return f"{text}: bank conflicts, {access.least // warps} would do without"
