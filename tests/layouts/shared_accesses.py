"""What one access of a warp to shared memory costs, said lane by lane and byte by byte."""

import json
from collections import Counter
from pathlib import Path


def measured_loads():
    """Loads that were measured: bytes a lane, the byte offset of each of 32 lanes, wavefronts."""
    for width, columns, wavefronts in json.loads(Path(__file__).with_name("shared_loads.json").read_text())["loads"]:
        yield width, [_sum(columns, lane) for lane in range(32)], wavefronts


def _sum(columns, lane):
    """The sum, by exclusive or, of the columns of a lane's bits."""
    total = 0
    for bit, column in enumerate(columns):
        total ^= column if lane >> bit & 1 else 0
    return total


def phases(lanes, width, banks):
    """Consecutive lanes whose accesses of `width` bytes fill all banks of 4 bytes."""
    count = min(lanes, banks * 4 // max(4, width))
    return [list(range(start, start + count)) for start in range(0, lanes, count)]


def served_together(starts, groups, banks):
    """Those phases of a load that are served at once become one group; `starts` are None in lanes that take no part.

    NVIDIA's memory, of 32 banks for 32 lanes, serves two phases at once, of 8 or 16 bytes a lane, where all of their
    lanes take part and read in pairs: each what its neighbour reads, or each what the lane next but one reads.
    """
    if not len(starts) == banks == 32 or len(groups) == 1:
        return groups
    found = []
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        both = first + second
        pairs = [{(starts[lane], starts[lane ^ other]) for lane in both} for other in (1, 2)]
        alike = any(all(one == two for one, two in each) for each in pairs)
        found += [both] if alike and all(starts[lane] is not None for lane in both) else [first, second]
    return found


def worst_bank(starts, lanes, width, banks):
    """Distinct words of some lanes in the bank that has most of them; 0 where no lane takes part."""
    words = {(starts[lane] + byte) // 4 for lane in lanes if starts[lane] is not None for byte in range(width)}
    return max(Counter(word % banks for word in words).values(), default=0)


def count(starts, width, banks, *, load):
    """Wavefronts, and what they would be if no two words met in a bank."""
    groups = phases(len(starts), width, banks)
    if load:
        groups = served_together(starts, groups, banks)
    costs = [worst_bank(starts, group, width, banks) for group in groups]
    return sum(costs), sum(map(bool, costs))
