"""Thread IR to LLVM text, in one pass: structured regions become basic blocks, records spell their instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glueball.codegen.carried import Carried, carried_words
from glueball.codegen.debug import DebugInformation, Metadata
from glueball.codegen.family import family_of
from glueball.codegen.literals import literal, symbol_of
from glueball.codegen.partitions import Partitions
from glueball.errors import CodeGenerationError, TargetError, render
from glueball.location import SourceLocation
from glueball.targets import TARGETS, Target
from glueball.thread.control import PARTITIONS
from glueball.thread.ir import BITS, Function, Instruction, Record, Region, Scope, Template, Value
from glueball.thread.words import llvm_type

GRID_CONSTANT_VERSION = 77
"""The PTX version in which a kernel may take the generic address of a parameter."""


@dataclass(frozen=True, slots=True)
class PrintedModule:
    """LLVM text and the version of the assembly language (such as 74 for PTX 7.4) that it needs."""

    text: str
    version: int


class FunctionPrinter:
    """Prints one kernel; the `Emitter` that templates of records see.

    Errors: `TargetError` for an instruction that the target does not have, at the author's location.
    """

    def __init__(self, function: Function, target: Target, *, lines: bool = True) -> None:
        self.target = target
        self._function = function
        self._family = family_of(target)
        self._version = self._family.version(target)
        self._metadata = Metadata()
        self._debug = self._debug_information() if lines else None
        self._lines: list[str] = []
        self._declarations: dict[str, None] = {}
        self._templates: dict[str, Template] = {}
        self._location: SourceLocation | None = None
        self._suffix = ""
        self._count = 0
        self._block = "entry"
        self._shared_bases: dict[str, str] = {}
        self._shared_addresses: dict[tuple[str, str], str] = {}
        self._words: dict[tuple[Value, ...], str] = {}
        self._halves: dict[Value, tuple[str, bool]] = {}
        self._names: dict[Value, str] = {}
        self._printed_before: Instruction | None = None
        self.following: Instruction | None = None
        self.first_warp = 0
        has_workers = any(instruction.record is PARTITIONS for instruction in function.body.walk())
        self._partitions = Partitions(self, function) if has_workers else None
        self._structured: dict[str, Callable[[Instruction], bool]] = {
            "partitions": self._specialize,
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "return": self._return,
        }

    def _debug_information(self) -> DebugInformation:
        function = self._function
        return DebugInformation(self._metadata, function.location, symbol_of(function.name), self._family.emission)

    def print_module(self) -> PrintedModule:
        """The kernel as a whole module without target triple and data layout."""
        function, family = self._function, self._family
        self._at(function.location)
        signature = self._signature()
        for allocation in function.allocations.values():
            base = self._shared_bases[allocation.name] = self.fresh()
            self.line(family.shared_base(allocation, base))
        if self._partitions is not None:
            self._partitions.start()
        if self.region(function.body) is not None:
            self._end()
        if self._partitions is not None:
            self._partitions.workers()
        attributes = " ".join(("nounwind", *family.attributes(function)))
        attachments = f" !dbg {self._debug.subprogram}" if self._debug else ""
        attachments += family.attachments(function, self._metadata)
        header = f"define {family.calling_convention} void @{symbol_of(function.name)}({signature}) #0{attachments} {{"
        named = self._named_metadata()
        return PrintedModule(
            "\n".join(
                [
                    *family.shared_globals(function),
                    *self._declarations,
                    header,
                    "entry:",
                    *self._lines,
                    "}",
                    f"attributes #0 = {{ {attributes} }}",
                    *named,
                    *self._metadata.nodes,
                    "",
                ]
            ),
            self._version,
        )

    def _signature(self) -> str:
        """The kernel's parameters; pointers become numbers on entry, as thread IR has them.

        A tensor descriptor is passed by value, and its number is where the parameter lies.
        """
        parts = []
        for position, parameter in enumerate(self._function.parameters):
            value = parameter.value
            if value.constant is not None:
                parts.append(f"{_parameter_type(parameter.pointee, value.type)} %p{position}")
            elif parameter.descriptor is not None:
                self.require_version(GRID_CONSTANT_VERSION)
                parts.append(f'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %p{position}')
                self.line(f"{self.name(value)} = ptrtoint ptr %p{position} to i64")
            elif parameter.pointee is None:
                parts.append(f"{llvm_type(value.type)} {self.name(value)}")
            else:
                parts.append(f"ptr addrspace(1) %p{position}")
                self.line(f"{self.name(value)} = ptrtoint ptr addrspace(1) %p{position} to i64")
        return ", ".join(parts)

    def _named_metadata(self) -> list[str]:
        flags = list(self._family.module_flags())
        lines = []
        if self._debug is not None:
            flags.append('!{i32 2, !"Debug Info Version", i32 3}')
            lines.append(f"!llvm.dbg.cu = !{{{self._debug.unit}}}")
        if flags:
            lines.append(f"!llvm.module.flags = !{{{', '.join(map(self._metadata.add, flags))}}}")
        return lines

    # What records may ask (the protocol `Emitter`).

    def name(self, value: Value) -> str:
        """The value as LLVM text without its type: a register or a literal."""
        if value.constant is not None:
            return literal(value.type, value.constant)
        return self._names.get(value) or f"%v{value.number}"

    def fresh(self) -> str:
        """A new LLVM register name."""
        self._count += 1
        return f"%t{self._count}"

    def line(self, text: str) -> None:
        """One LLVM instruction in the current block, at the current source location."""
        self._lines.append(f"  {text}{self._suffix}")

    def entry(self, text: str) -> None:
        """One LLVM instruction at the start of the function."""
        self._lines.insert(0, f"  {text}")

    def declare(self, text: str) -> None:
        """A module-level declaration, printed once."""
        self._declarations[text] = None

    def block(self) -> str:
        """Name of the current basic block."""
        return self._block

    def open_block(self, name: str) -> None:
        """Starts a basic block."""
        self._block = name
        self._shared_addresses.clear()
        self._lines.append(f"{name}:")

    def shared_address(self, instruction: Instruction, offset: Value, attribute: str = "allocation") -> str:
        """Address of a byte of an allocation, computed once per basic block."""
        name, text = instruction.attributes[attribute], self.name(offset)
        if text == "0":
            return self._shared_bases[name]
        address = self._shared_addresses.get((name, text))
        if address is None:
            address = self._shared_addresses[name, text] = self.fresh()
            self.line(self._family.shared_offset(address, self._shared_bases[name], text))
        return address

    def remember(self, values: Sequence[Value], word: str) -> None:
        """Notes that these registers are just what a word holds."""
        self._words[tuple(values)] = word
        if len(values) == 2 and BITS[values[0].type] == 16:
            self._halves |= {value: (word, upper) for value, upper in zip(values, (False, True), strict=True)}

    def word_of(self, values: Sequence[Value]) -> str | None:
        """The word that these registers, in this order, were taken out of."""
        return self._words.get(tuple(values))

    def half_of(self, value: Value) -> tuple[str, bool] | None:
        """The word of 32 bits that a register of 16 was taken out of, and whether it is the upper half."""
        return self._halves.get(value)

    def join_following(self, instruction: Instruction) -> None:
        """What follows is printed with an instruction: its results are the other's too."""
        assert self.following is not None
        self._printed_before = self.following
        names = map(self.name, self.following.results)
        self._names |= zip(instruction.results, names, strict=True)

    def require_version(self, version: int) -> None:
        """Asks for at least this version of the assembly language."""
        self._version = max(self._version, version)

    # Instructions.

    def _at(self, location: SourceLocation) -> None:
        self._location = location
        if self._debug is not None:
            self._suffix = self._debug.suffix(location)

    def region(self, region: Region) -> Sequence[Value] | None:
        """Prints a region; gives what it yields, or None where control never reaches its end."""
        templates = self._templates
        followers = iter([*region.instructions[1:], None])
        for instruction in region.instructions:
            following = next(followers)
            if instruction is self._printed_before:
                continue
            record = instruction.record
            name = record.name
            if name == "yield":
                return instruction.operands
            if instruction.location is not self._location:
                self._at(instruction.location)
            structured = self._structured.get(name)
            if structured is not None:
                if not structured(instruction):
                    return None
                continue
            template = templates.get(name)
            if template is None:
                template = templates[name] = self._template(record, instruction.location)
            if isinstance(template, str):
                self._formatted(template, instruction)
            else:
                self.following = following
                template(instruction, self)
        return ()

    def _formatted(self, template: str, instruction: Instruction) -> None:
        operands, results = instruction.operands, instruction.results
        text = template.format(
            *[self.name(operand) for operand in operands],
            r=f"%v{results[0].number}" if results else "",
            t=llvm_type(results[0].type) if results else "",
            t0=llvm_type(operands[0].type) if operands else "",
            **instruction.attributes,
        )
        self._lines.append(f"  {text}{self._suffix}")

    def _template(self, record: Record, location: SourceLocation) -> Template:
        if _has(self.target, record):
            return record.template(self.target)
        having = ", ".join(target.name for target in TARGETS.values() if _has(target, record)) or "no target"
        raise TargetError(render(f"{self.target.name} has no instruction {record.name!r}; {having} has it", location))

    # Structured control flow.

    def labels(self, *roles: str) -> list[str]:
        """New names for blocks."""
        self._count += 1
        return [f"{role}.{self._count}" for role in roles]

    def jump(self, label: str) -> None:
        """Ends the current block."""
        self.line(f"br label %{label}")

    def _repeat(self, header: str, body: Region) -> None:
        """Back to the start of a loop, which is not unrolled where each turn waits for all warps.

        Nothing moves across that wait, so turns that follow one another as text only take more registers.
        """
        waits = any(instruction.record.scope in (Scope.CTA, Scope.CLUSTER) for instruction in body.walk())
        hint = f", !llvm.loop {self._metadata.loop('llvm.loop.unroll.disable')}" if waits else ""
        self.line(f"br label %{header}{hint}")

    def _phi(self, name: str, kind: str, incoming: Sequence[tuple[str, str]]) -> None:
        sources = ", ".join(f"[ {text}, %{block} ]" for text, block in incoming)
        self.line(f"{name} = phi {llvm_type(kind)} {sources}")

    def bind(self, targets: Sequence[Value], sources: Sequence[Value], block: str) -> None:
        """Other names for registers, in a block whose only predecessor is `block`."""
        for target, source in zip(targets, sources, strict=True):
            self._phi(self.name(target), target.type, [(self.name(source), block)])

    def _return(self, _: Instruction) -> bool:
        self._end()
        return False

    def _end(self) -> None:
        if self._partitions is not None:
            self._partitions.finish()
        self.line("ret void")

    def _specialize(self, instruction: Instruction) -> bool:
        assert self._partitions is not None
        return self._partitions.instruction(instruction)

    def _if(self, instruction: Instruction) -> bool:
        labels = self.labels("then", "else", "join")
        join = labels[2]
        self.line(f"br i1 {self.name(instruction.operands[0])}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[Sequence[Value], str]] = []
        for label, region in zip(labels, (*instruction.regions, Region())[:2], strict=False):
            self.open_block(label)
            yielded = self.region(region)
            if yielded is not None:
                ends.append((yielded, self._block))
                self.jump(join)
        if not ends:
            return False
        self._at(instruction.location)
        self.open_block(join)
        for index, result in enumerate(instruction.results):
            self._phi(self.name(result), result.type, [(self.name(values[index]), block) for values, block in ends])
        return True

    def _for(self, instruction: Instruction) -> bool:
        lower, upper, step, *initial = instruction.operands
        (region,) = instruction.regions
        induction, *arguments = region.arguments
        header, body, latch, done = self.labels("for", "body", "next", "done")
        kind, index, following, inside = induction.type, self.name(induction), self.fresh(), self.fresh()
        words = carried_words(instruction) if self._family.carries_words else ()
        carried = Carried(self, arguments, region, words)
        carried.enter(initial)
        before = self._block
        self.jump(header)
        self.open_block(header)
        self._phi(index, kind, [(self.name(lower), before), (following, latch)])
        carried.open(before, latch)
        predicate = "sgt" if instruction.attributes.get("step_negative") else "slt"
        self.line(f"{inside} = icmp {predicate} {kind} {index}, {self.name(upper)}")
        self.line(f"br i1 {inside}, label %{body}, label %{done}")
        self.open_block(body)
        if self.region(region) is not None:
            carried.turn()
            self.jump(latch)
        self._at(instruction.location)
        self.open_block(latch)
        self.line(f"{following} = add {kind} {index}, {self.name(step)}")
        self._repeat(header, region)
        self.open_block(done)
        carried.leave(instruction.results, header)
        return True

    def _while(self, instruction: Instruction) -> bool:
        condition, body = instruction.regions
        header, inner, latch, done = self.labels("while", "body", "next", "done")
        carried = Carried(self, condition.arguments, body, ())
        carried.enter(instruction.operands)
        before = self._block
        self.jump(header)
        self.open_block(header)
        carried.open(before, latch)
        yielded = self.region(condition)
        if yielded is None:
            raise CodeGenerationError(render("the condition of a loop never ends", instruction.location))
        proceed, *values = yielded
        decided = self._block
        self.line(f"br i1 {self.name(proceed)}, label %{inner}, label %{done}")
        self.open_block(inner)
        self.bind(body.arguments, values, decided)
        if self.region(body) is not None:
            self.jump(latch)
        self._at(instruction.location)
        self.open_block(latch)
        self._repeat(header, body)
        self.open_block(done)
        self.bind(instruction.results, values, decided)
        return True


def _has(target: Target, record: Record) -> bool:
    return record.available_on(target) and (target.family in record.llvm or "any" in record.llvm)


def _parameter_type(pointee: str | None, kind: str) -> str:
    return llvm_type(kind) if pointee is None else "ptr addrspace(1)"


def print_module(function: Function, target: Target, *, lines: bool = True) -> PrintedModule:
    """The LLVM text of a kernel; `lines` adds source locations for the line table."""
    return FunctionPrinter(function, target, lines=lines).print_module()
