"""The settings of the stored runs, for the program that makes them and the tests that go on with them."""

from __future__ import annotations

from pathlib import Path

from edgefl.experiment.settings import Experiment

MODEL = "cnn"
STORED_ROUNDS = 2
SIMULATED = ["--method", "fedspu,fedavg", "--model", MODEL, "--clients", "2", "--per-round", "2", "--partition", "iid"]
SIMULATED += ["--epochs", "1", "--eval-every", "1", "--checkpoint-every", "1"]
SERVED = Experiment(
    methods=("fedspu",), model=MODEL, clients=2, per_round=2, partition="iid", rounds=12, epochs=1, eval_every=4
)


def archive(version: str) -> Path:
    """The file of the runs that this version has made."""
    return Path(__file__).parent / f"{version}.tar.xz"
