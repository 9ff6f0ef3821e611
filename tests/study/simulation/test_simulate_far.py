"""A learner whose parameters are not in this process's arrays gives what GraphLearner gives, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.learning import GraphLearner
from edgefl.learning.learner import Learner, MakeLearner
from edgefl.methods import build
from edgefl.methods.rounds import state_file
from edgefl.models.graph import Model, architectures
from edgefl.rng import INIT, stream
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.far_learner import FarLearner
from tests.seams import SEAMS

EXPERIMENT = Experiment(clients=4, per_round=2, rounds=3, eval_every=1, epochs=1, keep=(0.25, 0.5, 1.0))
OPTIONS = {"per_round": 2, "epochs": 1, "keep": EXPERIMENT.keep, "eval_point": "post_local"}
NAMES = ["fedspu", "fedspu-es", "fedavg", "fedavg-ft", "local", "fedumf", "feddyn", "feddc", "fedumf-feddc", "fedper"]
NAMES += ["random-dropout", "fjord"]
METHODS = {name: build(name, OPTIONS) for name in NAMES}
METHODS |= {name: kind(per_round=2, epochs=1) for name, kind in SEAMS.items()}
WITHOUT_STATISTICS = {name: build(name, {"per_round": 2, "tau": 3}) for name in ("pflego", "fedrecon")}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


@pytest.fixture(scope="module")
def plain() -> Federation:
    """Return the clients with a model without running statistics."""
    return assemble(Experiment(clients=4, per_round=2, model="pflego_mlp"))


def run(path: Path, name: str, federation: Federation, make: MakeLearner) -> dict[str, object]:
    """Everything that a run leaves: the server's state, what clients keep, every accuracy."""
    journal = Journal(path)
    method = {**METHODS, **WITHOUT_STATISTICS}[name]
    state = simulate(method, federation, Settings(rounds=3, eval_every=1), journal, make=make)
    found: dict[str, object] = {"state": bits(state_file.flat(state.arrays)), "values": state.values}
    for client in range(4):
        kept = journal.load_client_state(client)
        found[f"client {client}"] = kept and (bits(kept.flat()), kept.private)
    found["evaluations"] = [log_record["evaluation"] for log_record in journal.metrics()]
    journal.close()
    return found


def bits(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("name", [*METHODS, *WITHOUT_STATISTICS])
def test_methods_do_not_see_where_the_parameters_lie(
    name: str, federation: Federation, plain: Federation, tmp_path: Path
) -> None:
    clients = plain if name in WITHOUT_STATISTICS else federation
    near, far = (run(tmp_path / make.__name__, name, clients, make) for make in (GraphLearner, FarLearner))
    assert far == near


def learner() -> FarLearner:
    graph = architectures.build("digits_cnn", (1, 8, 8), 10)
    return FarLearner(Model(graph, graph.init(stream(1, INIT))))


def test_what_is_read_cannot_be_written_and_is_spoilt_by_a_change() -> None:
    """The learner of these tests notices methods that break the protocol."""
    under_test: Learner = learner()
    read = under_test.read()
    name, value = next(iter(read.items()))
    with pytest.raises(ValueError, match="read-only"):
        value[...] = 0
    under_test.write({name: np.zeros(value.shape)})
    assert all(np.isnan(each).all() for each in read.values())
    assert not under_test.read((name,))[name].any()
