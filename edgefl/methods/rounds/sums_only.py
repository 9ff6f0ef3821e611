"""The runs in which the server needs sums of replies alone, and the sizes of the groups that are summed.

A method says with `sums_only` that its server needs no more of replies than their sums over clients of one draw. A
method that is made of another method says it anew.
"""

from __future__ import annotations

from collections import Counter

from edgefl.methods.algorithm import Algorithm
from edgefl.methods.early_stopping import EarlyStopping
from edgefl.methods.fedspa import FedSpa
from edgefl.methods.neuron_draws import NeuronDraws
from edgefl.methods.task import Task


def problem(algorithm: Algorithm) -> str:
    """Return why the server needs the replies of single clients, in a sentence, or "" if it needs sums alone."""
    name = algorithm.name
    if not vars(type(algorithm)).get("sums_only", False):
        return f"method {name} needs the replies of single clients; expected a method whose server needs sums alone"
    if isinstance(algorithm, EarlyStopping) and algorithm.es:
        return f"method {name} with es=1: the private losses of clients decide who is chosen; expected es=0"
    if isinstance(algorithm, NeuronDraws) and algorithm.draws == "own":
        return f"method {name} with draws=own: each client has neurons of its own; expected {name}:draws=shared"
    if isinstance(algorithm, FedSpa) and algorithm.search != "rsm":
        return f"method {name} with search={algorithm.search}: each client finds masks of its own; expected {name}-rsm"
    if isinstance(algorithm, FedSpa) and algorithm.masks == "different":
        return f"method {name} with masks=different: each client has a mask of its own; expected masks=same"
    if algorithm.wants_throughput:
        return f"method {name} plans by the speed of single clients; expected round_seconds=0"
    return ""


def group_sizes(algorithm: Algorithm, task: Task, per_round: int) -> list[int]:
    """Return the least number of clients of a round by group, smallest first, when every client can be chosen."""
    if not isinstance(algorithm, NeuronDraws):
        return [min(per_round, task.clients)]
    shares = Counter(algorithm.share(task, client) for client in range(task.clients))  # type: ignore[attr-defined]
    return sorted(min(per_round // len(shares), count) for count in shares.values())
