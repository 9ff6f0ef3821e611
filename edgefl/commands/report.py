"""What a run says about its methods: figures from the metrics, tables for a terminal, a picture. It measures nothing.

Payload bytes are what the codec wrote, both directions: values, neuron ids and block headers. "Dense" is what the same
client rounds would cost if every one sent and received the whole model as float32. kB and MB are 1e3 and 1e6 bytes.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from edgefl.commands.capacity import Tiers
from edgefl.commands.density_costs import by_density, executed
from edgefl.errors import RunError
from edgefl.rounds.training import EXECUTED, SEARCH

PERSONAL, ADAPTED, GLOBAL, COMMON = "personal", "adapted", "global_local", "global_common"
MODELS = {PERSONAL: "own", ADAPTED: "adapted", GLOBAL: "global"}  # whose accuracy counts, the first that there is
UNFOLDED = ("refused", "excluded", "clipped")  # replies that were not folded as they came; columns where there are any
WORDS = {
    PERSONAL: "its clients' own models",
    ADAPTED: "its global model, adapted by each client",
    GLOBAL: "its global model",
}


@dataclass(frozen=True)
class Summary:
    """The figures of one method's run; see `summarise`."""

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
    density: float | None = None  # of its masks, where it has some
    flops: float | None = None  # nominal, of all clients together
    densities: list[dict[str, Any]] = field(default_factory=list)  # what a client round cost at each

    @property
    def payload_bytes(self) -> int:
        return sum(self.down.values()) + sum(self.up.values())

    @property
    def kind(self) -> str:
        """Whose accuracy `accuracy` is: of the clients' own models if the method has any, of the global one adapted to
        each client if it does that, else of the global one.
        """
        return kind_of(self.evaluation)

    @property
    def has_accuracy(self) -> bool:
        """Whether its model's answers are right or wrong; otherwise there is its loss alone."""
        return "accuracy" in self.evaluation[self.kind]

    @property
    def accuracy(self) -> float:
        """Unweighted mean over clients of the accuracy on their own test samples."""
        return float(self.evaluation[self.kind]["accuracy"])

    @property
    def loss(self) -> float | None:
        """The same of the loss; None where it is no finite number."""
        found: float | None = self.evaluation[self.kind]["loss"]
        return found

    def to_json(self) -> dict[str, Any]:
        score = {"accuracy": self.accuracy} if self.has_accuracy else {"loss": self.loss}
        return {**vars(self), "payload_bytes": self.payload_bytes, "accuracy_of": self.kind, **score}


def summarise(method: str, lines: Sequence[dict[str, Any]], tiers: Tiers, server: dict[str, Any]) -> Summary:
    """Adds up the metrics of a run, a line per round, up to its last evaluation. Clients that did not answer in a round
    count in its bytes alone.

    server  what the method's server recorded beside its arrays
    Raises  RunError if no round has been evaluated.
    """
    records = [record for line in lines for record in line.get("clients", ()) if record["status"] != "absent"]
    evaluations = [line["evaluation"] for line in lines if line.get("evaluation")]
    if not evaluations:
        raise RunError(f"{method}: {len(lines)} rounds and no evaluation; expected at least one")
    last = evaluations[-1]
    return Summary(
        method=method,
        rounds=len(lines),
        client_rounds=len(records),
        refused=sum(record["status"] == "refused" for record in records),
        excluded=sum(record["status"] == "excluded" for record in records),
        clipped=sum("clipped" in record for record in records),
        seconds=sum(line["seconds"] for line in lines),
        down=_added(line["down"] for line in lines),
        up=_added(line["up"] for line in lines),
        dense_bytes=2 * 4 * tiers.scalars * len(records),
        evaluation=last,
        tiers=[_tier(p, tiers, records, last) for p in sorted(set(tiers.keep))],
        curve=_curve(lines),
        server=server,
        density=tiers.densities.get(method),
        flops=_flops(method, records, tiers),
        densities=_densities(method, records, tiers),
    )


def _densities(method: str, records: Sequence[dict[str, Any]], tiers: Tiers) -> list[dict[str, Any]]:
    rows = by_density(records, tiers.densities.get(method, 1.0), lambda examples: tiers.flops(method, examples))
    shared = {"dense_bytes": 2 * 4 * tiers.scalars, "memory_bytes": tiers.mask_bytes.get(method)}
    return [{**row, **shared} for row in rows]


def _flops(method: str, records: Sequence[dict[str, Any]], tiers: Tiers) -> float | None:
    """Of all client rounds that were trained; None where the method does not say."""
    found = [tiers.flops(method, record["examples"]) for record in records if record.get("examples")]
    return sum(each for each in found if each is not None) if found and None not in found else None


def kind_of(evaluation: Mapping[str, Any]) -> str:
    """Which accuracies of an evaluation stand for the method."""
    return next(kind for kind in MODELS if kind in evaluation)


def _added(parts: Any) -> dict[str, int]:
    total = {"values": 0, "index": 0, "header": 0}
    for part in parts:
        for name in total:
            total[name] += part[name]
    return total


def _tier(p: float, tiers: Tiers, records: list[dict[str, Any]], evaluation: dict[str, Any]) -> dict[str, Any]:
    """One capacity tier: how many clients, their mean accuracy, and the mean cost of a client round."""
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
        score: sum(tested) / len(tested) if tested else math.nan,
        "bytes": sum(record["down"] + record["up"] for record in mine) / rounds,
        "dense_bytes": 2 * 4 * tiers.scalars,
        "seconds": sum(record["seconds"] for record in mine) / rounds,
        "memory_bytes": tiers.memory_bytes[p],
        **executed(mine),
    }


def _score(found: Mapping[str, Any], client: int) -> float | None:
    """A client's accuracy, or its loss where there is none; None if it did not answer, or its loss is no number."""
    examples, name = found["examples"][client], "correct" if "correct" in found else "loss_sum"
    if examples is None or found[name][client] is None:
        return None
    return float(found[name][client] / (examples * (found.get("decisions", 1) or 1)))


def _curve(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Accuracy, or loss, and payload bytes so far, at every evaluated round."""
    points, sent = [], 0
    for line in lines:
        sent += sum(line["down"].values()) + sum(line["up"].values())
        if evaluation := line.get("evaluation"):
            found = evaluation[kind_of(evaluation)]
            score = "accuracy" if "accuracy" in found else "loss"
            points.append({"round": line["round"], score: found[score], "payload_bytes": sent})
    return points


def console() -> Console:
    """The terminal, or 100 columns where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=100)


def print_tables(console: Console, summaries: list[Summary]) -> None:
    """The methods side by side, the capacity tiers, and the gains in sentences."""
    console.print(_methods(summaries))
    for summary in summaries:
        if summary.method.startswith("fedspu"):
            console.print(_tiers(summary, summaries))
            break
    if any(summary.density is not None for summary in summaries):
        console.print(_masks(summaries))
    for sentence in [*gains(summaries), precision(summaries)]:
        console.print(sentence, soft_wrap=True)


def _methods(summaries: list[Summary]) -> Table:
    common = any(COMMON in summary.evaluation for summary in summaries)
    unfolded = [name for name in UNFOLDED if any(getattr(summary, name) for summary in summaries)]
    score, decisions = _name_of(summaries), summaries[0].evaluation[summaries[0].kind].get("decisions", 1)
    what = f"{score} of {decisions} decisions" if decisions > 1 else score
    table = new_table(f"Mean {what} on every client's own test samples, and what it cost")
    table.add_column("method")
    table.add_column("model")
    sparse = ["density", "GFLOP"] if any(summary.density is not None for summary in summaries) else []
    columns = [score, "weighted", "rounds", "payload", "of dense", "time", *sparse, *unfolded]
    for column in [*columns, *(["common test"] if common else [])]:
        table.add_column(column, justify="right")
    for s in summaries:
        cells = [s.method, MODELS[s.kind], *_scores(s), str(s.rounds)]
        cells += [f"{s.payload_bytes / 1e6:.2f} MB", percent(s.payload_bytes / s.dense_bytes), f"{s.seconds:.1f} s"]
        if sparse:
            cells += ["1" if s.density is None else f"{s.density:g}", "" if s.flops is None else f"{s.flops / 1e9:.4g}"]
        cells += [str(getattr(s, name)) for name in unfolded]
        if COMMON in s.evaluation:
            cells.append(_of_common(s.evaluation[COMMON]))
        table.add_row(*cells)
    return table


def _name_of(summaries: Sequence[Summary]) -> str:
    """What a run's models are scored by."""
    return "accuracy" if summaries[0].has_accuracy else "loss"


def _scores(summary: Summary) -> list[str]:
    """The mean over clients, and by their test samples."""
    found = summary.evaluation[summary.kind]
    if summary.has_accuracy:
        return [percent(summary.accuracy), percent(found["accuracy_weighted"])]
    answers = [(total, n) for total, n in zip(found["loss_sum"], found["examples"], strict=True) if n is not None]
    is_finite = all(total is not None for total, _ in answers)
    weighted = sum(total for total, _ in answers) / sum(n for _, n in answers) if is_finite else None
    return [number(summary.loss), number(weighted)]


def _of_common(found: Mapping[str, Any]) -> str:
    if "correct" not in found:
        return number(found["loss"])
    return percent(found["correct"] / (found["examples"] * found.get("decisions", 1)))


def _tiers(summary: Summary, summaries: list[Summary]) -> Table:
    others = [s for s in summaries if not s.method.startswith("fedspu")]
    table = new_table(f"Capacity tiers, costs per client round of {summary.method}; memory: account exact")
    columns = ["p", "clients", summary.method, *(s.method for s in others), "payload", "of dense", "MFLOP", "time"]
    columns.append("memory")
    for column in columns:
        table.add_column(column, justify="right")
    for i, tier in enumerate(summary.tiers):
        table.add_row(
            f"{tier['keep']:g}",
            str(tier["clients"]),
            *(_of_tier(s.tiers[i]) for s in (summary, *others)),
            f"{tier['bytes'] / 1e3:.1f} kB",
            percent(tier["bytes"] / tier["dense_bytes"]),
            _mega(tier[EXECUTED]),
            f"{1e3 * tier['seconds']:.1f} ms",
            f"{tier['memory_bytes'] / 1e3:.0f} kB",
        )
    return table


def _of_tier(tier: Mapping[str, Any]) -> str:
    return percent(tier["accuracy"]) if "accuracy" in tier else number(tier["loss"])


def _masks(summaries: list[Summary]) -> Table:
    """By the density at which a round was trained. A method without masks is a row for comparison."""
    table = new_table("Densities, costs per client round; MFLOP nominal, executed and to move the mask")
    columns = ["density", "rounds", "payload", "of dense", "nominal", "executed", "moving", "time", "memory"]
    table.add_column("method")
    for column in columns:
        table.add_column(column, justify="right")
    for summary in summaries:
        for row in summary.densities:
            table.add_row(
                summary.method,
                f"{row['density']:g}",
                str(row["client_rounds"]),
                f"{row['bytes'] / 1e3:.1f} kB",
                percent(row["bytes"] / row["dense_bytes"]),
                *(_mega(row[name]) for name in ("nominal_flops", EXECUTED, SEARCH)),
                f"{1e3 * row['seconds']:.1f} ms",
                "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e3:.0f} kB",
            )
    return table


def _mega(flops: float | None) -> str:
    return "" if flops is None else f"{flops / 1e6:.4g}"


def new_table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", min_width=72, box=box.SIMPLE_HEAD, padding=(0, 0)
    )


def gains(summaries: list[Summary]) -> list[str]:
    """What FedSPU gained or lost against each other method, one sentence each."""
    by_name = {summary.method: summary for summary in summaries}
    sentences = []
    for ours in (s for s in summaries if s.method.startswith("fedspu")):
        for other in (s for s in summaries if not s.method.startswith("fedspu")):
            gained = f"{_gained(ours, other)}{other.method} ({WORDS[other.kind]})"
            sentences.append(f"{ours.method}: {gained}.")
    if "fedspu" in by_name and "fedspu-es" in by_name:
        sentences.append(_early_stopping(by_name["fedspu"], by_name["fedspu-es"]))
    return sentences


def _gained(ours: Summary, other: Summary) -> str:
    """How much better one is, up to the other's name."""
    if ours.has_accuracy:
        return f"{100 * (ours.accuracy - other.accuracy):+.1f} points of accuracy against "
    return f"a loss of {number(ours.loss)} against the {number(other.loss)} of "


def precision(summaries: list[Summary]) -> str:
    """How far chance alone moves these accuracies: the largest binomial standard error among the methods."""
    tested = [s.evaluation[s.kind] for s in summaries]
    samples = sum(examples or 0 for examples in tested[0]["examples"])
    if not summaries[0].has_accuracy:
        return f"One seed, {samples} test samples."
    error = max(math.sqrt(t["accuracy_weighted"] * (1 - t["accuracy_weighted"]) / samples) for t in tested)
    return f"One seed, {samples} test samples: the standard error of an accuracy is up to {100 * error:.1f} points."


def _early_stopping(plain: Summary, stopped: Summary) -> str:
    saved = percent(1 - stopped.payload_bytes / plain.payload_bytes)
    sentence = (
        f"Early stopping: {stopped.rounds} of {plain.rounds} rounds, {stopped.client_rounds} of {plain.client_rounds} "
        f"client rounds, {saved} of the bytes saved, {_changed(stopped, plain)}"
    )
    scarce = stopped.server["round_lt_C"]
    return f"{sentence}; too few clients for a full round after round {scarce}." if scarce else f"{sentence}."


def _changed(stopped: Summary, plain: Summary) -> str:
    if plain.has_accuracy:
        return f"{100 * (stopped.accuracy - plain.accuracy):+.1f} points of accuracy"
    return f"a loss of {number(stopped.loss)} in place of {number(plain.loss)}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """A loss; of a model that has diverged it is no number."""
    return "none" if value is None else f"{value:.4g}"


def to_json(summaries: list[Summary]) -> dict[str, Any]:
    """All figures as JSON values."""
    return {
        "methods": {summary.method: summary.to_json() for summary in summaries},
        "gains": gains(summaries),
        "precision": precision(summaries),
    }


def check_picture(path: Path) -> None:
    """Raises ValueError if no picture can be drawn, or none to that file: before anything is spent on what it shows."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; expected: pip install 'edgefl[plot]'")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in kinds:
        raise ValueError(f"--plot {path}; expected a file that ends in one of .{', .'.join(kinds)}")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise ValueError(f"--plot {path}; expected a file in a directory that is there")


def plot(path: Path, summaries: list[Summary], devices: Sequence[Mapping[str, Any]] = ()) -> None:
    """Draws accuracy over rounds and over payload bytes, and of single devices if given: by method, their "accuracy".

    Raises  ValueError as check_picture does; OSError if the disk refuses.
    """
    check_picture(path)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = 3 if devices else 2
    figure, axes = pyplot.subplots(1, count, figsize=(5 * count, 4), sharey=True)
    for summary in summaries:
        accuracy = [_drawn(point) for point in summary.curve]
        axes[0].plot([point["round"] for point in summary.curve], accuracy, label=summary.method)
        if summary.payload_bytes:
            axes[1].plot([point["payload_bytes"] / 1e6 for point in summary.curve], accuracy, label=summary.method)
    score = (
        "accuracy on the clients' test samples, %" if summaries[0].has_accuracy else "loss on the clients' test samples"
    )
    axes[0].set(xlabel="round", ylabel=f"mean {score}")
    axes[1].set(xlabel="payload so far, MB")
    axes[0].legend()
    for i, summary in enumerate(summaries if devices else ()):
        accuracy = [100 * device[summary.method]["accuracy"] for device in devices]
        axes[2].plot([device["device"] + 0.15 * i for device in devices], accuracy, "o")
        axes[2].set(xlabel="device, at the end")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _drawn(point: Mapping[str, Any]) -> float:
    """The height of a point: percent of accuracy, or the loss."""
    if "accuracy" in point:
        return float(100 * point["accuracy"])
    return math.nan if point["loss"] is None else float(point["loss"])
