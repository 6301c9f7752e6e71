"""Everything that can go wrong in code generation is an error that names it; none ends the process."""

from __future__ import annotations

import builtins
import ctypes
import re
from typing import Any

import pytest

from glueball import codegen
from glueball.codegen import disassembly
from glueball.errors import CodeGenerationError, TargetError
from glueball.targets import TARGETS, Target
from glueball.thread.ir import Emitter, Instruction, Record
from tests.codegen.building import Kernel

TARGET = TARGETS["sm_90a"]


def spelled(name: str, text: str, declaration: str) -> Record:
    def emit(instruction: Instruction, emitter: Emitter) -> None:
        emitter.declare(declaration)
        emitter.line(text.format(r=emitter.name(instruction.results[0]), x=emitter.name(instruction.operands[0])))

    return Record(name=name, result_types=lambda kinds, _: (kinds[0],), llvm={"any": emit}, issue=lambda *_: None)


def kernel_with(record: Record, kind: str = "i32", target: str = "sm_90a") -> Kernel:
    kernel = Kernel(target)
    kernel.keep(*kernel.emit(record, [kernel.operand(kind)]))
    return kernel


@pytest.mark.parametrize("symbol", ["llvm.nvvm.no.such.thing", "llvm.smxa.i32", "helper"])
def test_unknown_function(symbol: str) -> None:
    record = spelled("odd", f"{{r}} = call i32 @{symbol}(i32 {{x}})", f"declare i32 @{symbol}(i32)")
    with pytest.raises(CodeGenerationError, match=f"'{symbol}' is no function that LLVM"):
        codegen.generate(kernel_with(record).function, TARGET)


def test_text_that_llvm_cannot_read() -> None:
    record = spelled("broken", "{r} = add i32 {x}", "declare i32 @llvm.smax.i32(i32, i32)")
    with pytest.raises(CodeGenerationError, match="LLVM refused its input"):
        codegen.generate(kernel_with(record).function, TARGET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{r} = call float @llvm.tan.f32(float {x})", "status 1: error: no libcall available for ftan"),
        (
            "{r}a = fptosi float {x} to i128\n {r}b = trunc i128 {r}a to i32\n {r} = bitcast i32 {r}b to float",
            "status -6: LLVM ERROR: unsupported library call operation",
        ),
    ],
    ids=["exit", "abort"],
)
def test_end_of_the_process_is_an_error_when_isolated(text: str, message: str) -> None:
    record = spelled("odd", text, "declare float @llvm.tan.f32(float)")
    with pytest.raises(CodeGenerationError, match=f"code generation for sm_90a ended with {message}"):
        codegen.generate(kernel_with(record, "f32").function, TARGET, isolate=True)


def test_isolated_code_is_the_same() -> None:
    kernel = Kernel("sm_90a")
    kernel.keep(*kernel.load("f32"))
    alone, here = (codegen.generate(kernel.function, TARGET, isolate=way) for way in (True, False))
    assert alone == here
    record = spelled("odd", "{r} = call i32 @llvm.no.such(i32 {x})", "declare i32 @llvm.no.such(i32)")
    with pytest.raises(CodeGenerationError, match=r"'llvm.no.such' is no function"):
        codegen.generate(kernel_with(record).function, TARGET, isolate=True)


def test_target_without_code_generation() -> None:
    other = Target("toy", "toys", 32, 1, 1, 1, 1, 1, 1)
    kernel = Kernel("sm_90a")
    with pytest.raises(TargetError, match="kernel was lowered for sm_90a, not for toy"):
        codegen.generate(kernel.function, other)
    kernel.function.target = other
    with pytest.raises(TargetError, match="no code generation for toy"):
        codegen.generate(kernel.function, other)


def test_bad_ptx_gives_the_assembler_log() -> None:
    with pytest.raises(CodeGenerationError, match=r"(?s)nvJitLink refused the PTX for sm_90a.*syntax error"):
        codegen.assemble(".version 8.0\n.target sm_90a\n.address_size 64\nnonsense", TARGET)


def test_no_binary_for_amd() -> None:
    with pytest.raises(CodeGenerationError, match="no linker makes a loadable binary for gfx950"):
        codegen.assemble("", TARGETS["gfx950"])


def test_missing_assembler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("cuda"):
            raise ImportError(name)
        return imported(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CodeGenerationError, match=r"no assembler for PTX: .*`nvidia` extra"):
        codegen.assemble("", TARGET)


def test_missing_disassembler_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(disassembly.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(CodeGenerationError, match=r"nvdisasm is missing; install the `nvidia` extra"):
        disassembly.sass(b"")


def test_bytes_that_are_no_cubin() -> None:
    with pytest.raises(CodeGenerationError, match="nvdisasm refused the cubin"):
        disassembly.sass(b"no cubin")


def test_injected_linker_and_ptxas() -> None:
    log = "ptxas info : Used 12 registers\n 0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads"
    binary = codegen.assemble("ptx", TARGET, linker=lambda ptx, target: (f"{ptx} {target.name}".encode(), log))
    assert (binary.data, binary.registers, binary.spills) == (b"ptx sm_90a", 12, 8)
    silent = codegen.assemble("ptx", TARGET, linker=lambda *_: (b"", ""))
    assert (silent.registers, silent.spills) == (None, None)
    with pytest.raises(CodeGenerationError, match="there is no assembler '/no/such/ptxas'"):
        codegen.assemble("ptx", TARGET, ptxas="/no/such/ptxas")


def test_versions_for_cache_keys() -> None:
    assert codegen.llvm_version().split(".")[0].isdigit()
    assert all(version for version in codegen.assembler_versions().values())


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_kernel_names_of_any_letters(target: str) -> None:
    kernel = Kernel(target)
    kernel.function.name = "naïve.copy_2"
    code = codegen.generate(kernel.function, TARGETS[target])
    assert code.symbol == "na$efve$2ecopy_2"
    assert re.search(rf"(\.entry |^){re.escape(code.symbol)}\b", code.assembly, re.M)
    if target == "sm_90a":
        assert code.symbol.encode() in codegen.assemble(code.assembly, TARGET).data


@pytest.mark.parametrize(
    ("kind", "constant", "text"),
    [
        ("i1", True, "true"),
        ("i8", -128, "-128"),
        ("i64", -(1 << 63), "-9223372036854775808"),
        ("f32", 1.0, "0x3FF0000000000000"),
        ("f32", 0.1, "0x3FB99999A0000000"),
        ("f64", 0.1, "0x3FB999999999999A"),
        ("f32", float("inf"), "0x7FF0000000000000"),
        ("f32", 1e300, "0x7FF0000000000000"),
        ("f64", -0.0, "0x8000000000000000"),
        ("f16", 65504.0, "0xH7BFF"),
        ("f16", float("-inf"), "0xHFC00"),
        ("bf16", 1.0, "0xR3F80"),
    ],
)
def test_literals(kind: str, constant: object, text: str) -> None:
    from glueball.codegen.literals import literal

    assert literal(kind, constant) == text


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_nan_literals_compile(kind: str) -> None:
    kernel = Kernel("sm_90a")
    kernel.keep(kernel.builder.constant(kind, float("nan")))
    bits = {"f16": "0x7E00", "bf16": "0x7FC0", "f32": "2143289344", "f64": "9221120237041090560"}[kind]
    assembly = codegen.generate(kernel.function, TARGET).assembly
    assert bits in assembly or str(ctypes.c_int64(int(bits, 0)).value) in assembly or "7FC00000" in assembly
