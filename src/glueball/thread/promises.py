"""What the author promises: no instruction on a GPU, checked by the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.thread.ir import Attributes, Record


def _check_multiple(machine: Any, attributes: Attributes, operand: Any) -> Any:
    divisor = attributes["divisor"]
    machine.promised(operand % divisor == 0, f"the value is promised to be a multiple of {divisor}")
    return operand


KNOWN_MULTIPLE = Record(
    name="known_multiple",
    result_types=lambda types, _: (types[0],),
    llvm={"any": "{r} = add {t} {0}, 0"},
    issue=_check_multiple,
)


def _nothing(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


ASSUME = Record(
    name="assume",
    result_types=_nothing,
    llvm={"any": lambda _, __: None},
    issue=lambda machine, _, condition: machine.promised(condition, "`assume` promises what does not hold"),
    pure=False,
)
