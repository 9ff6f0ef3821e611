"""The engine that does the jobs of a simulation, here with threads of this process. integrations/ray.py uses processes
of a cluster. Every engine gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from edgefl import kernels
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.study.simulation.client_player import Job, Player, SimulationContext


class ClientStateStore(Protocol):
    """The states that clients keep, in the files of the simulation."""

    def tag(self, client: int) -> int | None:
        """Of what the client keeps, the round after which it did; None if it keeps nothing."""

    def load_client_state(self, client: int) -> StoredClientState | None:
        """The state that the client keeps; None if there is none."""

    def save_client_state(self, client: int, round: int, kept: StoredClientState) -> None:
        """The client keeps this after that round."""


class Engine(Protocol):
    """Does jobs, several at the same time. `close` once it is no longer used."""

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        """The results, in the order of the jobs, of which no two are of one client. What clients keep is taken from the
        shelf, and what they keep from now on is put there as of that round.

        common  what the jobs have in common
        """

    def close(self) -> None:
        """Ends its threads or processes."""


MakeEngine = Callable[[SimulationContext, ClientStateStore, int], Engine]


class Threads:
    """Jobs by the threads of a pool; with more than one, each kernel call has one thread."""

    def __init__(self, cast: SimulationContext, shelf: ClientStateStore, workers: int) -> None:
        self._player, self._shelf = Player(cast, workers), shelf
        self._pool, self._until_closed = ThreadPoolExecutor(workers), ExitStack()
        self._until_closed.enter_context(kernel_threads(1 if workers > 1 else None))

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        def one(job: Job) -> Any:
            kept = self._shelf.load_client_state(job.client) if job.needs_kept else None
            return job.play(
                self._player, kept, common, lambda new: self._shelf.save_client_state(job.client, round, new)
            )

        return list(self._pool.map(one, jobs))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._until_closed.close()


@contextmanager
def kernel_threads(count: int | None) -> Iterator[None]:
    """Limits the native kernels' own threads, where the backend has any; None leaves them as they are."""
    ops = kernels.backend()
    if count is None or not hasattr(ops, "set_threads"):
        yield
        return
    before = ops.threads()
    ops.set_threads(count)
    try:
        yield
    finally:
        ops.set_threads(before)
