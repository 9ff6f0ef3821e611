"""Labels of tokens and of pixels in a served run: a real server and devices, beside a simulation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.model_file import name_of
from edgefl.experiment.settings import Experiment
from edgefl.learning.learner import Array
from edgefl.models.graph import Graph
from edgefl.server import run_history
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.experiment.test_place_targets import IDS, KINDS, PIXELS, SEGMENTS, TURNED
from tests.learning.graphs import model
from tests.server.socket_run import served_run

CLIENTS = 3


@pytest.mark.parametrize(
    ("graph", "x", "y", "decisions", "score"),
    [(TURNED, IDS, IDS, 6, "perplexity"), (SEGMENTS, PIXELS, KINDS, 20, "mean_iou")],
)
def test_devices_train_with_labels_of_places_like_the_simulation(
    tmp_path: Path, graph: Graph, x: Array, y: Array, decisions: int, score: str
) -> None:
    """The server has the scores of tokens and of pixels that the simulation has, for each model and each client."""
    np.savez(tmp_path / "made.npz", x=x, y=y, targets="labels")
    begun = model(graph)
    named = {"data": str(tmp_path / "made.npz"), "model": name_of(begun), "partition": "iid"}
    experiment = Experiment(methods=("fedspu",), clients=CLIENTS, per_round=2, rounds=2, **named)  # type: ignore[arg-type]
    clients = assemble(experiment, model=begun)
    served, _ = served_run(tmp_path, experiment, begun, clients)
    journal = Journal(tmp_path / "simulated")
    state = simulate(experiment.algorithms()["fedspu"], clients, experiment.settings(1), journal)
    expected = list(journal.metrics())[-1]["evaluation"]
    journal.close()
    found = run_history.final_state(served)
    for name, value in state.arrays["model"].items():
        np.testing.assert_array_equal(found.arrays["model"][name], value, err_msg=name)
    assert run_history.metrics(served)[-1]["evaluation"] == expected
    personal = expected["personal"]
    assert personal["decisions"] == decisions
    hand = math.exp(personal["loss"]) if score == "perplexity" else sum(personal["client_mean_iou"]) / CLIENTS
    assert personal[score] == pytest.approx(hand)
    assert score in expected["global_local"]
