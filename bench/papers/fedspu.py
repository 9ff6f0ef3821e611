"""FedSPU's table 1 on a part of EMNIST: FedSPU, its early stopping, FedAvg, FedAvg-FT and local training, T = 500.

Some things differ from the paper. The data are the official test split of byclass alone, divided again, which is a
seventh of what the paper pools. Early stopping looks at a tenth of a client's training samples, where the paper looks
at its test samples. A run with `es_set=test` does as the paper does, and its accuracy is on samples that it has seen.
Rivals that are not in edgefl are left out. FedAvg is read in the run of FedAvg-FT. The numbers are from ALGORITHMS 12.1
and 12.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

from bench.papers.fedspa import last_global, last_own, own, payload
from bench.papers.table import Found, Lines, Row, Run, Table
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment

FILE = "emnist_byclass_official_test.npz"
ROUNDS, EVERY = 500, 25
ALPHAS = ("0.1", "0.5")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedSPU": ("fedspu", {}),
    "FedSPU + ES": ("fedspu-es", {}),
    "FedAvg-FT": ("fedavg-ft", {}),
    "Local": ("local", {}),
}
SEEN: dict[str, tuple[str, dict[str, Any]]] = {"FedSPU + ES by the test samples": ("fedspu-es", {"es_set": "test"})}
ACCURACY = {"0.1": (72.89, 73.04), "0.5": (73.53, 73.18)}  # the paper's, of FedSPU without and with ES
GIGABYTES = {"0.1": (11.75, 4.82), "0.5": (11.71, 8.80)}
STOPPED = {"0.1": 207, "0.5": 374}  # rounds with early stopping, probably until fewer than ten clients ran

Declare = Callable[..., Run]


def tables(quick: bool) -> list[Table]:
    """Return all tables. The quick tables have few clients, who share the digits, and few rounds."""
    declare: Declare = partial(_quick, _run) if quick else _run
    data = "the digits, quick" if quick else "EMNIST byclass, the official test split divided again, 100 clients"
    return [_table(alpha, data, declare) for alpha in ALPHAS]


def _run(label: str, alpha: str) -> Run:
    method, options = (METHODS | SEEN)[label]
    known = preset("paper", "emnist")
    settings = {**known, "rounds": ROUNDS, "eval_every": EVERY, "checkpoint_every": EVERY, "validation_share": 0.1}
    settings |= {"partition": f"dirichlet:{alpha}", "options": tuple(sorted(({"es_set": "carve"} | options).items()))}
    marks = "".join(f"-{name}-{value}" for name, value in sorted(options.items()))
    name = f"fedspu-dirichlet{alpha}-{method}{marks}-T{ROUNDS}-seed1"
    return Run(name, Experiment(methods=(method,), data=FILE, **settings))


def _quick(declare: Declare, *arguments: Any) -> Run:
    run = declare(*arguments)
    few: dict[str, Any] = {"data": "digits", "clients": 10, "per_round": 2, "rounds": 4, "lr": 0.05, "eval_every": 2}
    return Run(run.name, replace(run.experiment, partition="iid", pool=False, checkpoint_every=2, **few))


def _table(alpha: str, data: str, declare: Declare) -> Table:
    runs = {label: declare(label, alpha) for label in METHODS | SEEN}
    paper = dict(zip(("FedSPU", "FedSPU + ES"), ACCURACY[alpha], strict=True))
    rows = [Row(label, last_own, ((run,),), paper.get(label), "%") for label, run in runs.items()]
    rows.append(Row("FedAvg, the same run's global model", last_global, ((runs["FedAvg-FT"],),), None, "%"))
    for label, run in runs.items():
        rows.append(Row(f"{label}: the worst tenth of clients", worst_tenth, ((run,),), None, "%"))
        rows.append(Row(f"{label}: payload", _megabytes, ((run,),), None, "MB"))
    whole, less = GIGABYTES[alpha]
    for label in ("FedSPU + ES", *SEEN):
        pair = ((runs[label], runs["FedSPU"]),)
        rows.append(Row(f"{label}: bytes saved", _saved, pair, 100 * (1 - less / whole), "%"))
        few = f"{label}: rounds until fewer than ten ran"
        rows.append(Row(few, _few_run, ((runs[label],),), float(STOPPED[alpha])))
    rows.append(Row("FedSPU is better than Local (1: yes)", _is_better, ((runs["FedSPU"], runs["Local"]),)))
    rows.append(Row("FedSPU is better than FedAvg-FT (1: yes)", _is_better, ((runs["FedSPU"], runs["FedAvg-FT"]),)))
    about = f"{data}; Dirichlet {alpha}, {ROUNDS} rounds, the paper's rate and batch, one seed"
    title = f"FedSPU, table 1 and what early stopping saves, alpha {alpha}"
    return Table(f"fedspu-{alpha}", title, about, tuple(rows), {f"alpha {alpha}": runs}, own, portable=True)


# Measures.


def worst_tenth(log_records: Lines) -> Found:
    """Return the mean accuracy of the tenth of clients whose accuracy is lowest, after the last round, in percent."""
    evaluation = log_records[-1]["evaluation"]
    scores = next(evaluation[kind] for kind in ("personal", "adapted", "global_local") if kind in evaluation)
    each = sorted(right / of for right, of in zip(scores["correct"], scores["examples"], strict=True))
    return Found(100 * mean(each[: max(1, len(each) // 10)]))


def _megabytes(log_records: Lines) -> Found:
    return Found(
        payload(log_records) / 1e6, f"{sum(log_record['client_rounds'] for log_record in log_records)} client rounds"
    )


def _saved(stopping: Lines, whole: Lines) -> Found:
    """Return the bytes that early stopping saves, in percent of the bytes of all rounds."""
    return Found(100 * (1 - payload(stopping) / payload(whole)), f"{stopping[-1]['running']} clients still run")


def _few_run(log_records: Lines) -> Found:
    """Return the number of rounds up to the first evaluation after which fewer than ten clients run."""
    return Found(next((float(log_record["round"]) for log_record in log_records if log_record["running"] < 10), None))


def _is_better(ours: Lines, other: Lines) -> Found:
    first, second = last_own(ours).value, last_own(other).value
    assert first is not None
    assert second is not None
    return Found(float(first > second), f"{first:.2f} against {second:.2f}")
