"""A device that lies: its served run ends as the simulation of it does, and as a replay says, bit for bit."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from edgefl.experiment.settings import Settings
from edgefl.methods import FedSPU
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.client_state import ClientState
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.participation import RecordedParticipation
from edgefl.methods.rounds.round_closing import AggregationSettings
from edgefl.methods.task import MODEL
from edgefl.models.neurons.update import Update
from edgefl.server import run_history
from edgefl.server.events import Enrolment
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.server.served import FEDERATION, METHOD, RULES, World, open_store
from tests.server.test_served import bits, without_times

LIAR = 2


@dataclass(frozen=True)
class Lying(FedSPU):
    """Client LIAR answers 3e38, or claims many samples."""

    name: ClassVar[str] = "lying"

    value: float = 3e38
    claims: int = 0

    def train(self, client_state: ClientState, plan: Plan) -> Reply:
        reply = super().train(client_state, plan)
        if plan.client != LIAR:
            return reply
        if self.claims:
            return replace(reply, examples=self.claims)
        blocks = reply.payload[MODEL].blocks
        filled = {name: replace(b, values=np.full_like(b.values, self.value)) for name, b in blocks.items()}
        return replace(reply, payload={MODEL: Update(filled)})


LIE = Lying(keep=METHOD.keep, per_round=METHOD.per_round, epochs=1, batch=4, lr=0.1)


@pytest.mark.parametrize(
    "aggregation_settings",
    [
        AggregationSettings(),
        AggregationSettings(bound=UpdateNormBound("clip")),
        AggregationSettings(AggregationRule("clipped"), UpdateNormBound("off")),
        AggregationSettings(AggregationRule("trimmed", 1), UpdateNormBound("off")),
        AggregationSettings(AggregationRule("median"), UpdateNormBound("off")),
    ],
    ids=lambda aggregation_settings: f"{aggregation_settings.aggregation.kind}-{aggregation_settings.bound.kind}",
)
def test_a_lie_is_dealt_with_alike_and_replayed(aggregation_settings: AggregationSettings, tmp_path: Path) -> None:
    world = World(tmp_path / "served", LIE, replace(RULES, aggregation_settings=aggregation_settings))
    world.finish()
    world.store.close()
    progress = run_history.progress(tmp_path / "served")
    journal = Journal(tmp_path / "simulated")
    settings = replace(Settings(RULES.rounds, RULES.eval_every), aggregation_settings=aggregation_settings)
    outcomes = {key: ruling and ruling.outcome for key, ruling in progress.rulings.items()}
    participation = RecordedParticipation(progress.capacities, outcomes)
    state = simulate(LIE, FEDERATION, settings, journal, participation=participation)
    assert bits(run_history.final_state(tmp_path / "served")) == bits(state)
    log_records = without_times(run_history.metrics(tmp_path / "served"))
    assert log_records == json.loads(json.dumps(without_times(list(journal.metrics()))))
    mine = [each for log_record in log_records for each in log_record["clients"] if each["client"] == LIAR]
    if aggregation_settings.bound.kind != "off":
        told = [
            each["status"] == "excluded" if aggregation_settings.bound.kind == "refuse" else "clipped" in each
            for each in mine
        ]
        assert mine
        assert all(told)
    assert all(np.abs(value).max() < 100 for value in state.arrays[MODEL].values())
    found, kept = world.phones[LIAR].model, journal.load_client_state(LIAR)
    assert kept is not None
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in kept.params.items()
    }


def test_without_a_guard_the_lie_decides(tmp_path: Path) -> None:
    """This shows that the test above can fail."""
    world = World(tmp_path, LIE, replace(RULES, aggregation_settings=AggregationSettings(bound=UpdateNormBound("off"))))
    world.finish()
    assert max(np.abs(value).max() for value in world.coordinator.state.arrays[MODEL].values()) > 1e30


def test_a_claim_other_than_the_declared_is_refused_by_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    method = replace(LIE, claims=2**53 - 1)
    simulate(method, FEDERATION, Settings(RULES.rounds, RULES.eval_every), journal)
    mine = [each for log_record in journal.metrics() for each in log_record["clients"] if each["client"] == LIAR]
    words = "reply of client 2 claims 9007199254740991 examples; expected 7, as declared at enrolment"
    assert {(each["status"], each["reason"]) for each in mine} == {("refused", words)}


def test_a_declaration_is_stored(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.save([Enrolment(3, 1.0, examples=2**53 - 1), Enrolment(4, 1.0)])
    assert store.load().declared == {3: 2**53 - 1}
    store.close()
