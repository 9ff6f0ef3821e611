"""Evaluations after a refresh, and on training samples: what they are of, and that they leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment, Settings
from edgefl.learning import SGD, Evaluation, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import RepeatedBatch
from edgefl.methods import METHODS, Algorithm, build
from edgefl.methods.client_state import ClientState, minibatches
from edgefl.methods.mask_store import restricted
from edgefl.methods.personal_head import Personal
from edgefl.methods.rounds import state_file
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.graph import Model
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate

SMALL = Experiment(model="pflego_mlp", clients=6, per_round=3, rounds=2, eval_every=1, epochs=1, keep=(0.4, 1.0))
STEPS = {"lr": 0.05, "beta": 0.006, "optimizer": "sgd"}
OPTIONS: dict[str, Any] = {"per_round": 3, "epochs": 2, "keep": SMALL.keep, "tau": 3, **STEPS}
ROUNDS = Settings(rounds=2, eval_every=1)


@cache
def federation() -> Federation:
    return assemble(SMALL)


class Run:
    """A finished run: its lines of metrics, and everything that the server and the clients hold."""

    def __init__(self, path: Path, method: Algorithm, settings: Settings) -> None:
        with closing(Journal(path)) as journal:
            self.state = simulate(method, federation(), settings, journal)
            self.log_records = [dict(log_record) for log_record in journal.metrics()]
            self.kept = [journal.load_client_state(client) for client in range(SMALL.clients)]

    @property
    def last(self) -> dict[str, Any]:
        return self.log_records[-1]["evaluation"]

    def everything(self) -> dict[str, bytes]:
        found = {name: array.tobytes() for name, array in state_file.flat(self.state.arrays).items()}
        for client, kept in enumerate(self.kept):
            parts = {} if kept is None else kept.flat()
            found |= {f"{client}/{name}": np.ascontiguousarray(array).tobytes() for name, array in parts.items()}
        return found


def own(run: Run, client: int) -> ClientState:
    """The client as a device has it after the run."""
    kept, split = run.kept[client] or StoredClientState({}, {}, {}), federation().clients[client]
    params = {name: np.array(value) for name, value in (kept.params or federation().initial()).items()}
    learner = GraphLearner(Model(federation().graph, params))
    parts = split.train, split.validation, split.test
    spec = ModelSpec.of(federation().graph)
    return ClientState(client, federation().seed, spec, learner, federation().data, *parts, kept.private, kept.arrays)


def after(client_state: ClientState, epochs: int, options: FitOptions = FitOptions()) -> Evaluation:
    batches = minibatches(client_state, 0, epochs, 16)
    client_state.learner.fit(client_state.data, batches, SGD(OPTIONS["lr"]), options)
    return client_state.learner.evaluate(client_state.data, client_state.test)


def says(scores: dict[str, Any], client: int) -> tuple[int, float]:
    return scores["correct"][client], scores["loss_sum"][client]


@pytest.mark.parametrize("name", METHODS)
def test_a_refresh_changes_nothing_of_the_run(name: str, tmp_path: Path) -> None:
    method = build(name, OPTIONS)
    plain = Run(tmp_path / "plain", method, ROUNDS)
    asked = Run(tmp_path / "asked", method, replace(ROUNDS, refresh=2, train_scores=True, workers=2))
    assert asked.everything() == plain.everything()
    for log_record, before in zip(asked.log_records, plain.log_records, strict=True):
        refreshed, training = (log_record["evaluation"].pop(kind) for kind in ("refreshed", "training"))
        assert log_record["evaluation"] == before["evaluation"]
        assert (refreshed["epochs"], len(refreshed["correct"])) == (2, SMALL.clients)
        assert training["examples"] == [len(split.train) for split in federation().clients]
        assert (refreshed["down"] == 0) == (name == "local")
    assert refreshed["loss_sum"] != next(iter(log_record["evaluation"].values()))["loss_sum"]


def test_after_a_refresh_fedavg_is_fedavg_ft(tmp_path: Path) -> None:
    common = Run(tmp_path / "fedavg", build("fedavg", OPTIONS), replace(ROUNDS, refresh=2)).last
    adapted = Run(tmp_path / "ft", build("fedavg-ft", {**OPTIONS, "ft_epochs": 2}), replace(ROUNDS, refresh=2)).last
    assert common["refreshed"] == adapted["refreshed"]
    assert {name: adapted["refreshed"][name] for name in adapted["adapted"]} == adapted["adapted"]
    values = sum(array.nbytes for array in federation().initial().values())
    assert values < adapted["refreshed"]["down"] / SMALL.clients < 1.01 * values


def test_local_training_goes_on_from_the_client_s_own_model(tmp_path: Path) -> None:
    run = Run(tmp_path, build("local", OPTIONS), replace(ROUNDS, refresh=3))
    for client in range(SMALL.clients):
        expected = after(own(run, client), 3)
        assert says(run.last["refreshed"], client) == (expected.correct, expected.loss_sum)


@pytest.mark.parametrize("name", ["fedspu", "fedspu-es"])
def test_fedspu_takes_the_values_of_its_next_neurons_and_trains_those(name: str, tmp_path: Path) -> None:
    """Clients that have stopped early too."""
    method = build(name, OPTIONS)
    run = Run(tmp_path, method, replace(ROUNDS, refresh=1))
    task = Task(ModelSpec.of(federation().graph), SMALL.clients, federation().seed)
    everybody = State(run.state.arrays, {**run.state.values, "running": list(range(SMALL.clients))})
    plans = replace(method, per_round=SMALL.clients).plan(task, everybody, 3)  # type: ignore[type-var]
    assert len(plans) == SMALL.clients
    for plan in plans:
        client_state = own(run, plan.client)
        neurons = None if plan.selection.is_full else plan.selection
        client_state.learner.write(take(run.state.arrays[MODEL], task.spec, neurons))
        expected = after(client_state, 1, FitOptions(neurons))
        assert says(run.last["refreshed"], plan.client) == (expected.correct, expected.loss_sum)


def ditto(run: Run, client_state: ClientState) -> Evaluation:
    return after(client_state, 2, FitOptions(pull=(0.5, run.state.arrays[MODEL])))


def fedper(run: Run, client_state: ClientState) -> Evaluation:
    mine = Personal.of(client_state, run.state.arrays[BODY], "torch")
    mine.learner.fit(mine.samples, minibatches(client_state, 0, 2, 16), SGD(OPTIONS["lr"]))
    return mine.evaluate()


def pflego(run: Run, client_state: ClientState) -> Evaluation:
    mine = Personal.of(client_state, run.state.arrays[BODY], "torch")
    features, labels = mine.learner.features(mine.samples, client_state.train, 128), mine.samples.y[client_state.train]
    everything = RepeatedBatch(np.arange(len(labels), dtype=np.int32), 2)
    mine.learner.head().fit(Samples(features, labels, loss=mine.samples.loss), everything, SGD(OPTIONS["beta"]))
    return mine.evaluate()


def fedspa(run: Run, client_state: ClientState) -> Evaluation:
    (mask, *_) = build("fedspa", OPTIONS).held(client_state)
    with restricted(client_state.learner, mask, 128):
        client_state.learner.write(take(run.state.arrays[MODEL], client_state.spec, mask))
        client_state.learner.fit(
            client_state.data, minibatches(client_state, 0, 2, 128), SGD(OPTIONS["lr"], weight_decay=5e-4)
        )
        return client_state.learner.evaluate(client_state.data, client_state.test)


@pytest.mark.parametrize("by_hand", [ditto, fedper, pflego, fedspa], ids=lambda by_hand: by_hand.__name__)
def test_other_methods_train_what_is_theirs(by_hand: Callable[[Run, ClientState], Evaluation], tmp_path: Path) -> None:
    run = Run(tmp_path, build(by_hand.__name__, OPTIONS), replace(ROUNDS, refresh=2))
    for client in range(SMALL.clients):
        expected = by_hand(run, own(run, client))
        assert says(run.last["refreshed"], client) == (expected.correct, expected.loss_sum)


def test_training_scores_are_of_the_model_that_counts(tmp_path: Path) -> None:
    for name, kind in (("local", "personal"), ("fedavg", "global_local")):
        run = Run(tmp_path / name, build(name, OPTIONS), replace(ROUNDS, train_scores=True))
        for client in range(SMALL.clients):
            client_state = own(run, client)
            if kind == "global_local":
                client_state.learner.write(run.state.arrays[MODEL])
            tested, trained = (
                client_state.learner.evaluate(client_state.data, rows)
                for rows in (client_state.test, client_state.train)
            )
            assert says(run.last[kind], client) == (tested.correct, tested.loss_sum)
            assert says(run.last["training"], client) == (trained.correct, trained.loss_sum)


class Silent(type(build("fedavg", {}))):  # type: ignore[misc]
    refreshed = Algorithm.refreshed


def test_a_method_that_says_nothing_of_a_refresh_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "silent", Silent)
    asked = Experiment(methods=("silent",))
    assert asked.algorithms()
    with pytest.raises(ValueError, match="refresh=1 with silent; expected a method that defines a refresh"):
        replace(asked, refresh=1).algorithms()


def test_what_is_asked_of_simulations_only_is_not_served_and_stands_in_run_files_where_it_is_asked() -> None:
    plain = Experiment(methods=("fedavg",), eval_every=10)
    assert not {"refresh", "train_scores"} & plain.to_json().keys()
    for name, asked in (("refresh=2", replace(plain, refresh=2)), ("train_scores", replace(plain, train_scores=True))):
        assert Experiment.from_json(asked.to_json()) == asked
        with pytest.raises(ValueError, match=f"{name} with a server; expected it in a simulation only"):
            asked.check_served()
    with pytest.raises(ValueError, match="refresh=-1; expected refresh >= 0"):
        replace(plain, refresh=-1)
