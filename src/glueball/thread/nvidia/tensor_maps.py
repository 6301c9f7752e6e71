"""Tensor maps that a kernel makes itself (PTX ISA, `tensormap.replace` and `tensormap.cp_fenceproxy`).

Operands: the byte offset in the allocation of 128 bytes of shared memory (`i32`), the number of the lane in its warp
(`i32`), the address of 128 bytes of global memory where the map will stand (`i64`), whether the lane is of the
partition's first warp, and whether it is the first one there (`i1`), the tensor's address (`i64`), its extents (`i32`)
and its strides in bytes without that of the innermost dimension (`i64`), innermost first. The result is the address of
the map. Attributes: `allocation` and `offset` of the shared memory, `type` and `count` of what a lane clears there
(`i32`, 1), `tensor` (a `TensorMapType`) and `fill` (`zero` or `nan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glueball.tensor_map import ELEMENTS, SWIZZLES
from glueball.thread.ir import Attributes, Effect, Emitter, Instruction, Record, Scope

MAP_BYTES = 128
CONSTRAINTS = {"i1": "b", "i32": "r", "i64": "l"}
MAP_VERSION = 83
"""The PTX version with `tensormap.replace`."""
DEVICE_CODES = {"float64": 9, "bfloat16": 10}
"""Element types whose numbers are not those of the driver's interface."""


def _bytes(_: Attributes) -> int:
    return MAP_BYTES


def _fields(attributes: Attributes, base: str, extents: Sequence[str], strides: Sequence[str]) -> Iterator[str]:
    """What `tensormap.replace` is told, but for the address of the map; what is zero stays as it was cleared."""
    kind = attributes["tensor"]
    yield f"global_address b64 {base}"
    yield f"rank b32 {kind.rank - 1}"
    for axis, (box, extent) in enumerate(zip(reversed(kind.box), extents, strict=True)):
        yield f"box_dim b32 {axis}, {box}"
        yield f"global_dim b32 {axis}, {extent}"
        yield f"element_stride b32 {axis}, 1"
    for axis, stride in enumerate(strides):
        yield f"global_stride b64 {axis}, {stride}"
    constants = {
        "elemtype": DEVICE_CODES.get(kind.element, ELEMENTS[kind.element].code),
        "swizzle_mode": SWIZZLES.index(kind.swizzle),
        "fill_mode": int(attributes["fill"] == "nan"),
    }
    yield from (f"{name} b32 {number}" for name, number in constants.items() if number)


def _emit(instruction: Instruction, emitter: Emitter) -> None:
    """One warp clears the map in shared memory, one lane fills it in, the warp copies it where the copy engine sees it.

    Before the copy, bulk copies of the warp that still read the map that stood there have done so.
    """
    emitter.require_version(MAP_VERSION)
    attributes, rank = instruction.attributes, instruction.attributes["tensor"].rank
    offset, *others = instruction.operands
    arguments = [f"i32 {emitter.shared_address(instruction, offset)}"]
    arguments += [f"{each.type} {emitter.name(each)}" for each in others]
    constraints = ["=&l", "r", *(CONSTRAINTS[each.type] for each in others)]
    names = [f"${7 + position}" for position in range(len(others) - 5)]
    place = f"[$1 + {attributes['offset']}]"
    replaced = []
    for field in _fields(attributes, "$6", names[:rank], names[rank:]):
        name, kind, operands = field.split(" ", 2)
        replaced.append(f"tensormap.replace.tile.{name}.shared::cta.b1024.{kind} {place}, {operands};")
    text = " ".join(
        [
            "{ .reg .b32 word; cvta.global.u64 $0, $3; @!$4 bra done; mad.lo.u32 word, $2, 4, $1;",
            f"st.shared.b32 [word + {attributes['offset']}], 0; bar.warp.sync -1; @!$5 bra filled;",
            *replaced,
            "filled: bar.warp.sync -1; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;",
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
            f"[$3], {place}, {MAP_BYTES}; fence.proxy.tensormap::generic.acquire.gpu [$3], {MAP_BYTES}; done: }}",
        ]
    )
    call = f'call i64 asm sideeffect "{text}", "{",".join([*constraints, "~{memory}"])}"({", ".join(arguments)})'
    emitter.line(f"{emitter.name(instruction.results[0])} = {call}")


MAKE_TENSOR_MAP = Record(
    name="make_tensor_map",
    result_types=lambda _, __: ("i64",),
    llvm={"nvidia": _emit},
    issue=lambda machine, attributes, *operands: machine.make_tensor_map(attributes, *operands),
    pure=False,
    scope=Scope.CTA,
    effects=(Effect("shared", "write", _bytes), Effect("global", "write", _bytes)),
    convergent=True,
    targets=frozenset({"bulk_copy"}),
)
