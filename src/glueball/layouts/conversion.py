"""How a tensor gets from one distributed layout to another in the cheapest way."""

from __future__ import annotations

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import bytes_of
from glueball.layouts.plans import (
    BARRIER_SLOTS,
    BARRIERS_PER_ROUND,
    ConversionPlan,
    Nothing,
    RegisterPermutation,
    Shuffles,
)
from glueball.layouts.round_trips import Request, plan_round_trip
from glueball.layouts.shuffles import plan_moves


def plan_conversion(
    source: LinearLayout,
    destination: LinearLayout,
    element_bits: int,
    *,
    banks: int = 32,
    shared_bytes: int,
    matrix_loads: bool = False,
    matrix_stores: bool = False,
    in_place: bool = False,
) -> ConversionPlan:
    """The cheapest way from one layout of a tensor to another.

    A tensor that takes more than `shared_bytes` of shared memory goes through it piece by piece. `matrix_loads` and
    `matrix_stores` say whether the target has ldmatrix and stmatrix, `in_place` that register i of the result is
    register i of the source when the conversion is done again, as in a loop: of equally cheap ways, the one is taken
    after which the fewest registers have to be moved. Raises LayoutError where the layouts are not of the same shape,
    lanes, warps and CTAs, or where data must leave its warp and not even one element fits in `shared_bytes`.
    """
    _check_comparable(source, destination)
    if all(source.flat_bases(name) == destination.flat_bases(name) for name in ("lane", "warp", "block")):
        if source.flat_bases("register") == destination.flat_bases("register"):
            return Nothing()
        renaming = _rename_registers(source, destination)
        if renaming is not None:
            return renaming
    request = Request(source, destination, bytes_of(element_bits), banks, matrix_loads, matrix_stores, in_place)
    moves = None if request.other_parts else plan_moves(source, destination, element_bits)
    inside = None if moves is None else Shuffles(moves, element_bits)
    if inside is not None:
        fits = shared_bytes >= request.element_bytes
        if not fits or inside.issue_slots <= BARRIER_SLOTS * BARRIERS_PER_ROUND:
            return inside
    elif shared_bytes < request.element_bytes:
        raise LayoutError(
            f"converting this layout of a tensor of shape {list(source.shape)} moves data between warps, which takes "
            f"at least {request.element_bytes} bytes of shared memory, and {max(0, shared_bytes)} are available"
        )
    through_shared = plan_round_trip(request, shared_bytes)
    if inside is not None and inside.issue_slots <= through_shared.issue_slots:
        return inside
    return through_shared


def _check_comparable(source: LinearLayout, destination: LinearLayout) -> None:
    if source.shape != destination.shape:
        raise LayoutError(f"cannot convert a tensor of {list(source.shape)} into one of {list(destination.shape)}")
    for name, what in (("lane", "lanes in a warp"), ("warp", "warps"), ("block", "CTAs")):
        if source.bits(name) != destination.bits(name):
            raise LayoutError(
                f"cannot convert between layouts of {source.size(name)} and of {destination.size(name)} {what}"
            )
    for layout in (source, destination):
        if not layout.is_surjective():
            raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements:\n{layout}")


def _rename_registers(source: LinearLayout, destination: LinearLayout) -> RegisterPermutation | None:
    held = f2.Echelon(source.flat_bases("register"))
    columns = [held.solve(basis) for basis in destination.flat_bases("register")]
    found = [column for column in columns if column is not None]
    if len(found) < len(columns):
        return None
    return RegisterPermutation(tuple(f2.apply(found, index) for index in range(1 << len(found))))
