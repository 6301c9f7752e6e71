"""Source lines for the machine code: LLVM debug metadata made from the locations of the instructions.

The metadata holds whole call chains; of these LLVM 22 writes the innermost line into PTX and all into AMD's sections.
"""

from __future__ import annotations

import string
import urllib.parse

from glueball.codegen.literals import quoted
from glueball.location import SourceLocation

_PLAIN = "".join(sorted({*string.printable} - {*string.whitespace, '"', "%"})) + " "


def file_name(path: str) -> str:
    """A path as PTX can hold it: what is not plain ASCII as in a URL, since PTX has no escapes."""
    return urllib.parse.quote(path.replace("\\", "/"), safe=_PLAIN, errors="surrogateescape")


def path_of(name: str) -> str:
    """The path that `file_name` spelled."""
    return urllib.parse.unquote(name, errors="surrogateescape")


class Metadata:
    """Numbered metadata nodes of one module, each text printed once unless it is distinct."""

    __slots__ = ("_known", "nodes")

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self._known: dict[str, str] = {}

    def add(self, text: str) -> str:
        """The name, such as `!7`, of the node with this text."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"!{len(self.nodes)}"
            self.nodes.append(f"{name} = {text}")
        return name

    def loop(self, hint: str) -> str:
        """A new node for one loop, with a hint such as `llvm.loop.unroll.disable`: LLVM tells loops by their nodes."""
        hints = self.add(f'!{{!"{hint}"}}')
        return self.add(f"distinct !{{!{len(self.nodes)}, {hints}}}")


class DebugInformation:
    """The compile unit, one subprogram per author's function, and a location per source span and call chain.

    `emission` is LLVM's emission kind: `DebugDirectivesOnly` where the assembler makes the line table from `.loc`,
    else `LineTablesOnly`.
    """

    __slots__ = ("_by_identity", "_call_sites", "_kernel_file", "_metadata", "_type", "_unit", "subprogram")

    def __init__(self, metadata: Metadata, kernel: SourceLocation, symbol: str, emission: str) -> None:
        self._metadata = metadata
        self._by_identity: dict[int, str] = {}
        self._call_sites: dict[SourceLocation, str] = {}
        self._kernel_file = kernel.file
        self._unit = metadata.add(
            f"distinct !DICompileUnit(language: DW_LANG_C99, file: {self._file(kernel.file)}, "
            f'producer: "glueball", isOptimized: true, runtimeVersion: 0, emissionKind: {emission})'
        )
        self._type = metadata.add("!DISubroutineType(types: !{})")
        self.subprogram = self._subprogram(kernel, symbol)

    @property
    def unit(self) -> str:
        """The node of the compile unit."""
        return self._unit

    def suffix(self, location: SourceLocation) -> str:
        """What an instruction of that location ends in; locations must outlive this object."""
        found = self._by_identity.get(id(location))
        if found is None:
            found = self._by_identity[id(location)] = f", !dbg {self._location(location, '')}"
        return found

    def _location(self, location: SourceLocation, distinct: str) -> str:
        place = f"line: {location.line}, column: {location.column + 1 if location.line else 0}"
        if location.caller is None:
            return self._metadata.add(f"{distinct}!DILocation({place}, scope: {self._kernel_scope(location)})")
        scope = self._subprogram(location, location.function)
        return self._metadata.add(
            f"{distinct}!DILocation({place}, scope: {scope}, inlinedAt: {self._call_site(location.caller)})"
        )

    def _call_site(self, caller: SourceLocation) -> str:
        found = self._call_sites.get(caller)
        if found is None:
            found = self._call_sites[caller] = self._location(caller, "distinct ")
        return found

    def _kernel_scope(self, location: SourceLocation) -> str:
        """Everything that no call led to belongs to the kernel, whatever file it stands in."""
        if location.line == 0 or location.file == self._kernel_file:
            return self.subprogram
        file = self._file(location.file)
        return self._metadata.add(f"!DILexicalBlockFile(scope: {self.subprogram}, file: {file}, discriminator: 0)")

    def _subprogram(self, location: SourceLocation, symbol: str) -> str:
        file = self._file(location.file)
        return self._metadata.add(
            f"distinct !DISubprogram(name: {quoted(location.function)}, linkageName: {quoted(symbol)}, scope: {file}, "
            f"file: {file}, line: {location.first_line}, type: {self._type}, scopeLine: {location.first_line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        )

    def _file(self, path: str) -> str:
        return self._metadata.add(f'!DIFile(filename: "{file_name(path)}", directory: "")')
