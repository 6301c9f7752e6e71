"""Random layouts for property tests."""

from hypothesis import strategies as st

from glueball.layouts import HARDWARE, BlockedLayout, DistributedLinearLayout, LinearLayout, SliceLayout, f2


def split_bits(draw, bits, rank):
    """Distribute `bits` over `rank` dimensions, as powers of two."""
    sizes = [0] * rank
    for _ in range(bits):
        sizes[draw(st.integers(0, rank - 1))] += 1
    return [1 << size for size in sizes]


@st.composite
def blocked_layouts(draw, rank=None, lane_bits=5, warp_bits=2):
    rank = draw(st.integers(1, 3)) if rank is None else rank
    return BlockedLayout(
        split_bits(draw, draw(st.integers(0, 4)), rank),
        split_bits(draw, lane_bits, rank),
        split_bits(draw, warp_bits, rank),
        draw(st.permutations(range(rank))),
    )


@st.composite
def shapes(draw, rank, maximum_bits=11):
    return tuple(split_bits(draw, draw(st.integers(0, maximum_bits)), rank))


@st.composite
def linear_maps(draw, shape, lane_bits=5, warp_bits=2):
    """Any surjective map, dense ones and ones that replicate in the oddest places included."""
    bits = sum(extent.bit_length() - 1 for extent in shape)
    columns = [1 << bit for bit in range(bits)]
    if bits > 1:
        for _ in range(draw(st.integers(0, 6))):
            one = draw(st.integers(0, bits - 1))
            two = draw(st.integers(0, bits - 1).filter(lambda index, one=one: index != one))
            columns[one] ^= columns[two]
    needed = max(0, lane_bits + warp_bits - bits)
    copy = st.one_of(st.just(0), st.integers(0, (1 << bits) - 1))
    columns += draw(st.lists(copy, min_size=needed, max_size=needed + 2))
    columns = draw(st.permutations(columns))
    assert f2.rank(columns) == bits
    warps, rest = columns[:warp_bits], columns[warp_bits:]
    bases = {"register": rest[lane_bits:], "lane": rest[:lane_bits], "warp": warps, "block": []}
    return LinearLayout.from_flat_bases(bases, shape)


@st.composite
def distributed_maps(draw, shape, lane_bits=5, warp_bits=2):
    kind = draw(st.sampled_from(["blocked", "slice", "linear"]))
    rank = len(shape)
    if kind == "blocked":
        return draw(blocked_layouts(rank, lane_bits, warp_bits)).linear(shape)
    if kind == "slice":
        parent = draw(blocked_layouts(rank + 1, lane_bits, warp_bits))
        return SliceLayout(draw(st.integers(0, rank)), parent).linear(shape)
    return draw(linear_maps(shape, lane_bits, warp_bits))


@st.composite
def conversions(draw):
    """Two maps of one shape for one machine."""
    shape = draw(shapes(draw(st.integers(1, 2))))
    lane_bits = draw(st.sampled_from([5, 6]))
    warp_bits = draw(st.integers(0, 3))
    return tuple(draw(distributed_maps(shape, lane_bits, warp_bits)) for _ in range(2))


@st.composite
def cluster_maps(draw, shape, lane_bits, warp_bits, cta_bits):
    """Any surjective map for several CTAs."""
    linear = draw(linear_maps(shape, lane_bits, warp_bits + cta_bits))
    bases = {name: linear.flat_bases(name) for name in HARDWARE}
    bases["warp"], bases["block"] = bases["warp"][:warp_bits], bases["warp"][warp_bits:]
    return LinearLayout.from_flat_bases(bases, shape)


@st.composite
def cluster_conversions(draw):
    """Two maps of one shape for one cluster."""
    shape = draw(shapes(draw(st.integers(1, 2))))
    warp_bits, cta_bits = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    return tuple(draw(cluster_maps(shape, 5, warp_bits, cta_bits)) for _ in range(2))


def explicit(layout):
    """The explicit spelling of a map."""
    return DistributedLinearLayout(*(layout.bases[name] for name in HARDWARE), layout.shape)
