"""FedRolex as docs/own-method.md prints it, and which classes from outside edgefl are held to a number of steps."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgefl.methods import FedAvg, SubModels
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import MODEL
from tests.methods.float64_net import rounds_of, three_layers
from tests.methods.small_models import copied, plain, same_bits
from tests.methods.test_frozen import Run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-method.md"
OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": 0.1}


@pytest.fixture
def rolex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that the page prints."""
    found = re.search(r"cat > my_rolex.py <<'END'\n(.*?)^END$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None and len(found[1].splitlines()) <= 20
    (tmp_path / "my_rolex.py").write_text(found[1])
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("my_rolex").MyRolex
    sys.modules.pop("my_rolex", None)


def test_the_neurons_roll_on_by_one_in_every_round(rolex: Any) -> None:
    """Half of 8 neurons: 1 to 4 in round 1, and 7, 0, 1 and 2 in round 7. Values and steps are the sub-model's."""
    run = Run(rolex(**OPTIONS, keep=(0.5,)), three_layers())
    for round, expected in ((1, [1, 2, 3, 4]), (7, [0, 1, 2, 7])):
        for plan, reply in run.play(round):
            assert plan.selection.active["one"].tolist() == expected
            assert [side.payload[MODEL].count for side in (plan, reply)] == [159, 159]
            assert reply.steps == run.method.steps(12) == 6


def test_with_every_neuron_it_is_fedavg_bit_for_bit(rolex: Any) -> None:
    runs = [Run(rolex(**OPTIONS, keep=(1.0,)), plain()), Run(FedAvg(**OPTIONS), plain())]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
    assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))


@dataclass(frozen=True)
class Twice(FedAvg):
    """A train of its own, whose steps nobody has counted."""

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        super().train(client_state, plan)
        return super().train(client_state, plan)


@dataclass(frozen=True)
class Counted(Twice):
    def effort(self, examples: int) -> tuple[int, int]:
        return 7, examples


def test_a_class_with_a_train_of_its_own_is_held_to_the_steps_that_it_says() -> None:
    assert [method.steps(12) for method in (FedAvg(**OPTIONS), Twice(**OPTIONS), Counted(**OPTIONS))] == [6, None, 7]
    assert issubclass(SubModels, FedAvg) and SubModels.__module__.startswith("edgefl.")
