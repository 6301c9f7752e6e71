"""Runs conversion plans slot by slot, knowing nothing of how they were made."""

import numpy as np

from glueball.layouts import Nothing, RegisterPermutation, SharedRoundTrip, Shuffles

POISON = -1


def holdings(layout):
    """Array [block, warp, lane, register] of the flat index of the element that each slot holds."""
    result = np.zeros((1, 1, 1, 1), dtype=np.int64)
    for axis, name in enumerate(("block", "warp", "lane", "register")):
        table = np.array([layout.apply_flat(**{name: index}) for index in range(layout.size(name))])
        result = result ^ table.reshape([-1 if axis == other else 1 for other in range(4)])
    return result


def run(plan, source):
    """The registers [block, warp, lane, register] that a plan makes of the source's."""
    data = holdings(source)
    if isinstance(plan, Nothing):
        return data
    if isinstance(plan, RegisterPermutation):
        return data[..., list(plan.sources)]
    if isinstance(plan, Shuffles):
        return _run_moves(plan.moves, data, plan.element_bits)
    assert isinstance(plan, SharedRoundTrip)
    return _run_round_trip(plan, data)


def _per_thread(data, function):
    """Array [block, warp, lane] of a function of (lane, warp, block)."""
    blocks, warps, lanes, _ = data.shape
    values = [function(lane, warp, block) for block in range(blocks) for warp in range(warps) for lane in range(lanes)]
    return np.array(values).reshape(blocks, warps, lanes)


def _exchange(exchange, data, outputs):
    for stage, registers in exchange.schedule(outputs):
        after = np.full_like(data, POISON)
        applies = _per_thread(data, stage.applies)
        for register in registers:
            after[..., register] = np.where(applies, data[..., register ^ stage.swap], data[..., register])
        data = after
    return data


def _run_moves(moves, data, element_bits):
    sent = _exchange(moves.before, data, [register for step in moves.rounds for register in step.sources])
    received = np.full((*data.shape[:3], len(moves.copies)), POISON)
    own = np.arange(data.shape[2])
    for step in moves.rounds:
        source_lane = _per_thread(data, step.source_lane)
        if step.is_move:
            assert (source_lane == own).all()
        else:
            assert len(step.sources) * element_bits <= max(32, element_bits)
        for register, destination in zip(step.sources, step.destinations, strict=True):
            received[..., destination] = np.take_along_axis(sent[..., register], source_lane, axis=2)
    placed = _exchange(moves.after, received, [register for step in moves.rounds for register in step.destinations])
    return placed[..., list(moves.copies)]


def addresses(access, group, blocks, active):
    """Offsets [block, warp, lane, element] of one access, checked to be consecutive and aligned in active threads."""
    where = holdings(access.offsets)[..., list(group)]
    assert where.shape[0] == blocks
    assert (where == where[..., :1] + np.arange(len(group)))[active].all()
    assert (where[..., 0] % access.vector == 0)[active].all()
    return where


def active_threads(access, data):
    return _per_thread(data, lambda lane, warp, _: not (lane & access.idle_lanes or warp & access.idle_warps))


def _run_round_trip(plan, data):
    blocks, _, _, _ = data.shape
    memory = np.full((blocks, plan.tile.size("offset")), POISON)
    active = active_threads(plan.write, data)
    for group in plan.write.groups:
        where = addresses(plan.write, group, blocks, active)
        for block in range(blocks):
            offsets = where[block][active[block]].ravel()
            assert len(np.unique(offsets)) == len(offsets)
            assert (memory[block, offsets] == POISON).all(), "written twice"
            memory[block, offsets] = data[block][..., list(group)][active[block]].ravel()
    assert (memory != POISON).all()
    read = np.full((*data.shape[:3], len(plan.copies)), POISON)
    active = active_threads(plan.read, data)
    for group in plan.read.groups:
        where = addresses(plan.read, group, blocks, active)
        for block in range(blocks):
            read[block][..., list(group)] = memory[block, where[block]]
    return read[..., list(plan.copies)]


def count_wavefronts(access, element_bytes, banks):
    """Wavefronts of each active warp, counted word by word, and what they would be if nothing conflicted."""
    offsets = holdings(access.offsets)[0]
    width = element_bytes * access.vector
    at_once = banks * 4 // max(4, width)
    counts = []
    for warp in range(offsets.shape[0]):
        if warp & access.idle_warps:
            continue
        total = ideal = 0
        for group in access.groups:
            first = (offsets[warp, :, group[0]] * element_bytes).tolist()
            for start in range(0, len(first), at_once):
                rows = {}
                for lane in range(start, min(len(first), start + at_once)):
                    if not lane & access.idle_lanes:
                        for word in range(first[lane] // 4, (first[lane] + width - 1) // 4 + 1):
                            rows.setdefault(word % banks, set()).add(word)
                total += max(map(len, rows.values()), default=0)
                ideal += bool(rows)
        counts.append((total, ideal))
    return counts
