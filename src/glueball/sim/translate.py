"""Thread IR to Python: a kernel becomes one generator function with one call per instruction.

Values are Python variables that hold arrays broadcastable to `[cta, warp, lane]`; a variable is deleted after its last
use, so that large kernels stay small. Structured regions become Python's own `if` and `while`, with a mask of active
threads. The generator yields a `Pause` before every blocking instruction and after every iteration of a `while`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball.errors import NotSimulatedError, SimulationError
from glueball.numerics import and_undefined, or_undefined
from glueball.sim import masks
from glueball.sim.poison import CHECKED, LOADS, PRODUCT, SHARED_LOADS, PoisonAnalysis, leaves_undefined
from glueball.sim.scheduler import Pause, Wait
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Function, Instruction, Region, Value
from glueball.thread.nvidia.matrix import poison_of_product

_WORD = ("the address of an mbarrier", "a predicate")
ROLES = {
    **dict.fromkeys(("mbarrier_init", "mbarrier_invalidate", "mbarrier_arrive", "mbarrier_expect"), _WORD),
    "mbarrier_wait": ("the address of an mbarrier", "the phase of a wait", "a predicate"),
    "mbarrier_copy_arrive": _WORD[:1],
    "fence_mbarrier_init": _WORD[1:],
    "store_async": ("an address", "the rank of a CTA", "the address of an mbarrier", "a value that is sent"),
    "bulk_tensor_load": (
        "a descriptor", "an address", "the address of an mbarrier", "a predicate", "a coordinate of a bulk copy"
    ),
    "make_tensor_map": ("an address", "a lane", "an address", "a predicate", "a predicate", "a field of a tensor map"),
    "bulk_tensor_store": ("a descriptor", "an address", "a predicate", "a coordinate of a bulk copy"),
}  # fmt: skip
ATOMIC = ("shared_add", "shared_atomic", "atomic", "atomic_load", "atomic_store")
PRODUCTS = (PRODUCT, "warpgroup_wait")
STRUCTURAL = ("if", "for", "while", "partitions", "yield", "return")


@dataclass(frozen=True, slots=True)
class Translation:
    """A kernel as Python. `regions` gives, for each region, the indices of the instructions that stand in it."""

    source: str
    run: Callable[..., Generator[Wait, None, None]]
    instructions: list[Instruction]
    regions: list[list[int]]
    shared_poison: bool


def translate(function: Function, analysis: type[PoisonAnalysis]) -> Translation:
    """The translation of a function with the poison that an analysis finds, made once for the instructions it has."""
    instructions = list(function.body.walk())
    known: dict[type[PoisonAnalysis], Translation] = function.executable or {}
    if analysis not in known or known[analysis].instructions != instructions:
        known[analysis] = _Translator(function, instructions, analysis).translate()
        function.executable = known
    return known[analysis]


class _Translator:
    def __init__(self, function: Function, instructions: list[Instruction], analysis: type[PoisonAnalysis]) -> None:
        self.function = function
        self.instructions = instructions
        self.numbers = {id(instruction): number for number, instruction in enumerate(instructions)}
        self.poison = analysis(function, self.numbers)
        self.names: dict[int, str] = {}
        self.regions: list[list[int]] = []
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.depth = 1
        self.namespace: dict[str, Any] = {
            name: getattr(masks, name)
            for name in (
                "NOBODY",
                "fork",
                "narrow",
                "merge",
                "keep",
                "defined",
                "merge_poison",
                "keep_poison",
                "join_poison",
            )
        }
        self.namespace |= {name: getattr(masks, name) for name in ("masked_poison", "unloaded_poison")}
        self.namespace |= {"READY": Pause.READY, "POLLING": Pause.POLLING}

    def translate(self) -> Translation:
        parameters = [parameter.value for parameter in self.function.parameters]
        self.define("kernel", parameters, self.function.body)
        source = "\n".join([*self.functions, ""])
        exec(compile(source, f"<simulation of {self.function.name}>", "exec"), self.namespace)
        return Translation(source, self.namespace["kernel"], self.instructions, self.regions, bool(self.poison.shared))

    def define(self, name: str, parameters: Sequence[Value], region: Region) -> None:
        """A generator function that executes a region in the threads that are active when it starts."""
        outer = self.lines, self.depth
        self.lines, self.depth = [f"def {name}({', '.join(['m', *map(self.name, parameters)])}):"], 1
        self.line("yield READY")
        self.region(region, "m.active")
        self.functions += self.lines
        self.lines, self.depth = outer

    # Names

    def line(self, text: str) -> None:
        self.lines.append(f"{' ' * self.depth}{text}")

    def name(self, value: Value) -> str:
        """The variable of a value, or the global that holds a constant."""
        key = id(value)
        if key not in self.names:
            if value.constant is None:
                self.names[key] = f"v{len(self.names)}"
            else:
                self.names[key] = f"c{len(self.names)}"
                with np.errstate(over="ignore"):
                    self.namespace[self.names[key]] = NUMPY[value.type].type(value.constant)
        return self.names[key]

    def poison_name(self, value: Value) -> str:
        """The variable with a value's poison; `None` if it can have none."""
        return f"p{self.name(value)}" if self.poison.of(value) else "None"

    def constant(self, prefix: str, value: Any) -> str:
        """A global that holds a Python object."""
        name = f"{prefix}{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def poisons(self, values: Sequence[Value]) -> list[str]:
        return [self.poison_name(value) for value in values]

    def joined(self, operands: Sequence[Value], *own: str) -> str:
        """The poison of what is computed from all of the operands."""
        names = [*own, *(self.poison_name(operand) for operand in operands if self.poison.of(operand))]
        return f"join_poison({', '.join(names)})" if len(names) > 1 else "".join(names) or "None"

    def assign(self, targets: Sequence[Value], sources: Sequence[str], poisons: Sequence[str]) -> None:
        """Assigns values and their poison, all at once."""
        left = [self.name(target) for target in targets]
        right = list(sources)
        for target, poison in zip(targets, poisons, strict=True):
            if self.poison.of(target):
                left.append(self.poison_name(target))
                right.append(poison)
        if left:
            self.line(f"{', '.join(left)} = {', '.join(right)}")

    def forbid(self, value: Value, role: str, mask: Value | None = None) -> None:
        """Reports poison in a value that an active thread uses."""
        if origins := self.poison.settled(value):
            poison = self.poison_name(value)
            where = self.constant("o", tuple(sorted(origins)))
            guard = "" if mask is None else f", {self.name(mask)}"
            self.line(f"if {poison} is not None: m.forbid({poison}, {where}, {role!r}{guard})")

    # Regions

    def region(self, region: Region, mask: str) -> Sequence[Value]:
        """The instructions of a region, executed by the threads of a mask; what it yields."""
        number = len(self.regions)
        self.regions.append(
            [self.numbers[id(each)] for each in region.instructions if each.record.name not in STRUCTURAL]
        )
        self.line(f"m.enter({mask}, {number})")
        dying = _last_uses(region)
        for instruction, values in zip(region.instructions, dying, strict=True):
            match instruction.record.name:
                case "yield":
                    return instruction.operands
                case "return":
                    self.end(instruction, region)
                    return ()
                case "if" | "for" | "while" | "partitions" as name:
                    self.line(f"m.at = {self.numbers[id(instruction)]}")
                    structured = {"if": self.branch, "for": self.loop, "while": self.spin}
                    structured.get(name, self.partitions)(instruction)
                case _:
                    self.instruction(instruction)
            names = [self.name(value) for value in values]
            names += [self.poison_name(value) for value in values if self.poison.of(value)]
            if names:
                self.line(f"del {', '.join(names)}")
        return ()

    def end(self, instruction: Instruction, region: Region) -> None:
        if region is not self.function.body:
            raise NotSimulatedError("`return` inside an `if` or a loop cannot be simulated", instruction.location)

    def branch(self, instruction: Instruction) -> None:
        number, (condition,) = self.numbers[id(instruction)], instruction.operands
        results = instruction.results
        self.forbid(condition, "the condition of an `if`")
        self.line(f"s{number} = m.active, m.active_warps")
        self.line(f"f{number}, g{number} = fork(m.active, {self.name(condition)})")
        taken: list[list[str]] = []
        for mask, side, region in zip("fg", "xy", instruction.regions, strict=False):
            names = [f"{side}{number}_{index}" for index in range(len(results))]
            poisons = [f"p{name}" for name in names]
            taken.append(names)
            for name in (*names, *poisons):
                self.line(f"{name} = None")
            self.line(f"if {mask}{number} is not NOBODY:")
            self.depth += 1
            yielded = self.region(region, f"{mask}{number}")
            for name, poison, value in zip(names, poisons, yielded, strict=True):
                self.line(f"{name}, {poison} = {self.name(value)}, {self.poison_name(value)}")
            self.depth -= 1
        self.line(f"m.active, m.active_warps = s{number}")
        if results:
            choice = self.name(condition)
            pairs = list(zip(*taken, strict=True))
            self.assign(
                results,
                [f"merge({choice}, {then}, {other})" for then, other in pairs],
                [f"merge_poison({choice}, p{then}, p{other})" for then, other in pairs],
            )

    def loop(self, instruction: Instruction) -> None:
        number, (body,) = self.numbers[id(instruction)], instruction.regions
        induction, *carried = body.arguments
        lower, upper, step = instruction.operands[:3]
        negative = bool(instruction.attributes.get("step_negative"))
        for bound in (lower, upper, step):
            self.forbid(bound, "a bound of a loop")
        bounds = ", ".join(self.name(bound) for bound in (lower, upper, step))
        self.line(f"s{number} = m.active, m.active_warps")
        self.line(f"n{number}, e{number}, d{number} = m.loop({bounds}, {negative})")
        self.copy(instruction.operands[3:], carried)
        self.line("while True:")
        self.depth += 1
        self.line(f"g{number} = narrow(s{number}[0], n{number} {'>' if negative else '<'} e{number})")
        self.line(f"if g{number} is NOBODY: break")
        kind = self.constant("k", NUMPY[induction.type].type)
        self.assign([induction], [f"{kind}(n{number})"], ["None"])
        self.keep(number, self.region(body, f"g{number}"), carried)
        self.line(f"n{number} = n{number} + d{number}")
        self.depth -= 1
        self.line(f"m.active, m.active_warps = s{number}")
        self.copy(carried, instruction.results)

    def spin(self, instruction: Instruction) -> None:
        number, (condition, body) = self.numbers[id(instruction)], instruction.regions
        results = instruction.results
        self.line(f"s{number} = m.active, m.active_warps")
        self.line(f"g{number} = s{number}[0]")
        self.copy(instruction.operands, condition.arguments)
        self.assign(results, ["None"] * len(results), ["None"] * len(results))
        self.line("while True:")
        self.depth += 1
        goes_on, *values = self.region(condition, f"g{number}")
        self.keep(number, values, results)
        self.line(f"m.at = {number}")
        self.forbid(goes_on, "the condition of a `while`")
        self.line(f"g{number} = narrow(g{number}, {self.name(goes_on)})")
        self.line(f"if g{number} is NOBODY: break")
        self.copy(values, body.arguments)
        self.copy(self.region(body, f"g{number}"), condition.arguments)
        self.line("yield POLLING")
        self.depth -= 1
        self.line(f"m.active, m.active_warps = s{number}")

    def partitions(self, instruction: Instruction) -> None:
        number, (default, *workers) = self.numbers[id(instruction)], instruction.regions
        captures = iter(instruction.operands)
        bodies = []
        for index, worker in enumerate(workers, 1):
            given = [next(captures) for _ in worker.arguments]
            for value in given:
                self.forbid(value, "a value that a worker is given")
            name = f"worker{number}_{index}"
            shared = self.outer_parameters(worker)
            self.define(name, [*worker.arguments, *shared], worker)
            bodies.append(f"({name}, [{', '.join(self.name(value) for value in (*given, *shared))}])")
        self.line(f"s{number} = m.active, m.active_warps")
        self.line(f"j{number} = m.fork({self.constant('a', instruction.attributes)}, [{', '.join(bodies)}])")
        self.copy(self.region(default, "m.active"), instruction.results)
        self.line(f"m.active, m.active_warps = s{number}")
        self.line(f"m.at = {number}")
        self.line(f"yield j{number}.reach()")
        self.line(f"m.join(j{number})")

    def outer_parameters(self, worker: Region) -> list[Value]:
        """The kernel's parameters that a worker uses; it can see no other values from outside."""
        own = {*worker.arguments, *(value for each in worker.walk() for value in each.results)}
        own |= {argument for each in worker.walk() for region in each.regions for argument in region.arguments}
        parameters = [parameter.value for parameter in self.function.parameters]
        for instruction in worker.walk():
            for value in instruction.operands:
                if value not in own and value not in parameters and value.constant is None:
                    raise SimulationError("a worker uses a value that it is not given", instruction.location)
        used = _used_in(worker)
        return [value for value in parameters if value in used]

    def copy(self, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        self.assign(targets, [self.name(source) for source in sources], self.poisons(sources))

    def keep(self, number: int, sources: Sequence[Value], targets: Sequence[Value]) -> None:
        """Assigns for the threads still in a loop."""
        loop = f"g{number}, s{number}[0]"
        pairs = list(zip(sources, targets, strict=True))
        self.assign(
            targets,
            [f"keep({loop}, {self.name(new)}, {self.name(old)})" for new, old in pairs],
            [f"keep_poison({loop}, {self.poison_name(new)}, {self.poison_name(old)})" for new, old in pairs],
        )

    # Instructions

    def instruction(self, instruction: Instruction) -> None:
        record, operands, results = instruction.record, instruction.operands, instruction.results
        self.line(f"m.at = {self.numbers[id(instruction)]}")
        if record.name in PRODUCTS:
            self.before_product(instruction)
        else:
            self.forbid_accumulators(operands)
            self.before(instruction)
        if record.blocking:
            self.line("yield READY")
        issue, attributes = self.constant("i", record.issue), self.constant("a", instruction.attributes)
        call = f"{issue}({', '.join(['m', attributes, *(self.name(operand) for operand in operands)])})"
        if record.name == "where_defined":
            call = f"defined({self.name(operands[0])}, {self.poison_name(operands[0])})"
        if record.blocking and record.complete is not None:
            self.line(f"w = {call}")
            self.line("if w is not None and not w(): yield w")
            self.line(f"{self.constant('done', record.complete)}(m, w)")
            return
        targets = ", ".join(self.name(result) for result in results)
        self.line(f"{targets} = {call}" if results else call)
        if any(self.poison.of(result) for result in results):
            self.spread(instruction, issue)

    def before(self, instruction: Instruction) -> None:
        """What must not be poison, and the poison that the machine needs to know."""
        name, operands = instruction.record.name, instruction.operands
        mask = operands[1] if instruction.attributes.get("masked") else None
        match name:
            case "remote_load":
                mask = operands[2] if mask is not None else None
                self.forbid(operands[1], "the rank of a CTA", mask)
                self.before_access(name, operands, mask)
            case "global_load" | "shared_load" | "load_matrix" | "global_store" | "shared_store" | "store_matrix":
                self.before_access(name, operands, mask)
            case "copy_async":
                mask = operands[2] if len(operands) > 2 else None
                if mask is not None:
                    self.forbid(mask, "a mask")
                for operand in operands[:2]:
                    self.forbid(operand, "an address", mask)
            case _ if name in ATOMIC:
                roles = ("an address", *(() if mask is None else ("a mask",)))
                for position, operand in enumerate(operands):
                    role = roles[position] if position < len(roles) else "an operand of an atomic operation"
                    self.forbid(operand, role, None if operand is mask else mask)
            case _ if name in ROLES:
                for operand, role in zip(operands, _roles(name, len(operands)), strict=True):
                    self.forbid(operand, role)
            case "print":
                self.tell(operands[-1:])
            case "shuffle":
                self.forbid(operands[1], "the lane of a shuffle")
            case _ if name in CHECKED:
                self.line(f"m.ignored = {self.joined(operands)}")

    def before_product(self, instruction: Instruction) -> None:
        """The same for a product of warp groups and for a wait: accumulators pass through both."""
        operands = instruction.operands
        if instruction.record.name == PRODUCT:
            self.forbid(operands[-1], "an address" if instruction.attributes["fresh"] else "a predicate")
        self.line(f"m.poison = ({', '.join([*self.poisons(operands), ''])})")

    def tell(self, values: Sequence[Value]) -> None:
        """Tells the machine the poison of values; nothing where none can have any."""
        known = self.poisons(values) if any(self.poison.of(value) for value in values) else []
        self.line(f"m.poison = ({''.join(f'{poison}, ' for poison in known)})")

    def forbid_accumulators(self, operands: Sequence[Value]) -> None:
        """Reports accumulators of warp groups that are used with no wait between."""
        for operand in dict.fromkeys(operands):
            if origins := self.poison.in_flight(operand):
                poison, where = self.poison_name(operand), self.constant("o", tuple(sorted(origins)))
                self.line(f"if {poison} is not None: m.products.forbid({poison}, {where})")

    def before_access(self, name: str, operands: Sequence[Value], mask: Value | None) -> None:
        """The same for a load or store; poison may be stored to shared memory, whose shadow remembers it."""
        if mask is not None:
            self.forbid(mask, "a mask")
        self.forbid(operands[0], "an address", mask)
        values = operands[1 if mask is None else 2 :]
        if name == "global_store":
            for value in values:
                self.forbid(value, "a stored value", mask)
        elif name in ("shared_store", "store_matrix"):
            self.tell(values)

    def spread(self, instruction: Instruction, issue: str) -> None:
        """The poison of the results."""
        operands, results = instruction.operands, instruction.results
        targets = self.poisons(results)
        match instruction.record.name:
            case _ if instruction.record.name in LOADS:
                self.spread_load(instruction, targets)
            case "load_matrix" | "warpgroup_mma" | "warpgroup_wait":
                names = ("_" if target == "None" else target for target in targets)
                self.line(f"{', '.join(names)}, = m.poison")
            case "select":
                condition, left, right = operands
                choice = f"merge_poison({self.name(condition)}, {self.poison_name(left)}, {self.poison_name(right)})"
                own = self.poison_name(condition)
                self.line(f"{targets[0]} = {choice if own == 'None' else f'join_poison({own}, {choice})'}")
            case "and" | "or" as name:
                function = self.constant("undefined", and_undefined if name == "and" else or_undefined)
                pairs = ", ".join(f"{self.name(operand)}, {self.poison_name(operand)}" for operand in operands)
                self.line(f"{targets[0]} = {function}({pairs})")
            case "shuffle":
                poison, lane = self.poison_name(operands[0]), self.name(operands[1])
                self.line(f"{targets[0]} = None if {poison} is None else {issue}(m, None, {poison}, {lane})")
            case "shift":
                poison, attributes = self.poison_name(operands[0]), self.constant("a", instruction.attributes)
                self.line(f"{targets[0]} = None if {poison} is None else {issue}(m, {attributes}, {poison})[0]")
                if targets[1] != "None":
                    self.line(f"{targets[1]} = None")
            case "mma_sync":
                function = self.constant("product", poison_of_product)
                attributes = self.constant("a", instruction.attributes)
                self.line(f"{', '.join(targets)} = {function}({attributes}, {', '.join(self.poisons(operands))})")
            case "float8_extend_pair" | "float8_round_pair":
                for target, operand in zip(targets, operands, strict=True):
                    if target != "None":
                        self.line(f"{target} = {self.poison_name(operand)}")
            case _:
                overflow = ["m.overflow"] if instruction.record.name in CHECKED else []
                self.line(f"{' = '.join(targets)} = {self.joined(operands, *overflow)}")

    def spread_load(self, instruction: Instruction, targets: Sequence[str]) -> None:
        operands, attributes = instruction.operands, instruction.attributes
        shared = instruction.record.name in SHARED_LOADS and bool(self.poison.shared)
        place = 2 if instruction.record.name == "remote_load" else 1
        if shared:
            self.line(f"{', '.join(targets)}, = m.poison")
        if leaves_undefined(instruction):
            mask = self.name(operands[place])
            self.line(f"u = unloaded_poison({mask})")
            for target in targets:
                self.line(f"{target} = {f'join_poison({target}, u)' if shared else 'u'}")
        elif attributes.get("masked"):
            mask = self.name(operands[place])
            for target, other in zip(targets, operands[place + 1 :], strict=True):
                if target != "None":
                    loaded = target if shared else "None"
                    self.line(f"{target} = merge_poison({mask}, {loaded}, {self.poison_name(other)})")


def _last_uses(region: Region) -> list[list[Value]]:
    """For each instruction of a region, the values made in the region that nothing after it uses."""
    made = {id(value): value for each in region.instructions for value in each.results}
    last: dict[int, int] = {}
    for place, instruction in enumerate(region.instructions):
        for value in instruction.results:
            last[id(value)] = place
        for value in _used(instruction):
            if id(value) in made:
                last[id(value)] = place
    dying: list[list[Value]] = [[] for _ in region.instructions]
    for key, place in last.items():
        dying[place].append(made[key])
    return dying


def _used(instruction: Instruction) -> set[Value]:
    """Values that an instruction and its regions use."""
    return set(instruction.operands).union(*map(_used_in, instruction.regions))


def _used_in(region: Region) -> set[Value]:
    """Values that the instructions of a region use."""
    return {operand for each in region.walk() for operand in each.operands}


def _roles(name: str, count: int) -> tuple[str, ...]:
    """What the operands of an instruction are; the last role holds for all that follow."""
    roles = ROLES[name]
    return (*roles, *(roles[-1],) * (count - len(roles)))


def as_argument(kind: str, value: Any) -> Any:
    """A scalar argument as a register of a type."""
    return NUMPY[kind].type(np.asarray(value).astype(NUMPY[kind]))
