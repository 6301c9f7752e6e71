"""One configuration of a kernel: values of its compile-time parameters, and launch options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")


@dataclass(eq=False, repr=False)
class Config:
    """A configuration that the tuner may try: `Config({"BLOCK": 128}, num_warps=8)`.

    `kwargs` are kernel parameters by name; the rest are launch options, of which those that are `None` are left to
    their defaults. `pre_hook(arguments)` is called before each launch with this configuration, with all arguments and
    options by name. Two configurations are equal when all of that is.
    """

    kwargs: dict[str, Any]
    num_warps: int | None = 4
    num_stages: int | None = 3
    num_ctas: int | None = 1
    maxnreg: int | None = None
    pre_hook: Callable[[dict[str, Any]], Any] | None = None
    ir_override: str | None = None

    def all_kwargs(self) -> dict[str, Any]:
        """Parameters and options, as keywords of a launch."""
        options = ((name, getattr(self, name)) for name in OPTIONS)
        return {**self.kwargs, **{name: value for name, value in options if value is not None}}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (*sorted(self.all_kwargs().items(), key=lambda item: item[0]), self.pre_hook)

    def __str__(self) -> str:
        shown = {**self.kwargs, **{name: getattr(self, name) for name in OPTIONS}}
        return ", ".join(f"{name}: {value}" for name, value in shown.items())

    def __repr__(self) -> str:
        """The call that makes it, defaults left out."""
        options = [(field.name, getattr(self, field.name), field.default) for field in fields(self)[1:]]
        given = [f"{name}={value!r}" for name, value, default in options if value != default]
        return f"Config({', '.join([repr(self.kwargs), *given])})"
