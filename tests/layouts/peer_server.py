"""Answers questions about layouts with Triton's own code: a JSON line in, a JSON line out.

Run by an interpreter that has triton. A question is [layout, shape], answered with the bases, [operand layout,
shape, scale factor], answered with those of its scales, [register layout, shared layout, shape, element bits],
answered with the number of bank conflicts, or ["padded", operand layout, shape, element bits, whether K is
contiguous], answered with the pairs and bases of the padded layout for it, or null; layouts are Python texts.
"""

import contextlib
import io
import json
import os
import sys
from typing import Any

from triton._C import libtriton
from triton._C.libtriton import gluon_ir, ir
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import amd
from triton.experimental.gluon.language.nvidia import blackwell

NAMES = {name: getattr(gl, name) for name in dir(gl) if name.endswith("Layout")} | {
    "AMDMFMALayout": amd.AMDMFMALayout,
    "AMDWMMALayout": amd.AMDWMMALayout,
    "PartitionedSharedLayout": amd.cdna5.PartitionedSharedLayout,
    "TensorMemoryLayout": blackwell.TensorMemoryLayout,
    "TensorMemoryScalesLayout": blackwell.TensorMemoryScalesLayout,
}
INTEGERS = {8: gl.int8, 16: gl.int16, 32: gl.int32, 64: gl.int64}
TARGET = GPUTarget("cuda", 90, 32)
BACKEND = make_backend(TARGET)
OPTIONS = BACKEND.parse_options({"num_warps": 4})
CONTEXT = ir.context()
ir.load_dialects(CONTEXT)
for vendor in (libtriton.nvidia, libtriton.amd):
    vendor.load_dialects(CONTEXT)


@gluon.jit
def count_conflicts(A: gl.constexpr, B: gl.constexpr):
    conflicts: gl.constexpr = gl.bank_conflicts(A, B)
    gl.static_print(conflicts)


def bases(layout: str, shape: list[int]) -> dict[str, Any]:
    builder = gluon_ir.GluonOpBuilder(CONTEXT)
    return dict(vars(builder.to_linear_layout(eval(layout, NAMES)._to_ir(builder), shape)))


def scales(operand: str, shape: list[int], factor: int) -> dict[str, Any]:
    layout = eval(operand, NAMES)
    mfma = isinstance(layout.parent, amd.AMDMFMALayout)
    make = amd.cdna4.get_mfma_scale_layout if mfma else amd.cdna5.get_wmma_scale_layout
    return dict(vars(make(layout, shape, factor)))


def conflicts(layout: str, shared: str, shape: list[int], bits: int) -> int:
    element = INTEGERS[bits]
    tile = gl.distributed_type(element, shape, eval(layout, NAMES))
    memory = gl.shared_memory_descriptor_type(element, shape, eval(shared, NAMES), shape)
    source = GluonASTSource(count_conflicts, {"A": "constexpr", "B": "constexpr"}, {(0,): tile, (1,): memory})
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source.make_ir(TARGET, OPTIONS, BACKEND.get_codegen_implementation(OPTIONS), BACKEND.get_module_map(), CONTEXT)
    return int(printed.getvalue())


def padded(_: str, operand: str, shape: list[int], bits: int, contiguous: bool) -> list[Any] | None:
    layout = amd.cdna4.compute_efficient_padded_shared_layout(eval(operand, NAMES), shape, INTEGERS[bits], contiguous)
    return None if layout is None else [layout.interval_padding_pairs, layout.offset_bases]


def main() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer: Any = {2: bases, 3: scales, 4: conflicts, 5: padded}[len(question)](*question)
        except Exception as error:
            answer = {"refused": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
    # Objects of the peer that outlive their context complain at exit.
    os._exit(0)
