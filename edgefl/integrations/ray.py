"""The jobs of a simulation on a Ray cluster: actors play the clients, and this process plays the server.

An actor has one learner, the samples, and in its memory the states of clients that it has played. All data travel
through Ray: a node needs edgefl, but no file of this machine, which keeps the files. An actor that dies is replaced,
and jobs that it had not answered are done again. The results have the same bits for any number of actors, and the same
bits as with threads.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RaySystemError,
    RayTaskError,
    WorkerCrashedError,
)

from edgefl.errors import RunError
from edgefl.methods.rounds.provenance import other_provenances, provenance
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.study.simulation.client_player import Job, Player, SimulationContext
from edgefl.study.simulation.engine import ClientStateStore, MakeEngine, kernel_threads
from edgefl.study.simulation.job_chunks import ClientStatePlacement, Queue

DIED = (RayActorError, ObjectLostError, WorkerCrashedError, NodeDiedError, OutOfMemoryError)
MOST_DEATHS = 4  # deaths of actors in a row, without an answer between them
AHEAD = 2  # chunks that an actor is given ahead, so that it never waits for this process
START_S = 300.0
HELD_BYTES = 1 << 30  # bytes of client states in the memory of one actor


@contextmanager
def cluster(address: str | None, workers: int) -> Iterator[MakeEngine]:
    """Give the function that makes engines on a Ray cluster. A connection that was open before stays open.

    address  cluster of `ray start`, where "auto" is the cluster of this machine. None: a cluster of this process alone,
             which ends with the context
    workers  number of processors of a cluster of this process alone
    Raises  RunError if there is no such cluster.
    """
    connected = ray.is_initialized()
    if not connected:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports nothing to anybody
        alone = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
        try:
            ray.init(address=address or "local", logging_level="warning", **alone)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RunError(
                f"--ray-address {address}: {error}; expected the address of a cluster of ray start"
            ) from None
    try:
        yield RayEngine
    finally:
        if not connected:
            ray.shutdown()


class Item(NamedTuple):
    """A job for an actor, with the state that its client keeps.

    tag   round of the state. None: the client has no state, or the job does not need it
    kept  the state. None with a tag: the actor has the state in its memory
    """

    job: Job
    tag: int | None = None
    kept: StoredClientState | None = None


class PlayerActor:
    """An actor of a Ray cluster, with one learner and the states that clients keep."""

    def __init__(self, cast: SimulationContext) -> None:
        self._threads = kernel_threads(1)
        self._threads.__enter__()  # as long as the process lives
        self._player = Player(cast, 1)
        self._held: dict[int, tuple[int, StoredClientState]] = {}

    def provenance(self) -> tuple[str, int]:
        """Return the provenance of results that are computed here, and the id of the process."""
        return provenance(), os.getpid()

    def do(
        self, items: Sequence[Item], round: int, dropped: Sequence[tuple[int, int]], *common: Any
    ) -> list[tuple[Any, StoredClientState | None]]:
        """Return for each item its result and the new state of its client, or None if the state did not change."""
        found = [self._one(item, round, common) for item in items]
        for client, tag in dropped:
            if client in self._held and self._held[client][0] == tag:
                del self._held[client]
        return found

    def _one(self, item: Item, round: int, common: Sequence[Any]) -> tuple[Any, StoredClientState | None]:
        client, new = item.job.client, list[StoredClientState]()
        if item.tag is not None and item.kept is not None:
            self._held[client] = item.tag, item.kept
        kept = None if item.tag is None else self._held[client][1]
        given = None if kept is None else StoredClientState(kept.params, *copy.deepcopy((kept.private, kept.arrays)))
        result = item.job.play(self._player, given, common, lambda each: new.append(copy.deepcopy(each)))
        if new:
            self._held[client] = round, new[0]
        return result, new[0] if new else None


class RayEngine:
    """An engine that does jobs with `workers` actors of the connected cluster. Each actor has one processor."""

    is_apart = True

    def __init__(self, cast: SimulationContext, shelf: ClientStateStore, workers: int) -> None:
        """Raises RunError if the cluster has too few processors, or another provenance than this process."""
        processors = int(ray.cluster_resources().get("CPU", 0))
        if processors < workers:
            raise RunError(
                f"{workers} workers on a Ray cluster of {processors} processors; expected a processor for each worker"
            )
        self._cast, self._shelf, self._workers = ray.put(cast), shelf, workers
        self._holdings = ClientStatePlacement(HELD_BYTES)
        self._actors: list[Any] = []
        self._pids = [0] * workers
        try:
            self._actors = [self._actor() for _ in range(workers)]
            for worker in range(workers):
                self._await(worker)
        except BaseException:
            self.close()
            raise

    def pids(self) -> list[int]:
        """Return the ids of the actors' processes. Each id is valid on the machine of its actor."""
        return list(self._pids)

    def do(self, jobs: Sequence[Job], round: int, common: Sequence[Any] = ()) -> list[Any]:
        return _Call(self, jobs, round, common).results()

    def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def _actor(self) -> Any:
        return ray.remote(num_cpus=1, max_restarts=0)(PlayerActor).remote(self._cast)

    def _await(self, worker: int) -> None:
        """Raise RunError unless the actor starts and has the provenance of this process."""
        try:
            made, self._pids[worker] = ray.get(self._actors[worker].provenance.remote(), timeout=START_S)
        except GetTimeoutError:
            raise RunError(f"worker {worker} did not start in {START_S:g} s; expected a free processor") from None
        except DIED as error:
            raise RunError(f"worker {worker} died at its start: {error}; expected edgefl on every node") from None
        if (differs := other_provenances([made])) is not None:
            raise RunError(f"worker {worker}: {differs}; expected it on every node of the cluster")

    def _replace(self, worker: int) -> None:
        """Start another actor in place of an actor that has died."""
        self._holdings.lose(worker)
        ray.kill(self._actors[worker])
        self._actors[worker] = self._actor()
        self._await(worker)


class _Call:
    """One call of `RayEngine.do`. It gives out chunks and takes in answers until no positions are left."""

    def __init__(self, engine: RayEngine, jobs: Sequence[Job], round: int, common: Sequence[Any]) -> None:
        self._engine, self._jobs, self._round = engine, jobs, round
        self._common = [ray.put(each) for each in common]
        self._queue = Queue(len(jobs), engine._workers)
        self._open: dict[Any, tuple[int, list[int]]] = {}  # by reference of the answer: worker and positions
        self._results: dict[int, Any] = {}
        self._deaths = 0

    def results(self) -> list[Any]:
        for worker in list(range(self._engine._workers)) * AHEAD:
            self._give(worker)
        while self._open:
            (ready, *_), _ = ray.wait(list(self._open))
            self._take(ready)
        return [self._results[position] for position in range(len(self._jobs))]

    def _give(self, worker: int) -> None:
        """Give the worker its next chunk, if there is one."""
        positions = self._queue.take(worker, self._holder)
        if positions:
            items = [self._item(worker, self._jobs[position]) for position in positions]
            dropped = self._engine._holdings.dropped(worker)
            answer = self._engine._actors[worker].do.remote(items, self._round, dropped, *self._common)
            self._open[answer] = worker, positions

    def _holder(self, position: int) -> int | None:
        job = self._jobs[position]
        return (
            self._engine._holdings.holder(job.client, self._engine._shelf.tag(job.client)) if job.needs_kept else None
        )

    def _item(self, worker: int, job: Job) -> Item:
        tag, holdings = self._engine._shelf.tag(job.client), self._engine._holdings
        if not job.needs_kept or tag is None:
            return Item(job)
        if holdings.holder(job.client, tag) == worker:
            holdings.use(job.client)
            return Item(job, tag)
        kept = self._engine._shelf.load_client_state(job.client)
        assert kept is not None  # a client with a tag has a state
        holdings.hold(worker, job.client, tag, _size(kept))
        return Item(job, tag, kept)

    def _take(self, answer: Any) -> None:
        """Read an answer and give its worker another chunk. If the worker has died, do its unanswered jobs again."""
        worker, positions = self._open.pop(answer)
        try:
            found = ray.get(answer)
        except RayTaskError as error:
            raise _told(worker, error.cause or error) from None
        except RaySystemError as error:
            raise _told(worker, error) from None
        except DIED as error:
            self._bury(worker, positions, error)
            return
        self._deaths = 0
        for position, (result, kept) in zip(positions, found, strict=True):
            self._results[position] = result
            if kept is not None:
                client = self._jobs[position].client
                self._engine._shelf.save_client_state(client, self._round, kept)
                self._engine._holdings.hold(worker, client, self._round, _size(kept))
        self._give(worker)

    def _bury(self, worker: int, positions: list[int], error: Exception) -> None:
        """Put back the jobs of an actor that has died, and replace it.

        Raises  RunError if no actor lives long enough to answer.
        """
        self._deaths += 1
        if self._deaths >= MOST_DEATHS:
            clients = [self._jobs[position].client for position in positions]
            raise RunError(f"{self._deaths} workers died in a row, the last at clients {clients}: {error}")
        for answer, (whose, others) in list(self._open.items()):
            if whose == worker:
                del self._open[answer]
                positions = [*positions, *others]
        self._queue.put_back(positions)
        self._engine._replace(worker)
        busy = {whose for whose, _ in self._open.values()}
        for idle in [each for each in range(self._engine._workers) if each not in busy] * AHEAD:
            self._give(idle)


def _size(kept: StoredClientState) -> int:
    return sum(array.nbytes for array in kept.flat().values())


def _told(worker: int, error: Exception) -> Exception:
    """Return an error of a job as it is, and a RunError for an error of Ray, which could not read what it was sent."""
    if not isinstance(error, RaySystemError):
        return error
    what = str(error).splitlines()[0].removeprefix("System error: ")
    return RunError(f"worker {worker}: {what}; expected the files of the method on every node")
