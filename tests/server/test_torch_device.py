"""One device of a served run trains with torch, the others with kernels: a real server, real sockets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.torch import TorchLearner
from tests.server.socket_run import served_run
from tests.smooth import CLIENTS, assert_close, federation, one_torch_thread  # noqa: F401

TORCH = 1  # the client whose learner is torch's


@pytest.mark.parametrize("method", ["fedspu", "fedspa"])
def test_torch_and_kernels_train_together(method: str, tmp_path: Path) -> None:
    options = (("density", 0.4),) if method == "fedspa" else ()
    experiment, model, clients = federation(tmp_path, (method,), options=options, per_round=CLIENTS)
    makes = [TorchLearner if client == TORCH else None for client in range(CLIENTS)]
    served, _ = served_run(tmp_path, experiment, model, clients, makes=makes)
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()[method], clients, experiment.settings(1), journal)
    expected = list(journal.metrics())
    journal.close()
    found = run_history.final_state(served)
    assert found.values == state.values
    for group, arrays in state.arrays.items():
        assert_close(found.arrays[group], arrays)
    assert not all(np.array_equal(found.arrays["model"][name], value) for name, value in state.arrays["model"].items())
    names = ("client", "status", "down", "up")
    payloads = [
        [[[c.get(name) for name in names] for c in log_record["clients"]] for log_record in each]
        for each in (run_history.metrics(served), expected)
    ]
    assert payloads[0] == payloads[1]
