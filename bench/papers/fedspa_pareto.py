"""FedSpa's figure 1 in small: the accuracy of methods and densities over the bytes and the work that they take.

It has setting A, Dirichlet .2, on letters of EMNIST (letters.py). There are 20 clients with 200 training samples each,
5 of them in a round, 20 rounds, and batches of 32, so that a client's epoch has more than two steps. So this shows the
beginning of training alone. The whole setting A is the table `fedspa-a` of fedspa.py.

A point is on the front where no other point has at least its accuracy for at most its cost.

The rule, which was written before the runs: the paper's figure has the best density between .5 and .6, FedSpa ahead of
FedAvg and of Sub-FedAvg for fewer bytes. A row that asks for such an order is met where it is 1. One seed shows an
order and decides nothing about other seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bench.papers import fedspa, letters
from bench.papers.fedspa import SETTING_A, last_global, last_own, own
from bench.papers.table import Found, Line, Lines, Row, Run, Table
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.methods.rounds.client_round import EXECUTED, SEARCH

CLIENTS, PER_ROUND, TRAINING, ROUNDS, BATCH = 20, 5, 200, 20, 32
DENSITIES = (0.2, 0.4, 0.5, 0.6, 0.8)
GLOBAL = "FedAvg"  # point that FedAvg-FT's run has, too
COSTS = {"MB": "payload, MB", "GFLOP": "work of clients, GFLOP"}


class Point(NamedTuple):
    """A point of the picture: accuracy in percent, and a cost."""

    accuracy: float
    cost: float


def tables(quick: bool) -> list[Table]:
    """Return the table. The quick table has few rounds on the digits."""
    runs = {f"DST {density:g}": _run(quick, "DST", density=density) for density in DENSITIES}
    runs |= {label: _run(quick, label) for label in ("RSM", "FedAvg-FT", "Ditto", "Sub-FedAvg", "Local")}
    rows = []
    for label, run in runs.items():
        rows.append(Row(label, last_own, ((run,),), None, "%"))
        rows += [Row(f"{label}: {cost}", measure, ((run,),)) for cost, measure in MEASURES.items()]
    rows.append(Row(GLOBAL, last_global, ((runs["FedAvg-FT"],),), None, "%"))
    densities = (tuple(runs[f"DST {density:g}"] for density in DENSITIES),)
    rows.append(Row("the best density is .5 or .6 (1: yes)", _in_the_middle, densities, 1.0))
    for other in ("FedAvg-FT", "Sub-FedAvg", "RSM"):
        rows.append(Row(f"DST .5 is better than {other} (1: yes)", _is_better, ((runs["DST 0.5"], runs[other]),), 1.0))
    data = "the digits, quick" if quick else "letters of EMNIST's byclass test split, LeNet5"
    about = f"{data}; Dirichlet .2, {CLIENTS} clients with {TRAINING} training samples, {ROUNDS} rounds, one seed"
    title = "FedSpa, figure 1: accuracy over bytes and over work"
    return [Table("fedspa-pareto", title, about, tuple(rows), {"seed 1": runs}, own, picture=draw)]


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return the letters' federation, in which a client has its first training samples alone."""
    whole = letters.federation(experiment, data_dir)
    few = (replace(each, train=each.train[:TRAINING]) for each in whole.clients)
    return replace(whole, clients=tuple(few))


def _run(quick: bool, label: str, **changes: Any) -> Run:
    run = fedspa.declared(label, SETTING_A, **changes)
    few: dict[str, Any] = {"clients": CLIENTS, "per_round": PER_ROUND, "rounds": ROUNDS, "batch": BATCH}
    few |= {"checkpoint_every": ROUNDS, "eval_every": ROUNDS // 4}
    if quick:
        few |= {"data": "digits", "model": "", "clients": 10, "per_round": 2, "rounds": 3, "batch": 16}
        few |= {"partition": "iid", "train_share": 0.7, "lr": 0.05, "eval_every": 1}
    experiment = replace(run.experiment, **few)
    name = f"few-{run.name.replace(f'-T{fedspa.ROUNDS}', '')}"
    return Run(name, experiment) if quick else Run(name, experiment, federation)


# Measures.


def _megabytes(log_records: Lines) -> Found:
    return Found(fedspa.payload(log_records) / 1e6)


def _gigaflop(log_records: Lines) -> Found:
    """Return what the clients executed to train and to search for their masks."""
    return Found(sum(_flops(log_record) for log_record in log_records) / 1e9)


def _flops(log_record: Line) -> float:
    return sum(each.get(EXECUTED, 0.0) + each.get(SEARCH, 0.0) for each in log_record["clients"])


MEASURES = {"MB": _megabytes, "GFLOP": _gigaflop}


def _in_the_middle(*runs: Lines) -> Found:
    values = [last_own(log_records).value or 0.0 for log_records in runs]
    best = DENSITIES[values.index(max(values))]
    return Found(float(best in (0.5, 0.6)), ", ".join(f"{value:.1f}" for value in values))


def _is_better(ours: Lines, other: Lines) -> Found:
    first, second = last_own(ours).value or 0.0, last_own(other).value or 0.0
    return Found(float(first > second), f"{first:.2f} against {second:.2f}")


# The front and the picture.


def points(found: Mapping[str, Any], cost: str) -> dict[str, Point]:
    """Return the points of a record by label, with the cost 'MB' or 'GFLOP'."""
    ours = {row["label"]: row["ours"] for row in found["results"]}
    made = {label: label for label in ours if f"{label}: {cost}" in ours} | {GLOBAL: "FedAvg-FT"}
    return {label: Point(ours[label], ours[f"{of}: {cost}"]) for label, of in made.items()}


def front(of: Mapping[str, Point]) -> list[str]:
    """Return the labels of the points on the front, from the least cost on."""
    best, found = -1.0, []
    for label, point in sorted(of.items(), key=lambda item: (item[1].cost, -item[1].accuracy)):
        if point.accuracy > best:
            found.append(label)
            best = point.accuracy
    return found


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Draw the points over both costs, with the front as a line. Raises ImportError where there is no matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "edgefl", "svg.fonttype": "none"}  # equal points give equal bytes
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(COSTS), figsize=(9, 4), sharey=True)
    for area, (cost, label) in zip(axes, COSTS.items(), strict=True):
        each = points(found, cost)
        line = [each[name] for name in front(each)]
        area.plot([point.cost for point in line], [point.accuracy for point in line], linewidth=1, color="tab:gray")
        for name, point in each.items():
            area.plot(point.cost, point.accuracy, "o", markersize=4, color=_color(name))
        area.set(xlabel=label)
        area.grid(alpha=0.3)
        area.margins(x=0.3)
    axes[0].set_ylabel("accuracy, %")
    figure.tight_layout()
    for area, cost in zip(axes, COSTS, strict=True):
        _name(area, points(found, cost))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _color(name: str) -> str:
    return "tab:blue" if name.startswith("DST") else "tab:orange"


def _name(area: Any, of: Mapping[str, Point]) -> None:
    """Write the names of FedSpa's points on their left and the other names on the right, without overlaps."""
    taken: list[tuple[str, float, float]] = []
    for name, point in sorted(of.items(), key=lambda item: -item[1].accuracy):
        x, y = area.transData.transform(point[::-1])
        wanted, color = y, _color(name)
        while any(side == color and abs(x - left) < 60 and abs(wanted - low) < 10 for side, left, low in taken):
            wanted -= 1
        taken.append((color, x, wanted))
        shift, align = (-5, "right") if color == "tab:blue" else (5, "left")
        at = (shift, 0.72 * (wanted - y) - 2)
        area.annotate(name, point[::-1], at, textcoords="offset points", fontsize="x-small", ha=align, color=color)
