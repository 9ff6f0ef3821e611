"""The check before round 1 that every client has enough samples for the model.

A model that normalises over single values needs two samples in a training step. A client with one training sample, or a
run with batch=1, cannot train such a model. learning/running/batch_minimum.py handles a last batch of one sample.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgefl.experiment.data.client_splits import training_counts
from edgefl.experiment.federation import Federation
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.task import Task
from edgefl.models.graph.single_value_norm import LEAST_BATCH

MOST_NAMED = 5  # most clients in one sentence


def check_batch(name: str, method: Algorithm, task: Task) -> None:
    """Raise ValueError if batches of one sample are asked for and some client could not train on them."""
    batch = getattr(method, "batch", None)
    if batch != 1:
        return
    for client in range(task.clients):
        if norm := method.single_value_norm(task, client):
            raise ValueError(
                f"{name}: batch=1; {_why(norm)}: expected batch >= {LEAST_BATCH}, or a model without BatchNorm"
            )


def too_small(method: Algorithm, task: Task, client: int, examples: int) -> str:
    """Say why a client with so many training samples cannot train, and what helps. Return "" if it can train."""
    norm = method.single_value_norm(task, client) if examples < LEAST_BATCH else ""
    return f"{examples} training sample{'s' * (examples != 1)}; {_why(norm)}" if norm else ""


def small_clients(methods: Mapping[str, Algorithm], federation: Federation, rounds: int) -> str:
    """Name the clients with too few training samples for a method, and the remedy. Return "" without such clients."""
    counts = [*training_counts(federation.clients), *training_counts(federation.held_out)]
    small = [client for client, count in enumerate(counts) if count < LEAST_BATCH]
    task = federation.task(rounds) if small else None
    for name, method in methods.items() if task else ():
        assert task is not None
        last = task.clients - 1  # a client that never takes part trains what the last client may train
        found = {client: too_small(method, task, min(client, last), counts[client]) for client in small}
        named = [client for client, why in found.items() if why]
        if named:
            return f"{name}: {_listed(named)} {'have' if len(named) > 1 else 'has'} {found[named[0]]}: {REMEDY}"
    return ""


REMEDY = (
    "expected fewer clients, --fewest N to leave out groups with fewer than N samples, another partition, "
    "or a model without BatchNorm"
)


def _why(norm: str) -> str:
    return f"BatchNorm {norm!r} sees 1 value per channel in a sample and needs {LEAST_BATCH} samples in a batch"


def _listed(clients: list[int]) -> str:
    more = len(clients) - MOST_NAMED
    names = ", ".join(map(str, clients[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
    return f"client{'s' * (len(clients) > 1)} {names}"
