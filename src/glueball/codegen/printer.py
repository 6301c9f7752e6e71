"""Thread IR to LLVM text, in one pass: structured regions become basic blocks, records spell their instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glueball.codegen.debug import DebugInformation, Metadata
from glueball.codegen.family import family_of
from glueball.codegen.literals import literal, symbol_of
from glueball.errors import CodeGenerationError, TargetError, render
from glueball.location import SourceLocation
from glueball.targets import TARGETS, Target
from glueball.thread.ir import Function, Instruction, Record, Region, Template, Value
from glueball.thread.words import llvm_type


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
        self._structured: dict[str, Callable[[Instruction], bool]] = {
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
        if self._region(function.body) is not None:
            self.line("ret void")
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
        """The kernel's parameters; pointers become numbers on entry, as thread IR has them."""
        parts = []
        for position, parameter in enumerate(self._function.parameters):
            value = parameter.value
            if value.constant is not None:
                parts.append(f"{_parameter_type(parameter.pointee, value.type)} %p{position}")
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
        return f"%v{value.number}" if value.constant is None else literal(value.type, value.constant)

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

    def shared_address(self, instruction: Instruction, offset: Value) -> str:
        """Address of a byte of an allocation, computed once per basic block."""
        name, text = instruction.attributes["allocation"], self.name(offset)
        if text == "0":
            return self._shared_bases[name]
        address = self._shared_addresses.get((name, text))
        if address is None:
            address = self._shared_addresses[name, text] = self.fresh()
            self.line(self._family.shared_offset(address, self._shared_bases[name], text))
        return address

    def require_version(self, version: int) -> None:
        """Asks for at least this version of the assembly language."""
        self._version = max(self._version, version)

    # Instructions.

    def _at(self, location: SourceLocation) -> None:
        self._location = location
        if self._debug is not None:
            self._suffix = self._debug.suffix(location)

    def _region(self, region: Region) -> Sequence[Value] | None:
        """Prints a region; gives what it yields, or None where control never reaches its end."""
        templates = self._templates
        for instruction in region.instructions:
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

    def _labels(self, *roles: str) -> list[str]:
        self._count += 1
        return [f"{role}.{self._count}" for role in roles]

    def _jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def _phi(self, name: str, kind: str, incoming: Sequence[tuple[str, str]]) -> None:
        sources = ", ".join(f"[ {text}, %{block} ]" for text, block in incoming)
        self.line(f"{name} = phi {llvm_type(kind)} {sources}")

    def _bind(self, targets: Sequence[Value], sources: Sequence[Value], block: str) -> None:
        """Other names for registers, in a block whose only predecessor is `block`."""
        for target, source in zip(targets, sources, strict=True):
            self._phi(self.name(target), target.type, [(self.name(source), block)])

    def _return(self, _: Instruction) -> bool:
        self.line("ret void")
        return False

    def _if(self, instruction: Instruction) -> bool:
        labels = self._labels("then", "else", "join")
        join = labels[2]
        self.line(f"br i1 {self.name(instruction.operands[0])}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[Sequence[Value], str]] = []
        for label, region in zip(labels, (*instruction.regions, Region())[:2], strict=False):
            self.open_block(label)
            yielded = self._region(region)
            if yielded is not None:
                ends.append((yielded, self._block))
                self._jump(join)
        if not ends:
            return False
        self._at(instruction.location)
        self.open_block(join)
        for index, result in enumerate(instruction.results):
            self._phi(self.name(result), result.type, [(self.name(values[index]), block) for values, block in ends])
        return True

    def _carry(self, arguments: Sequence[Value], initial: Sequence[Value], region: Region, edges: list[str]) -> None:
        """Registers carried around a loop: initial values from `edges[0]`, what the region yields from `edges[1]`."""
        last = region.instructions[-1] if region.instructions else None
        following = last.operands if last is not None and last.record.name == "yield" else ()
        for index, (argument, first) in enumerate(zip(arguments, initial, strict=True)):
            again = self.name(following[index]) if index < len(following) else "poison"
            self._phi(self.name(argument), argument.type, [(self.name(first), edges[0]), (again, edges[1])])

    def _for(self, instruction: Instruction) -> bool:
        lower, upper, step, *initial = instruction.operands
        (region,) = instruction.regions
        induction, *carried = region.arguments
        header, body, latch, done = self._labels("for", "body", "next", "done")
        kind, index, following, inside = induction.type, self.name(induction), self.fresh(), self.fresh()
        before = self._block
        self._jump(header)
        self.open_block(header)
        self._phi(index, kind, [(self.name(lower), before), (following, latch)])
        self._carry(carried, initial, region, [before, latch])
        predicate = "sgt" if instruction.attributes.get("step_negative") else "slt"
        self.line(f"{inside} = icmp {predicate} {kind} {index}, {self.name(upper)}")
        self.line(f"br i1 {inside}, label %{body}, label %{done}")
        self.open_block(body)
        if self._region(region) is not None:
            self._jump(latch)
        self._at(instruction.location)
        self.open_block(latch)
        self.line(f"{following} = add {kind} {index}, {self.name(step)}")
        self._jump(header)
        self.open_block(done)
        self._bind(instruction.results, carried, header)
        return True

    def _while(self, instruction: Instruction) -> bool:
        condition, body = instruction.regions
        header, inner, latch, done = self._labels("while", "body", "next", "done")
        before = self._block
        self._jump(header)
        self.open_block(header)
        self._carry(condition.arguments, instruction.operands, body, [before, latch])
        yielded = self._region(condition)
        if yielded is None:
            raise CodeGenerationError(render("the condition of a loop never ends", instruction.location))
        proceed, *values = yielded
        decided = self._block
        self.line(f"br i1 {self.name(proceed)}, label %{inner}, label %{done}")
        self.open_block(inner)
        self._bind(body.arguments, values, decided)
        if self._region(body) is not None:
            self._jump(latch)
        self._at(instruction.location)
        self.open_block(latch)
        self._jump(header)
        self.open_block(done)
        self._bind(instruction.results, values, decided)
        return True


def _has(target: Target, record: Record) -> bool:
    return record.available_on(target) and (target.family in record.llvm or "any" in record.llvm)


def _parameter_type(pointee: str | None, kind: str) -> str:
    return llvm_type(kind) if pointee is None else "ptr addrspace(1)"


def print_module(function: Function, target: Target, *, lines: bool = True) -> PrintedModule:
    """The LLVM text of a kernel; `lines` adds source locations for the line table."""
    return FunctionPrinter(function, target, lines=lines).print_module()
