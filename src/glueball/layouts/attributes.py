"""Layouts in the spelling of compiler attributes: `#ttg.blocked<{sizePerThread = [1, 4], ...}>`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.amd_matrix import AMDMFMALayout, AMDWMMALayout
from glueball.layouts.base import DistributedLayout, Layout
from glueball.layouts.distributed import BlockedLayout, DistributedLinearLayout, SliceLayout
from glueball.layouts.matrix import DotOperandLayout
from glueball.layouts.nvidia_matrix import NVMMADistributedLayout
from glueball.layouts.padded import PaddedSharedLayout, PartitionedSharedLayout
from glueball.layouts.shared import NVMMASharedLayout, SharedLinearLayout, SwizzledSharedLayout
from glueball.layouts.tensor_memory import TensorMemoryLayout

TOKEN = re.compile(r"\s*(?:(#[\w.]+)|(-?\d+)|([A-Za-z_]\w*)|([<>{}\[\]=,:+]))")
DEEPEST = 50


class Fields:
    """The fields of one attribute; each is taken once, and none may be left."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name = name
        self.values = values

    def take(self, field: str, *default: Any) -> Any:
        """The value of a field, or the default where it is left out. LayoutError without either."""
        if field not in self.values and not default:
            raise LayoutError(f"{self.name} needs the field {field}")
        return self.values.pop(field, *default)

    def take_flag(self, field: str) -> bool:
        """The truth value of a field, false where it is left out."""
        value = self.take(field, False)
        if not isinstance(value, bool):
            raise LayoutError(f"{field} of {self.name} must be true or false, not {value!r}")
        return value

    def finish(self) -> None:
        """Raise LayoutError where a field was not taken."""
        if self.values:
            raise LayoutError(f"{self.name} has no field {', '.join(self.values)}")


def parse_attribute(text: str, aliases: Mapping[str, Layout]) -> Layout:
    """The layout that an attribute spells; `aliases` are the names, with their `#`, that it may use.

    Raises LayoutError for malformed text, unknown attributes and fields, and fields that make no layout.
    """
    parser = _Parser(text, aliases)
    value = parser.value(0)
    if parser.next() is not None:
        parser.fail("more text follows")
    if not isinstance(value, Layout):
        parser.fail("it should be the attribute of a layout")
    return value


class _Parser:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str, aliases: Mapping[str, Layout]) -> None:
        self.text = text
        self.aliases = aliases
        self.position = 0

    def next(self) -> str | None:
        """The token at the cursor, without moving; None at the end."""
        match = TOKEN.match(self.text, self.position)
        if match is None:
            if self.text[self.position :].strip():
                self.fail("unexpected character")
            return None
        return match[0].strip()

    def advance(self, *expected: str) -> str:
        """Moves past the token at the cursor, which must be one of those expected, if any are given."""
        token = self.next()
        if token is None or (expected and token not in expected):
            self.fail(f"expected {' or '.join(expected)}" if expected else "the text ends too early")
        match = TOKEN.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return token

    def fail(self, problem: str) -> NoReturn:
        """Raise LayoutError with the place of the cursor."""
        before = self.text[max(0, self.position - 40) : self.position].lstrip()
        after = self.text[self.position :][:40].strip()
        raise LayoutError(
            f"malformed layout attribute: {problem} at {after!r}" + (f" after {before!r}" if before else "")
        )

    def value(self, depth: int) -> Any:
        """A number, truth value, list, table of fields, or attribute."""
        if depth > DEEPEST:
            self.fail("too deeply nested")
        token = self.advance()
        if token == "[":
            return self.items("]", lambda: self.value(depth + 1))
        if token == "{":
            return dict(self.items("}", lambda: self.field(depth)))
        if token.startswith("#"):
            return self.attribute(token, depth)
        if token in ("true", "false"):
            return token == "true"
        if re.fullmatch(r"-?\d{1,18}", token):
            return int(token)
        self.fail(f"{token!r} is no value")

    def items(self, end: str, item: Callable[[], Any]) -> list[Any]:
        """Values separated by commas, up to the closing token."""
        found: list[Any] = []
        while self.next() != end:
            if found:
                self.advance(",")
            found.append(item())
        self.advance(end)
        return found

    def field(self, depth: int) -> tuple[str, Any]:
        """`name = value`."""
        name = self.advance()
        self.advance("=")
        return name, self.value(depth + 1)

    def padding(self) -> list[int]:
        """`interval:+padding`."""
        interval = self.advance()
        self.advance(":")
        self.advance("+")
        padding = self.advance()
        if not (interval.isdigit() and padding.isdigit()):
            self.fail(f"{interval}:+{padding} is no padding")
        return [int(interval), int(padding)]

    def attribute(self, name: str, depth: int) -> Layout:
        """An alias, or an attribute's name with its fields in angle brackets."""
        if self.next() != "<":
            if name in self.aliases:
                return self.aliases[name]
            known = f"; known are {', '.join(self.aliases)}" if self.aliases else ""
            raise LayoutError(f"unknown layout alias {name}{known}")
        maker = ATTRIBUTES.get(name)
        if maker is None:
            raise LayoutError(f"unsupported layout attribute {name}; the supported ones are {', '.join(ATTRIBUTES)}")
        self.advance("<")
        values: dict[str, Any] = {}
        while self.next() != ">":
            if self.next() == "{":
                values.update(self.value(depth))
            elif self.next() == "[" and "paddings" not in values:
                self.advance("[")
                values["paddings"] = self.items("]", self.padding)
            else:
                values.update([self.field(depth)])
            if self.next() == ",":
                self.advance(",")
        self.advance(">")
        fields = Fields(name, values)
        result = maker(fields)
        fields.finish()
        return result


def _cga(fields: Fields) -> Any:
    return fields.take("CGALayout", [])


def _extents(*groups: Any) -> list[int]:
    """The shape that bases reach."""
    vectors = [vector for group in groups for vector in normalise.vectors(group, "bases")]
    if not vectors or len({len(vector) for vector in vectors}) > 1 or min(map(min, vectors), default=-1) < 0:
        raise LayoutError(f"bases must all have as many coordinates, none of them negative: {vectors}")
    return [1 << max(column).bit_length() for column in zip(*vectors, strict=True)]


def _linear(fields: Fields) -> Layout:
    register, lane, warp, block = (fields.take(name, []) for name in ("register", "lane", "warp", "block"))
    return DistributedLinearLayout(register, lane, warp, block, _extents(register, lane, warp, block))


def _parent(fields: Fields) -> DistributedLayout:
    parent = fields.take("parent")
    if not isinstance(parent, DistributedLayout):
        raise LayoutError(f"the parent of {fields.name} must be the attribute of a layout in registers, not {parent!r}")
    return parent


def _padded(fields: Fields) -> Layout:
    paddings, shape = fields.take("paddings"), fields.take("shape", None)
    if shape is not None:
        return PaddedSharedLayout.with_identity_for(paddings, shape, fields.take("order"), _cga(fields))
    offsets, blocks = fields.take("offset"), fields.take("block", [])
    extents = _extents(offsets, blocks)
    own = _extents(offsets)
    scaled = [[value // extent for value, extent in zip(basis, own, strict=True)] for basis in blocks]
    return PaddedSharedLayout(paddings, offsets, scaled, extents)


def _wmma(fields: Fields) -> Layout:
    ctas = fields.take("ctaLayout", {})
    if not isinstance(ctas, dict) or "warp" not in ctas:
        raise LayoutError(f"{fields.name} needs the field ctaLayout = {{register = [...], warp = [...]}}")
    return AMDWMMALayout(
        fields.take("version"),
        fields.take_flag("isTranspose"),
        ctas["warp"],
        ctas.get("register", []),
        fields.take("instrShape", None),
        _cga(fields),
    )


ATTRIBUTES: dict[str, Callable[[Fields], Layout]] = {
    "#ttg.blocked": lambda fields: BlockedLayout(
        fields.take("sizePerThread"),
        fields.take("threadsPerWarp"),
        fields.take("warpsPerCTA"),
        fields.take("order"),
        _cga(fields),
    ),
    "#ttg.slice": lambda fields: SliceLayout(fields.take("dim"), _parent(fields)),
    "#ttg.linear": _linear,
    "#ttg.nvidia_mma": lambda fields: NVMMADistributedLayout(
        [fields.take("versionMajor"), fields.take("versionMinor", 0)],
        fields.take("warpsPerCTA"),
        fields.take("instrShape"),
        _cga(fields),
    ),
    "#ttg.amd_mfma": lambda fields: AMDMFMALayout(
        fields.take("version"),
        fields.take("instrShape"),
        fields.take_flag("isTransposed"),
        fields.take("warpsPerCTA"),
        fields.take("elementBitWidth", None),
        fields.take("tilesPerWarp", None),
        _cga(fields),
    ),
    "#ttg.amd_wmma": _wmma,
    "#ttg.dot_op": lambda fields: DotOperandLayout(fields.take("opIdx"), _parent(fields), fields.take("kWidth", 0)),
    "#ttg.swizzled_shared": lambda fields: SwizzledSharedLayout(
        fields.take("vec"), fields.take("perPhase"), fields.take("maxPhase"), fields.take("order"), _cga(fields)
    ),
    "#ttg.nvmma_shared": lambda fields: NVMMASharedLayout(
        fields.take("swizzlingByteWidth"),
        fields.take("elementBitWidth"),
        fields.take("rank", 2),
        fields.take_flag("transposed"),
        fields.take_flag("fp4Padded"),
        _cga(fields),
    ),
    "#ttg.padded_shared": _padded,
    "#ttg.partitioned_shared": lambda fields: PartitionedSharedLayout(
        fields.take("numPartitions"),
        fields.take("numGroups"),
        fields.take("partitionDim"),
        fields.take("partitionLayout"),
    ),
    "#ttg.shared_linear": lambda fields: SharedLinearLayout(
        fields.take("offset"), fields.take("block", []), fields.take("alignment", 16)
    ),
    "#ttng.tensor_memory_encoding": lambda fields: TensorMemoryLayout(
        [fields.take("blockM"), fields.take("blockN")],
        fields.take("colStride", 1),
        _cga(fields),
        fields.take_flag("twoCTAs"),
        fields.take_flag("fp4Padded"),
    ),
}
"""How each attribute becomes a layout."""
