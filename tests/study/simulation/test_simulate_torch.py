"""Every method on TorchLearner ends where it ends on GraphLearner, within the tolerance of smooth.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.experiment.settings import Settings
from edgefl.learning import GraphLearner
from edgefl.learning.learner import MakeLearner
from edgefl.methods import METHODS, build
from edgefl.methods.rounds import state_file
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import TorchLearner
from tests.smooth import CLIENTS, assert_close, federation, one_torch_thread  # noqa: F401

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": 0.1, "keep": (0.5, 1.0), "tau": 2}
OWN: dict[str, dict[str, Any]] = {
    "fedspa": {"density": 0.4},
    "fedspa-rsm": {"density": 0.4},
    "subfedavg": {"prune_rate": 0.3, "distance": 0.0, "accuracy": 0.0},
    "fedumf": {"momentum": 0.5, "weight_decay": 5e-4},
    "fedavg-ft": {"ft_epochs": 1},
}
WITHOUT_STATISTICS = ("pflego", "fedrecon")


def run(path: Path, name: str, make: MakeLearner, per_round: int = 2, check_wire: int | None = None) -> dict[str, Any]:
    """Return the end of a run. By default the messages of every client are compared where edgefl's kernels train."""
    path.mkdir()
    _, _, clients = federation(path, (name,), name not in WITHOUT_STATISTICS)
    journal = Journal(path / "run")
    method = build(name, OPTIONS | OWN.get(name, {}) | {"per_round": per_round})
    every = int(make is GraphLearner) if check_wire is None else check_wire
    settings = Settings(rounds=2, eval_every=1, check_wire=every)
    state = simulate(method, clients, settings, journal, make=make)
    kept = [journal.load_client_state(client) for client in range(CLIENTS)]
    log_records = list(journal.metrics())
    journal.close()
    return {
        "state": state_file.flat(state.arrays),
        "kept": [each and each.flat() for each in kept],
        "lines": log_records,
    }


@pytest.mark.parametrize("name", METHODS)
def test_methods_end_where_they_end_on_kernels(name: str, tmp_path: Path) -> None:
    native, found = run(tmp_path / "native", name, GraphLearner), run(tmp_path / "torch", name, TorchLearner)
    assert_close(found["state"], native["state"])
    for mine, theirs in zip(found["kept"], native["kept"], strict=True):
        assert (mine is None) == (theirs is None)
        assert_close(mine or {}, theirs or {})
    assert payloads(found) == payloads(native)
    assert scored(found) == scored(native)


@pytest.mark.parametrize(
    ("name", "make"),
    [*((name, GraphLearner) for name in METHODS), *((name, TorchLearner) for name in ("fedspu", "pflego", "ditto"))],
)
def test_no_client_changes_the_reply_of_a_client_before_it(name: str, make: MakeLearner, tmp_path: Path) -> None:
    """One learner plays all clients of a round, and only the first one is carried by messages, which copy its reply."""
    direct = run(tmp_path / "direct", name, make, per_round=CLIENTS, check_wire=0)
    copied = run(tmp_path / "copied", name, make, per_round=CLIENTS, check_wire=1)
    assert bits(direct["state"]) == bits(copied["state"])
    assert [each and bits(each) for each in direct["kept"]] == [each and bits(each) for each in copied["kept"]]


def bits(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in arrays.items()}


def payloads(found: dict[str, Any]) -> list[Any]:
    """Return who was asked in each round, and the bytes each way."""
    names = ("client", "status", "down", "up")
    return [
        [{n: v for n, v in c.items() if n in names or "bytes" in n} for c in log_record["clients"]]
        for log_record in found["lines"]
    ]


def scored(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The right decisions of every evaluation."""
    return [{kind: each["correct"] for kind, each in log_record["evaluation"].items()} for log_record in found["lines"]]
