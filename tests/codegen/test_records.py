"""Every record of the instruction table compiles on every target that has it, and on no other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from glueball import codegen
from glueball.errors import TargetError
from glueball.targets import TARGETS, Target
from glueball.thread.builder import Builder
from glueball.thread.float8 import FORMATS, PAIRED
from glueball.thread.ir import BITS, Value
from glueball.thread.nvidia import asynchronous_copy, matrix_moves
from glueball.thread.table import INSTRUCTIONS
from tests.codegen.asynchronous_cases import ASYNCHRONOUS, POLICIES
from tests.codegen.building import NVIDIA, Kernel, attributes_of, counts_of
from tests.codegen.matrix_cases import MATRICES

INTEGERS = ["i8", "i16", "i32", "i64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
Case = tuple[tuple[str, ...], dict[str, Any]]


def _pairs(kinds: list[str]) -> list[Case]:
    return [((kind, kind), {}) for kind in kinds]


def _compared(kinds: list[str]) -> list[Case]:
    return [((kind, kind), {"predicate": name}) for kind in kinds for name in ("eq", "ne", "lt", "le", "gt", "ge")]


def _converted(sources: list[str], results: list[str], allowed: Any = lambda source, result: True) -> list[Case]:
    return [((source,), {"to": result}) for source in sources for result in results if allowed(source, result)]


def _wider(source: str, result: str) -> bool:
    return BITS[source] < BITS[result]


def _narrower(source: str, result: str) -> bool:
    return BITS[source] > BITS[result]


def _per_axis() -> list[Case]:
    return [((), {"axis": axis}) for axis in range(3)]


def _atomic(kind: str, **attributes: Any) -> dict[str, Any]:
    common = {"type": kind, "count": 1, "offset": 16, "masked": False, "scope": "gpu", "semantic": "relaxed"}
    return {**common, **attributes}


def _changes() -> list[Case]:
    """Every operation on every type that has it, with and without mask and result, in every order and scope."""
    kinds = {"add": ["i32", "i64", "f16", "f32", "f64"], "exchange": ["i32", "i64", "f32", "f64"]}
    whole = ("and", "or", "xor", "max_signed", "min_signed", "max_unsigned", "min_unsigned")
    cases: list[Case] = []
    for operation, types in {**kinds, **{name: ["i32", "i64"] for name in whole}}.items():
        for kind in types:
            for result in (True, False):
                attributes = _atomic(kind, operation=operation, result=result)
                cases.append((("i64", kind), attributes))
                cases.append((("i64", "i1", kind), {**attributes, "masked": True, "semantic": "acq_rel"}))
    for kind in ("i16", "i32", "i64", "f32"):
        attributes = _atomic(kind, operation="compare_exchange", result=kind != "i64", scope="sys")
        cases += [(("i64", kind, kind), {**attributes, "semantic": word}) for word in ("release", "acquire", "acq_rel")]
    return cases


def _loads_and_stores(semantic: str, *values: int) -> list[Case]:
    cases: list[Case] = []
    for kind in [*INTEGERS, *FLOATS]:
        for mask in ((), ("i1",)):
            attributes = _atomic(kind, masked=bool(mask), semantic=semantic, scope="cta")
            cases.append((("i64", *mask, *((kind,) * sum(values))), attributes))
    return cases


class Layout:
    """Stands for the format of a printed line."""

    kind = "signed"


PRINTED = {"layout": Layout, "format": "pid (%u, %u, %u) value: %i %f 100%%\n"}
ASSEMBLY = {"assembly": "", "constraints": "", "types": (), "inputs": (), "outputs": (), "simulate": None}
ADDED = {"type": "i32", "count": 1, "offset": 4, "allocation": "buffer"}
WHOLE = ("sqrt", "round_even", "floor", "ceil", "round_to_zero", "absolute")


def _shared_changes() -> list[Case]:
    """Every operation on every type that has it, with and without a mask, and with and without the old value."""
    whole = ("add", "and", "or", "xor", "max_signed", "min_signed", "max_unsigned", "min_unsigned", "exchange")
    kinds = {"i32": whole, "i64": whole, "f32": ("add", "exchange"), "f64": ("add", "exchange")}
    found: list[Case] = []
    for kind, names in kinds.items():
        for name in names:
            for masked in (False, True):
                for result in (False, True):
                    attributes = {"allocation": "buffer", "type": kind, "count": 1, "offset": 16, "masked": masked}
                    operands = ("i32", *(("i1",) if masked else ()), kind)
                    found.append((operands, {**attributes, "operation": name, "result": result}))
    return found


CASES: dict[str, list[Case]] = {
    **dict.fromkeys(("program_id", "num_programs"), _per_axis()),
    **{name: [((), {})] for name in ("lane_id", "warp_id", "barrier", "order_shared", "commit_group")},
    **dict.fromkeys(("add", "sub", "mul", "add_no_wrap", "mul_no_wrap"), _pairs(INTEGERS)),
    **dict.fromkeys(("and", "or", "xor"), _pairs(["i1", *INTEGERS])),
    **dict.fromkeys(("shl", "shr_signed", "shr_unsigned"), _pairs(INTEGERS)),
    **dict.fromkeys(("div_signed", "div_unsigned", "rem_of_run", "rem_signed", "rem_unsigned"), _pairs(INTEGERS)),
    **dict.fromkeys(("min_signed", "max_signed", "min_unsigned", "max_unsigned"), _pairs(INTEGERS)),
    **dict.fromkeys(("min_float", "max_float"), _pairs(FLOATS)),
    **dict.fromkeys(("fadd", "fsub", "fmul"), _pairs(FLOATS)),
    "fdiv": _pairs(FLOATS),
    "fneg": [((kind,), {}) for kind in FLOATS],
    "compare_signed": _compared(INTEGERS),
    "compare_unsigned": _compared(INTEGERS),
    "compare_float": _compared(FLOATS),
    "select": [(("i1", kind, kind), {}) for kind in ["i1", *INTEGERS, *FLOATS]],
    "sign_extend": _converted(INTEGERS, INTEGERS, _wider),
    "zero_extend": _converted(["i1", *INTEGERS], INTEGERS, _wider),
    "truncate": _converted(INTEGERS, ["i1", *INTEGERS], _narrower),
    "bitcast": [
        ((source,), {"to": result})
        for source, result in [("i32", "f32"), ("f32", "i32"), ("i64", "f64"), ("i16", "bf16"), ("f16", "i16")]
    ],
    "float_extend": _converted(["f16", "bf16", "f32"], ["f32", "f64"], _wider),
    "float_truncate": _converted(["f32", "f64"], ["f16", "bf16", "f32"], _narrower),
    "signed_to_float": _converted(INTEGERS, FLOATS),
    "unsigned_to_float": _converted(INTEGERS, FLOATS),
    "float_to_signed": _converted(FLOATS, INTEGERS),
    "float_to_unsigned": _converted(FLOATS, INTEGERS),
    "fma": [((kind,) * 3, {}) for kind in FLOATS],
    **{name: [((kind,), {}) for kind in ("f32", "f64")] for name in WHOLE},
    **dict.fromkeys(("mul_high_signed", "mul_high_unsigned"), _pairs(["i32", "i64"])),
    "rem_float": _pairs(["f32", "f64"]),
    **{f"{name}_approximate": [(("f32",), {})] for name in ("exp2", "log2", "sin", "cos", "sqrt", "rsqrt")},
    "divide_approximate": [(("f32", "f32"), {})],
    "float8_extend": [(("i8",), {"format": name}) for name in FORMATS],
    "float8_round": [
        (("f32",), {"format": name, "rounding": rounding}) for name in FORMATS for rounding in ("nearest", "zero")
    ],
    "float8_extend_pair": [(("i8", "i8"), {"format": name}) for name in PAIRED],
    "float8_round_pair": [(("f32", "f32"), {"format": name}) for name in PAIRED],
    "known_multiple": [(("i32",), {"divisor": 16}), (("i64",), {"divisor": 16})],
    "assume": [(("i1",), {})],
    "where_defined": [(("i1",), {})],
    "atomic": _changes(),
    "atomic_load": _loads_and_stores("acquire"),
    "atomic_store": _loads_and_stores("release", 1),
    "shared_add": [(("i32", "i32"), {**ADDED, "masked": False}), (("i32", "i1", "i32"), {**ADDED, "masked": True})],
    "shared_atomic": _shared_changes(),
    "nanoseconds": [((), {})],
    "print": [(("i32", "i32", "i32", "i32", "f64"), PRINTED)],
    "fail": [((), {"message": "it \"failed\""})],
    **{name: [((), ASSEMBLY)] for name in ("assembly", "pure_assembly")},
    "shuffle": [(("i32", "i32"), {}), (("i32", "i32"), {"mask": 5})],
    "shift": [
        (("i32",), {"mask": mask, "distance": distance, "reverse": reverse})
        for mask, distance in [(31, 1), (31, 16), (12, 4), (24, 8)]
        for reverse in (False, True)
    ],
    "wait_group": [((), {"pending": pending}) for pending in (0, 3)],
    "constant": [],
    **ASYNCHRONOUS,
    **MATRICES,
}  # fmt: skip
MEMORY = {"global_load", "global_store", "shared_load", "shared_store", "copy_async", "load_matrix", "store_matrix"}
CONTROL = {"if", "for", "while", "yield", "return", "partitions"}


def _operands(kernel: Kernel, name: str, kind: str, count: int, masked: bool, replaced: bool) -> list[Value]:
    place = kernel.x if name.startswith("global") else kernel.operand("i32")
    mask = [kernel.operand("i1")] if masked else []
    elements = [kernel.operand(kind) for _ in range(count)] if name.endswith("store") or replaced else []
    return [place, *mask, *elements]


def _accesses(kernel: Kernel, name: str) -> None:
    record = INSTRUCTIONS[name]
    for kind in [*INTEGERS, *FLOATS]:
        for count in (1, counts_of(kind)[-1]):
            for masked, replaced in [(False, False), (True, False), (True, True)]:
                if replaced and name.endswith("store"):
                    continue
                attributes = attributes_of(kind, count, masked=masked, replaced=replaced, allocation="buffer")
                operands = _operands(kernel, name, kind, count, masked, replaced)
                kernel.keep(*kernel.emit(record, operands, **attributes))


def _copies(kernel: Kernel) -> None:
    for size in (4, 8, 16):
        offset = kernel.operand("i32")
        kernel.emit(asynchronous_copy.COPY_ASYNC, (kernel.x, offset), bytes=size, allocation="buffer")
        mask = kernel.operand("i1")
        more = {"bytes": size, "allocation": "buffer", "offset": 64, "source_offset": 128, "masked": True}
        for cache, policy in (("", None), (".ca", None), (".cg", POLICIES[1])):
            hints = {"cache": cache, "cache_policy": policy}
            kernel.emit(asynchronous_copy.COPY_ASYNC, (kernel.x, offset, mask), **more, **hints)


def _matrices(kernel: Kernel, name: str) -> None:
    for kind in ("i8", "i16", "i32", "f16", "bf16", "f32"):
        for count, transposed in [(1, False), (2, True), (4, False), (4, True)]:
            attributes = {"type": kind, "matrices": count, "transposed": transposed, "offset": 64}
            offset, elements = kernel.operand("i32"), range(matrix_moves.elements(attributes))
            if name == "load_matrix":
                kernel.keep(*kernel.emit(matrix_moves.LOAD_MATRIX, (offset,), allocation="buffer", **attributes))
                continue
            for mask in ([], [kernel.operand("i1")]):
                operands = (offset, *mask, *(kernel.operand(kind) for _ in elements))
                more = {"allocation": "buffer", "masked": bool(mask)}
                kernel.emit(matrix_moves.STORE_MATRIX, operands, **attributes, **more)


def _kernel(name: str, target: str) -> Kernel:
    kernel = Kernel(target, shared_bytes=8192)
    if name == "copy_async":
        _copies(kernel)
    elif name in ("load_matrix", "store_matrix"):
        _matrices(kernel, name)
    elif name in MEMORY:
        _accesses(kernel, name)
    else:
        for kinds, attributes in CASES[name]:
            kernel.keep(*kernel.emit(INSTRUCTIONS[name], [kernel.operand(kind) for kind in kinds], **attributes))
    return kernel


def _has(name: str, target: Target) -> bool:
    record = INSTRUCTIONS[name]
    return record.available_on(target) and (target.family in record.llvm or "any" in record.llvm)


def test_the_cases_cover_the_table() -> None:
    assert set(CASES) | MEMORY | CONTROL == set(INSTRUCTIONS)


@pytest.mark.filterwarnings("ignore::glueball.errors.PerformanceWarning")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted((set(CASES) | MEMORY) - {"constant"}))
def test_record_compiles(name: str, target: str) -> None:
    kernel = _kernel(name, target)
    if not _has(name, TARGETS[target]):
        with pytest.raises(TargetError, match=re.escape(f"{target} has no instruction {name!r}; ")) as caught:
            codegen.generate(kernel.function, TARGETS[target])
        assert "/project/kernels.py:10:5: in kernel" in str(caught.value)
        return
    code = codegen.generate(kernel.function, TARGETS[target])
    assert not re.search(r"(?<!global\.)(?<!shared\.)\b(add|sub|mul)\.(f16|bf16|f32|f64)", code.assembly)
    if target in NVIDIA:
        binary = codegen.assemble(code.assembly, TARGETS[target])
        assert binary.data[:4] == b"\x7fELF"
        assert binary.registers is not None
        assert binary.spills == 0
    else:  # LLVM has no assembler for text inside AMD code at hand, so none may be there
        assert not any(re.findall(r'asm sideeffect "([^"]*)"', code.llir))


def _constants(builder: Builder, kind: str) -> list[Value]:
    return [builder.constant(kind, number) for number in ([True, False] if kind == "i1" else [0, 1, -1])]


NEVER_CONSTANT = (
    "shuffle",
    "shift",
    "wait_group",
    "atomic",
    "atomic_load",
    "atomic_store",
    "shared_add",
    "shared_atomic",
)
"""Records whose operands are lanes and addresses."""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx950"])
def test_constant_operands(target: str) -> None:
    kernel = Kernel(target, shared_bytes=8192)
    for name, cases in CASES.items():
        if name in NEVER_CONSTANT or not _has(name, TARGETS[target]):
            continue
        for kinds, attributes in cases:
            for number in range(3):
                constants = [_constants(kernel.builder, kind) for kind in kinds]
                operands = [choices[number % len(choices)] for choices in constants]
                if operands:
                    kernel.keep(*kernel.emit(INSTRUCTIONS[name], operands, **attributes))
    true = kernel.builder.constant("i1", True)
    zero = kernel.builder.constant("i32", 0)
    for mask in (true, kernel.builder.constant("i1", False)):
        for kind in (*INTEGERS, *FLOATS):
            other = kernel.builder.constant(kind, 0)
            one = attributes_of(kind, 1, masked=True, replaced=True, allocation="buffer")
            kernel.keep(*kernel.emit(INSTRUCTIONS["global_load"], (kernel.x, mask, other), **one))
            kernel.keep(*kernel.emit(INSTRUCTIONS["shared_load"], (zero, mask, other), **one))
            kernel.emit(INSTRUCTIONS["shared_store"], (zero, mask, other), **one)
    code = codegen.generate(kernel.function, TARGETS[target])
    if target in NVIDIA:
        assert codegen.assemble(code.assembly, TARGETS[target]).data[:4] == b"\x7fELF"
