"""The neurons of a client in a round are its own draw, or the draw that all clients of its tier share.

A sum over clients of one draw shows no value of a single client, and a coordinate that one client alone trained is that
client's value. So secure aggregation needs shared draws, of enough clients in each tier.

Source  arXiv 2508.04285 shows the attack on single coordinates
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from edgefl import rng
from edgefl.methods.sampling import sample_clients
from edgefl.methods.task import Task

STEPS = 1 << 20  # shares of neurons that are closer than 1 / STEPS share a draw


@dataclass(frozen=True)
class NeuronDraws:
    """The setting of methods that draw neurons by chance.

    draws  'own': each client has a draw of its own. 'shared': all clients of a round with the same share of active
           neurons have one draw, and a round takes equally many clients of each share
    """

    draws: Literal["own", "shared"] = "own"

    def drawing(self, task: Task, client: int, share: float, round: int) -> rng.Stream:
        """Return the stream that a client's neurons of a round are drawn from."""
        if self.draws == "own":
            return rng.stream(task.seed, rng.NEURONS, client=client, round=round)
        return rng.stream(task.seed, rng.NEURONS, round=round, extra=1 + _step(share))

    def take_part(
        self, task: Task, candidates: Sequence[int], count: int, round: int, share: Callable[[int], float]
    ) -> list[int]:
        """Return the clients of a round, in ascending order.

        share  function that gives the share of active neurons of a candidate
        """
        if self.draws == "own":
            return sample_clients(task, candidates, count, round)
        return _of_each_share(task, candidates, count, round, share)


def _step(share: float) -> int:
    return round(share * STEPS)


def _of_each_share(
    task: Task, candidates: Sequence[int], count: int, number: int, share: Callable[[int], float]
) -> list[int]:
    """Return `count` clients, equally many of each share. What is left over goes to the shares in turns by round."""
    groups: dict[int, list[int]] = {}
    for client in sorted(candidates):
        if task.candidates is None or client in task.candidates:
            groups.setdefault(_step(share(client)), []).append(client)
    chosen: list[int] = []
    for place, (step, group) in enumerate(sorted(groups.items())):
        more = (place - number) % len(groups) < count % len(groups)
        wanted = min(count // len(groups) + more, len(group))
        if wanted:
            at = rng.stream(task.seed, rng.SELECT, round=number, extra=1 + step).sample(len(group), wanted)
            chosen += [group[i] for i in at]
    return sorted(chosen)
