"""The log record of a round's metrics, and the accuracies of an evaluation. The keys do not depend on who ran the
round.

Values only: simulation and server make them, the journal and the store keep them, and study/summary.py adds them up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from edgefl.learning.scores import MEAN_IOU, PERPLEXITY, perplexity
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.answer import Answer
from edgefl.methods.rounds.client_round import EXECUTED, NOMINAL, SEARCH
from edgefl.methods.rounds.exchange import total
from edgefl.methods.rounds.round_closing import AggregationResult
from edgefl.methods.rounds.scalars import scalar_bytes, with_numbers
from edgefl.protocol.codec import Sizes
from edgefl.protocol.wire.messages import Trained

NOTHING = Sizes(0, 0, 0)
REFRESHED, TRAINING, HELD_OUT = "refreshed", "training", "held_out"  # keys of an evaluation, where asked for


class Tested(Protocol):
    """A model's result on one client's test samples, as learner.Evaluation has it."""

    @property
    def loss_sum(self) -> float: ...
    @property
    def correct(self) -> int: ...
    @property
    def examples(self) -> int: ...
    @property
    def mean_iou(self) -> float | None: ...


@dataclass(frozen=True)
class ClientRound:
    """One client's part of a round.

    settings  settings that the method sent to the client
    status    "on" or "stopped" as the client said. "refused" for this `reason`. "excluded" for this `reason` when the
              round was closed, though the client keeps what it trained. "absent" if no reply came in time. "late" in a
              replay, and with modelled devices: the client trained, and its reply came too late. With secure
              aggregation "masked", and "not-opened" for this `reason`
    clipped   reason why the reply was shortened when the round was closed
    staleness  rounds that were closed between the client's plan and its reply, in an asynchronous run
    scalars   bytes down and up of numbers beside a payload, which `down` and `up` do not have (scalars.py)
    counted   number of samples with which the reply was weighted, where it is smaller than `examples`
    virtual   values of a modelled device: device, virtual_seconds, virtual_joules (device_models/simulated_clock.py)
    """

    client: int
    settings: Mapping[str, Any]
    status: str
    reason: str | None = None
    examples: int = 0
    steps: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    down: Sizes = NOTHING
    up: Sizes = NOTHING
    seconds: float = 0.0
    clipped: str | None = None
    counted: int | None = None
    virtual: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[int, int] = (0, 0)
    staleness: int = 0

    @property
    def is_taken(self) -> bool:
        """Return whether the reply was aggregated, as far as is known."""
        return self.reason is None and self.status != "late"

    def closed(self, closing: AggregationResult) -> ClientRound:
        """Return the record as it is after the round was closed."""
        if self.client in closing.excluded:
            return replace(self, status="excluded", reason=closing.excluded[self.client])
        clipped, counted = closing.clipped.get(self.client), closing.counted.get(self.client)
        unchanged = (clipped, counted) == (self.clipped, self.counted)
        return self if unchanged else replace(self, clipped=clipped, counted=counted)

    @staticmethod
    def answered(plan: Plan, down: Sizes, up: Trained, answer: Answer) -> ClientRound:
        """Return the record of a client's answer `up` to a message, of which `down` has the sizes.

        An answer with invalid seconds is refused. Its seconds become 0.
        """
        status = up.status if answer.refusal is None else "refused"
        beside = [
            scalar_bytes(plan.settings) if down.total else 0,
            scalar_bytes(up.metrics) if answer.sizes.total else 0,
        ]
        return ClientRound(
            plan.client,
            plan.settings,
            status,
            answer.refusal,
            up.examples,
            up.steps,
            up.metrics,
            with_numbers(down, plan.settings),
            with_numbers(answer.sizes, up.metrics),
            up.seconds if math.isfinite(up.seconds) else 0.0,
            scalars=(beside[0], beside[1]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values. The metrics of a refused or excluded reply are left out, because they may not be
        numbers.

        A metric that has the name of another entry is left out, too.
        """
        record: dict[str, Any] = {"client": self.client, **self.settings}
        record.update(examples=self.examples, steps=self.steps, status=self.status)
        record.update(down=self.down.total, up=self.up.total, seconds=self.seconds, **self.virtual)
        record |= {"staleness": self.staleness} if self.staleness else {}
        record.update({n: v for n, v in (("clipped", self.clipped), ("counted", self.counted)) if v is not None})
        if self.reason is not None:
            return {**record, "reason": self.reason}
        return {**self.metrics, **record}


def round_metrics(
    round: int, clients: Iterable[ClientRound], closing: AggregationResult, seconds: float
) -> dict[str, Any]:
    """Return the metrics of a closed round, without an evaluation.

    `clients` are the records before the round was closed. The metric `train_loss` is the unweighted mean of the local
    losses of the clients whose replies were taken. The loss of a client is the mean over its local steps.
    """
    clients, state = [each.closed(closing) for each in clients], closing.state
    log_record: dict[str, Any] = {"round": round, "clients": [each.to_json() for each in clients]}
    log_record["down"] = _parts(total(each.down for each in clients))
    log_record["up"] = _parts(total(each.up for each in clients))
    if any(sum(each.scalars) for each in clients):
        down, up = zip(*(each.scalars for each in clients), strict=True)
        log_record["scalar_bytes"] = {"down": sum(down), "up": sum(up)}
    losses = [each.metrics["loss"] for each in clients if each.is_taken and "loss" in each.metrics]
    if losses:
        log_record["train_loss"] = sum(losses) / len(losses)
    if flops := _flops(clients):
        log_record["flops"] = flops
    if closing.limited is not None:
        log_record["limited_values"] = closing.limited
    if "running" in state.values:
        log_record["running"] = len(state.values["running"])
    log_record["seconds"] = seconds
    return log_record


def _flops(clients: Sequence[ClientRound]) -> dict[str, float]:
    """Return the operations of the clients whose replies were taken, or {} if no client reports any.

    Nominal operations are given only where all these clients report them.
    """
    said = [each.metrics for each in clients if each.is_taken and EXECUTED in each.metrics]
    if not said:
        return {}
    found = {"executed": sum(each[EXECUTED] for each in said), "search": sum(each.get(SEARCH, 0.0) for each in said)}
    nominal = [each[NOMINAL] for each in said if NOMINAL in each]
    return {"nominal": sum(nominal), **found} if len(nominal) == len(said) else found


def accepts_nobody(log_record: Mapping[str, Any]) -> bool:
    """Return whether no reply was aggregated into a round with these metrics."""
    return not any(each["status"] in ("on", "stopped", "masked") for each in log_record["clients"])


def stuck(round: int, empty: int, log_record: Mapping[str, Any]) -> str:
    """Return the reason why a run ends after `empty` rounds without an accepted reply, from the metrics of the last
    round.
    """
    reasons = [each["reason"] for each in log_record["clients"] if "reason" in each]
    is_late = any(each["status"] == "late" for each in log_record["clients"])
    none = "every reply came after the deadline" if is_late else "no client has answered"
    why = f"the last refusal: {reasons[-1]}" if reasons else none
    rounds = f"round {round}" if empty == 1 else f"rounds {round - empty + 1} to {round}"
    return (
        f"no reply was accepted in {rounds} ({why}); expected at least one; "
        "--resume continues the run, and --max-empty-rounds allows more empty rounds in a row"
    )


def accuracies(clients: Sequence[Tested | None], decisions: int = 1, score: str = "") -> dict[str, Any]:
    """Return one kind of accuracy, by client id. The entry of a client that did not answer is None.

    At least one client has answered.

    decisions          decisions of an example that are right or wrong. The result names their number unless it is 1. 0:
                       no accuracies
    accuracy           unweighted mean over the clients that answered
    accuracy_weighted  mean weighted by the clients' test samples
    loss, loss_sum     None where the loss is not finite, as for a model that has diverged, because JSON has no NaN
    score              score of tokens or pixels (scores.place_score). The result then has it, too: perplexity is e to
                       the mean loss, and mean_iou is the unweighted mean over the clients in client_mean_iou
    """
    found = [each for each in clients if each is not None]
    loss = _finite(sum(each.loss_sum / each.examples for each in found) / len(found))
    losses = {
        "loss": loss,
        "examples": [None if each is None else each.examples for each in clients],
        "loss_sum": [None if each is None else _finite(each.loss_sum) for each in clients],
    }
    if not decisions:
        return {**losses, "decisions": decisions}
    correct, examples = sum(each.correct for each in found), sum(each.examples for each in found)
    shares = {
        "accuracy": sum(each.correct / (each.examples * decisions) for each in found) / len(found),
        "accuracy_weighted": correct / (examples * decisions),
        "correct": [None if each is None else each.correct for each in clients],
    }
    named = {} if decisions == 1 else {"decisions": decisions}
    return {**shares, **losses, **named, **_place_scores(clients, loss, score)}


def _place_scores(clients: Sequence[Tested | None], loss: float | None, score: str) -> dict[str, Any]:
    """Return the score of tokens or pixels, which is None where it is not a finite number."""
    if score == PERPLEXITY:
        return {PERPLEXITY: None if loss is None else _finite(perplexity(loss))}
    if score != MEAN_IOU:
        return {}
    each = [None if client is None or client.mean_iou is None else _finite(client.mean_iou) for client in clients]
    known = [share for share in each if share is not None]
    return {MEAN_IOU: sum(known) / len(known) if known else None, f"client_{MEAN_IOU}": each}


def common_scores(found: Tested, decisions: int = 1, score: str = "") -> dict[str, Any]:
    """Return the scores on the test set that no client owns."""
    if decisions == 1:
        return {"correct": found.correct, "examples": found.examples}
    right = {"correct": found.correct} if decisions else {"loss": _finite(found.loss_sum / found.examples)}
    beside = _place_scores([found], _finite(found.loss_sum / found.examples), score)
    beside.pop(f"client_{MEAN_IOU}", None)
    return {**right, "examples": found.examples, "decisions": decisions, **beside}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _parts(sizes: Sizes) -> dict[str, int]:
    return {"values": sizes.values, "index": sizes.index, "header": sizes.header}
