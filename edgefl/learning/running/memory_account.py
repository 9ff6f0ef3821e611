"""MemoryAccount: the bytes that a learner and its relatives hold or will need, and the limit on them. It runs nothing.

Relatives of a learner are learners of other heads, of what follows a cut, and of smaller graphs. They have parameters
or a limit in common with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple
from weakref import WeakSet

from edgefl.errors import MemoryLimitError
from edgefl.learning.running.memory_blocks import MemoryBlocks
from edgefl.learning.running.parameter_store import ParameterStore
from edgefl.learning.running.schedule_planner import SchedulePlanner
from edgefl.learning.running.session import Session
from edgefl.learning.running.session_cache import SessionCache


@dataclass(frozen=True)
class MemoryLimit:
    """The most bytes that a learner may hold together with its relatives, or None for no limit."""

    limit_bytes: int | None

    def check(self, what: str, needed: int) -> None:
        """Raise MemoryLimitError if `what` needs more bytes than the limit."""
        if self.limit_bytes is not None and needed > self.limit_bytes:
            raise MemoryLimitError(f"{what} needs {needed} bytes; limit_bytes={self.limit_bytes}")


ADDRESSABLE = 1 << 40  # largest arena, in bytes, about which the kernels are asked


class PassBytes(NamedTuple):
    """The memory of some passes.

    arena    bytes of the arena
    held     bytes of the states and the id lists
    scratch  bytes of packing memory
    """

    arena: int
    held: int
    scratch: int


class MemoryAccount:
    """The account of one learner.

    limit     limit on the bytes, the same object for all relatives
    relative  account of the learner from which this one derives. None stands for a learner without relatives
    """

    def __init__(
        self,
        limit: MemoryLimit,
        relative: MemoryAccount | None,
        store: ParameterStore,
        sessions: SessionCache,
        blocks: MemoryBlocks,
        planner: SchedulePlanner,
        backend: ModuleType,
    ) -> None:
        self.limit, self._store, self._sessions, self._blocks = limit, store, sessions, blocks
        self._planner, self._backend = planner, backend
        self._elder = relative  # a reference that keeps the relative alive, so that its memory is counted
        self._family: WeakSet[MemoryAccount] = WeakSet() if relative is None else relative._family
        self._family.add(self)
        self._scratch = 0  # bytes of the passes so far. The kernels keep them, so they are counted only with a limit

    @property
    def is_alone(self) -> bool:
        """Return whether no other learner shares the learner's parameters."""
        return len(self._family) == 1 and self._elder is None

    @property
    def family_params_bytes(self) -> int:
        """The bytes of the parameters of the learner and its relatives. Shared parameters count once."""
        return sum(each._store.own_bytes for each in self._family)

    @property
    def family_bytes(self) -> int:
        """The bytes of the parameters and masks of the learner and its relatives. Passes need memory in addition."""
        return self.family_params_bytes + sum(each._mask_bytes for each in self._family)

    def passes(self, session: Session, sizes: Collection[int]) -> PassBytes:
        """Return the memory that passes of a session in batches of these sizes need, if the learner has no other
        session.
        """
        schedules = [self._planner.schedule(session, size) for size in sizes]
        arena = max(schedule.arena_bytes for schedule in schedules)
        held = self._sessions.index_bytes(session) + self._planner.state_bytes(schedules)
        return PassBytes(arena, held, max(self._planner.scratch_bytes(session, size) for size in sizes))

    def admit(self, what: str, size: int) -> None:
        """Raise MemoryLimitError if `size` bytes in addition to the learner's parameters exceed the limit."""
        self.limit.check(what, self._store.model_bytes + size)

    def room(self, session: Session, sizes: Collection[int]) -> int | None:
        """Return the bytes that the limit leaves for the arena of these passes if nothing else is kept. Return None
        without a limit, and for passes that no machine has memory for.
        """
        limit = self.limit.limit_bytes
        if limit is None:
            return None
        schedules = [self._planner.schedule(session, size) for size in sizes]
        if max(schedule.arena_bytes for schedule in schedules) > ADDRESSABLE:
            return None
        least = self.family_params_bytes + self._mask_bytes
        held = self._sessions.index_bytes(session) + self._planner.state_bytes(schedules)
        scratch = max(self._scratch, *(self._planner.scratch_bytes(session, size) for size in sizes))
        return limit - least - held - scratch

    def make_room(self, session: Session, sizes: Collection[int], arena_bytes: int) -> None:
        """Free memory of relatives and other sessions if the limit leaves no room for passes of the latest session.

        These passes take batches of `sizes` examples, over an arena of `arena_bytes`.

        Raises  MemoryLimitError if these passes alone exceed the limit. Nothing has been allocated then
        """
        limit = self.limit.limit_bytes
        if limit is None:
            return
        what = f"{session.mode} in batches of {max(sizes)}"
        # The first check comes before the kernels are asked about so large an arena.
        self.limit.check(what, self._store.own_bytes + arena_bytes)
        scratch = max(self._scratch, *(self._planner.scratch_bytes(session, size) for size in sizes))
        if self._needed(max(arena_bytes, self._blocks.arena.nbytes) + scratch) > limit:
            for relative in self._relatives():
                relative.release()
        if self._needed(max(arena_bytes, self._blocks.arena.nbytes) + scratch) > limit:
            self._sessions.keep_latest(sizes)
            self._blocks.release()
            try:
                self.limit.check(what, self._needed(arena_bytes + scratch))
            except MemoryLimitError:
                self._sessions.drop_latest()
                raise
        self._scratch = scratch

    def release(self) -> None:
        """Free everything that the learner holds except its parameters."""
        self._sessions.clear()
        self._blocks.release()

    def release_family(self) -> None:
        """Free everything that the learner and its relatives hold except parameters."""
        for each in self._family:
            each.release()

    def memory(self) -> dict[str, int]:
        """Return the bytes that the learner and its relatives hold now, by purpose. See GraphLearner.memory."""
        scratch = getattr(self._backend, "scratch_bytes", None)
        parts = [each._held() for each in self._family]
        total = {name: sum(part[name] for part in parts) for name in parts[0]}
        for name in ("features", "samples"):
            if not total[name]:
                del total[name]
        return {**total, "scratch": scratch() if scratch else 0}

    def _held(self) -> dict[str, int]:
        sessions = list(self._sessions.values())
        return {
            "params": self._store.own_bytes,
            "arena": self._blocks.own_arena_bytes,
            "features": self._blocks.kept.nbytes,
            "samples": sum(session.held_bytes for session in sessions),
            "states": sum(value.nbytes for session in sessions for value in session.states.values()),
            "indices": sum(map(self._sessions.index_bytes, sessions)) + self._mask_bytes,
        }

    def _needed(self, shared: int) -> int:
        """Return the bytes once all schedules of the kept sessions are bound, with `shared` bytes that passes use in
        turn.
        """
        total = self._store.own_bytes + shared + sum(sum(each._held().values()) for each in self._relatives())
        total += self._mask_bytes + self._blocks.kept.nbytes
        total -= self._blocks.arena.nbytes - self._blocks.own_arena_bytes  # a relative's arena is part of `shared`
        for session in self._sessions.values():
            total += self._planner.state_bytes(list(session.schedules.values()))
            total += self._sessions.index_bytes(session)
        return total

    @property
    def _mask_bytes(self) -> int:
        """The bytes of all arrays that say which coordinates exist, for the parameters and for schedules."""
        return self._store.mask_bytes + self._sessions.mask_bytes

    def _relatives(self) -> list[MemoryAccount]:
        return [each for each in self._family if each is not self]
