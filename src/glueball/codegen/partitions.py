"""Partitions on NVIDIA GPUs: warps beyond the kernel's own wait until they are told which region to run.

Shared memory holds the number of what to run and what it captures. Hardware barrier 1, of all threads, says that they
are there, and later that all have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glueball.errors import CodeGenerationError
from glueball.thread.control import CAPTURES, GROUP, PARTITIONS, launched_warps
from glueball.thread.ir import Function, Instruction, Value
from glueball.thread.nvidia.cluster import CLUSTER_BARRIER, WORD_BYTES, WORDS, barrier_words
from glueball.thread.special import thread_index
from glueball.thread.words import llvm_type

if TYPE_CHECKING:
    from glueball.codegen.printer import FunctionPrinter

START_BARRIER = 1
SLOT_BYTES = 8
GRANULE, LEAST, MOST = 8, 24, 256
"""What `setmaxnreg` sets is a multiple of 8 from 24 to 256."""
NOTHING = -1


def register_limit(function: Function) -> int | None:
    """Registers of a thread at the start, where partitions change them; None where none does."""
    if not any(_requests(instruction) for instruction in function.body.walk() if instruction.record is PARTITIONS):
        return None
    if (given := function.options.get("maxnreg")) is not None:
        return int(given) // GRANULE * GRANULE
    threads = launched_warps(function) * function.target.lanes
    return min(MOST, function.target.registers // threads // GRANULE * GRANULE)


def _requests(instruction: Instruction) -> bool:
    return any(registers is not None for registers in instruction.attributes["registers"])


class Partitions:
    """Prints the start of the workers, every `partitions` instruction, and what the workers do."""

    def __init__(self, printer: FunctionPrinter, function: Function) -> None:
        self._printer = printer
        self._function = function
        self._threads = launched_warps(function) * function.target.lanes
        self._limit = register_limit(function)
        self._parameters = {id(parameter.value) for parameter in function.parameters}
        self._found: list[Instruction] = []

    def start(self) -> None:
        """Sends the workers' warps elsewhere."""
        printer = self._printer
        self._make_cluster_barriers()
        warp, own = self._warp(), printer.fresh()
        printer.line(f"{own} = icmp ult i32 {warp}, {self._function.num_warps}")
        printer.line(f"br i1 {own}, label %kernel, label %workers")
        printer.open_block("kernel")

    def finish(self) -> None:
        """Tells the workers that nothing more comes."""
        self._announce(NOTHING)
        self._barrier()

    def instruction(self, instruction: Instruction) -> bool:
        """One `partitions` instruction, on the kernel's own warps."""
        printer = self._printer
        number = len(self._found)
        self._found.append(instruction)
        for slot, value in enumerate(instruction.operands):
            if id(value) not in self._parameters and value.constant is None:
                self._store(1 + slot, value)
        self._announce(number)
        self._barrier()
        registers = self._own_registers(instruction)
        self._set_registers(self._limit, registers)
        yielded = printer.region(instruction.regions[0])
        if yielded is None:
            raise CodeGenerationError("a partition returns from the whole kernel")
        self._set_registers(registers, self._limit)
        self._barrier()
        before = printer.block()
        (label,) = printer.labels("joined")
        printer.jump(label)
        printer.open_block(label)
        printer.bind(instruction.results, yielded, before)
        return True

    def workers(self) -> None:
        """All that the other warps do."""
        printer = self._printer
        printer.open_block("workers")
        warp = self._warp()
        printer.jump("wait")
        printer.open_block("wait")
        self._barrier()
        state = printer.fresh()
        printer.line(f"{state} = load volatile i32, ptr addrspace(3) {self._slot(0)}, align 8")
        cases = " ".join(f"i32 {number}, label %dispatch.{number}" for number in range(len(self._found)))
        printer.line(f"switch i32 {state}, label %ended [ {cases} ]")
        for number, instruction in enumerate(self._found):
            self._dispatch(number, instruction, warp)
        printer.open_block("ended")
        printer.line("ret void")

    def _dispatch(self, number: int, instruction: Instruction, warp: str) -> None:
        printer, done = self._printer, f"done.{number}"
        printer.open_block(f"dispatch.{number}")
        self._change_group_registers(instruction, warp, f"start.{number}", entering=True)
        start, operands = 0, instruction.operands
        attributes = instruction.attributes
        for position, region in enumerate(instruction.regions[1:], 1):
            captured = operands[start : start + len(region.arguments)]
            slots = range(start, start + len(captured))
            start += len(captured)
            first, count = attributes["first_warp"][position], attributes["warps"][position]
            run, following = f"run.{number}.{position}", f"next.{number}.{position}"
            distance, mine = printer.fresh(), printer.fresh()
            printer.line(f"{distance} = sub i32 {warp}, {first}")
            printer.line(f"{mine} = icmp ult i32 {distance}, {count}")
            before = printer.block()
            printer.line(f"br i1 {mine}, label %{run}, label %{following}")
            printer.open_block(run)
            self._receive(region.arguments, captured, slots, before)
            printer.first_warp = first
            if printer.region(region) is not None:
                printer.jump(done)
            printer.first_warp = 0
            printer.open_block(following)
        printer.jump(done)
        printer.open_block(done)
        self._change_group_registers(instruction, warp, f"end.{number}", entering=False)
        self._barrier()
        printer.jump("wait")

    def _receive(self, arguments: Sequence[Value], captured: Sequence[Value], slots: range, before: str) -> None:
        """Parameters are there anyway; the rest comes through shared memory."""
        printer = self._printer
        loaded = []
        for argument, value, slot in zip(arguments, captured, slots, strict=True):
            if id(value) in self._parameters or value.constant is not None:
                printer.bind([argument], [value], before)
            else:
                loaded.append((argument, 1 + slot))
        for argument, slot in loaded:
            self._load(argument, slot)

    # Registers

    def _own_registers(self, instruction: Instruction) -> int | None:
        """What is left for the kernel's own warps."""
        if self._limit is None or not _requests(instruction):
            return None
        own = self._function.num_warps // GROUP
        groups = self._groups(instruction)
        left = self._limit * (own + len(groups)) - sum(groups)
        return min(MOST, left // own // GRANULE * GRANULE)

    def _groups(self, instruction: Instruction) -> list[int]:
        """What every group of worker warps asks for: the greatest request among them."""
        own, attributes = self._function.num_warps, instruction.attributes
        count = (self._threads // self._function.target.lanes - own) // GROUP
        found = [LEAST] * count
        for position in range(1, len(instruction.regions)):
            first, warps = attributes["first_warp"][position] - own, attributes["warps"][position]
            wanted = -(-(attributes["registers"][position] or LEAST) // GRANULE) * GRANULE
            for group in range(first // GROUP, (first + warps - 1) // GROUP + 1):
                found[group] = max(found[group], wanted)
        return found

    def _change_group_registers(self, instruction: Instruction, warp: str, role: str, *, entering: bool) -> None:
        if self._limit is None or not _requests(instruction):
            return
        printer, groups = self._printer, self._groups(instruction)
        after = f"{role}.after"
        for index, wanted in enumerate(groups):
            if len(groups) > 1 and index < len(groups) - 1:
                mine, inside, outside = printer.fresh(), f"{role}.{index}", f"{role}.{index}.other"
                printer.line(f"{mine} = icmp ult i32 {warp}, {self._function.num_warps + GROUP * (index + 1)}")
                printer.line(f"br i1 {mine}, label %{inside}, label %{outside}")
                printer.open_block(inside)
                self._set_registers(*((self._limit, wanted) if entering else (wanted, self._limit)))
                printer.jump(after)
                printer.open_block(outside)
            else:
                self._set_registers(*((self._limit, wanted) if entering else (wanted, self._limit)))
        printer.jump(after)
        printer.open_block(after)

    def _set_registers(self, before: int | None, after: int | None) -> None:
        if before is None or after is None or before == after:
            return
        direction = "inc" if after > before else "dec"
        self._printer.declare(f"declare void @llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32(i32)")
        self._printer.line(f"call void @llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32(i32 {after})")

    # Shared memory and threads

    def _make_cluster_barriers(self) -> None:
        """The first thread initialises what partitions of clusters wait with, and all CTAs wait for that."""
        barriers = [each for each in self._function.body.walk() if each.record is CLUSTER_BARRIER]
        words = {each.attributes["offset"]: each.attributes["threads"] for each in barriers}
        if not words:
            return
        printer = self._printer
        first = printer.fresh()
        printer.line(f"{first} = icmp eq i32 {thread_index(printer)}, 0")
        base = self._function.allocations[WORDS].offset
        for offset, threads in words.items():
            for number, count in enumerate(barrier_words(threads, self._function.num_ctas)):
                place = base + offset + WORD_BYTES * number
                address = (
                    f"ptrtoint (ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @shared, i32 {place}) to i32)"
                )
                text = f"@$1 mbarrier.init.shared.b64 [$0], {count};"
                printer.line(f'call void asm sideeffect "{text}", "r,b,~{{memory}}"(i32 {address}, i1 {first})')
        text = "@$0 fence.mbarrier_init.release.cluster;"
        printer.line(f'call void asm sideeffect "{text}", "b,~{{memory}}"(i1 {first})')
        for name in ("arrive.relaxed", "wait"):
            printer.declare(f"declare void @llvm.nvvm.barrier.cluster.{name}.aligned()")
            printer.line(f"call void @llvm.nvvm.barrier.cluster.{name}.aligned()")

    def _warp(self) -> str:
        printer = self._printer
        thread, warp = printer.fresh(), printer.fresh()
        printer.declare("declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        printer.line(f"{thread} = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()")
        printer.line(f"{warp} = lshr i32 {thread}, {self._function.target.lanes.bit_length() - 1}")
        return warp

    def _barrier(self) -> None:
        self._printer.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)")
        self._printer.line(
            f"call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 {START_BARRIER}, i32 {self._threads})"
        )

    def _slot(self, index: int) -> str:
        offset = self._function.allocations[CAPTURES].offset + SLOT_BYTES * index
        return f"getelementptr (i8, ptr addrspace(3) @shared, i32 {offset})"

    def _announce(self, number: int) -> None:
        """Every thread stores the same number."""
        self._printer.line(f"store volatile i32 {number}, ptr addrspace(3) {self._slot(0)}, align 8")

    def _store(self, slot: int, value: Value) -> None:
        """Captures are the same in every thread of the kernel's warps, so all may store them."""
        printer = self._printer
        kind, name = llvm_type(value.type), printer.name(value)
        if value.type == "i1":
            wide = printer.fresh()
            printer.line(f"{wide} = zext i1 {name} to i8")
            kind, name = "i8", wide
        printer.line(f"store volatile {kind} {name}, ptr addrspace(3) {self._slot(slot)}, align 8")

    def _load(self, argument: Value, slot: int) -> None:
        printer = self._printer
        kind, name = llvm_type(argument.type), printer.name(argument)
        if argument.type == "i1":
            wide = printer.fresh()
            printer.line(f"{wide} = load volatile i8, ptr addrspace(3) {self._slot(slot)}, align 8")
            printer.line(f"{name} = trunc i8 {wide} to i1")
            return
        printer.line(f"{name} = load volatile {kind}, ptr addrspace(3) {self._slot(slot)}, align 8")
