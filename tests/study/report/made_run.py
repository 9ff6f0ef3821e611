"""A run that nobody ran, for tests of the report: its names are the test's, its numbers are made by a rule."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from edgefl.experiment.data_record import DataRecord
from edgefl.experiment.settings import Experiment
from edgefl.study.capacity_tiers import Tiers
from edgefl.study.report.reported_run import ReportedRun, TrialState
from edgefl.study.summary import Summary, summarise

KEEP = (0.2, 1.0)


def made_run(
    name: str = "made",
    methods: tuple[str, ...] = ("fedspu", "fedavg"),
    seeds: int = 2,
    rounds: int = 4,
    clients: int = 4,
    **changes: Any,
) -> ReportedRun:
    """Make a run in which every client of method m is right about more of its 100 test samples in every round."""
    by_seed = {
        seed: [_summary(method, m, seed, rounds, clients) for m, method in enumerate(methods)]
        for seed in range(1, seeds + 1)
    }
    states = tuple(TrialState(method, seed, rounds, True, True) for method in methods for seed in by_seed)
    experiment = Experiment(clients=clients, per_round=2, rounds=rounds, seeds=seeds, keep=KEEP)
    given: dict[str, Any] = {
        "name": name,
        "directory": Path("runs") / name,
        "experiment": experiment,
        "is_served": False,
        "states": states,
        "by_seed": by_seed,
        "tuning": (),
        "edges": (),
        "provenances": ("edgefl 0.1.0+3e7ad57212 native-avx512",),
        "devices": {},
        "data": (DataRecord(40, (8, 8), (20, 10, 10), "ab" * 32),),
        "notes": (),
        "socket_bytes": None,
        "lacking": "",
    }
    return ReportedRun(**{**given, **changes})


def _summary(method: str, m: int, seed: int, rounds: int, clients: int) -> Summary:
    tiers = Tiers(1000, [KEEP[k % 2] for k in range(clients)], dict.fromkeys(KEEP, 1000))
    log_records = [_log_record(t, m, seed, rounds, clients) for t in range(1, rounds + 1)]
    return summarise(method, log_records, tiers, {"round_lt_C": None})


def _log_record(t: int, m: int, seed: int, rounds: int, clients: int) -> dict[str, Any]:
    correct = [min(100, 40 + 50 * t // rounds + 3 * m + (seed * k) % 7) for k in range(clients)]
    accuracy = sum(correct) / (100 * clients)
    scores = {"accuracy": accuracy, "accuracy_weighted": accuracy, "correct": correct}
    scores |= {"examples": [100] * clients, "loss": 0.5, "loss_sum": [50.0] * clients}
    sent = 1000 * (m + 1)
    trained = [
        {"client": (t + i) % clients, "status": "on", "down": sent, "up": sent, "seconds": 0.5, "executed_flops": 1e6}
        for i in range(2)
    ]
    parts = {"values": 2 * sent, "index": 0, "header": 0}
    beside = {"down": parts, "up": parts, "seconds": 1.0, "train_loss": math.exp(-t / rounds)}
    return {"round": t, "clients": trained, **beside, "evaluation": {"personal": scores}}
