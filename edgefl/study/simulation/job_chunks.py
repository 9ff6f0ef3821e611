"""The distribution of jobs among several workers, which prefers clients whose state a worker has in memory. No process
is started here.

A worker takes chunks of the remaining jobs: first clients whose state it has, then clients whose state no worker has.
Chunks become smaller as fewer jobs remain. So all workers end at about the same time, whichever clients were selected,
and few states travel. No result depends on the distribution.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

LARGEST = 16  # most jobs of a chunk, so that little is lost with a worker
SHARE = 4  # a chunk is at most one part in so many of the jobs that remain for one worker


class ClientStatePlacement:
    """The worker that has a client's state, and the round of the state. A worker has at most `limit_bytes` of states,
    and drops the state first that was used longest ago.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._of: dict[int, OrderedDict[int, tuple[int, int]]] = {}  # worker -> client -> round tag and bytes
        self._holder: dict[int, int] = {}
        self._dropped: dict[int, list[tuple[int, int]]] = {}

    def holder(self, client: int, tag: int | None) -> int | None:
        """Return the worker that has the client's state of that round, or None if no worker has it."""
        worker = self._holder.get(client)
        return None if worker is None or self._of[worker][client][0] != tag else worker

    def hold(self, worker: int, client: int, tag: int, size_bytes: int) -> None:
        """Record that the worker has this state, and that no worker has another state of this client."""
        former = self._holder.get(client)
        if former is not None:
            self._drop(former, client, self._of[former].pop(client)[0])
        held = self._of.setdefault(worker, OrderedDict())
        held[client], self._holder[client] = (tag, size_bytes), worker
        while sum(size for _, size in held.values()) > self._limit:
            oldest, (its, _) = held.popitem(last=False)
            del self._holder[oldest]
            self._drop(worker, oldest, its)

    def use(self, client: int) -> None:
        """Mark the state as used now by its holder."""
        self._of[self._holder[client]].move_to_end(client)

    def lose(self, worker: int) -> None:
        """Record that the worker has no state any more."""
        for client in self._of.pop(worker, {}):
            del self._holder[client]
        self._dropped.pop(worker, None)

    def dropped(self, worker: int) -> list[tuple[int, int]]:
        """Return the clients and rounds whose states the worker may forget. Each state is returned once."""
        told = self._dropped.pop(worker, [])
        return [(client, tag) for client, tag in told if self.holder(client, tag) != worker]

    def _drop(self, worker: int, client: int, tag: int) -> None:
        self._dropped.setdefault(worker, []).append((client, tag))


class Queue:
    """The jobs of one call that no worker has taken, by their positions."""

    def __init__(self, jobs: int, workers: int) -> None:
        self._left, self._workers = dict.fromkeys(range(jobs)), workers

    def put_back(self, positions: Iterable[int]) -> None:
        """Put back jobs that were taken and not done."""
        self._left.update(dict.fromkeys(positions))

    def take(self, worker: int, holder: Callable[[int], int | None]) -> list[int]:
        """Return the next positions for a worker, or []. `holder` returns the worker with the state for a position."""
        rank = {worker: 0, None: 1}
        size = min(LARGEST, -(-len(self._left) // (self._workers * SHARE)))
        taken = sorted(self._left, key=lambda position: (rank.get(holder(position), 2), position))[:size]
        for position in taken:
            del self._left[position]
        return taken
