"""What happened to each piece of shared memory since the last barrier, and whether it holds anything at all.

The shadow keeps one entry for every `granule` bytes, the narrowest access of the kernel: accesses are aligned, so that
is as exact as one for each byte. An entry is `epoch << 32 | thread << 20 | instruction`, -1 where there was none; a
barrier starts a new epoch, so older entries need no clearing. While all blocks of a context do the same, one row
stands for all of them; `expand` gives every block its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glueball.sim.masks import Array, Booleans, Mask

EPOCH_SHIFT = 32
THREAD_SHIFT = 20
MANY_THREADS = ((1 << (EPOCH_SHIFT - THREAD_SHIFT)) - 1) << THREAD_SHIFT
INSTRUCTION_BITS = (1 << THREAD_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Touch:
    """Accesses of one instruction: `entries` `[access, granules]` in the flat shadow, and what they leave there."""

    entries: Array
    floor: Array
    mine: Array

    def by_others(self, found: Array) -> Booleans:
        """Which of the entries another thread left in this epoch."""
        return np.asarray((found >= self.floor) & (((found ^ self.mine) & MANY_THREADS) != 0))


Fault = Callable[[str, int, int], None]
"""Reports a kind of fault, the index of the access and the other instruction's index (-1 where there is none)."""


class Shadow:
    """The shadow of one context's shared memory. Bytes must be a multiple of `granule`."""

    def __init__(self, ctas: int, size: int, granule: int) -> None:
        self.ctas = ctas
        self.granule = granule
        self.width = size // granule
        self.written: Array = np.full((1, self.width), -1, np.int64)
        self.read: Array = np.full((1, self.width), -1, np.int64)
        self.in_flight: Array | None = None
        self.poison: Booleans | None = None
        self.epoch: Array = np.zeros(1, np.int64)

    @property
    def rows(self) -> int:
        """How many rows there are: 1 or one for each block."""
        return int(self.epoch.shape[0])

    def expand(self) -> None:
        """Gives each block its own row."""
        if self.rows == self.ctas:
            return
        self.written = np.repeat(self.written, self.ctas, axis=0)
        self.read = np.repeat(self.read, self.ctas, axis=0)
        self.epoch = np.repeat(self.epoch, self.ctas)
        if self.in_flight is not None:
            self.in_flight = np.repeat(self.in_flight, self.ctas, axis=0)
        if self.poison is not None:
            self.poison = np.repeat(self.poison, self.ctas, axis=0)

    def barrier(self, ctas: Mask) -> None:
        """Starts an epoch in the blocks told, `[cta]`; `None` for all."""
        if ctas is None:
            self.epoch = self.epoch + 1
        else:
            self.expand()
            self.epoch = self.epoch + ctas

    def touch(self, rows: Array, places: Array, threads: Array, width: int, instruction: int) -> Touch:
        """Accesses of `width` bytes at byte offsets `places`; all arguments `[access]`."""
        first = rows * self.width + places // self.granule
        entries = first[:, None] + np.arange(width // self.granule)
        floor = (self.epoch[rows] if self.rows > 1 else self.epoch)[:, None] << EPOCH_SHIFT
        return Touch(entries, floor, floor | (threads << THREAD_SHIFT)[:, None] | instruction)

    def record_read(self, touch: Touch, fault: Fault) -> None:
        """Checks and records reads."""
        self._check_in_flight(touch, fault)
        written = self.written.reshape(-1).take(touch.entries)
        _report(written < 0, None, "uninitialized", fault)
        _report(touch.by_others(written), written, "written", fault)
        flat = self.read.reshape(-1)
        leaves = np.where(touch.by_others(flat.take(touch.entries)), touch.mine | MANY_THREADS, touch.mine)
        flat[touch.entries] = leaves
        clash = ((flat.take(touch.entries) ^ leaves) & MANY_THREADS) != 0
        if clash.any():
            flat[touch.entries[clash]] = leaves[clash] | MANY_THREADS

    def record_write(self, touch: Touch, fault: Fault) -> bool:
        """Checks and records writes; whether two of them are to the same bytes."""
        self._check_in_flight(touch, fault)
        flat = self.written.reshape(-1)
        written = flat.take(touch.entries)
        _report(touch.by_others(written), written, "written", fault)
        read = self.read.reshape(-1).take(touch.entries)
        _report(touch.by_others(read), read, "read", fault)
        flat[touch.entries] = touch.mine
        return bool((((flat.take(touch.entries) ^ touch.mine) & MANY_THREADS) != 0).any())

    def record_atomic(self, touch: Touch, atomic: Booleans, fault: Fault) -> None:
        """Checks and records atomic changes, which do not clash with one another; `atomic` tells such instructions."""
        self._check_in_flight(touch, fault)
        flat = self.written.reshape(-1)
        written = flat.take(touch.entries)
        _report(written < 0, None, "uninitialized", fault)
        others = touch.by_others(written) & ~atomic[np.where(written < 0, 0, written & INSTRUCTION_BITS)]
        _report(others, written, "written", fault)
        read = self.read.reshape(-1).take(touch.entries)
        _report(touch.by_others(read), read, "read", fault)
        flat[touch.entries] = touch.mine | MANY_THREADS

    def begin(self, touch: Touch, instruction: int) -> None:
        """Marks bytes that an asynchronous write, already recorded, is on its way to."""
        if self.in_flight is None:
            self.in_flight = np.full(self.written.shape, -1, np.int32)
        self.in_flight.reshape(-1)[touch.entries] = instruction

    def finish(self, touch: Touch) -> None:
        """The asynchronous write is done, as if its thread had written now."""
        assert self.in_flight is not None
        self.in_flight.reshape(-1)[touch.entries] = -1
        self.written.reshape(-1)[touch.entries] = touch.mine

    def set_poison(self, touch: Touch, poison: Mask) -> None:
        """Remembers which of the granules written, `[access, granules]`, hold undefined values."""
        if self.poison is None:
            if poison is None:
                return
            self.poison = np.zeros(self.written.shape, bool)
        self.poison.reshape(-1)[touch.entries] = False if poison is None else poison

    def get_poison(self, touch: Touch) -> Mask:
        """Which granules hold undefined values, `[access, granules]`; `None` for none."""
        if self.poison is None:
            return None
        found = self.poison.reshape(-1).take(touch.entries)
        return found if found.any() else None

    def _check_in_flight(self, touch: Touch, fault: Fault) -> None:
        if self.in_flight is not None:
            found = self.in_flight.reshape(-1).take(touch.entries)
            _report(found >= 0, found, "in flight", fault)


def _report(bad: Booleans, found: Array | None, kind: str, fault: Fault) -> None:
    if bad.any():
        access, granule = np.unravel_index(int(bad.argmax()), bad.shape)
        other = -1 if found is None else int(found[access, granule]) & INSTRUCTION_BITS
        fault(kind, int(access), other)
