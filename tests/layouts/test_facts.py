"""Costs in sentences."""

import pytest

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    BlockedLayout,
    DotOperandLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SharedMemory,
    SwizzledSharedLayout,
)
from glueball.layouts.facts import (
    conversion_facts,
    dense_strides,
    plan_on,
    register_facts,
    shared_facts,
    traffic_facts,
)
from glueball.targets import TARGETS

C32 = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
R4 = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
C4 = BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
DENSE = SwizzledSharedLayout(1, 1, 1, [1, 0])
H200 = TARGETS["sm_90a"]


def test_registers_and_global_accesses_are_told():
    linear = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]).linear([8, 16])
    assert register_facts(linear, 16, dense_strides([8, 16])) == {
        "registers": "4 elements a thread, 2 registers of 32 bits",
        "copies": "every element is held by 4 threads",
        "global load": "8 bytes a lane, 1 request a warp, 8 sectors a request, 100 % of their bytes used",
        "global store": "8 bytes a lane, 0.25 requests a warp, 8 sectors a request, 100 % of their bytes used",
    }
    strided = register_facts(C32.linear([32, 32]), 32, dense_strides([32, 32]))
    assert strided["copies"] == "none: every element is held once"
    assert strided["global access"].endswith("32 sectors a request, 12.5 % of their bytes used")


def test_shared_accesses_are_told():
    assert traffic_facts(C32, DENSE, (32, 32), 32) == {
        "shared access": "4 bytes a lane, 8 accesses in 256 wavefronts a warp: bank conflicts, 8 would do without"
    }
    operand = DotOperandLayout(0, AMDMFMALayout(4, [16, 16, 32], True, [2, 2]), 8)
    grouped = traffic_facts(operand, DENSE, (256, 64), 16, SharedMemory.of(TARGETS["gfx950"]))
    assert grouped == {
        "shared load": "16 bytes a lane, 16 accesses in 256 wavefronts a warp: bank conflicts, 64 would do without",
        "shared store": "16 bytes a lane, 16 accesses in 512 wavefronts a warp: bank conflicts, 64 would do without",
    }
    padded = PaddedSharedLayout.with_identity_for([[32, 4]], [64, 32], [1, 0])
    assert shared_facts(padded, [64, 32], 32) == {"shared memory": "9200 bytes a CTA, aligned to 16"}
    with pytest.raises(LayoutError, match="memory of another CTA"):
        traffic_facts(R4, NVMMASharedLayout(0, 16, cga_layout=[[1, 0]]), (64, 32), 16)


def test_conversions_are_told():
    rows, columns = R4.linear([32, 32]), C4.linear([32, 32])
    assert conversion_facts(plan_on(H200, rows, rows, 32)) == {"conversion": "free: both layouts are the same map"}
    plan = plan_on(H200, rows, columns, 32)
    moved = conversion_facts(plan)
    assert set(moved) == {"conversion", "its cost"}
    assert f"{plan.shared_bytes} bytes of shared memory" in moved["its cost"]
    assert f"{plan.wavefronts_write} + {plan.wavefronts_read} wavefronts a warp" in moved["its cost"]


def test_dense_strides_walk_one_way_or_the_other():
    assert dense_strides([2, 4, 8]) == [32, 8, 1]
    assert dense_strides([2, 4, 8], "column") == [1, 2, 8]
