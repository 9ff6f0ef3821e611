"""One round of one client as values: the plan that the server sends, and the reply to it. No bytes are made here.

Source  ARCHITECTURE, "The types that carry everything"
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from edgefl.learning.learner import Evaluation
from edgefl.methods.expected_reply import ExpectedPayload
from edgefl.methods.vector_sums import is_finite
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update

Status = Literal["on", "stopped"]


@dataclass(frozen=True)
class Plan:
    """The server's message to one client for one round.

    kind           whether the client trains or is evaluated
    round, client  number of the round, id of the client
    selection      neurons that the client trains
    payload        values for the client by name
    settings       hyper-parameters of the round by name
    deadline_s     seconds until the reply is due. None: no deadline
    masks          masks by name. No payload has the same name as a mask
    held           mask that the client keeps (Algorithm.held). The values of the payload at this mask go without ids,
                   and masks are sent as their difference from it, in both directions. The mask itself is not sent. The
                   client's side sets it where the server has shown that it knows the mask
    authorised     whether the reply carries the trained values. A client that is not authorised trains as well, keeps
                   the result in its private state, and replies without a payload
    expects        content of the reply by name. {}: the reply is empty. None: the reply has new values for the
                   coordinates of `payload`
    """

    kind: Literal["train", "evaluate"]
    round: int
    client: int
    selection: NeuronSet | None = None  # every neuron if None
    payload: Mapping[str, Update] = field(default_factory=dict)
    settings: Mapping[str, float | int | str | bool] = field(default_factory=dict)
    authorised: bool = True
    deadline_s: float | None = None
    masks: Mapping[str, Mask] = field(default_factory=dict)
    expects: Mapping[str, ExpectedPayload] | None = None
    held: Mask | None = field(default=None, compare=False)

    @cached_property
    def due(self) -> Mapping[str, ExpectedPayload]:
        """The expected content of the reply, by name."""
        if not self.authorised:
            return {}
        return dict.fromkeys(self.payload, ExpectedPayload("planned")) if self.expects is None else self.expects


@dataclass(frozen=True)
class Reply:
    """The client's answer to a plan.

    round, client   number of the round, id of the client
    payload         values for the server by name
    selection_hash  8 bytes of a digest of the trained neurons, or empty
    examples        n_k, the number of training samples
    steps           number of gradient steps that the client took
    status          "stopped" if the client stops early and takes no part in later rounds
    metrics         figures of the training by name
    masks           masks by name. No payload has the same name as a mask
    """

    round: int
    client: int
    payload: Mapping[str, Update] = field(default_factory=dict)
    selection_hash: bytes = b""
    examples: int = 0
    steps: int = 0
    status: Status = "on"
    metrics: Mapping[str, float] = field(default_factory=dict)
    masks: Mapping[str, Mask] = field(default_factory=dict)


def refuse(plan: Plan, reply: Reply, is_known_finite: bool = False) -> str | None:
    """Return the reason why a reply must not be aggregated, in one sentence, or None if it may be aggregated.

    A refused reply counts as not reported.

    is_known_finite  whether all values are known to be finite
    """
    who = f"reply of client {reply.client}"
    if reply.client != plan.client:
        return f"{who}; expected client {plan.client}"
    if reply.round != plan.round:
        return f"{who} for round {reply.round}; expected round {plan.round}"
    expected = b"" if plan.selection is None else plan.selection.hash()
    if reply.selection_hash != expected:
        return f"{who} has selection hash {reply.selection_hash.hex() or 'none'}; expected {expected.hex() or 'none'}"
    due, found = plan.due.keys(), reply.payload.keys() | reply.masks.keys()
    if found != due and (found or reply.status != "stopped"):
        return f"{who} has payloads {sorted(found)}; expected {sorted(due)}"
    if found and (reply.examples < 1 or reply.steps < 1):
        return f"{who} has {reply.examples} examples and {reply.steps} steps; expected at least 1"
    for payload, update in reply.payload.items():
        for name, block in update.blocks.items():
            if not is_known_finite and not is_finite(block.values):
                return f"{who} has a non-finite value in {payload}/{name}; expected finite values"
    for metric, value in reply.metrics.items():
        if not math.isfinite(value):
            return f"{who} has {metric}={value}; expected a finite value"
    return None


def measured(reply: Reply, metrics: Mapping[str, float]) -> Reply:
    """Return the reply with these metrics in addition to its own."""
    metrics = {**reply.metrics, **metrics}
    head = reply.round, reply.client, reply.payload, reply.selection_hash
    return Reply(*head, reply.examples, reply.steps, reply.status, metrics, reply.masks)


def tested(reply: Reply, found: Evaluation) -> Reply:
    """Return the reply with the test result of the client's model after training, on the client's test samples."""
    if not found.decisions:
        return measured(reply, {"tested_loss": found.loss_sum / found.examples})
    tested = float(found.examples * found.decisions)
    return measured(reply, {"correct": float(found.correct), "tested": tested})
