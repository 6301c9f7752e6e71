"""Linear maps over F2, every layout kind as one of them, conversion plans, access counts and pictures."""

from __future__ import annotations

from glueball.layouts.amd_matrix import AMDMFMALayout, AMDWMMALayout
from glueball.layouts.amd_padding import efficient_padded_shared_layout
from glueball.layouts.banks import SharedMemory, TileAccess, bank_conflicts, tile_access
from glueball.layouts.base import HARDWARE, DistributedLayout, Layout, LayoutType, SharedLayout
from glueball.layouts.budget import RegisterBudget, register_budget
from glueball.layouts.conflict_free import conflict_free_shared_layout
from glueball.layouts.conversion import plan_conversion
from glueball.layouts.defaults import MatrixLayouts, matrix_layouts
from glueball.layouts.difference import explain_difference
from glueball.layouts.distributed import BlockedLayout, DistributedLinearLayout, SliceLayout, to_distributed_linear
from glueball.layouts.drawing import svg
from glueball.layouts.free import (
    broadcast_layout,
    expand_dims_layout,
    fp4_to_fp_layout,
    join_layout,
    permute_layout,
    reshape_layout,
    slice_layout,
    split_layout,
)
from glueball.layouts.linear import LinearLayout
from glueball.layouts.matrix import DotOperandLayout
from glueball.layouts.memory import GlobalAccess, global_access, shared_wavefronts, wavefronts
from glueball.layouts.nvidia_matrix import NVMMADistributedLayout
from glueball.layouts.padded import PaddedSharedLayout, PartitionedSharedLayout
from glueball.layouts.parse import parse_layout
from glueball.layouts.placeholders import AutoLayout, CoalescedLayout, PlaceholderLayout
from glueball.layouts.plans import (
    Condition,
    ConversionPlan,
    Nothing,
    RegisterPermutation,
    SharedAccess,
    SharedRoundTrip,
    Shuffles,
)
from glueball.layouts.scales import mfma_scale_layout, partitioned_matrix_layouts, wmma_scale_layout
from glueball.layouts.shared import NVMMASharedLayout, SharedLinearLayout, SwizzledSharedLayout
from glueball.layouts.shuffles import Exchange, ShuffleRound, Stage, ThreadFunction, WarpMoves
from glueball.layouts.strides import coalesced_layout
from glueball.layouts.tensor_memory import TensorMemoryLayout, TensorMemoryLinearLayout, TensorMemoryScalesLayout
from glueball.layouts.tensor_memory_access import tensor_memory_register_layout
from glueball.layouts.views import permute_shared_layout, reshape_shared_layout, to_shared_linear

__all__ = [
    # maps
    "HARDWARE",
    "Layout",
    "LayoutType",
    "LinearLayout",
    # layouts of registers
    "AMDMFMALayout",
    "AMDWMMALayout",
    "AutoLayout",
    "BlockedLayout",
    "CoalescedLayout",
    "DistributedLayout",
    "DistributedLinearLayout",
    "DotOperandLayout",
    "NVMMADistributedLayout",
    "PlaceholderLayout",
    "SliceLayout",
    "coalesced_layout",
    "to_distributed_linear",
    # layouts of shared and tensor memory
    "NVMMASharedLayout",
    "PaddedSharedLayout",
    "PartitionedSharedLayout",
    "SharedLayout",
    "SharedLinearLayout",
    "SwizzledSharedLayout",
    "TensorMemoryLayout",
    "TensorMemoryLinearLayout",
    "TensorMemoryScalesLayout",
    "permute_shared_layout",
    "reshape_shared_layout",
    "to_shared_linear",
    # operations that move no data
    "broadcast_layout",
    "expand_dims_layout",
    "fp4_to_fp_layout",
    "join_layout",
    "permute_layout",
    "reshape_layout",
    "slice_layout",
    "split_layout",
    # conversions
    "Condition",
    "ConversionPlan",
    "Exchange",
    "Nothing",
    "RegisterPermutation",
    "SharedAccess",
    "SharedRoundTrip",
    "ShuffleRound",
    "Shuffles",
    "Stage",
    "ThreadFunction",
    "WarpMoves",
    "plan_conversion",
    # access counts
    "GlobalAccess",
    "RegisterBudget",
    "SharedMemory",
    "TileAccess",
    "bank_conflicts",
    "global_access",
    "register_budget",
    "shared_wavefronts",
    "tile_access",
    "wavefronts",
    # choices
    "MatrixLayouts",
    "conflict_free_shared_layout",
    "efficient_padded_shared_layout",
    "explain_difference",
    "matrix_layouts",
    "mfma_scale_layout",
    "partitioned_matrix_layouts",
    "tensor_memory_register_layout",
    "wmma_scale_layout",
    # text and pictures
    "parse_layout",
    "svg",
]
