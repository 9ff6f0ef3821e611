"""The choice of the clients of a round, and the capacity tier of a client. Both are pure functions of the task."""

from __future__ import annotations

from collections.abc import Sequence

from edgefl import rng
from edgefl.methods.client_set import ClientSet
from edgefl.methods.task import Task


def tier(keep: Sequence[float], client: int, clients: int) -> float:
    """Return p_k of a client. The clients form len(keep) clusters of equal size in id order.

    The sizes differ by one where the number of clients is not a multiple of len(keep).
    """
    return keep[client * len(keep) // clients]


def sample_clients(task: Task, candidates: Sequence[int], count: int, round: int) -> list[int]:
    """Draw `count` of the candidates without replacement, in ascending order, or all candidates if there are fewer
    (ALGORITHMS 2).

    task        task, whose seed the draw follows. A client that `task.candidates` leaves out is not drawn
    candidates  ids of the clients to draw from, each once
    count       number of clients to draw
    round       number of the round, from 1
    """
    among = _eligible(task, candidates)
    if count >= len(among):
        return list(among)
    chosen = rng.stream(task.seed, rng.SELECT, round=round).sample(len(among), count)
    return [among[i] for i in chosen]


def _eligible(task: Task, candidates: Sequence[int]) -> Sequence[int] | ClientSet:
    """Return the candidates that the task does not leave out, in ascending order.

    A run may have very many clients. Where all of them are candidates, no step is taken for each of them.
    """
    allowed = task.candidates
    if len(candidates) == task.clients:
        everybody = range(task.clients)
        if allowed is None:
            return everybody
        if isinstance(allowed, ClientSet) and (not allowed or allowed[len(allowed) - 1] < task.clients):
            return allowed
        return sorted(k for k in allowed if k in everybody)
    return sorted(k for k in candidates if allowed is None or k in allowed)
