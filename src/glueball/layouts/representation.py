"""How a layout shows itself in a notebook: its spelling, a picture on a tensor that suits it, and what it costs."""

from __future__ import annotations

import dataclasses
import html
import inspect
import math
from typing import Any

from glueball.errors import LayoutError
from glueball.layouts.base import DistributedLayout, Layout, SharedLayout
from glueball.layouts.distributed import BlockedLayout, SliceLayout
from glueball.layouts.drawing import svg
from glueball.layouts.facts import dense_strides, register_facts, shared_facts
from glueball.layouts.shared import NVMMASharedLayout, SwizzledSharedLayout
from glueball.layouts.tiles import cta_counts

ELEMENT_BITS = 32
FEWEST, LARGE = 8, 1 << 12
"""Extents: the least of a picture of shared memory, and one that no layout's tile reaches."""


def spelled(value: Any) -> str:
    """A layout as one would write it, with lists for tuples and without the fields that have their default."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(spelled, value))}]"
    if not dataclasses.is_dataclass(value):
        return repr(value)
    parameters = inspect.signature(type(value)).parameters
    given = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    parts = [f"{name}={spelled(own)}" for name, own in given if own != parameters[name].default]
    return f"{type(value).__name__}({', '.join(parts)})"


def natural_shape(layout: Layout) -> tuple[int, ...]:
    """A shape on which a layout shows what it does: one tile of it.

    Raises LayoutError for layouts that have none: of tensor memory, in partitions, or not resolved yet.
    """
    own: tuple[int, ...] | None = getattr(layout, "shape", None)
    if own is not None:
        return own
    counts = cta_counts(layout.cga_layout, layout.rank)
    match layout:
        case BlockedLayout():
            sizes = zip(layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, counts, strict=True)
            return tuple(map(math.prod, sizes))
        case SliceLayout():
            shape = natural_shape(layout.parent)
            return shape[: layout.dim] + shape[layout.dim + 1 :]
        case DistributedLayout():
            bases = layout.linear((LARGE,) * layout.rank).bases
            vectors = [vector for name in ("lane", "warp") for vector in bases[name]]
            reach = [max(column) for column in zip(*vectors, strict=True)]
            return tuple(count << value.bit_length() for value, count in zip(reach, counts, strict=True))
        case SwizzledSharedLayout() if sorted(layout.order) == list(range(layout.rank)) and layout.rank > 0:
            extents = [1] * layout.rank
            extents[layout.order[0]] = max(FEWEST, layout.vec * layout.max_phase)
            if layout.rank > 1:
                extents[layout.order[1]] = max(FEWEST, layout.per_phase * layout.max_phase)
        case NVMMASharedLayout():
            extents = [1] * (layout.rank - 1) + [max(16, layout.swizzle_byte_width) * 8 // layout.element_bitwidth]
            if layout.rank > 1:
                extents[-2] = FEWEST
            extents = extents[-1:] + extents[:-1] if layout.transposed else extents
        case _:
            raise LayoutError(f"{type(layout).__name__} cannot be visualized")
    return tuple(extent * count for extent, count in zip(extents, counts, strict=True))


def picture(layout: Layout) -> str | None:
    """The layout on its natural shape as SVG; None where there is no picture or it would be too large."""
    try:
        return svg(layout, natural_shape(layout), element_bits=_element_bits(layout))
    except LayoutError:
        return None


def document(layout: Layout) -> str | None:
    """The spelling, the picture and the costs as HTML; None where there is no picture."""
    drawn = picture(layout)
    if drawn is None:
        return None
    shape, width = natural_shape(layout), _element_bits(layout)
    if isinstance(layout, DistributedLayout):
        facts = register_facts(layout.linear(shape), width, dense_strides(shape))
    elif isinstance(layout, SharedLayout):
        facts = shared_facts(layout, shape, width)
    heading = f"<code>{html.escape(spelled(layout))}</code> on {' x '.join(map(str, shape))}, {width}-bit elements"
    rows = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in facts.items())
    return f'<div><p>{heading}</p><div style="overflow:auto">{drawn}</div><table>{rows}</table></div>'


def _element_bits(layout: Layout) -> int:
    return layout.element_bitwidth if isinstance(layout, NVMMASharedLayout) else ELEMENT_BITS
