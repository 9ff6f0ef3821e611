"""A round as one plain record: names and numbers without nesting, for tables, data frames, callbacks and trackers.

Made from the line of metrics (rounds/round_metrics.py), which has what every single client did.

    method, seed, round  whose round; `method` is its label
    clients              that answered
    train_loss           mean over those whose replies were taken of what training minimised; absent in older runs
    down_bytes, up_bytes payload of the round
    payload_bytes        of all rounds so far
    seconds              of the round
    virtual_seconds      of modelled devices, up to the end of the round; absent where there are none
    virtual_joules       of the round, likewise
    accuracy_of          whose models `accuracy` and `loss` are of: personal, adapted or global; with the rest of this
                         list where a round was evaluated
    accuracy, loss       unweighted means over clients on their own test samples; accuracy only where there is one, and
                         loss None where it is no finite number
    accuracy_weighted    by test samples
    global_accuracy      of the global model on the same samples, where `accuracy` is of others; global_loss likewise
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgefl.study.summary import GLOBAL, MODELS, kind_of

SCORES = ("accuracy", "accuracy_weighted", "loss")
WHOSE = {kind: kind.removesuffix("_local") for kind in MODELS}


def records(method: str, seed: int, log_records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of the lines of one method with one seed, from the first round on."""
    sent = 0
    for log_record in log_records:
        found = record(method, seed, log_record, sent)
        sent = found["payload_bytes"]
        yield found


def record(method: str, seed: int, log_record: Mapping[str, Any], sent: int) -> dict[str, Any]:
    """Of one line; `sent`: payload bytes before it."""
    down, up = sum(log_record["down"].values()), sum(log_record["up"].values())
    answered = [each for each in log_record.get("clients", ()) if each["status"] != "absent"]
    return {
        "method": method,
        "seed": seed,
        "round": log_record["round"],
        "clients": len(answered),
        **({"train_loss": log_record["train_loss"]} if "train_loss" in log_record else {}),
        "down_bytes": down,
        "up_bytes": up,
        "payload_bytes": sent + down + up,
        "seconds": log_record["seconds"],
        **_virtual(log_record.get("virtual")),
        **(_scores(log_record["evaluation"]) if log_record.get("evaluation") else {}),
    }


def _virtual(found: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if found is None else {"virtual_seconds": found["ended"], "virtual_joules": found["joules"]}


def _scores(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    kind = kind_of(evaluation)
    found = {name: evaluation[kind][name] for name in SCORES if name in evaluation[kind]}
    of_all = evaluation.get(GLOBAL, {}) if kind != GLOBAL else {}
    beside = {f"global_{name}": of_all[name] for name in ("accuracy", "loss") if name in of_all}
    return {"accuracy_of": WHOSE[kind], **found, **beside}
