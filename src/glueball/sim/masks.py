"""Which threads are active, and poison that travels with values: the arithmetic of masks.

A mask is `None` for all threads or booleans broadcastable to `[cta, warp, lane]`; `NOBODY` is no thread at all. Poison
is `None` where no thread's value is undefined, else booleans that are true where it is.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Booleans = NDArray[np.bool_]
Mask: TypeAlias = Booleans | None


class Nobody(Enum):
    """The mask that holds for no thread."""

    NOBODY = "nobody"


NOBODY = Nobody.NOBODY


def narrow(active: Mask, condition: Any) -> Mask | Nobody:
    """The active threads for which the condition holds; `active` itself where that is every one."""
    condition = np.asarray(condition)
    if condition.all():
        return active
    both = condition if active is None else condition & active
    return both if both.any() else NOBODY


def fork(active: Mask, condition: Any) -> tuple[Mask | Nobody, Mask | Nobody]:
    """The active threads for which the condition holds, and the others."""
    return narrow(active, condition), narrow(active, np.logical_not(condition))


def merge(condition: Any, then: Any, otherwise: Any) -> Any:
    """The result of an `if`: a branch that no thread took has no value (`None`)."""
    if then is None:
        return otherwise
    return then if otherwise is None else np.where(condition, then, otherwise)


def keep(mask: Mask, entered: Mask, new: Any, old: Any) -> Any:
    """The new value for the threads still in a loop, the old one for those that entered and have left."""
    return new if mask is entered else np.where(mask, new, old)  # type: ignore[arg-type]


def defined(condition: Any, poison: Mask) -> Any:
    """A condition, false where it is undefined."""
    return condition if poison is None else np.logical_and(condition, np.logical_not(poison))


def merge_poison(condition: Any, then: Mask, otherwise: Mask) -> Mask:
    """Poison of a choice between two values."""
    if then is None and otherwise is None:
        return None
    return _found(np.where(condition, _present(then), _present(otherwise)))


def keep_poison(mask: Mask, entered: Mask, new: Mask, old: Mask) -> Mask:
    """Poison that goes with `keep`."""
    return new if mask is entered else merge_poison(mask, new, old)


def join_poison(*operands: Mask) -> Mask:
    """Poison of a value computed from all of the operands."""
    found = None
    for operand in operands:
        if operand is not None:
            found = operand if found is None else found | operand
    return found


def masked_poison(mask: Any, replacement: Mask) -> Mask:
    """Poison of what a masked load gives where its replacement, if it has one, is poison as told."""
    return merge_poison(mask, None, replacement)


def unloaded_poison(mask: Any) -> Mask:
    """Poison of what a masked load without a replacement gives."""
    return _found(np.logical_not(mask))


def _present(poison: Mask) -> Booleans:
    return np.zeros((), bool) if poison is None else poison


def _found(poison: Any) -> Mask:
    return poison if poison.any() else None
