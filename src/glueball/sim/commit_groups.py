"""Asynchronous work that threads start, commit in groups, and wait for: each thread's groups end in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from glueball.location import SourceLocation
from glueball.sim.masks import Booleans


class Work(Protocol):
    """What one instruction started."""

    instruction: int


T = TypeVar("T", bound=Work)


@dataclass(slots=True)
class Share(Generic[T]):
    """Work, and those of its threads, broadcastable to `[cta, warp, lane]`, that have not waited for it yet.

    `passed` is the last wait that they made before they committed it.
    """

    work: T
    threads: Booleans
    passed: SourceLocation | None = None


@dataclass(slots=True)
class Group(Generic[T]):
    """What `members` committed together; `passed` is the last wait that left it in flight, and how many it did leave.

    `read`: whether all that has yet to be done is the writing.
    """

    members: Booleans
    shares: list[Share[T]] = field(default_factory=list)
    passed: tuple[SourceLocation, int] | None = None
    read: bool = False


class CommitGroups(Generic[T]):
    """The work of one partition's threads that is in flight."""

    def __init__(self) -> None:
        self.open: list[Share[T]] = []
        self.groups: list[Group[T]] = []

    def add(self, work: T, threads: Booleans) -> None:
        """Work that no group holds yet."""
        self.open.append(Share(work, threads))

    def commit(self, active: Booleans) -> None:
        """The active threads' open work becomes their next group."""
        group: Group[T] = Group(active)
        still_open = []
        for share in self.open:
            mine, others = share.threads & active, share.threads & ~active
            if mine.any():
                group.shares.append(replace(share, threads=mine))
            if others.any():
                still_open.append(replace(share, threads=others))
        self.open = still_open
        self.groups.append(group)

    def wait(self, active: Booleans, pending: int, location: SourceLocation) -> list[Share[T]]:
        """What ends, oldest first, where each active thread waits for all its groups but the latest `pending` ones."""
        later = np.zeros((1, 1, 1), np.int64)
        left, ended = [], []
        for group in reversed(self.groups):
            done = active & group.members & (later >= pending)
            if (active & group.members & ~done).any():
                group.passed = location, pending
            later = later + group.members
            for share in group.shares:
                threads = share.threads & done
                if threads.any():
                    ended.append(Share(share.work, threads))
                share.threads = share.threads & ~threads
            group.members = group.members & ~done
            group.shares = [share for share in group.shares if share.threads.any()]
            if group.members.any():
                left.append(group)
        self.groups = left[::-1]
        self._pass_open(active, location)
        return ended[::-1]

    def wait_read(self, active: Booleans, pending: int, location: SourceLocation) -> list[Share[T]]:
        """The same where only the reading has to end: the groups stay.

        Where all active threads have read a group, they have read all their earlier ones.
        """
        later = np.zeros((1, 1, 1), np.int64)
        ended = []
        for group in reversed(self.groups):
            if group.read and not (active & ~group.members).any():
                break
            done = active & group.members & (later >= pending)
            if (active & group.members & ~done).any():
                group.passed = location, pending
            later = later + group.members
            ended += [Share(share.work, share.threads & done) for share in group.shares if (share.threads & done).any()]
            group.read = group.read or not (done ^ group.members).any()
        self._pass_open(active, location)
        return ended[::-1]

    def _pass_open(self, active: Booleans, location: SourceLocation) -> None:
        for share in self.open:
            if (share.threads & active).any():
                share.passed = location

    def shares(self) -> Iterator[Share[T]]:
        """All work in flight."""
        yield from self.open
        for group in self.groups:
            yield from group.shares

    def missed_wait(self, instruction: int) -> tuple[str, SourceLocation] | None:
        """A wait that leaves work of an instruction in flight, and how; `None` if there was no wait for it at all."""
        for share in self.open:
            if share.work.instruction == instruction and share.passed is not None:
                return f"no commit makes it part of a group before the wait at {share.passed}", share.passed
        for group in self.groups:
            if group.passed and any(share.work.instruction == instruction for share in group.shares):
                location, pending = group.passed
                return f"the wait at {location} leaves the latest {pending} groups in flight", location
        return None
