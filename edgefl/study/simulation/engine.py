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
        """Return the round after which the client's state was saved, or None if the client keeps nothing."""

    def load_client_state(self, client: int) -> StoredClientState | None:
        """Return the state that the client keeps, or None if there is no state."""

    def save_client_state(self, client: int, round: int, kept: StoredClientState) -> None:
        """Save what the client keeps after that round."""


class Engine(Protocol):
    """An object that does jobs, several at the same time. Call `close` once it is no longer used.

    is_apart  whether jobs are done in other processes, to which their values are sent
    """

    is_apart: bool

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        """Do the jobs, of which no two are of one client, and return the results in the order of the jobs. The states
        that clients keep are loaded from the store, and changed states are saved there under this round.

        common  values that the jobs share
        """

    def close(self) -> None:
        """End the engine's threads or processes."""


MakeEngine = Callable[[SimulationContext, ClientStateStore, int], Engine]


class Threads:
    """Jobs in the threads of a pool, where each kernel call has one thread.

    With one worker there is no pool. The jobs are done in the caller's thread, so that the values that it adds up are
    in the caches of its processor.
    """

    is_apart = False

    def __init__(self, cast: SimulationContext, shelf: ClientStateStore, workers: int) -> None:
        self._player, self._shelf = Player(cast, workers), shelf
        self._pool, self._until_closed = None if workers == 1 else ThreadPoolExecutor(workers), ExitStack()
        self._until_closed.enter_context(kernel_threads(1 if workers > 1 else None))

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        def one(job: Job) -> Any:
            kept = self._shelf.load_client_state(job.client) if job.needs_kept else None
            return job.play(
                self._player, kept, common, lambda new: self._shelf.save_client_state(job.client, round, new)
            )

        return list(map(one, jobs) if self._pool is None else self._pool.map(one, jobs))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._until_closed.close()


@contextmanager
def kernel_threads(count: int | None) -> Iterator[None]:
    """Limit the native kernels' own threads, if the backend has any. With None their number stays as it is."""
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
