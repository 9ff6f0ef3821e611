"""The line of metrics of a round, on two clients that can be added up by hand."""

from __future__ import annotations

import json
import math

import pytest

from edgefl.learning.learner import Evaluation
from edgefl.methods.rounds.round_closing import AggregationResult
from edgefl.methods.rounds.round_metrics import ClientRound, accuracies, common_scores, round_metrics
from edgefl.methods.task import State
from edgefl.protocol.codec import Sizes


def client(number: int, **changes: object) -> ClientRound:
    given = {"status": "on", "examples": 7, "steps": 2, "down": Sizes(8, 2, 1), "up": Sizes(8, 0, 1), "seconds": 0.5}
    return ClientRound(number, {"keep": 0.5}, **{**given, **changes})  # type: ignore[arg-type]


def test_a_round_adds_up_its_clients() -> None:
    log_record = round_metrics(
        3, [client(0, metrics={"loss": 0.25}), client(1)], AggregationResult(State({}, {"running": [0, 1]})), 1.5
    )
    assert log_record == {
        "round": 3,
        "clients": [
            {"client": 0, "keep": 0.5, "examples": 7, "steps": 2, "status": "on", "loss": 0.25}
            | {"down": 11, "up": 9, "seconds": 0.5},
            {"client": 1, "keep": 0.5, "examples": 7, "steps": 2, "status": "on"}
            | {"down": 11, "up": 9, "seconds": 0.5},
        ],
        "down": {"values": 16, "index": 4, "header": 2},
        "up": {"values": 16, "index": 0, "header": 2},
        "train_loss": 0.25,
        "running": 2,
        "seconds": 1.5,
    }
    assert json.loads(json.dumps(log_record)) == log_record


def test_operations_are_summed_over_the_replies_that_were_taken() -> None:
    """Nominal operations count only where every client reports them. If no client does, there is no entry, as in old
    lines.
    """
    each = {"executed_flops": 6.0, "nominal_flops": 9.0}
    clients = [client(0, metrics=each), client(1, metrics={**each, "search_flops": 2.0}), client(2, status="absent")]
    refused = client(3, metrics=each, reason="bad", status="refused")
    closing = AggregationResult(State({}, {}))
    assert round_metrics(1, [*clients, refused], closing, 1.0)["flops"] == {"nominal": 18, "executed": 12, "search": 2}
    silent = client(3, metrics={"executed_flops": 1.0})
    assert round_metrics(1, [*clients, silent], closing, 1.0)["flops"] == {"executed": 13, "search": 2}
    assert "flops" not in round_metrics(1, [client(0, metrics={"loss": 1.0})], closing, 1.0)


def test_a_refused_reply_has_its_reason_and_none_of_its_metrics() -> None:
    record = client(0, status="refused", reason="loss=inf", metrics={"loss": float("inf")}).to_json()
    assert (record["status"], record["reason"], "loss" in record) == ("refused", "loss=inf", False)


def test_a_model_that_diverged_has_no_loss() -> None:
    """Its line must be JSON, which has neither NaN nor infinities."""
    found = accuracies([Evaluation(float("nan"), 1, 2), Evaluation(4.0, 8, 8)])
    assert (found["loss"], found["loss_sum"], found["correct"]) == (None, [None, 4.0], [1, 8])
    json.dumps(found, allow_nan=False)


def test_a_metric_cannot_pass_for_another_entry() -> None:
    record = client(4, metrics={"client": 7.0, "status": 1.0, "down": -1.0, "mine": 2.0}).to_json()
    assert (record["client"], record["status"], record["down"], record["mine"]) == (4, "on", 11, 2.0)


def test_accuracies_are_of_the_clients_that_answered() -> None:
    found = accuracies([Evaluation(3.0, 1, 2), None, Evaluation(4.0, 8, 8)])
    assert found == {
        "accuracy": (0.5 + 1.0) / 2,
        "accuracy_weighted": 9 / 10,
        "loss": (1.5 + 0.5) / 2,
        "correct": [1, None, 8],
        "examples": [2, None, 8],
        "loss_sum": [3.0, None, 4.0],
    }


def test_tokens_have_a_perplexity() -> None:
    """Mean losses of log 2 and log 8 have the mean log 4. A loss that is not finite has no perplexity."""
    clients = [Evaluation(math.log(2), 3, 1, 6), None, Evaluation(2 * math.log(8), 6, 2, 6)]
    assert accuracies(clients, 6, "perplexity")["perplexity"] == pytest.approx(4)
    assert accuracies([Evaluation(math.inf, 3, 1, 6)], 6, "perplexity")["perplexity"] is None
    assert common_scores(clients[2], 6, "perplexity")["perplexity"] == pytest.approx(8)  # type: ignore[arg-type]


def test_pixels_have_a_mean_iou_of_the_clients_that_tell_one() -> None:
    """A device may send NaN, which JSON has not."""
    shares = (0.25, None, math.nan, 0.75)
    found = accuracies([Evaluation(1.0, 1, 1, 4, share) for share in shares], 4, "mean_iou")
    assert (found["mean_iou"], found["client_mean_iou"]) == (0.5, [0.25, None, None, 0.75])
    assert common_scores(Evaluation(1.0, 1, 1, 4, 0.25), 4, "mean_iou") == {
        "correct": 1,
        "examples": 1,
        "decisions": 4,
        "mean_iou": 0.25,
    }
