"""PFLEGO's figures 7 to 9 in small, on Fashion-MNIST with two classes a client.

Figure 7 varies the number tau of head steps, beside FedRecon. Figure 8 varies the share r of the clients in a round.
Figure 9 varies the client's rate beta at three rates rho of the server. The paper has Omniglot with 5,000 rounds for
figures 7 and 9, and CIFAR-10 with 200 rounds for figure 8. Here 50 clients have 300 training samples each, and 30
rounds show the beginning alone, with one seed.

The rule, which was written before the runs: a row that asks for an order is met where it is 1. One seed shows an order
and decides nothing about other seeds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from bench.papers.pflego import METHODS, last_tested, tested
from bench.papers.table import Found, Lines, Row, Run, Table
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment

CLIENTS, ROUNDS, TRAINING, TESTS = 50, 30, 300, 50  # samples of a client
TAUS, SHARES = (5, 25, 50, 100), (20, 40, 60, 100)
BETAS, RHOS = (0.0006, 0.006, 0.06), (0.0005, 0.002, 0.008)
TARGET = 0.9


def tables(quick: bool) -> list[Table]:
    """Return the tables of the figures. The quick tables have few rounds on the digits."""
    return [_tau_table(quick), _share_table(quick), _rate_table(quick)]


def federation(experiment: Experiment, data_dir: Path | None) -> Federation:
    """Return the experiment's federation, in which a client has its first samples alone."""
    whole = assemble(experiment, data_dir)
    few = (replace(each, train=each.train[:TRAINING], test=each.test[:TESTS]) for each in whole.clients)
    return replace(whole, clients=tuple(few))


def _run(quick: bool, method: str = "pflego", share: int = 20, **changes: float) -> Run:
    settings = preset("pflego-high", "fashion-mnist")
    known = dict(settings["options"])
    options = tuple(sorted({**known, **changes}.items()))
    settings |= {"clients": CLIENTS, "per_round": CLIENTS * share // 100, "rounds": ROUNDS, "options": options}
    fixed: dict[str, Any] = {"model": "pflego_mlp", "eval_every": ROUNDS, "checkpoint_every": ROUNDS}
    experiment = Experiment(methods=(method,), data="fashion-mnist", seed=1, **{**settings, **fixed})
    marks = "".join(f"-{name}{value:g}" for name, value in sorted(changes.items()) if value != known[name])
    name = f"pflego-few-{method}-r{share}{marks}-seed1"
    few: dict[str, Any] = {"data": "digits", "partition_test": False, "clients": 10, "rounds": 3}
    few["per_round"] = max(1, share // 10)
    return Run(name, replace(experiment, **few)) if quick else Run(name, experiment, federation)


# Tables.


def _tau_table(quick: bool) -> Table:
    rows, panels = [], {}
    for tau in TAUS:
        runs = {method: _run(quick, method, tau=tau) for method in ("pflego", "fedrecon")}
        rows += [
            Row(f"tau {tau}, {METHODS[method]}", last_tested, ((run,),), None, "%") for method, run in runs.items()
        ]
        panels[f"tau {tau}"] = {METHODS[method]: run for method, run in runs.items()}
        pair = ((runs["pflego"], runs["fedrecon"]),)
        rows.append(Row(f"tau {tau}: PFLEGO is better than FedRecon (1: yes)", _is_better, pair, 1.0))
    return Table("pflego-tau", "PFLEGO, figure 7: steps of the head", _about(quick), tuple(rows), panels, tested)


def _share_table(quick: bool) -> Table:
    runs = {share: _run(quick, share=share, tau=50) for share in SHARES}
    rows = [Row(f"r {share} %", last_tested, ((run,),), None, "%") for share, run in runs.items()]
    label = f"rounds to {100 * TARGET:g} %"
    rows += [Row(f"r {share} %: {label}", _rounds, ((run,),)) for share, run in runs.items()]
    rows.append(Row("a larger r needs no more rounds (1: yes)", _falling, (tuple(runs.values()),), 1.0))
    panels = {"PFLEGO": {f"r {share} %": run for share, run in runs.items()}}
    return Table("pflego-share", "PFLEGO, figure 8: clients in a round", _about(quick), tuple(rows), panels, tested)


def _rate_table(quick: bool) -> Table:
    rows, panels = [], {}
    for rho in RHOS:
        runs = {beta: _run(quick, tau=50, beta=beta, rho=rho) for beta in BETAS}
        named = {beta: f"rho {rho:g}, beta {beta:g}" for beta in BETAS}
        rows += [Row(f"{named[beta]}: training loss", _loss, ((run,),)) for beta, run in runs.items()]
        rows += [Row(f"{named[beta]}: accuracy", last_tested, ((run,),), None, "%") for beta, run in runs.items()]
        rows.append(Row(f"rho {rho:g}: a larger beta has a lower loss (1: yes)", _lower, (tuple(runs.values()),), 1.0))
        panels[f"rho {rho:g}"] = {f"beta {beta:g}": run for beta, run in runs.items()}
    return Table("pflego-rates", "PFLEGO, figure 9: beta and rho", _about(quick), tuple(rows), panels, tested)


def _about(quick: bool) -> str:
    data = "the digits, quick" if quick else "Fashion-MNIST, two classes a client"
    return f"{data}; {CLIENTS} clients with {TRAINING} training samples, {ROUNDS} rounds, one seed"


# Measures.


def _losses(log_records: Lines, count: int = 10) -> float:
    """Return the mean training loss of the clients of the last rounds, before their last step."""
    found = [each["loss"] for log_record in log_records[-count:] for each in log_record["clients"]]
    return mean(found)


def _loss(log_records: Lines) -> Found:
    return Found(_losses(log_records))


def _lower(*runs: Lines) -> Found:
    losses = [_losses(log_records) for log_records in runs]
    return Found(float(all(b < a for a, b in pairwise(losses))), ", ".join(f"{each:.4g}" for each in losses))


def _reached(log_records: Lines) -> int | None:
    """Return the first round whose clients have the target accuracy after their training, or None."""
    return next((each["round"] for each in log_records if (tested(each) or 0.0) >= TARGET), None)


def _rounds(log_records: Lines) -> Found:
    reached = _reached(log_records)
    return Found(None, "not reached") if reached is None else Found(float(reached))


def _falling(*runs: Lines) -> Found:
    needed = [_reached(log_records) or len(log_records) + 1 for log_records in runs]
    return Found(float(all(b <= a for a, b in pairwise(needed))), ", ".join(map(str, needed)))


def _is_better(ours: Lines, other: Lines) -> Found:
    first, second = last_tested(ours).value, last_tested(other).value
    assert first is not None
    assert second is not None
    return Found(float(first > second), f"{first:.2f} against {second:.2f}")
