"""An import-linter contract that states the layering of the package as one table: folder -> what it may import."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ANY = "*"
OUTERMOST = "cli"


class FolderTableContract(Contract):
    """Checks every direct import between the folders and top-level modules of a package against a table.

    Options (in ``pyproject.toml``):
        table: rows ``"folder: allowed, allowed"``. ``*`` allows every folder but the command line. The root package's
            own name is a row too, and allowed where a row names it. A folder in no row breaks the contract.
        leaves: modules that every folder may import and that may import only one another.
    """

    type_name = "folder_table"

    table = fields.ListField(subfield=fields.StringField())
    leaves = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare every import of ``graph`` with the table."""
        root = self.session_options["root_packages"][0]
        leaves = set(self.leaves)
        allowed = dict.fromkeys(leaves, leaves) | _parse(self.table, leaves)
        violations: list[str] = []
        unlisted: set[str] = set()
        for importer in sorted(graph.modules):
            source = _folder(importer, root)
            if source not in allowed:
                unlisted.add(source)
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                target = _folder(imported, root)
                if target == source or target in allowed[source] or (ANY in allowed[source] and target != OUTERMOST):
                    continue
                details = graph.get_import_details(importer=importer, imported=imported)
                lines = ", ".join(str(detail["line_number"]) for detail in details)
                violations.append(f"{importer} imports {imported} (line {lines}): {source} may not import {target}")
        violations += [f"{folder} is not in the folder table" for folder in sorted(unlisted)]
        return ContractCheck(kept=not violations, metadata={"violations": violations})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line per import that the table does not allow."""
        for violation in check.metadata["violations"]:
            output.print_error(f"- {violation}")


def _folder(module: str, root: str) -> str:
    """Give the row that a module belongs to: its folder below the root, or the root itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else root


def _parse(rows: list[str], leaves: set[str]) -> dict[str, set[str]]:
    """Read rows ``"folder: allowed, allowed"``; every folder may import the leaves."""
    table: dict[str, set[str]] = {}
    for row in rows:
        folder, _, names = row.partition(":")
        table[folder.strip()] = leaves | {name.strip() for name in names.split(",") if name.strip()}
    return table
