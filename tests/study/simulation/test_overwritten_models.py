"""A simulated client whose plan has the whole model starts with another client's values, and reads none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.learning import Learner
from edgefl.methods import METHODS
from edgefl.study.simulation import client_player
from edgefl.study.simulation.client_player import Player
from tests.study.simulation.test_simulate import content, run

OVERWRITTEN = {"fedavg", "fedprox", "scaffold", "feddyn", "feddc", "fedumf", "subsampling"}  # some of those that are
GRADIENTS = {"pflego", "fedrecon"}  # send gradients, which running statistics have none of
original = Player.learner


@contextmanager
def poisoned(self: Player, params: Mapping[str, np.ndarray] | None) -> Iterator[Learner]:
    nothing = {name: np.full(self.cast.initial[name].shape, np.nan, np.float32) for name in self.spec.exchanged}
    with original(self, nothing if params is None else params) as learner:
        yield learner


@pytest.mark.parametrize("name", METHODS)
def test_no_method_reads_the_values_that_its_plan_overwrites(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = "-*.running_*" if name in GRADIENTS else ""
    experiment = Experiment(methods=(name,), clients=4, rounds=3, per_round=2, epochs=2, eval_every=2, train=train)
    federation, algorithm = assemble(experiment), experiment.algorithms()[name]
    settings, seen = experiment.settings(workers=1), []
    is_overwritten = client_player.is_overwritten

    def written(*given: Any) -> bool:
        seen.append(is_overwritten(*given))
        return False

    with monkeypatch.context() as patch:
        patch.setattr(client_player, "is_overwritten", written)
        run(tmp_path / "written", algorithm, federation, settings)
    assert any(seen) or name not in OVERWRITTEN
    monkeypatch.setattr(Player, "learner", poisoned)
    run(tmp_path / "poisoned", algorithm, federation, settings)
    assert content(tmp_path / "poisoned") == content(tmp_path / "written")
