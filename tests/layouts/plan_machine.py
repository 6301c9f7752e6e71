"""Runs conversion plans slot by slot, knowing nothing of how they were made."""

import numpy as np

from glueball.layouts import Nothing, RegisterPermutation, SharedRoundTrip, Shuffles
from tests.layouts.shared_accesses import count

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
    count = 1 + max(register for step in moves.rounds for register in step.destinations)
    received = np.full((*data.shape[:3], max(count, len(moves.copies))), POISON)
    own = np.arange(data.shape[2])
    for step in moves.rounds:
        source_lane = _per_thread(data, step.source_lane)
        if step.is_move:
            assert (source_lane == own).all()
        else:
            assert len(step.sources) * element_bits <= max(32, element_bits)
        for register, destination in zip(step.sources, step.destinations, strict=True):
            received[..., destination] = np.take_along_axis(sent[..., register], source_lane, axis=2)
    placed = _exchange(moves.after, received, moves.copies)
    return placed[..., list(moves.copies)]


def active_threads(access, condition, blocks):
    """Array [block, warp, lane] of the threads that make an access; the condition is None where all do."""
    warps, lanes = access.positions.size("warp"), access.positions.size("lane")
    active = [
        not (lane & access.idle_lanes or warp & access.idle_warps)
        and (condition is None or condition.holds(lane, warp, block))
        for block in range(blocks)
        for warp in range(warps)
        for lane in range(lanes)
    ]
    return np.reshape(active, (blocks, warps, lanes))


def locations(access, group, number, active):
    """Positions [block, warp, lane, element] of what each thread's registers of one access hold, and whose they are.

    In active threads, accesses are checked to be whole, aligned, all of one round and to one block.
    """
    where = holdings(access.positions)
    width = access.vector
    if access.matrices:
        where, width = _matrix_locations(access, group, where)
    else:
        where = where[..., list(group)]
        assert (where == where[..., :1] + np.arange(width))[active].all()
        assert (where[..., 0] % width == 0)[active].all()
    rounds = where >> access.scratch_bits & ((1 << access.round_bits) - 1)
    assert (rounds[active] == number).all()
    others = where[..., 0] >> (access.scratch_bits + access.round_bits)
    owners = np.arange(where.shape[0])[:, None, None] ^ sum(
        (others >> bit & 1) * rank for bit, rank in enumerate(access.ranks)
    )
    return where & ((1 << access.scratch_bits) - 1), owners


def _matrix_locations(access, group, where):
    """What ldmatrix and stmatrix move, element by element, as the PTX ISA says."""
    assert where.shape[2] == 32
    assert access.idle_lanes == 0
    starts = where[..., group[0]]
    word = len(group) // access.matrices
    row_elements = 4 * word
    assert (starts[:, :, : 8 * access.matrices] % row_elements == 0).all()
    result = np.empty((*where.shape[:3], len(group)), np.int64)
    for matrix in range(access.matrices):
        for lane in range(32):
            for element in range(word):
                row, column = lane // 4, lane % 4 * word + element
                if access.transposed:
                    assert word == 2
                    row, column = column, row
                result[:, :, lane, matrix * word + element] = starts[:, :, 8 * matrix + row] + column
    return result, word


def _run_round_trip(plan, data):
    blocks, _, _, _ = data.shape
    read = np.full((*data.shape[:3], len(plan.copies)), POISON)
    for number in range(plan.rounds):
        memory = np.full((blocks, plan.tile.size("offset")), POISON)
        for group, condition in plan.write.in_round(number):
            active = active_threads(plan.write, condition, blocks)
            where, owners = locations(plan.write, group, number, active)
            assert (owners == np.arange(blocks)[:, None, None]).all()
            for block in range(blocks):
                offsets = where[block][active[block]].ravel()
                assert len(np.unique(offsets)) == len(offsets)
                assert (memory[block, offsets] == POISON).all(), "written twice"
                memory[block, offsets] = data[block][..., list(group)][active[block]].ravel()
        assert (memory != POISON).all()
        for group, condition in plan.read.in_round(number):
            active = active_threads(plan.read, condition, blocks)
            where, owners = locations(plan.read, group, number, active)
            for block in range(blocks):
                received = read[block][..., list(group)]
                received[active[block]] = memory[owners[block][..., None], where[block]][active[block]]
                read[block][..., list(group)] = received
    return read[..., list(plan.copies)]


def count_wavefronts(plan, access, banks):
    """Wavefronts of each active warp, counted word by word, and what they would be if nothing conflicted."""
    offsets = holdings(access.positions)[0]
    width = 16 if access.matrices else plan.element_bytes * access.vector
    load = access is plan.read and not access.matrices
    counts = []
    for warp in range(offsets.shape[0]):
        if warp & access.idle_warps:
            continue
        total = ideal = 0
        for number in range(plan.rounds):
            for group, condition in access.in_round(number):
                first = offsets[warp, :, group[0]] % (1 << access.scratch_bits) * plan.element_bytes
                starts = [None] * len(first)
                for lane in range(8 * access.matrices or len(first)):
                    if not lane & access.idle_lanes and (condition is None or condition.holds(lane, warp)):
                        starts[lane] = int(first[lane])
                wavefronts, least = count(starts, width, banks, load=load)
                total, ideal = total + wavefronts, ideal + least
        counts.append((total, ideal))
    return counts
