"""Plans that were measured: the table that is shipped, and what this process has tuned."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict
from importlib import resources
from typing import Any

from glueball.kernels.matrix_products.forms import Plan

TABLE = "tuned.json"


@functools.cache
def tuned_plans() -> dict[str, Plan]:
    """Plans by `table_key`; tuning adds to it."""
    text = resources.files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    return {key: read_plan(fields) for key, fields in json.loads(text).items()}


def read_plan(fields: dict[str, Any]) -> Plan:
    """A plan from its fields as JSON has them; those left out have their defaults."""
    return Plan(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})


def written_plan(plan: Plan) -> dict[str, Any]:
    """The fields that JSON keeps of a plan: what the problem itself decides is left out."""
    fields = asdict(plan)
    return {
        name: fields[name]
        for name in ("kind", "block", "group", "splits", "stages", "parts", "chunks", "swapped", "tail", "ctas")
    }
