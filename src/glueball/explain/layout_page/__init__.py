"""One self-contained HTML page on which a layout is seen, pointed at and edited.

The page holds bases, not elements, and has its own arithmetic over F2 (`algebra.js`): its size does not depend on the
tensor's. It loads nothing.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Literal

from glueball.errors import LayoutError
from glueball.layouts import (
    HARDWARE,
    BlockedLayout,
    DistributedLayout,
    Layout,
    LinearLayout,
    PaddedSharedLayout,
    SharedLayout,
    SharedMemory,
    SharedRoundTrip,
    SwizzledSharedLayout,
    coalesced_layout,
)
from glueball.layouts.facts import dense_strides, plan_on
from glueball.layouts.memory import VECTOR_BYTES
from glueball.layouts.representation import spelled
from glueball.targets import DEFAULT_TARGET, Target

DEFAULT_WARPS = 4
ORDERS: tuple[Literal["row", "column"], ...] = ("row", "column")


def layout_page(
    layout: Layout,
    shape: Sequence[int],
    *,
    element_bits: int = 32,
    strides: Sequence[int] | None = None,
    convert_to: Layout | None = None,
    target: Target = DEFAULT_TARGET,
    view: str = "tensor",
) -> str:
    """The text of an HTML page about a layout of a tensor of `shape`.

    `strides`, in elements, say how the tensor lies in global memory, by default row by row. With `convert_to`, another
    layout of registers, the page shows both sides of the conversion and, where there is one, the tile in shared memory
    between them; a layout of registers and one of shared memory may stand in either place. `view` is what is shown
    first: "tensor", "hardware", or "shared".

    Raises LayoutError for layouts that have no such page: of tensor memory, in partitions, or not resolved yet.
    """
    given = [one for one in (layout, convert_to) if one is not None]
    sides = [one for one in given if isinstance(one, DistributedLayout)]
    tiles = [one for one in given if isinstance(one, SharedLayout)]
    if len(sides) + len(tiles) < len(given) or len(tiles) > 1:
        kinds = " and ".join(type(one).__name__ for one in given)
        raise LayoutError(f"there is no page about {kinds}: one or two layouts of registers, or one of shared memory")
    given_strides = dense_strides(shape) if strides is None else list(strides)
    if not sides:
        lanes = target.lanes
        sides = [coalesced_layout(shape, given_strides, element_bits, DEFAULT_WARPS, lanes=lanes, vector="widest")]
    linear = [side.linear(shape) for side in sides]
    plan, tile = None, None
    if len(linear) == 2:
        plan = plan_on(target, linear[0], linear[1], element_bits)
        # Where the tensor goes through shared memory piece by piece, no single tile stands between the two.
        tile = plan.tile if isinstance(plan, SharedRoundTrip) and plan.rounds == 1 else None
    dense = SwizzledSharedLayout(1, 1, 1, list(reversed(range(len(shape)))))
    orders = [name for name in ORDERS if dense_strides(shape, name) == given_strides]
    shared = _shared_bases(tile) if tile else _shared(tiles[0] if tiles else dense, shape)
    memories = _memories(target)
    model = {
        "target": target.name,
        "lanes": target.lanes,
        "memories": memories,
        "view": "shared" if isinstance(layout, SharedLayout) and view != "hardware" else view,
        "plan": f"Conversion {plan.describe()}." if plan else "",
        "blocked": _blocked_fields(coalesced_layout(shape, given_strides, element_bits, DEFAULT_WARPS)),
        "swizzled": _swizzled_fields(dense),
        "state": {
            "shape": list(shape),
            "elementBits": element_bits,
            "order": orders[0] if orders else "custom",
            "stridesText": ", ".join(map(str, given_strides)),
            "memory": [memory["banks"] for memory in memories].index(target.shared_banks),
            "side": 0,
            "sides": [_side(side, bases) for side, bases in zip(sides, linear, strict=True)],
            "shared": shared,
        },
    }
    return _filled(f"{type(layout).__name__} of {'x'.join(map(str, shape))}", model)


def _filled(title: str, model: dict[str, Any]) -> str:
    """The page with its parts in place."""
    folder = files(__name__)

    def part(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8").rstrip("\n")

    # A script element ends at "</", wherever it stands.
    data = json.dumps(model, separators=(",", ":")).replace("<", "\\u003c")
    page = part("page.html") + "\n"
    for marker, text in (
        ("@TITLE@", html.escape(title)),
        ("@STYLE@", part("page.css")),
        ("@ALGEBRA@", part("algebra.js")),
        ("@BOARD@", part("board.js")),
        ("@PAGE@", part("page.js")),
        ("@MODEL@", data),
    ):
        page = page.replace(marker, text, 1)
    return page


def _memories(target: Target) -> list[dict[str, Any]]:
    """The kinds of shared memory to choose from, a target's own rules first where it has any.

    `groups` are the lanes that 16-byte reads are served in, where those are not consecutive.
    """
    plain = [{"name": f"{banks} banks", "banks": banks, "groups": None} for banks in (32, 64)]
    own = SharedMemory.of(target)
    if not own.grouped_reads:
        return plain
    name = f"{target.name}: {own.banks} banks"
    return [{"name": name, "banks": own.banks, "groups": own.phases(VECTOR_BYTES)}, *plain]


def _bases_text(linear: LinearLayout, names: Sequence[str]) -> str:
    """One line per input dimension, as the page's text fields have them."""
    lines = []
    for name in names:
        vectors = " ".join("[" + ",".join(map(str, vector)) + "]" for vector in linear.bases.get(name, []))
        lines.append(f"{name}: {vectors}".rstrip())
    return "\n".join(lines)


def _side(layout: DistributedLayout, linear: LinearLayout) -> dict[str, Any]:
    blocked = isinstance(layout, BlockedLayout)
    return {
        "kind": "blocked" if blocked else "bases",
        "fields": _blocked_fields(layout) if isinstance(layout, BlockedLayout) else None,
        "text": _bases_text(linear, HARDWARE),
        "spelling": "" if blocked else spelled(layout),
    }


def _blocked_fields(layout: BlockedLayout) -> dict[str, Any]:
    return {
        "sizePerThread": layout.size_per_thread,
        "threadsPerWarp": layout.threads_per_warp,
        "warpsPerCta": layout.warps_per_cta,
        "order": layout.order,
        "ctas": layout.cga_layout,
    }


def _swizzled_fields(layout: SwizzledSharedLayout) -> dict[str, Any]:
    return {
        "vec": layout.vec,
        "perPhase": layout.per_phase,
        "maxPhase": layout.max_phase,
        "order": layout.order,
        "ctas": layout.cga_layout,
    }


def _shared(layout: SharedLayout, shape: Sequence[int]) -> dict[str, Any]:
    linear = layout.linear(shape)
    if set(linear.inputs) != {"offset", "block"}:
        raise LayoutError(f"there is no page about {type(layout).__name__}")
    result = _shared_bases(linear)
    if isinstance(layout, SwizzledSharedLayout):
        result |= {"kind": "swizzled", "fields": _swizzled_fields(layout)}
    if isinstance(layout, PaddedSharedLayout):
        result["padding"] = ", ".join(f"{interval}:{padding}" for interval, padding in layout.interval_padding_pairs)
    return result


def _shared_bases(linear: LinearLayout) -> dict[str, Any]:
    return {"kind": "bases", "fields": None, "text": _bases_text(linear, ("offset", "block")), "padding": ""}
