"""A language model in a served run: a real server and devices with a label for each token, beside a simulation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, write_partition
from edgefl.experiment.model_file import name_of
from edgefl.experiment.run_json import open_run
from edgefl.experiment.settings import Experiment
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.experiment.test_place_targets import IDS, TURNED
from tests.learning.graphs import model
from tests.server.processes import lines, start, until
from tests.server.test_torch_device import talk

CLIENTS = 3


def test_devices_train_a_language_model_like_the_simulation(tmp_path: Path) -> None:
    np.savez(tmp_path / "made.npz", x=IDS, y=IDS, targets="labels")
    begun, served = model(TURNED), tmp_path / "served"
    named = {"data": str(tmp_path / "made.npz"), "model": name_of(begun), "partition": "iid"}
    experiment = Experiment(methods=("fedspu",), clients=CLIENTS, per_round=2, rounds=2, **named)  # type: ignore[arg-type]
    clients = assemble(experiment, model=begun)
    open_run(served, experiment.to_json(), begun)
    (tmp_path / "shares").mkdir()
    for client in range(CLIENTS):
        write_partition(partition_file(tmp_path / "shares", client), clients, client)
    with ExitStack() as stack:
        server = start(stack, "serve", "--resume", str(served), "--port", "0")
        address = until(lines(server), "listening on").split()[-1]
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        for over in [pool.submit(talk, address, tmp_path, client, None) for client in range(CLIENTS)]:
            over.result(timeout=120)
        assert server.wait(timeout=60) == 0
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["fedspu"], clients, experiment.settings(1), journal)
    expected = list(journal.metrics())[-1]["evaluation"]
    journal.close()
    found = run_history.final_state(served)
    for name, value in state.arrays["model"].items():
        np.testing.assert_array_equal(found.arrays["model"][name], value, err_msg=name)
    assert run_history.metrics(served)[-1]["evaluation"] == expected
    assert expected["personal"]["decisions"] == 6
