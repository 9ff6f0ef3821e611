"""The choice of the clients of a round, and the capacity tier of a client. Both are pure functions of the task."""

from __future__ import annotations

from collections.abc import Sequence

from edgefl import rng
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
    candidates  ids of the clients to draw from
    count       number of clients to draw
    round       number of the round, from 1
    """
    candidates = sorted(k for k in candidates if task.candidates is None or k in task.candidates)
    if count >= len(candidates):
        return candidates
    chosen = rng.stream(task.seed, rng.SELECT, round=round).sample(len(candidates), count)
    return [candidates[i] for i in chosen]
