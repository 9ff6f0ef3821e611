"""FedUmf's appendix beyond its 15 %: tables A1 and A2 at 65 %, and the synthetic data of figure A5, at both shares.

The paper shows figure A5 as curves without numbers, and says FedUmf is first. The rule, which was written before the
runs: a difference counts where its 95 % t interval over the seeds is on one side of 0. One seed decides nothing.

The synthetic data are drawn (synthetic.py). The rate and its decay, the batch of 10 and mu are the paper's. The
number of rounds is ours, since the paper does not say it. No method has been tuned, as in the paper.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from bench.papers import fedumf, synthetic
from bench.papers.fedumf import APPENDIX_OPTIONS, APPENDIX_TARGETS, NAMES
from bench.papers.measures import accuracy, last
from bench.papers.table import Row, Run, Table
from edgefl.experiment.presets import preset
from edgefl.experiment.settings import Experiment

SEEDS = (1, 2, 3)
SETTINGS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))  # alpha and beta
CLIENTS, SHARES, ROUNDS = 20, {"15 %": 3, "65 %": 13}, 50
MU = {"mu": 1e-4}  # of FedProx
RIVALS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD", "fedumf": "FedUmf"}
COMBINED = "fedumf-feddc"
METHODS = {"fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD", "feddyn": "FedDyn", "feddc": "FedDC"}
METHODS |= {COMBINED: "FedUmf + FedDC"}
# Tables A1 (accuracy in percent) and A2 (rounds to 95 %) on MNIST with 65 % of the clients, in the order of METHODS.
AT_65: dict[str, tuple[tuple[float, int], ...]] = {
    "iid": ((96.98, 36), (96.96, 36), (97.06, 35), (98.01, 11), (98.34, 25), (98.40, 10)),
    "dirichlet:0.6": ((96.56, 59), (96.56, 49), (96.88, 39), (97.90, 16), (98.30, 14), (98.33, 12)),
    "lognormal:0.3": ((97.20, 32), (97.20, 31), (96.88, 38), (97.90, 16), (98.33, 14), (98.34, 10)),
}


def tables(quick: bool) -> list[Table]:
    """Return all tables of FedUmf. The quick tables have few clients and few rounds."""
    made = [_synthetic_table(share, quick) for share in SHARES]
    return [*fedumf.tables(quick), *made, *(_table_at_65(partition, quick) for partition in AT_65)]


# Runs.


def _synthetic_run(setting: tuple[float, float], share: str, method: str, seed: int, quick: bool) -> Run:
    data = synthetic.name_of(*setting)
    experiment = Experiment(
        methods=(method,),
        data=data,
        model="softmax",
        partition="group",
        clients=CLIENTS,
        per_round=SHARES[share],
        rounds=3 if quick else ROUNDS,
        epochs=1,
        batch=10,
        lr=0.1,
        seed=seed,
        eval_every=1,
        checkpoint_every=50,
        options=tuple(sorted({**APPENDIX_OPTIONS, **MU}.items())),
    )
    return Run(f"{data}-{SHARES[share]}-{method}-seed{seed}", experiment, synthetic.federation)


def _run_at_65(partition: str, method: str, quick: bool) -> Run:
    known = preset("fedumf", "fashion-mnist")
    options = {**APPENDIX_OPTIONS, **MU}
    changes = {"partition": partition, "rounds": 100, "per_round": 65, "lr": 0.1, "options": options}
    run = fedumf.declared(f"appendix65-{partition.replace(':', '')}-{method}-seed1", method, 1, {**known, **changes})
    few: dict[str, Any] = {"data": "digits", "clients": 10, "per_round": 6, "rounds": 3, "train_share": 0.7}
    return run._replace(experiment=replace(run.experiment, **few)) if quick else run


# Tables.


def _synthetic_table(share: str, quick: bool) -> Table:
    rows, panels = [], {}
    for setting in SETTINGS:
        name = f"({setting[0]:g}, {setting[1]:g})"
        runs = {m: [_synthetic_run(setting, share, m, seed, quick) for seed in SEEDS] for m in (*RIVALS, COMBINED)}
        labels = {**RIVALS, COMBINED: METHODS[COMBINED]}
        for method, made in runs.items():
            rows.append(Row(f"{name} {labels[method]}: accuracy", last, tuple((run,) for run in made), None, "%"))
        for method in runs:
            if method != "fedumf":
                pairs = tuple(zip(runs[method], runs["fedumf"], strict=True))
                rows.append(Row(f"{name} FedUmf less {labels[method]}", fedumf.gain, pairs, None, "points"))
        panels[name] = {labels[method]: made[0] for method, made in runs.items()}
    about = f"synthetic data, {CLIENTS} clients, {SHARES[share]} a round, {ROUNDS} rounds, mean of the last 10"
    title = f"FedUmf, figure A5: synthetic data, {share}"
    return Table(f"synthetic-{SHARES[share]}", title, about, tuple(rows), panels, accuracy)


def _table_at_65(partition: str, quick: bool) -> Table:
    runs = {method: _run_at_65(partition, method, quick) for method in METHODS}
    average, needed = runs["fedavg"], AT_65[partition][0][1]
    accuracies, rounds = [], []
    for (method, run), (percent, to_95) in zip(runs.items(), AT_65[partition], strict=True):
        accuracies.append(Row(f"{METHODS[method]}: accuracy, last 10 rounds", last, ((run,),), percent, "%"))
        for target in APPENDIX_TARGETS if method != "fedavg" else ():
            label = f"{METHODS[method]}: rounds to {100 * target:g} % over FedAvg's"
            ratio = partial(fedumf.rounds_ratio, target, least=1)
            rounds.append(Row(label, ratio, ((average, run),), to_95 / needed))
    data = "the digits, quick" if quick else "Fashion-MNIST in place of MNIST"
    about = f"{data}, 784-100-100-10, 100 clients, 65 a round. The paper's rounds are to 95 % on MNIST."
    title = f"FedUmf, tables A1 and A2, 65 %, {NAMES[partition]}"
    panels = {NAMES[partition]: {METHODS[method]: run for method, run in runs.items()}}
    name = f"appendix-65-{partition.split(':')[0]}"
    return Table(name, title, about, (*accuracies, *rounds), panels, accuracy)
