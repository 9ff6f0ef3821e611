"""A federation whose clients train on the CUDA backend, some on layers that run at a mask alone: the same each time to
the bit, and as on the processor.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.kernels import sparse_choice
from edgefl.learning import GraphLearner
from edgefl.methods import build
from edgefl.methods.rounds import state_file
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

from . import standin

EXPERIMENT = Experiment(clients=2, per_round=2, model="feddyn_mlp", rounds=2, max_examples=24)
METHODS: dict[str, dict[str, object]] = {"fedspu-cached": {"keep": (0.5, 1.0)}, "fedspa": {"density": 0.2}}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(EXPERIMENT)


def trained(path: Path, name: str, federation: Federation, backend: str) -> dict[str, np.ndarray]:
    """The server's state at the end, and what each client keeps."""
    method = build(name, {"per_round": 2, "epochs": 1, **METHODS[name]})
    journal = Journal(path)
    settings = Settings(rounds=2, eval_every=2)
    state = simulate(method, federation, settings, journal, make=partial(GraphLearner, backend=backend))
    found = dict(state_file.flat(state.arrays))
    for client in range(2):
        kept = journal.load_client_state(client)
        found |= {} if kept is None else {f"{client} {key}": value for key, value in kept.flat().items()}
    journal.close()
    return found


@pytest.mark.parametrize("name", METHODS)
def test_rounds_are_the_same_each_time_and_as_on_the_processor(
    name: str, federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.backend()
    monkeypatch.setitem(sparse_choice.FEWEST_OF, "cuda", 64)
    monkeypatch.setitem(sparse_choice.LINEAR, "cuda", (0.2, 0.2))
    first, again = (trained(tmp_path / part, name, federation, "cuda") for part in ("first", "again"))
    near = trained(tmp_path / "near", name, federation, "native")
    assert first.keys() == again.keys() == near.keys()
    for key, value in first.items():
        assert value.tobytes() == again[key].tobytes(), key
        np.testing.assert_allclose(value, near[key], rtol=1e-4, atol=1e-6, err_msg=key)
