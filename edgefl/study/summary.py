"""The figures of a run's methods, added up from the metrics of the rounds. Nothing is measured or printed here.

Payload bytes are the bytes that the codec wrote, in both directions: values, neuron ids and block headers. "Dense" is
the cost if every message with a part of a model carried the whole model as float32. comparison.py compares methods over
seeds. result_text.py writes sentences, tables.py writes tables, and picture.py draws.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgefl.errors import RunError
from edgefl.learning.scores import PLACE_SCORES
from edgefl.methods.rounds.client_round import EXECUTED
from edgefl.methods.rounds.round_metrics import HELD_OUT, REFRESHED, TRAINING
from edgefl.study.adaptation_costs import last_adaptation
from edgefl.study.capacity_tiers import Tiers
from edgefl.study.density_costs import by_density, executed, messages
from edgefl.study.device_costs import by_device
from edgefl.study.energy_totals import measured

PERSONAL, ADAPTED, GLOBAL, COMMON = "personal", "adapted", "global_local", "global_common"
MODELS = {PERSONAL: "own", ADAPTED: "adapted", GLOBAL: "global"}  # kinds of models, the deciding one first
NOT_AGGREGATED = (
    "refused",
    "excluded",
    "clipped",
)  # kinds of replies that were not aggregated unchanged

WHERE_ANY = (
    "frozen_bytes",
    "adaptation",
    "scalar_bytes",
)  # figures that the JSON has only where there is something to count


@dataclass(frozen=True)
class Summary:
    """The figures of one method's run, which `summarise` makes.

    seconds         seconds of the rounds, by the clock of the process that ran them
    device_seconds  seconds of training, of all clients together
    work            floating-point operations that the clients executed to train. None: not logged
    measured_joules  joules that devices measured, by the kind of source. None unless every accepted reply states them
    diverged        clients whose model has no finite loss any more, or whose last reply was refused for that
    virtual_seconds, virtual_joules  totals of modelled devices (device_models/simulated_clock.py), None without them
    devices         cost of a client round of each modelled device (device_costs.py)
    frozen_bytes    bytes of the model's frozen parameters, which a device fetches once and no payload carries
    scalar_bytes    bytes of the numbers that messages had beside their payloads, which `down` and `up` do not have
    adaptation      mean costs of a client's adaptation before its last test (adaptation_costs.py), None if nothing is
                    adapted by training. No other figure has them
    """

    method: str
    rounds: int
    client_rounds: int
    refused: int
    excluded: int
    clipped: int
    seconds: float
    down: dict[str, int]
    up: dict[str, int]
    dense_bytes: int
    evaluation: dict[str, Any]
    tiers: list[dict[str, Any]]
    curve: list[dict[str, Any]]
    server: dict[str, Any]
    density: float | None = None  # density of the masks, None without masks
    flops: float | None = None  # nominal operations of all clients together
    densities: list[dict[str, Any]] = field(default_factory=list)  # cost of a client round at each density
    device_seconds: float = 0.0
    work: float | None = None
    diverged: list[int] = field(default_factory=list)
    measured_joules: dict[str, float] | None = None
    virtual_seconds: float | None = None
    virtual_joules: float | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    frozen_bytes: int = 0
    adaptation: dict[str, float] | None = None
    scalar_bytes: int = 0

    @property
    def payload_bytes(self) -> int:
        return sum(self.down.values()) + sum(self.up.values())

    @property
    def kind(self) -> str:
        """Return the kind of models that `accuracy` belongs to: the clients' own models if the method has any, else the
        global model adapted to each client if the method adapts it, else the global model.
        """
        return kind_of(self.evaluation)

    @property
    def has_accuracy(self) -> bool:
        """Return whether the model's answers are right or wrong. Otherwise there is its loss alone."""
        return "accuracy" in self.evaluation[self.kind]

    @property
    def accuracy(self) -> float:
        """Return the unweighted mean over clients of the accuracy on their own test samples."""
        return float(self.evaluation[self.kind]["accuracy"])

    @property
    def loss(self) -> float | None:
        """Return the unweighted mean over clients of the loss, or None if it is not a finite number."""
        found: float | None = self.evaluation[self.kind]["loss"]
        return found

    @property
    def score(self) -> str:
        """Return the name of the score of the model, "accuracy" or "loss"."""
        return "accuracy" if self.has_accuracy else "loss"

    @property
    def place_scores(self) -> dict[str, float | None]:
        """Return the perplexity of tokens or the mean IoU of pixels, by its name, or {} if an example has one label."""
        found = self.evaluation[self.kind]
        return {name: found[name] for name in PLACE_SCORES if name in found}

    @property
    def by_client(self) -> list[float | None]:
        """Return every client's accuracy or loss. It is None if the client was not tested or its loss is not finite."""
        found = self.evaluation[self.kind]
        return [_score(found, client) for client in range(len(found["examples"]))]

    @property
    def missing(self) -> int:
        """Return the number of clients without figures in the last evaluation. They count in no mean."""
        return sum(examples is None for examples in self.evaluation[self.kind]["examples"])

    @property
    def worst_tenth(self) -> float | None:
        """Return the mean over the worst tenth of the tested clients, rounded up, or None if one has no number."""
        return _worst_tenth(self.evaluation[self.kind])

    @property
    def held_out(self) -> float | None:
        """Return the score of clients that never took part, or None without such clients or a finite score."""
        found: float | None = self.evaluation.get(HELD_OUT, {}).get(self.score)
        return found

    @property
    def held_out_worst_tenth(self) -> float | None:
        """Return the mean over the worst tenth of the clients that never took part, as `worst_tenth`."""
        return _worst_tenth(self.evaluation[HELD_OUT]) if HELD_OUT in self.evaluation else None

    @property
    def standard_error(self) -> float | None:
        """Return the standard error of the mean over clients: their standard deviation over the root of their number.
        It is None for fewer than two clients, or if a tested client has no number.
        """
        found = [score for score in self.by_client if score is not None]
        if len(found) < max(2, len(self.by_client) - self.missing):
            return None
        return statistics.stdev(found) / math.sqrt(len(found))

    @property
    def refreshed(self) -> float | None:
        """Return the score after a refresh, or None if no refresh was asked for or the score is not finite."""
        found: float | None = self.evaluation.get(REFRESHED, {}).get(self.score)
        return found

    def to_json(self) -> dict[str, Any]:
        score = {"accuracy": self.accuracy} if self.has_accuracy else {"loss": self.loss}
        names = ["payload_bytes", "by_client", "missing", "worst_tenth", "standard_error", "refreshed"]
        names += ["held_out", "held_out_worst_tenth"] if HELD_OUT in self.evaluation else []
        found = {name: getattr(self, name) for name in names}
        own = {name: value for name, value in vars(self).items() if name not in WHERE_ANY or value}
        return {**own, **found, "accuracy_of": self.kind, **score, **self.place_scores}


def summarise(method: str, log_records: Sequence[dict[str, Any]], tiers: Tiers, server: dict[str, Any]) -> Summary:
    """Add up the metrics of a run, a line per round, up to its last evaluation. If a client did not answer in a round,
    only its bytes are added.

    server  values that the method's server recorded in addition to its arrays
    Raises  RunError if no round has been evaluated.
    """
    records = [each for line in log_records for each in line.get("clients", ()) if each["status"] != "absent"]
    evaluations = [log_record["evaluation"] for log_record in log_records if log_record.get("evaluation")]
    if not evaluations:
        raise RunError(f"{method}: {len(log_records)} rounds and no evaluation; expected at least one evaluation")
    last, curve = evaluations[-1], _curve(log_records)
    return Summary(
        method=method,
        rounds=len(log_records),
        client_rounds=len(records),
        refused=sum(record["status"] == "refused" for record in records),
        excluded=sum(record["status"] == "excluded" for record in records),
        clipped=sum("clipped" in record for record in records),
        seconds=sum(log_record["seconds"] for log_record in log_records),
        down=_added(log_record["down"] for log_record in log_records),
        up=_added(log_record["up"] for log_record in log_records),
        dense_bytes=4 * tiers.scalars * sum(map(messages, records)),
        evaluation=last,
        tiers=[_tier(p, tiers, records, last) for p in sorted(set(tiers.keep))],
        curve=curve,
        server=server,
        density=tiers.densities.get(method),
        flops=_flops(method, records, tiers),
        device_seconds=sum(record["seconds"] for record in records),
        work=_work(records),
        diverged=diverged_in(records, last),
        measured_joules=measured(log_records),
        virtual_seconds=curve[-1].get("virtual_seconds"),
        virtual_joules=curve[-1].get("virtual_joules"),
        devices=by_device(log_records, tiers),
        frozen_bytes=tiers.frozen_bytes,
        **_apart(log_records),
        densities=_densities(method, records, tiers),
    )


def _apart(log_records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures that stand apart from the rounds: adaptations before tests, and numbers beside payloads."""
    beside = [log_record.get("scalar_bytes", {}) for log_record in log_records]
    return {"adaptation": last_adaptation(log_records), "scalar_bytes": sum(sum(each.values()) for each in beside)}


def _densities(method: str, records: Sequence[dict[str, Any]], tiers: Tiers) -> list[dict[str, Any]]:
    rows = by_density(records, tiers.densities.get(method, 1.0), lambda examples: tiers.flops(method, examples))
    memory = tiers.mask_bytes.get(method)
    return [{**row, "dense_bytes": 4 * tiers.scalars * row["messages"], "memory_bytes": memory} for row in rows]


def _work(records: Sequence[dict[str, Any]]) -> float | None:
    """Return the executed operations, or None if an accepted reply states none. Late replies count if known."""
    answered = [record for record in records if "reason" not in record]
    if any(EXECUTED not in record for record in answered if record["status"] != "late"):
        return None
    return sum(record.get(EXECUTED, 0.0) for record in answered)


def diverged_in(records: Sequence[dict[str, Any]], evaluation: Mapping[str, Any]) -> list[int]:
    """Return the clients whose model has no finite loss in an evaluation, and those clients whose last reply was
    refused for a value that is not finite. Such a refusal has the word "finite" in its reason.
    """
    found, last = evaluation[kind_of(evaluation)], {record["client"]: record for record in records}
    losses = zip(found["examples"], found.get("loss_sum", found["examples"]), strict=True)
    lost = {client for client, (examples, loss) in enumerate(losses) if examples is not None and loss is None}
    refused = {client for client, record in last.items() if "finite" in record.get("reason", "")}
    return sorted(lost | refused)


def _flops(method: str, records: Sequence[dict[str, Any]], tiers: Tiers) -> float | None:
    """Return the nominal operations of all client rounds that trained, or None if the method does not state them."""
    found = [tiers.flops(method, record["examples"]) for record in records if record.get("examples")]
    return sum(each for each in found if each is not None) if found and None not in found else None


def kind_of(evaluation: Mapping[str, Any]) -> str:
    """Return the kind of accuracies in an evaluation that stands for the method."""
    return next(kind for kind in MODELS if kind in evaluation)


def _added(parts: Any) -> dict[str, int]:
    total = {"values": 0, "index": 0, "header": 0}
    for part in parts:
        for name in total:
            total[name] += part[name]
    return total


def _tier(p: float, tiers: Tiers, records: list[dict[str, Any]], evaluation: dict[str, Any]) -> dict[str, Any]:
    """Describe one capacity tier: its number of clients, their mean score, and the mean cost of a client round."""
    clients = [client for client, keep in enumerate(tiers.keep) if keep == p]
    mine = [record for record in records if tiers.keep[record["client"]] == p]
    found = evaluation[kind_of(evaluation)]
    score = "accuracy" if "accuracy" in found else "loss"
    tested = [share for k in clients if (share := _score(found, k)) is not None]
    rounds = max(len(mine), 1)
    return {
        "keep": p,
        "clients": len(clients),
        "client_rounds": len(mine),
        score: sum(tested) / len(tested) if tested else None,
        "bytes": sum(record["down"] + record["up"] for record in mine) / rounds,
        "dense_bytes": 4 * tiers.scalars * sum(map(messages, mine)) / rounds,
        "seconds": sum(record["seconds"] for record in mine) / rounds,
        "memory_bytes": tiers.memory_bytes[p],
        **executed(mine),
    }


def _score(found: Mapping[str, Any], client: int) -> float | None:
    """Return a client's accuracy, or else its loss. It is None if the client did not answer or has no finite loss."""
    examples, name = found["examples"][client], "correct" if "correct" in found else "loss_sum"
    if examples is None or found[name][client] is None:
        return None
    return float(found[name][client] / (examples * (found.get("decisions", 1) or 1)))


def _worst_tenth(found: Mapping[str, Any]) -> float | None:
    """Return the mean over the worst tenth of the tested clients, rounded up, or None if one has no number."""
    tested = [client for client, examples in enumerate(found["examples"]) if examples is not None]
    scores = sorted(score for client in tested if (score := _score(found, client)) is not None)
    if len(scores) < len(tested) or not scores:
        return None
    count = math.ceil(len(scores) / 10)
    worst = scores[:count] if "correct" in found else scores[-count:]
    return sum(worst) / count


def _curve(log_records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the accuracy or loss, and the cost so far, at every evaluated round. A point also has the score on
    training samples and after a refresh, if they were evaluated.
    """
    points, records = [], list[dict[str, Any]]()
    spent: dict[str, float] = {"payload_bytes": 0, "device_seconds": 0.0}
    for log_record in log_records:
        new = [record for record in log_record.get("clients", ()) if record["status"] != "absent"]
        records += new
        spent["payload_bytes"] += sum(log_record["down"].values()) + sum(log_record["up"].values())
        spent["device_seconds"] += sum(record["seconds"] for record in new)
        if virtual := log_record.get("virtual"):
            spent["virtual_seconds"] = virtual["ended"]
            spent["virtual_joules"] = spent.get("virtual_joules", 0.0) + virtual["joules"]
        if evaluation := log_record.get("evaluation"):
            found = evaluation[kind_of(evaluation)]
            score = "accuracy" if "accuracy" in found else "loss"
            point = {"round": log_record["round"], score: found[score], **spent, "work": _work(records)}
            point |= {name: found[name] for name in PLACE_SCORES if name in found}
            if "train_loss" in log_record:
                point["train_loss"] = log_record["train_loss"]
            for kind in (REFRESHED, TRAINING):
                if kind in evaluation:
                    point[kind] = evaluation[kind][score]
            points.append(point)
    return points
