"""Padded layouts of matrix operands on CDNA4: the published ones, and what they are for."""

import itertools

import pytest

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    DotOperandLayout,
    efficient_padded_shared_layout,
    tile_access,
)
from glueball.layouts.banks import SharedMemory
from glueball.targets import TARGETS

CDNA4 = SharedMemory.of(TARGETS["gfx950"])


def operand(index, k_width, tile=16, version=4):
    parent = AMDMFMALayout(version, [tile, tile, 512 // tile], True, [2, 2])
    return DotOperandLayout(index, parent, k_width)


def steps(axis, *sizes):
    return [tuple(size if other == axis else 0 for other in range(2)) for size in sizes]


@pytest.mark.parametrize(
    ("index", "k_width", "shape", "bits", "k_contiguous", "pairs", "bases"),
    [
        (0, 8, (256, 64), 16, True, [(512, 16)],
         steps(1, 1, 2, 4, 8, 16, 32) + steps(0, 16, 32, 64, 1, 2, 4, 8, 128)),
        (1, 8, (64, 256), 16, True, [(512, 16)],
         steps(0, 1, 2, 4, 8, 16, 32) + steps(1, 16, 32, 64, 1, 2, 4, 8, 128)),
        (1, 8, (64, 256), 16, False, [(512, 16)],
         steps(1, 1, 2, 4, 8, 16, 32, 64, 128) + steps(0, 16, 1, 2, 8, 4, 32)),
        (0, 16, (128, 128), 8, True, [(1024, 32)],
         steps(1, 1, 2, 4, 8, 16, 32, 64) + steps(0, 16, 32, 64, 1, 2, 4, 8)),
    ],
)  # fmt: skip
def test_published_layouts(index, k_width, shape, bits, k_contiguous, pairs, bases):
    found = efficient_padded_shared_layout(operand(index, k_width), shape, bits, k_contiguous)
    assert list(found.interval_padding_pairs) == pairs
    assert list(found.offset_bases) == bases
    assert found.shape == shape


@pytest.mark.parametrize("tile", [16, 32])
@pytest.mark.parametrize(("bits", "k_width"), [(16, 8), (8, 16)])
def test_whole_tiles_are_read_without_conflicts(bits, k_width, tile):
    checked = 0
    for index, rows, k in itertools.product((0, 1), (64, 128, 256), (64, 128, 256)):
        shape = (rows, k) if index == 0 else (k, rows)
        layout = operand(index, k_width, tile)
        shared = efficient_padded_shared_layout(layout, shape, bits)
        if shared is None:
            continue
        access = tile_access(layout, shared, shape, bits, memory=CDNA4)
        assert access.vector_elements * bits == 128
        assert access.conflicts == 0, shape
        checked += 1
    assert checked >= 12


def test_every_element_has_a_place_of_its_own():
    for tile, bits, k_width, k_contiguous in itertools.product((16, 32), (8, 16), (4, 8, 16), (True, False)):
        for shape in itertools.product((16, 32, 64, 128), repeat=2):
            found = efficient_padded_shared_layout(operand(0, k_width, tile), shape, bits, k_contiguous)
            if found is not None:
                linear = found.linear(shape)
                assert linear.is_injective()
                assert linear.is_surjective()


@pytest.mark.parametrize(
    ("layout", "shape", "bits"),
    [
        (operand(0, 32), (128, 128), 8),
        (operand(0, 8), (128, 128), 32),
        (operand(0, 8), (8, 128), 16),
        (operand(0, 8), (16, 32), 16),
        (DotOperandLayout(0, AMDMFMALayout(4, [64, 4, 4], False, [2, 2]), 8), (64, 64), 16),
    ],
)
def test_nothing_is_offered_where_reads_would_conflict(layout, shape, bits):
    assert efficient_padded_shared_layout(layout, shape, bits) is None


def test_only_version_4_has_them():
    with pytest.raises(LayoutError, match="MFMA layout of version 4"):
        efficient_padded_shared_layout(operand(0, 8, version=3), (128, 64), 16)
    with pytest.raises(LayoutError, match="power of two"):
        efficient_padded_shared_layout(operand(0, 8), (96, 64), 16)
