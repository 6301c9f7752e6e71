"""Operands and attributes with which the records of matrix products are compiled."""

from __future__ import annotations

from typing import Any

from glueball.thread.nvidia.matrix_operands import MatrixOperand
from glueball.thread.nvidia.warpgroup import Step

Case = tuple[tuple[str, ...], dict[str, Any]]

K_MAJOR = MatrixOperand(128, 1024, 0, True)
TRANSPOSED = MatrixOperand(64, 512, 4096, False)
IN_MEMORY = {"left": K_MAJOR, "left_allocation": "buffer", "left_offset": 4096}


def _warps() -> list[Case]:
    """Of every element type but 8-bit floats, which not every target multiplies."""
    kinds = [
        ("f16", "f16", "f32", "f32", 16), ("f16", "f16", "f16", "f16", 16), ("bf16", "bf16", "f32", "f32", 16),
        ("tf32", "f32", "f32", "f32", 8), ("s8", "i8", "s32", "i32", 32), ("u8", "i8", "s32", "i32", 32),
    ]  # fmt: skip
    cases: list[Case] = [
        (
            (total,) * 4 + (factor,) * (inner * 3 // 4),
            {"rows": 16, "columns": 8, "inner": inner, "types": (name, name, total_name)},
        )
        for name, factor, total_name, total, inner in kinds
    ]
    return [*cases, (("f64",) * 4, {"rows": 8, "columns": 8, "inner": 4, "types": ("f64", "f64", "f64")})]


def _group(kind: str, names: tuple[str, str, str], inner: int, count: int, **attributes: Any) -> dict[str, Any]:
    steps = (Step(0, 0, 0, True), Step(0, 32 if attributes["left"] else 1, 64, False))
    return {
        "columns": 8, "inner": inner, "steps": steps, "part": 4, "accumulators": count, "kind": kind, "fresh": False,
        "types": names, "right": K_MAJOR, "item_bytes": 32 // inner, "allocation": "buffer", "offset": 1024,
        **attributes,
    }  # fmt: skip


def _groups() -> list[Case]:
    half, byte = ("f16", "f16", "f32"), ("e4m3", "e5m2", "f16")
    registers: dict[str, Any] = {"left": None}
    return [
        (("f32",) * 4 + ("i32", "i32", "i1"), _group("f32", half, 16, 4, **IN_MEMORY)),
        (("i32", "i32"), _group("f32", half, 16, 4, **{**IN_MEMORY, "fresh": True, "right": TRANSPOSED})),
        (("f32",) * 4 + ("f16",) * 16 + ("i32", "i1"), _group("f32", half, 16, 4, **registers)),
        (("f32",) * 4 + ("f32",) * 8 + ("i32", "i1"), _group("f32", ("tf32", "tf32", "f32"), 8, 4, **registers)),
        (("f16",) * 4 + ("i32", "i32", "i1"), _group("f16", byte, 32, 4, **IN_MEMORY)),
        (("i32",) * 4 + ("i8",) * 32 + ("i32", "i1"), _group("i32", ("u8", "u8", "s32"), 32, 4, **registers)),
    ]


MATRICES: dict[str, list[Case]] = {
    "mma_sync": _warps(),
    "warpgroup_mma": _groups(),
    "warpgroup_wait": [((), {"pending": 0}), (("f32",) * 4 + ("f16",) * 4 + ("i32",), {"pending": 2})],
}
