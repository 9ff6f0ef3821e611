"""The records of rounds: names and numbers without nesting, for tables, data frames, callbacks and trackers.

A record is made from the line of metrics of the round (rounds/round_metrics.py), which also has the activity of every
client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

from edgefl.learning.scores import PLACE_SCORES
from edgefl.study.adaptation_costs import adaptation_of, prefixed
from edgefl.study.summary import GLOBAL, MODELS, kind_of

if TYPE_CHECKING:
    from typing_extensions import Required

SCORES = ("accuracy", "accuracy_weighted", "loss", *PLACE_SCORES)
WHOSE = {kind: kind.removesuffix("_local") for kind in MODELS}


class RoundRecord(TypedDict, total=False):
    """The record of a round.

    method, seed, round  label of the method, seed of the run, number of the round
    clients              number of clients that answered
    train_loss           mean training loss over the clients whose replies were aggregated, absent in older runs
    down_bytes, up_bytes numbers of payload bytes of the round, to the clients and to the server
    payload_bytes        payload bytes of all rounds so far, in both directions. A message without a payload counts 8
                         bytes for each number of it
    scalar_bytes         bytes of the round's numbers beside payloads, in both directions, where there are any
    seconds              duration of the round
    virtual_seconds      virtual time at the end of the round, only with modelled devices
    virtual_joules       virtual energy of the round, only with modelled devices
    adapt_steps          mean over clients of the gradient steps before a client's test, where a model is adapted before
                         its test. `adapt_executed_flops`, `adapt_seconds`, and with modelled devices
                         `adapt_virtual_seconds` and `adapt_virtual_joules` are means of their costs. No other cost has
                         them, and their payload is 0 bytes
    accuracy_of          models that `accuracy` and `loss` belong to: personal, adapted or global. This name and the
                         names below are present only in an evaluated round
    accuracy, loss       unweighted means over clients on their own test samples. `accuracy` is absent where the task
                         has no right and wrong answers. `loss` is None where the mean is not a finite number
    perplexity           e to the mean loss, where each token has a label
    mean_iou             unweighted mean over clients of the mean intersection over union of the classes, where each
                         pixel has a label
    accuracy_weighted    mean of the clients' accuracies, weighted by the number of test samples
    global_accuracy      accuracy of the global model on the clients' test samples, where `accuracy` belongs to other
                         models. `global_loss` is its loss
    """

    method: Required[str]
    seed: Required[int]
    round: Required[int]
    clients: Required[int]
    train_loss: float | None
    down_bytes: Required[int]
    up_bytes: Required[int]
    payload_bytes: Required[int]
    scalar_bytes: int
    seconds: Required[float]
    virtual_seconds: float
    virtual_joules: float
    adapt_steps: float
    adapt_executed_flops: float
    adapt_seconds: float
    adapt_virtual_seconds: float
    adapt_virtual_joules: float
    accuracy_of: str
    accuracy: float
    accuracy_weighted: float
    loss: float | None
    perplexity: float | None
    mean_iou: float
    global_accuracy: float
    global_loss: float | None


def records(method: str, seed: int, log_records: Iterable[Mapping[str, Any]]) -> Iterator[RoundRecord]:
    """Yield the records of one method with one seed, from the lines of its metrics, from the first round on."""
    sent = 0
    for log_record in log_records:
        found = record(method, seed, log_record, sent)
        sent = found["payload_bytes"]
        yield found


def record(method: str, seed: int, log_record: Mapping[str, Any], sent: int) -> RoundRecord:
    """Return the record of one line of metrics. `sent` is the number of payload bytes before this round."""
    down, up = sum(log_record["down"].values()), sum(log_record["up"].values())
    answered = [each for each in log_record.get("clients", ()) if each["status"] != "absent"]
    found = {
        "method": method,
        "seed": seed,
        "round": log_record["round"],
        "clients": len(answered),
        **({"train_loss": log_record["train_loss"]} if "train_loss" in log_record else {}),
        "down_bytes": down,
        "up_bytes": up,
        "payload_bytes": sent + down + up,
        **({"scalar_bytes": sum(beside.values())} if (beside := log_record.get("scalar_bytes")) else {}),
        "seconds": log_record["seconds"],
        **_virtual(log_record.get("virtual")),
        **prefixed(adaptation_of(log_record)),
        **(_scores(log_record["evaluation"]) if log_record.get("evaluation") else {}),
    }
    return cast(RoundRecord, found)


def _virtual(found: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if found is None else {"virtual_seconds": found["ended"], "virtual_joules": found["joules"]}


def _scores(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    kind = kind_of(evaluation)
    found = {name: evaluation[kind][name] for name in SCORES if name in evaluation[kind]}
    of_all = evaluation.get(GLOBAL, {}) if kind != GLOBAL else {}
    beside = {f"global_{name}": of_all[name] for name in ("accuracy", "loss") if name in of_all}
    return {"accuracy_of": WHOSE[kind], **found, **beside}
