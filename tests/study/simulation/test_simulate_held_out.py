"""Clients that never take part: the rounds do not know them, and every evaluation tests them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.learning import GraphLearner
from edgefl.methods import build
from edgefl.methods.rounds import state_file
from edgefl.methods.task import MODEL
from edgefl.models.graph import Model
from edgefl.study.comparison import compare
from edgefl.study.flat_rows import method_rows
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from edgefl.study.summary import Summary
from edgefl.study.tables import method_table
from edgefl.study.tuning import on_validation

SMALL = Experiment(model="pflego_mlp", clients=4, held_out=2, per_round=2, rounds=2, eval_every=1, epochs=1)
OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 1, "keep": (0.5, 1.0), "lr": 0.05}
ROUNDS = Settings(rounds=2, eval_every=1)


@cache
def federation() -> Federation:
    return assemble(SMALL)


def played(path: Path, label: str, who: Federation, settings: Settings = ROUNDS) -> tuple[dict[str, bytes], Any]:
    """The bits of the server's state, and the evaluations."""
    with closing(Journal(path)) as journal:
        state = simulate(build(label, OPTIONS), who, settings, journal)
        found = [log_record["evaluation"] for log_record in journal.metrics()]
    return {name: array.tobytes() for name, array in state_file.flat(state.arrays).items()}, found


@pytest.mark.parametrize("label", ["fedavg", "fedrep", "fedspu"])
def test_rounds_do_not_know_the_clients_that_are_held_out(label: str, tmp_path: Path) -> None:
    """Also with two workers, and after an interruption between the rounds."""
    state, evaluations = played(tmp_path / "with", label, federation())
    plain, others = played(tmp_path / "without", label, replace(federation(), held_out=()))
    assert state == plain
    assert [{kind: each[kind] for kind in each if kind != "held_out"} for each in evaluations] == others
    assert [len(each["held_out"]["correct"]) for each in evaluations] == [2, 2]
    played(tmp_path / "again", label, federation(), replace(ROUNDS, stop_after=1, checkpoint_every=1, workers=2))
    assert played(tmp_path / "again", label, federation(), replace(ROUNDS, workers=2)) == (state, evaluations)


def test_without_adaptation_their_scores_are_those_of_the_global_model(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as journal:
        state = simulate(build("fedavg", OPTIONS), federation(), ROUNDS, journal)
        said = list(journal.metrics())[-1]["evaluation"]["held_out"]
    learner = GraphLearner(Model(federation().graph, state.arrays[MODEL]))
    for client, split in enumerate(federation().held_out):
        found = learner.evaluate(federation().data, split.test)
        assert (said["correct"][client], said["examples"][client]) == (found.correct, found.examples)


def test_they_own_a_part_of_the_data_as_other_clients_do() -> None:
    """Six clients own the samples, and the first four of them take part."""
    everybody = assemble(replace(SMALL, clients=6, held_out=0))
    owners = (*federation().clients, *federation().held_out)
    assert [each.train.tolist() for each in owners] == [each.train.tolist() for each in everybody.clients]
    assert federation().task(2).clients == 4
    assert not on_validation(federation()).held_out  # a tuning never sees their test samples


def test_what_cannot_be_is_refused_before_the_run() -> None:
    plain = replace(SMALL, held_out=0)
    assert "held_out" not in plain.to_json() and SMALL.to_json()["held_out"] == 2
    assert Experiment.from_json(SMALL.to_json()).held_out == 2
    with pytest.raises(ValueError, match="held_out=-1; expected held_out >= 0"):
        replace(plain, held_out=-1)
    with pytest.raises(ValueError, match="held_out=2 with local, which has no model for a client that never"):
        replace(SMALL, methods=("fedavg", "local")).algorithms()
    with pytest.raises(ValueError, match="held_out=2 with a server; expected it in a simulation only"):
        replace(SMALL, methods=("fedavg",)).check_served()
    with pytest.raises(ValueError, match="clients=4 and held_out=2000 more: clients=2004; expected 1 <= clients"):
        assemble(replace(SMALL, held_out=2000))


def test_mean_and_worst_tenth_of_the_held_out_clients_by_hand() -> None:
    """Three clients have 4, 2 and 3 right of 4. The mean is .75, and the worst tenth is the client with 2 of 4."""
    scores = {"accuracy": 0.75, "loss": 1.0, "correct": [4, 2, 3], "examples": [4, 4, 4], "loss_sum": [1.0, 2.0, 3.0]}
    evaluation = {"global_local": {**scores, "accuracy": 0.25, "correct": [1, 1, 1]}, "held_out": scores}
    sent, curve = {"values": 1}, [{"round": 1, "accuracy": 0.25}]
    summary = Summary("fedavg", 1, 1, 0, 0, 0, 0.0, sent, sent, 2, evaluation, [], curve, {})
    assert (summary.held_out, summary.held_out_worst_tenth, summary.worst_tenth) == (0.75, 0.5, 0.25)
    assert {"held_out", "held_out_worst_tenth"} <= summary.to_json().keys()
    by_seed = {1: [summary]}
    found = compare(by_seed)
    (row,) = method_rows(found)
    assert (row["held_out"], row["held_out_worst_tenth"]) == (0.75, 0.5)
    table = method_table(found, by_seed)
    cells = dict(zip(table.headings, table.rows[0], strict=True))
    assert (cells["held out"], cells["its worst"]) == ("75.0 %", "50.0 %")
    without = replace(summary, evaluation={"global_local": scores})
    assert "held_out" not in without.to_json() and "held_out" not in compare({1: [without]}).rows["fedavg"].to_json()
