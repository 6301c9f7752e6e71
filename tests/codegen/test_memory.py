"""A memory access of thread IR is one instruction of its full width, in assembly and in machine code."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from glueball import codegen
from glueball.codegen import disassembly
from glueball.targets import TARGETS
from glueball.thread import conversion, memory, special, synchronization
from glueball.thread.ir import BITS
from tests.codegen.building import AMD, NVIDIA, Kernel, counts_of

KINDS = ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]
SHAPES = [(kind, count) for kind in KINDS for count in counts_of(kind)]
SASS_WIDTHS = {1: r"(\.U8|\.S8)", 2: r"(\.U16|\.S16)", 4: "", 8: r"\.64", 16: r"\.128"}
AMD_WIDTHS = {1: "byte", 2: "short", 4: "dword", 8: "dwordx2", 16: "dwordx4"}
AMD_NEW_WIDTHS = {1: "8", 2: "16", 4: "b32", 8: "b64", 16: "b128"}


def moving(target: str, kind: str, count: int, masked: bool, repeat: int = 1) -> Kernel:
    """x -> shared memory -> y, by `repeat` vectors a lane, adjacent in memory."""
    kernel = Kernel(target, shared_bytes=4096, use="i1", place="i32", other="i32")
    size, (use, place, other) = BITS[kind] * count // 8, kernel.parameters.values()
    builder = kernel.builder
    (lane,) = kernel.emit(special.LANE_ID)
    distance = builder.shift_left(builder.convert(conversion.ZERO_EXTEND, lane, "i64"), 4)
    source, result = builder.add(kernel.x, distance), builder.add(kernel.y, distance)
    mask = [use] if masked else []
    attributes = [
        {"type": kind, "count": count, "offset": size * (index + 1), "masked": masked, "allocation": "buffer"}
        for index in range(repeat)
    ]
    loaded = [kernel.emit(memory.GLOBAL_LOAD, (source, *mask), **each) for each in attributes]
    for each, values in zip(attributes, loaded, strict=True):
        kernel.emit(memory.SHARED_STORE, (place, *mask, *values), **each)
    kernel.emit(synchronization.BARRIER)
    shared = [kernel.emit(memory.SHARED_LOAD, (other, *mask), **each) for each in attributes]
    for each, values in zip(attributes, shared, strict=True):
        kernel.emit(memory.GLOBAL_STORE, (result, *mask, *values), **each)
    return kernel


def _ptx_suffix(size: int) -> str:
    words = max(1, size // 4)
    return f"{'.v' + str(words) if words > 1 else ''}.b{min(32, 8 * size)}"


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("kind", "count"), SHAPES)
def test_ptx_and_sass_keep_the_width(kind: str, count: int, masked: bool) -> None:
    target = TARGETS["sm_90a"]
    size = BITS[kind] * count // 8
    suffix = _ptx_suffix(size)
    if BITS[kind] == 64:
        suffix = ".v2.b64" if count == 2 else ".b64"
    code = codegen.generate(moving("sm_90a", kind, count, masked).function, target)
    guard = r"@%p\d+ " if masked else r"\t"
    for instruction in ("ld.global", "st.global", "ld.shared", "st.shared"):
        pattern = guard + re.escape(instruction + suffix) + " .*" + re.escape(f" + {size}]")
        assert len(re.findall(pattern, code.assembly)) == 1, (pattern, code.assembly)
    machine = [item.text for item in disassembly.line_table(codegen.assemble(code.assembly, target).data)]
    for instruction in (r"LDG\.E", r"STG\.E", "LDS", "STS"):
        found = [text for text in machine if re.search(rf"\b{instruction}\b", text)]
        assert len(found) == 1
        assert re.search(rf"\b{instruction}{SASS_WIDTHS[size]} ", found[0]), found


@pytest.mark.parametrize("target", NVIDIA)
def test_adjacent_accesses_stay_apart(target: str) -> None:
    code = codegen.generate(moving(target, "f32", 1, False, repeat=4).function, TARGETS[target])
    machine = [item.text for item in disassembly.line_table(codegen.assemble(code.assembly, TARGETS[target]).data)]
    names = Counter(name for text in machine for name in re.findall(r"\b(LDG|STG|LDS|STS)\b[.E]* ", text))
    assert names == dict.fromkeys(("LDG", "STG", "LDS", "STS"), 4)


@pytest.mark.parametrize(("masked", "repeat"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("kind", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize("target", AMD)
def test_amd_keeps_the_width(target: str, kind: str, masked: bool, repeat: int) -> None:
    widths = AMD_NEW_WIDTHS if target == "gfx1250" else AMD_WIDTHS
    for count in counts_of(kind):
        size = BITS[kind] * count // 8
        assembly = codegen.generate(moving(target, kind, count, masked, repeat).function, TARGETS[target]).assembly
        for name in ("global_load", "global_store"):
            found = [line for line in re.findall(rf"{name}_\w+", assembly) if "prefetch" not in line]
            assert len(found) == repeat, (found, assembly)
            assert all(re.fullmatch(rf"{name}_[us]?(d16_)?[bi]?{widths[size]}(_d16)?", line) for line in found), found
        local = re.findall(r"\bds_(?:read|write|load|store)\w*", assembly)
        assert len(local) == 2 * repeat, (local, assembly)
        assert all(re.search(rf"_[ubi]*{8 * size}(_d16)?$", line) for line in local), local


@pytest.mark.parametrize(
    ("attributes", "load", "version"),
    [
        ({"cache": ".cg"}, "ld.global.cg.b32", "7.0"),
        ({"cache": ".cv"}, "ld.global.cv.b32", "7.0"),
        ({"volatile": True}, "ld.volatile.global.b32", "7.0"),
        ({"eviction": "evict_first"}, "ld.global.L1::evict_first.b32", "7.4"),
        ({"eviction": "evict_last", "cache": ".cg"}, "ld.global.L1::evict_last.b32", "7.4"),
    ],
)
def test_qualifiers_and_the_version_they_need(attributes: dict[str, object], load: str, version: str) -> None:
    kernel = Kernel("sm_80")
    kernel.keep(*kernel.load("f32", **attributes))
    code = codegen.generate(kernel.function, TARGETS["sm_80"])
    assert f"\t{load} " in code.assembly
    assert f".version {version}\n" in code.assembly
    assert codegen.assemble(code.assembly, TARGETS["sm_80"]).kind == "cubin"


def test_negative_offsets() -> None:
    kernel = Kernel("sm_90a")
    kernel.keep(*kernel.emit(memory.GLOBAL_LOAD, (kernel.x,), type="f32", count=1, offset=-64))
    code = codegen.generate(kernel.function, TARGETS["sm_90a"])
    machine = disassembly.line_table(codegen.assemble(code.assembly, TARGETS["sm_90a"]).data)
    assert any("LDG" in item.text and "-0x40]" in item.text for item in machine)


@pytest.mark.parametrize("target", AMD)
def test_amd_waits_before_the_barrier(target: str) -> None:
    kernel = Kernel(target, shared_bytes=4096, place="i32", other="i32")
    place, other = kernel.parameters.values()
    kernel.emit(memory.SHARED_STORE, (place, place), type="i32", count=1, offset=0, allocation="buffer")
    kernel.emit(synchronization.ORDER_SHARED)
    kernel.emit(synchronization.BARRIER)
    kernel.keep(*kernel.emit(memory.SHARED_LOAD, (other,), type="i32", count=1, offset=0, allocation="buffer"))
    assembly = codegen.generate(kernel.function, TARGETS[target]).assembly
    stored, loaded = re.search(r"ds_(write|store)_b32", assembly), re.search(r"ds_(read|load)_b32", assembly)
    between = re.findall(r"\ts_(?:wait|barrier).*", assembly[stored.end() : loaded.start()])
    if target == "gfx1250":
        assert between == ["\ts_wait_dscnt 0x0", "\ts_barrier_signal -1", "\ts_barrier_wait -1"]
    else:
        assert between == ["\ts_waitcnt lgkmcnt(0)", "\ts_barrier"]


def test_shared_memory_of_each_vendor() -> None:
    nvidia = codegen.generate(moving("sm_90a", "f32", 1, False).function, TARGETS["sm_90a"])
    assert ".extern .shared .align 1024 .b8 shared[]" in nvidia.assembly
    amd = codegen.generate(moving("gfx950", "f32", 1, False).function, TARGETS["gfx950"])
    assert ".amdhsa_group_segment_fixed_size 4096" in amd.assembly


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_launch_bounds(target: str) -> None:
    kernel = Kernel(target)
    kernel.function.options.update(maxnreg=64, waves_per_eu=2)
    assembly = codegen.generate(kernel.function, TARGETS[target]).assembly
    if target == "sm_90a":
        assert ".reqntid 128\n" in assembly
        assert ".maxnreg 64\n" in assembly
    else:
        assert ".max_flat_workgroup_size: 256" in assembly
        assert ".reqd_workgroup_size" in assembly
