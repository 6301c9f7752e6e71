"""Shared memory as the author allocates it: views are addresses, tiles move through them in the widest vectors.

A view is two registers: `base`, its first byte in its group of allocations, and `mixed`, the offset in elements that
slices have added. Both are literals where control flow does not change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from glueball.errors import LayoutError
from glueball.layouts import LinearLayout, f2
from glueball.layouts.matrix_moves import MatrixMoves
from glueball.lower.context import Context, lowers
from glueball.lower.linear import linear_combination, span, split_constant, thread_offset
from glueball.lower.memory import as_register, as_stored, idle_mask, memory_type, read_shared
from glueball.lower.terms import Term, add_terms, conjunction, element_type, materialize, multiply_terms
from glueball.thread import conversion, memory, shared_atomics
from glueball.thread.builder import Builder
from glueball.thread.ir import SharedAllocation, Value
from glueball.thread.nvidia import matrix_moves as matrix_records
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.shared_moves import matrix_moves, vector_elements
from glueball.tile.shared_views import (
    Descriptor,
    buffer_bytes,
    coordinate_ctas,
    coordinate_offsets,
    dropped_offsets,
    paddings,
    slice_offset,
    tile_ctas,
    tile_offsets,
    without_axis,
)
from glueball.tile.types import ScalarType, distributed_type, shared_memory_descriptor_type


@dataclass(frozen=True, slots=True)
class View:
    """A view in one thread: its allocation as the thread IR knows it, type, base and offset."""

    allocation: str
    type: Descriptor
    base: Term
    mixed: Term

    @property
    def shift(self) -> int:
        """Binary logarithm of the bytes of an element."""
        return self.type.element_ty.itemsize.bit_length() - 1


def view_of(context: Context, value: TileValue) -> View:
    """What a view became."""
    assert isinstance(value.type, shared_memory_descriptor_type)
    base, mixed = context.terms(value)
    (name,) = {context.groups[place.allocation].name for place in context.views[value]} or {""}
    return View(name, value.type, base, mixed)


def allocate_view(context: Context, operation: Operation) -> None:
    """A view of a whole allocation; all allocations of a group are one to the thread IR."""
    group = context.groups[operation.attributes["name"]]
    members = [context.tile_allocations[name] for name in group.members]
    start = min(member.attributes["offset"] for member in members)
    end = max(member.attributes["offset"] + member.attributes["bytes"] for member in members)
    alignment = max(member.attributes["alignment"] for member in members)
    context.allocations.setdefault(
        group.name, SharedAllocation(group.name, end - start, alignment, start, operation.location)
    )
    zero = context.builder.constant("i32", 0)
    context.bind(operation.result, (Term(zero, operation.attributes["offset"] - start), Term(zero)))


@lowers("view_index")
def view_index(context: Context, operation: Operation) -> None:
    """Buffers lie one after another."""
    view, builder = view_of(context, operation.operands[0]), context.builder
    size = Term(builder.constant("i32", 0), buffer_bytes(view.type))
    distance = multiply_terms(builder, context.term(operation.operands[1]), size, no_wrap=False)
    context.bind(operation.result, (add_terms(builder, view.base, distance, no_wrap=False), view.mixed))


@lowers("view_slice")
def view_slice(context: Context, operation: Operation) -> None:
    """Buffers are counted off; elsewhere the start goes through the layout's map."""
    view, builder = view_of(context, operation.operands[0]), context.builder
    start, dim = operation.attributes["start"], operation.attributes["dim"] - int(view.type.is_buffered)
    if dim < 0:
        base = Term(view.base.base, view.base.offset + start * buffer_bytes(view.type))
        context.bind(operation.result, (base, view.mixed))
        return
    offset = builder.constant("i32", slice_offset(view.type, start, dim))
    context.bind(operation.result, (view.base, Term(builder.logical_xor(materialize(builder, view.mixed), offset))))


@lowers("view_permute", "view_reshape")
def view_rename(context: Context, operation: Operation) -> None:
    """Coordinates get other names; no element has another address."""
    context.bind(operation.result, context.terms(operation.operands[0]))


@lowers("view_reinterpret")
def view_reinterpret(context: Context, operation: Operation) -> None:
    """What slices have added becomes part of the base."""
    view, builder = view_of(context, operation.operands[0]), context.builder
    distance = _place(builder, view, materialize(builder, view.mixed), 0)
    context.bind(operation.result, (_moved(builder, view.base, distance), Term(builder.constant("i32", 0))))


@lowers("view_none")
def view_none(context: Context, operation: Operation) -> None:
    """Nothing that anybody looks at."""
    nothing = Term(context.builder.constant("i32", 0))
    context.bind(operation.result, (nothing, nothing))


@lowers("keep_alive")
def keep_alive(_: Context, __: Operation) -> None:
    """A use for the placement of allocations; nothing at run time."""


@lowers("view_store")
def view_store(context: Context, operation: Operation) -> None:
    """Each thread writes its registers, by matrices or vectors; of several holders of an element the first one does."""
    builder, source = context.builder, operation.operands[1]
    view, terms = view_of(context, operation.operands[0]), context.terms(source)
    assert isinstance(source.type, distributed_type)
    redundant = source.type.linear.free_variables()
    mask = idle_mask(builder, redundant["lane"], redundant["warp"])
    guard = [] if mask is None else [materialize(builder, mask)]
    element = view.type.element_ty
    moves = matrix_moves(source.type.linear, view.type, context.target, store=True)
    record = memory.SHARED_STORE if moves is None else matrix_records.STORE_MATRIX
    for access in tile_accesses(builder, view, source.type.linear, moves):
        values = [as_stored(builder, materialize(builder, terms[register]), element) for register in access.registers]
        attributes = _moving(view, access, moves)
        builder.emit(record, [access.address.base, *guard, *values], {**attributes, "masked": bool(guard)})


@lowers("view_load")
def view_load(context: Context, operation: Operation) -> None:
    """Each thread reads its registers, by matrices or vectors; those that hold the same element are read once."""
    builder, view = context.builder, view_of(context, operation.operands[0])
    assert isinstance(operation.result.type, distributed_type)
    linear, element = operation.result.type.linear, view.type.element_ty
    moves = matrix_moves(linear, view.type, context.target, store=False)
    loaded: dict[int, Term] = {}
    for access in tile_accesses(builder, view, linear, moves):
        attributes = _moving(view, access, moves)
        if moves is None:
            attributes |= {"masked": False, "replaced": False}
        if moves is None:
            values = read_shared(builder, access.address.base, access.rank, [], attributes)
        else:
            values = builder.emit(matrix_records.LOAD_MATRIX, [access.address.base], attributes)
        for register, value in zip(access.registers, values, strict=True):
            loaded[register] = Term(as_register(builder, value, element))
    holder: dict[int, int] = {}
    images = linear.table("register").tolist()
    registers = [holder.setdefault(image, register) for register, image in enumerate(images)]
    context.bind(operation.result, tuple(loaded[register] for register in registers))


@dataclass(frozen=True, slots=True)
class TileAccess:
    """One access: its registers in the order in which it moves them, and the byte address that a thread gives.

    `rank` is that of the CTA whose memory it is in, None for the thread's own.
    """

    registers: tuple[int, ...]
    address: Term
    rank: Value | None = None


def _moving(view: View, access: TileAccess, moves: MatrixMoves | None) -> dict[str, Any]:
    """The attributes of an access."""
    attributes = _attributes(view, view.type.element_ty, access.address, len(access.registers))
    if moves is not None:
        del attributes["count"]
        attributes |= {"matrices": moves.matrices, "transposed": moves.transposed}
    return attributes


def tile_accesses(
    builder: Builder, view: View, linear: LinearLayout, moves: MatrixMoves | None = None
) -> list[TileAccess]:
    """The accesses of a tile, each element once a thread."""
    offsets, ctas = tile_offsets(linear, view.type), tile_ctas(linear, view.type)
    lanes, warps, blocks = (offsets.flat_bases(name) for name in ("lane", "warp", "block"))
    table, ranks = offsets.table("register").tolist(), ctas.table("register").tolist()
    if moves is not None:
        lanes, groups = moves.lanes, moves.groups
    else:
        groups = _vectors(table, ranks, vector_elements(offsets, ctas, view.type))
    thread, variable = thread_offset(builder, lanes, warps, blocks), span(lanes) | span(warps) | span(blocks)
    return [
        TileAccess(
            group,
            _address(builder, view, thread, variable, table[group[0]]),
            _rank(builder, ctas, ranks[group[0]]),
        )
        for group in groups
    ]


def _rank(builder: Builder, ctas: LinearLayout, change: int) -> Value | None:
    """The rank of the CTA to whose memory an access goes; None where it always is the thread's own."""
    if not any(ctas.all_columns()):
        return None
    lanes, warps, changes = (ctas.flat_bases(name) for name in ("lane", "warp", "block"))
    own = [1 << bit ^ basis for bit, basis in enumerate(changes)]
    return builder.logical_xor(thread_offset(builder, lanes, warps, own), builder.constant("i32", change))


def _vectors(offsets: Sequence[int], ranks: Sequence[int], vector: int) -> tuple[tuple[int, ...], ...]:
    """The first registers that hold each element, in runs of neighbours in the memory of one CTA."""
    first: dict[tuple[int, int], int] = {}
    for register, place in enumerate(zip(ranks, offsets, strict=True)):
        first.setdefault(place, register)
    starts = dict.fromkeys((rank, offset & -vector) for rank, offset in first)
    return tuple(tuple(first[rank, start + index] for index in range(vector)) for rank, start in starts)


def _address(builder: Builder, view: View, thread: Value, variable: int, constant: int) -> Term:
    """The byte address of the element at `mixed ^ thread ^ constant`; `variable` are the bits that `thread` can set."""
    mixed = materialize(builder, view.mixed)
    if mixed.constant is not None:
        constant ^= int(mixed.constant)
    else:
        thread = builder.logical_xor(thread, mixed)
        variable |= dropped_offsets(view.type)
    changed, added = split_constant(constant, variable)
    offset = builder.logical_xor(thread, builder.constant("i32", changed))
    return _moved(builder, view.base, _place(builder, view, offset, added))


def _place(builder: Builder, view: View, offset: Value, added: int) -> Term:
    """Bytes from a view's base to the element at `offset + added`, which have no bit in common."""
    place, total = offset, added
    for interval, padding in paddings(view.type.layout):
        bits = interval.bit_length() - 1
        part = builder.shift_left(builder.shift_right(offset, bits), padding.bit_length() - 1)
        place = builder.add(place, part)
        total += (added >> bits) * padding
    return Term(builder.shift_left(place, view.shift), total << view.shift)


def _moved(builder: Builder, base: Term, distance: Term) -> Term:
    return add_terms(builder, base, distance, no_wrap=False)


def first_address(builder: Builder, view: View) -> Term:
    """The byte address of a view's first element."""
    return _address(builder, view, builder.constant("i32", 0), 0, 0)


def element_address(builder: Builder, view: View, offsets: LinearLayout, register: int) -> Term:
    """The byte address of what a register of a tile holds; `offsets` maps register and thread to elements."""
    bases = [offsets.flat_bases(name) for name in ("lane", "warp", "block")]
    constant = f2.apply(offsets.flat_bases("register"), register)
    return _address(builder, view, thread_offset(builder, *bases), reduce(or_, map(span, bases)), constant)


def _attributes(view: View, element: ScalarType, address: Term, count: int) -> dict[str, Any]:
    return {"allocation": view.allocation, "type": memory_type(element), "count": count, "offset": address.offset}


def _chosen(context: Context, operation: Operation, indices: TileValue) -> list[Term]:
    """The byte addresses of the elements that each register's index along the axis chooses."""
    builder, view, axis = context.builder, view_of(context, operation.operands[0]), operation.attributes["axis"]
    assert isinstance(indices.type, distributed_type)
    columns = coordinate_offsets(view.type)
    places, ctas = (
        without_axis(indices.type.linear, view.type, each, axis) for each in (columns, coordinate_ctas(view.type))
    )
    if any(coordinate_ctas(view.type)[axis]) or any(any(bases) for bases in ctas.values()):
        raise LayoutError(
            f"elements along dimension {axis} of the view may lie in the memory of another CTA than that of the thread "
            f"that has the index: {view.type.layout}, and {indices.type.layout}"
        )
    bases, registers = [places[name] for name in ("lane", "warp", "block")], places["register"]
    thread = thread_offset(builder, *bases)
    along = columns[axis][: view.type.tile_shape[axis].bit_length() - 1]
    addresses = []
    for register, term in enumerate(context.terms(indices)):
        index = materialize(builder, term)
        if index.type != "i32":
            index = builder.convert(_to_word(index), index, "i32")
        chosen = linear_combination(builder, index, along, whole=False)
        offset = builder.logical_xor(thread, chosen)
        variable = reduce(or_, map(span, (*bases, along)))
        addresses.append(_address(builder, view, offset, variable, f2.apply(registers, register)))
    return addresses


def _to_word(index: Value) -> Any:
    return conversion.TRUNCATE if index.type == "i64" else conversion.ZERO_EXTEND


@lowers("view_gather")
def view_gather(context: Context, operation: Operation) -> None:
    """One element a register."""
    builder, view = context.builder, view_of(context, operation.operands[0])
    element = view.type.element_ty
    terms = []
    for address in _chosen(context, operation, operation.operands[1]):
        attributes = _attributes(view, element, address, 1)
        (value,) = builder.emit(memory.SHARED_LOAD, [address.base], {**attributes, "masked": False, "replaced": False})
        terms.append(Term(as_register(builder, value, element)))
    context.bind(operation.result, tuple(terms))


@lowers("view_scatter")
def view_scatter(context: Context, operation: Operation) -> None:
    """One element a register; of several holders of an index the first one writes."""
    builder, view = context.builder, view_of(context, operation.operands[0])
    _, values, indices = operation.operands
    element = view.type.element_ty
    mask, keep = first_holders(context, indices)
    guard = [] if mask is None else [materialize(builder, mask)]
    for register, address in enumerate(_chosen(context, operation, indices)):
        if not keep(register):
            continue
        value = as_stored(builder, materialize(builder, context.terms(values)[register]), element)
        attributes = {**_attributes(view, element, address, 1), "masked": bool(guard)}
        builder.emit(memory.SHARED_STORE, [address.base, *guard, value], attributes)


@lowers("view_atomic")
def view_atomic(context: Context, operation: Operation) -> None:
    """One instruction for each element, by its first holder; copies of the result come from there."""
    builder, view = context.builder, view_of(context, operation.operands[0])
    _, values, indices, *masks = operation.operands
    holders, keep = first_holders(context, indices)
    wanted, name = not operation.attributes.get("unused"), operation.attributes["operator"]
    if name in ("max", "min"):
        name += "_signed" if element_type(values.type).signed else "_unsigned"
    found: dict[int, Value] = {}
    for register, address in enumerate(_chosen(context, operation, indices)):
        if not keep(register):
            continue
        mask = context.terms(masks[0])[register] if masks else None
        mask = conjunction(mask, holders) if mask is not None and holders is not None else mask or holders
        guard = [] if mask is None else [materialize(builder, mask)]
        attributes = _attributes(view, view.type.element_ty, address, 1)
        attributes |= {"masked": bool(guard), "replaced": False, "result": wanted}
        attributes["operation"] = "exchange" if name == "xchg" else name
        value = materialize(builder, context.terms(values)[register])
        results = builder.emit(shared_atomics.SHARED_ATOMIC, [address.base, *guard, value], attributes)
        if wanted:
            (found[register],) = results
    if wanted:
        assert isinstance(indices.type, distributed_type)
        images = indices.type.linear.table("register").tolist()
        holder = {images[register]: Term(value) for register, value in found.items()}
        context.bind(operation.result, tuple(holder[image] for image in images))


def first_holders(context: Context, tile: TileValue, *, in_cluster: bool = False) -> tuple[Term | None, Any]:
    """The predicate of threads that are the first holders of their elements, and which of their registers are.

    They are so in their CTA, or `in_cluster`.
    """
    assert isinstance(tile.type, distributed_type)
    redundant = tile.type.linear.free_variables()
    ctas = redundant["block"] if in_cluster else 0
    mask = idle_mask(context.builder, redundant["lane"], redundant["warp"], ctas)
    return mask, lambda register: register & redundant["register"] == 0
