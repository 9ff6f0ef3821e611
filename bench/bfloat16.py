"""python -m bench bfloat16: what training loses if products read bfloat16 and add in float32, beside float32.

FedAvg trains two networks on Fashion-MNIST among clients of unlike labels, with each kind of product and the same
draws. Accuracies and losses are those of the last rounds' evaluations, and their differences are paired by seed. The
rounding is emulated (rounded_products.py), so nothing is timed. --record keeps the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import edgefl
from bench import machine
from edgefl import kernels

RECORD = Path(__file__).with_name("bfloat16.jsonl")
BACKENDS = {"float32": "native", "bfloat16": "bfloat16"}
SETTINGS: dict[str, Any] = {"clients": 20, "per_round": 5, "epochs": 1, "partition": "dirichlet:0.3", "workers": 1}


@dataclass(frozen=True)
class Case:
    """A network, its data, and how it is trained. The last `looked` evaluations count, one each `every` rounds."""

    model: str
    data: str
    rounds: int
    every: int
    looked: int
    seeds: tuple[int, ...]
    batch: int = 32
    lr: float = 0.05


CASES = tuple(Case(model, "fashion-mnist", 60, 4, 5, (1, 2, 3, 4, 5)) for model in ("pflego_mlp", "fedspu_cifar"))
QUICK = (Case("digits_cnn", "digits", 4, 2, 1, (1,)),)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench bfloat16", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the digits alone, trained for a moment")
    parser.add_argument("--data-dir", help="directory of the data sets' files")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="file that keeps the rows")
    options = parser.parse_args(arguments)
    machine.use_threads(1)
    rows = []
    for row in measured(QUICK if options.quick else CASES, options.data_dir):
        rows.append({**row, "machine": machine.facts()})
        print(json.dumps(row), flush=True)
        if options.record is not None:
            options.record.write_text("".join(f"{json.dumps(each)}\n" for each in rows), "utf-8")
    return 0


def measured(cases: tuple[Case, ...], data_dir: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row for each network, with a pair of float32 and bfloat16 for each seed."""
    for case in cases:
        pairs = [{kind: trained(case, seed, name, data_dir) for kind, name in BACKENDS.items()} for seed in case.seeds]
        differences = [100 * (pair["bfloat16"]["accuracy"] - pair["float32"]["accuracy"]) for pair in pairs]
        yield {
            "model": case.model,
            "data": case.data,
            "rounds": case.rounds,
            "seeds": list(case.seeds),
            **{kind: [pair[kind] for pair in pairs] for kind in BACKENDS},
            "points": [round(each, 3) for each in differences],
            "mean_points": round(mean(differences), 3),
        }


def trained(case: Case, seed: int, backend: str, data_dir: str | None = None) -> dict[str, float]:
    """Return accuracy and loss of FedAvg's model, as means over the last evaluations."""
    with (
        patch.dict(kernels.NAMED, {"bfloat16": "bench.rounded_products"}),
        patch.dict(os.environ, {"EDGEFL_KERNELS": backend}),
        tempfile.TemporaryDirectory() as folder,
    ):
        own = {"model": case.model, "rounds": case.rounds, "eval_every": case.every, "batch": case.batch, "lr": case.lr}
        place = {"data_dir": data_dir, "directory": Path(folder) / "run"}
        run = edgefl.simulate("fedavg", data=case.data, seed=seed, **SETTINGS, **own, **place)
        found = [line for line in run.metrics if line.get("accuracy") is not None][-case.looked :]
    return {name: round(mean(line[name] for line in found), 5) for name in ("accuracy", "loss")}
