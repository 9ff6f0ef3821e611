"""PFLEGO's table 1 on Fashion-MNIST, complete and official, PFLEGO on three seeds and others on one, and its table 2.

Accuracy is measured as published: every round the sampled clients are tested after their training, hits over samples. A
number is the mean of the last ten rounds. FedAvg differs from the paper: it has one output per class of the data, where
the released code maps every client's labels to its own first outputs. omniglot.py names further differences. The
numbers are from ALGORITHMS 12.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import Any

from bench.papers import omniglot
from bench.papers.table import Found, Line, Lines, Row, Run, Table
from edgefl.experiment.presets import PFLEGO_OPTIONS, preset
from edgefl.experiment.settings import Experiment

DEGREES = {"high": "High-Pers", "medium": "Medium-Pers", "no": "No-Pers"}
METHODS = {"pflego": "PFLEGO", "fedper": "FedPer", "fedavg": "FedAvg", "fedrecon": "FedRecon"}
HEAD_STEPS = {"eq3": "Eq. 3, as published", "eq5": "Eq. 5, exact"}
OTHERS = ("fedper", "fedavg")
SEEDS = (1, 2, 3)
FASHION: dict[str, dict[str, float]] = {
    "high": {"pflego": 96.34, "fedper": 96.14, "fedavg": 96.35},
    "medium": {"pflego": 89.84, "fedper": 88.22, "fedavg": 87.51},
    "no": {"pflego": 81.49, "fedper": 77.44, "fedavg": 83.59},
}
EARLY = 15  # rounds of FedPer that take the clients longer than all of PFLEGO's (`python -m bench heads`)
OMNIGLOT = {"pflego": 75.85, "fedrecon": 74.06}  # table 2, after 1000 rounds
OMNIGLOT_RATES = {"pflego": (0.1341, 0.003), "fedrecon": (0.009, 0.003)}  # beta, rho
OMNIGLOT_ROUNDS, ALPHABETS = 300, 50

Declare = Callable[..., Run]


def tables(quick: bool) -> list[Table]:
    """Return all tables. The quick tables have few clients, who share the digits, and few rounds."""
    declare: Declare = partial(_quick, _run) if quick else _run
    drawings: Declare = partial(_quick, _omniglot_run) if quick else _omniglot_run
    data = "the digits, quick" if quick else "Fashion-MNIST, complete and official, 100 clients, 20 a round, tau 50"
    return [
        _pflego_table(data, declare),
        *(_others_table(degree, data, declare) for degree in DEGREES),
        _omniglot_table(drawings),
        _exact_table(data, declare),
    ]


# Runs.


def _run(method: str, degree: str, seed: int = 1, **changes: Any) -> Run:
    """Return a run with the paper's settings. Changes to them are part of its name."""
    settings = preset(f"pflego-{degree}", "fashion-mnist")
    options = dict(settings["options"]) | {name: changes.pop(name) for name in tuple(changes) if name in PFLEGO_OPTIONS}
    settings |= {"model": "pflego_mlp", "eval_every": 50, "checkpoint_every": 10, **changes}
    settings["options"] = tuple(sorted(options.items()))
    changed = {name: value for name, value in options.items() if value != PFLEGO_OPTIONS.get(name, value)} | changes
    marks = "".join(f"-{name}-{value}" for name, value in sorted(changed.items()))
    experiment = Experiment(methods=(method,), data="fashion-mnist", seed=seed, **settings)
    return Run(f"pflego-fashion-{degree}-{method}{marks}-seed{seed}", experiment)


def _omniglot_run(method: str, seed: int = 1) -> Run:
    beta, rho = OMNIGLOT_RATES[method]
    experiment = Experiment(
        methods=(method,),
        data=omniglot.FILE,
        model="pflego_omniglot",
        partition="group",
        clients=ALPHABETS,
        per_round=ALPHABETS // 5,
        rounds=OMNIGLOT_ROUNDS,
        seed=seed,
        eval_every=50,
        checkpoint_every=5,
        options=tuple(sorted({**PFLEGO_OPTIONS, "beta": beta, "rho": rho}.items())),
    )
    return Run(f"pflego-omniglot-{method}-seed{seed}", experiment, omniglot.federation)


def _quick(declare: Declare, *arguments: Any, **changes: Any) -> Run:
    run = declare(*arguments, **changes)
    few: dict[str, Any] = {"data": "digits", "partition_test": False, "clients": 10, "per_round": 2, "rounds": 3}
    few["partition"] = "iid" if run.experiment.partition == "group" else run.experiment.partition
    few["model"] = "pflego_mlp"
    return Run(run.name, replace(run.experiment, **few))


# Tables.


def _pflego_table(data: str, declare: Declare) -> Table:
    rows = [
        Row(f"{name}, PFLEGO", last_tested, tuple((declare("pflego", degree, seed),) for seed in SEEDS), paper, "%")
        for degree, name in DEGREES.items()
        for paper in (FASHION[degree]["pflego"],)
    ]
    panels = {
        name: {f"seed {seed}": declare("pflego", degree, seed) for seed in SEEDS} for degree, name in DEGREES.items()
    }
    about = f"{data}. Eq. 3, Adam, heads from [0, 1), the sampled clients after their training, last 10 rounds."
    return Table("pflego-fashion", "PFLEGO, table 1", about, tuple(rows), panels, tested)


def _exact_table(data: str, declare: Declare) -> Table:
    rows, panels = [], {}
    for degree, name in DEGREES.items():
        runs = {step: declare("pflego", degree, head_step=step) for step in HEAD_STEPS}
        rows += [Row(f"{name}, {HEAD_STEPS[step]}", last_tested, ((run,),), None, "%") for step, run in runs.items()]
        panels[name] = {HEAD_STEPS[step]: run for step, run in runs.items()}
    about = f"{data}. Last 10 rounds; the server steps by Adam in both."
    return Table("pflego-head-step", "PFLEGO: the last step of a head", about, tuple(rows), panels, tested)


def _others_table(degree: str, data: str, declare: Declare) -> Table:
    """Return FedPer and FedAvg beside PFLEGO after all rounds, and FedPer after about as much of the clients' time."""
    paper = FASHION[degree]
    runs = {method: declare(method, degree) for method in paper}
    rows = [Row(METHODS[method], last_tested, ((run,),), paper[method], "%") for method, run in runs.items()]
    rows += [_order(runs["pflego"], runs[other], METHODS[other], paper["pflego"] > paper[other]) for other in OTHERS]
    rows.append(Row(f"FedPer, first {EARLY} rounds", early_tested, ((runs["fedper"],),), None, "%"))
    panels = {DEGREES[degree]: {METHODS[method]: run for method, run in runs.items()}}
    title = f"PFLEGO, table 1, {DEGREES[degree]}: beside FedPer and FedAvg"
    about = f"{data}, one seed, last 10 rounds."
    return Table(f"pflego-fashion-{degree}", title, about, tuple(rows), panels, tested)


def _order(ours: Run, other: Run, name: str, paper: bool) -> Row:
    return Row(f"PFLEGO is better than {name} (1: yes)", _is_better, ((ours, other),), float(paper))


def _omniglot_table(declare: Declare) -> Table:
    runs = {method: declare(method) for method in OMNIGLOT}
    rows = [Row(METHODS[method], last_tested, ((run,),), OMNIGLOT[method], "%") for method, run in runs.items()]
    rows.append(_order(runs["pflego"], runs["fedrecon"], "FedRecon", True))
    about = (
        f"{ALPHABETS} alphabets, {ALPHABETS // 5} a round, {OMNIGLOT_ROUNDS} rounds, drawings not rotated. The paper: "
        "rotated drawings, rounds 991 to 1000."
    )
    panels = {"Omniglot": {METHODS[method]: run for method, run in runs.items()}}
    return Table("pflego-omniglot", "PFLEGO, table 2: beside FedRecon on Omniglot", about, tuple(rows), panels, tested)


# Measures.


def tested(log_record: Line) -> float | None:
    """Return hits over test samples of a round's clients, after their training, or None if they were not tested."""
    found = [(each["correct"], each["tested"]) for each in log_record["clients"] if "tested" in each]
    return sum(hits for hits, _ in found) / sum(count for _, count in found) if found else None


def last_tested(log_records: Lines, count: int = 10) -> Found:
    """Return the mean over the last rounds, in percent."""
    found = [each for each in map(tested, log_records) if each is not None][-count:]
    return Found(100 * mean(found), f"{100 * min(found):.1f} to {100 * max(found):.1f} in its rounds")


def early_tested(log_records: Lines) -> Found:
    """Return the mean over the last ten of the first rounds, in percent."""
    return last_tested(log_records[:EARLY])


def _is_better(ours: Lines, other: Lines) -> Found:
    a, b = last_tested(ours).value, last_tested(other).value
    assert a is not None
    assert b is not None
    return Found(float(a > b), f"{a:.2f} against {b:.2f}")
