"""The instruction table: every record by name."""

from __future__ import annotations

from types import ModuleType

from glueball.thread import arithmetic, control, conversion, memory, special, synchronization
from glueball.thread.ir import Record
from glueball.thread.nvidia import asynchronous_copy

FAMILIES: tuple[ModuleType, ...] = (
    special, arithmetic, conversion, memory, synchronization, asynchronous_copy, control,
)  # fmt: skip

INSTRUCTIONS: dict[str, Record] = {
    record.name: record for family in FAMILIES for record in vars(family).values() if isinstance(record, Record)
}
