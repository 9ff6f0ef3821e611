"""FedSpa's table 1 on EMNIST's letters, its densities, and its ablations: DST and RSM beside their rivals.

Some things differ from the paper. The data are less than half of the paper's (letters.py). There are 100 rounds instead
of 400, of which the prune rate's cosine knows. A tenth of every client's samples is kept for validation, by which
Sub-FedAvg prunes. FedAvg is read in the run of FedAvg-FT, whose rounds are FedAvg's bit for bit. The numbers are from
ALGORITHMS 12.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

from bench.papers import letters
from bench.papers.table import Found, Line, Lines, Row, Run, Table
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment

STRONG, SETTING_A, IID = "dirichlet:0.1", "dirichlet:0.2", "iid"
ROUNDS, BRIEF = 100, 10
SEEDS = (1, 2, 3)
TARGETS = (0.80, 0.85, 0.90)
OWN = ("personal", "adapted", "global_local")  # the accuracy of the first one that a run has counts

METHODS: dict[str, tuple[str, dict[str, Any]]] = {  # by label: the method, and options that the preset lacks
    "DST": ("fedspa", {}),
    "RSM": ("fedspa-rsm", {}),
    "RSM, masks of their own": ("fedspa-rsm", {"masks": "different"}),
    "FedAvg-FT": ("fedavg-ft", {"weight": "uniform"}),
    "Local": ("local", {}),
    "Ditto": ("ditto", {"weight": "uniform"}),
    "Sub-FedAvg": ("subfedavg", {"accept_on": "validation"}),
}
PAPER: dict[str, dict[str, float]] = {  # table 1, EMNIST-L with LeNet5, in percent
    STRONG: {"DST": 96.5, "RSM": 90.6, "Ditto": 97.0, "FedAvg": 90.9, "Sub-FedAvg": 96.4, "Local": 91.6},
    SETTING_A: {"DST": 95.3, "RSM": 91.9, "Ditto": 95.9, "FedAvg": 92.3, "Sub-FedAvg": 94.9, "Local": 87.8},
    IID: {"DST": 92.2, "RSM": 92.9, "Ditto": 92.9, "FedAvg": 93.5, "Sub-FedAvg": 90.7, "Local": 77.6},
}
KINDS = {STRONG: "setting B, labels far from alike", SETTING_A: "setting A, labels less alike", IID: "labels alike"}
DENSITIES = (0.2, 0.4, 0.6, 0.8)
ABLATIONS: dict[str, dict[str, Any]] = {
    "uniform for ERK": {"distribution": "uniform"},
    "growth at random": {"growth": "random"},
}

Declare = Callable[..., Run]


def tables(quick: bool) -> list[Table]:
    """Return all tables. The quick tables have few clients, who share the digits, and few rounds."""
    declare: Declare = partial(_quick, declared) if quick else declared
    data = "the digits, quick" if quick else "letters of EMNIST's byclass test split, 100 clients, 10 a round, LeNet5"
    return [
        _brief_table(data, declare),
        _methods_table("fedspa-strong", STRONG, SEEDS, data, declare),
        _methods_table("fedspa-a", SETTING_A, SEEDS[:1], data, declare),
        _methods_table("fedspa-iid", IID, SEEDS[:1], data, declare),
        _density_table(data, declare),
    ]


# Runs.


def declared(label: str, partition: str, seed: int = 1, rounds: int = ROUNDS, **changes: Any) -> Run:
    """Return the run of a method by its label. Changes to its options are part of the run's name."""
    method, options = METHODS[label]
    known = preset("fedspa", letters.FILE)
    fixed: dict[str, Any] = {"eval_every": 5, "checkpoint_every": 5, "validation_share": 0.1, "seed": seed}
    settings = {**known, **fixed, "partition": partition, "rounds": rounds}
    settings["epochs"] = 2 if method == "ditto" else known["epochs"]
    settings["options"] = tuple(sorted((dict(known["options"]) | options | changes).items()))
    marks = "".join(f"-{name}-{value}" for name, value in sorted((options | changes).items()))
    name = f"fedspa-{partition.replace(':', '')}-{method}{marks}-T{rounds}-seed{seed}"
    return Run(name, Experiment(methods=(method,), data=letters.FILE, **settings), letters.federation)


def _quick(declare: Declare, *arguments: Any, **changes: Any) -> Run:
    run = declare(*arguments, **changes)
    few: dict[str, Any] = {"data": "digits", "model": "", "clients": 10, "per_round": 2, "rounds": 3, "batch": 16}
    few |= {"partition": "iid", "train_share": 0.7, "lr": 0.05, "eval_every": 1}
    return Run(run.name, replace(run.experiment, **few))


# Tables.


def _methods_table(name: str, partition: str, seeds: tuple[int, ...], data: str, declare: Declare) -> Table:
    """Return accuracies, bytes, and rounds to targets, of every method, and the paper's order of each pair with DST."""
    runs = {label: [declare(label, partition, seed) for seed in seeds] for label in METHODS}
    rows = [row for label in METHODS for row in _accuracy(label, runs[label], PAPER[partition])]
    for label, each in runs.items():
        rows.append(Row(f"{label}: payload over dense", _of_dense, tuple((run,) for run in each)))
        for target in TARGETS:
            what = f"{label}: rounds to {100 * target:g} %"
            rows.append(Row(what, partial(_rounds_to, target), tuple((run,) for run in each)))
    paper = PAPER[partition]
    for other in ("RSM", "Ditto", "Sub-FedAvg", "Local"):
        pairs = tuple(zip(runs["DST"], runs[other], strict=True))
        rows.append(Row(f"DST is better than {other} (1: yes)", _is_better, pairs, float(paper["DST"] > paper[other])))
    pairs = tuple(zip(runs["DST"], runs["FedAvg-FT"], strict=True))
    rows.append(Row("DST is better than FedAvg (1: yes)", _beats_global, pairs, float(paper["DST"] > paper["FedAvg"])))
    rows.append(Row("DST is better than FedAvg-FT (1: yes)", _is_better, pairs))
    about = f"{data}; {partition}, {ROUNDS} rounds of the paper's 400, density .5. The paper's are on all letters."
    title = f"FedSpa, table 1: {KINDS[partition]}"
    panels = {f"seed {seeds[0]}": {label: each[0] for label, each in runs.items()}}
    return Table(name, title, about, tuple(rows), panels, own)


def _brief_table(data: str, declare: Declare) -> Table:
    """Return a table of what a few minutes show."""
    labels = ("DST", "FedAvg-FT", "Local")
    runs = {label: declare(label, STRONG, rounds=BRIEF) for label in labels}
    rows = [row for label in labels for row in _accuracy(label, [runs[label]], {})]
    rows += [Row(f"{label}: payload over dense", _of_dense, ((runs[label],),)) for label in labels[:2]]
    about = f"{data}; {STRONG}, {BRIEF} rounds alone, one seed: too few to say which method ends ahead"
    return Table("fedspa-brief", f"FedSpa, the first {BRIEF} rounds", about, tuple(rows), {"seed 1": runs}, own)


def _density_table(data: str, declare: Declare) -> Table:
    """Return DST by density, and the effects of its parts, all with strongly unlike labels and one seed."""
    runs = {f"density {density:g}": declare("DST", STRONG, density=density) for density in DENSITIES}
    runs |= {label: declare("DST", STRONG, **options) for label, options in ABLATIONS.items()}
    runs["density 0.5, as in table 1"] = declare("DST", STRONG)
    rows = [row for label, run in runs.items() for row in _accuracy(label, [run], {})]
    about = f"{data}; {STRONG}, {ROUNDS} rounds, one seed. In the paper the best density is near .5."
    title = "FedSpa, tables 3 and 4: densities and ablations"
    return Table("fedspa-densities", title, about, tuple(rows), {"DST": runs}, own)


def _accuracy(label: str, runs: list[Run], paper: Mapping[str, float]) -> list[Row]:
    """Return the accuracy of the clients' own models and, where there is a global model, its accuracy."""
    seeds = tuple((run,) for run in runs)
    rows = [Row(label, last_own, seeds, paper.get(label), "%")]
    if label == "FedAvg-FT":
        rows.append(Row("FedAvg, the same run's global model", last_global, seeds, paper.get("FedAvg"), "%"))
    elif label not in ("Local", "Ditto"):
        rows.append(Row(f"{label}: its dense global model", last_global, seeds, None, "%"))
    return rows


# Measures.


def own(log_record: Line) -> float | None:
    """Return the mean accuracy over clients of their own models, or None where they were not tested."""
    evaluation = log_record.get("evaluation", {})
    return next((float(evaluation[kind]["accuracy"]) for kind in OWN if kind in evaluation), None)


def shared(log_record: Line) -> float | None:
    """Return the mean accuracy over clients of the global model on their samples, or None."""
    evaluation = log_record.get("evaluation", {})
    return float(evaluation["global_local"]["accuracy"]) if "global_local" in evaluation else None


def last_own(log_records: Lines) -> Found:
    """Return the mean of the last two evaluations, in percent."""
    return _last(own, log_records)


def last_global(log_records: Lines) -> Found:
    return _last(shared, log_records)


def _last(measure: Callable[[Line], float | None], log_records: Lines, count: int = 2) -> Found:
    found = [each for each in map(measure, log_records) if each is not None]
    return Found(100 * mean(found[-count:]), f"highest {100 * max(found):.1f}")


def _rounds_to(target: float, log_records: Lines) -> Found:
    """Return the first round that reaches the target, and the payload up to it. Evaluations are every fifth round."""
    for number, log_record in enumerate(log_records, 1):
        if (own(log_record) or 0.0) >= target:
            return Found(float(log_record["round"]), f"{payload(log_records[:number]) / 1e6:.0f} MB")
    return Found(None, "not reached")


def payload(log_records: Lines) -> int:
    """Return all bytes of payloads, down and up: values, ids, masks and headers."""
    return sum(sum(log_record["down"].values()) + sum(log_record["up"].values()) for log_record in log_records)


def _of_dense(log_records: Lines) -> Found:
    """Return values, masks and headers over what as many messages of the whole model take.

    The detail has masks alone.
    """
    total, masks = (
        payload(log_records),
        sum(log_record["down"]["index"] + log_record["up"]["index"] for log_record in log_records),
    )
    dense = 2 * DENSE_VALUES * 4 * sum(len(log_record["clients"]) for log_record in log_records)
    return Found(total / dense, f"masks {masks / dense:.4f}")


DENSE_VALUES = 439_096  # LeNet5's with 26 classes


def _is_better(ours: Lines, other: Lines) -> Found:
    return _compared(last_own(ours).value, last_own(other).value)


def _beats_global(ours: Lines, other: Lines) -> Found:
    return _compared(last_own(ours).value, last_global(other).value)


def _compared(a: float | None, b: float | None) -> Found:
    assert a is not None
    assert b is not None
    return Found(float(a > b), f"{a:.2f} against {b:.2f}")
