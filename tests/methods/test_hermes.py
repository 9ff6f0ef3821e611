"""Hermes: neurons that only leave, values of one client alone, identities, and rounds against numpy's float64
(ALGORITHMS 7.21).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl.errors import TrainingError
from edgefl.learning.losses import MSE
from edgefl.methods import FedAvg, Hermes
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.hermes import NEURONS, left_in, unpacked
from edgefl.methods.plan import Reply
from edgefl.methods.task import MODEL, Task
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.methods.float64_net import RATE, Net, batches_of, difference, doubled, outputs, rounds_of, three_layers
from tests.methods.small_models import copied, device, plain, same_bits
from tests.methods.test_fedmp import SIZES, submodel
from tests.methods.test_frozen import Run

OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": RATE}
METHOD = Hermes(**OPTIONS, keep=(0.25, 0.5, 0.25), prune_rate=0.3, accuracy=0.2, accept_on="test")
SPEC = ModelSpec.of(three_layers())


def marks_of(kept: dict[str, np.ndarray]) -> Net:
    """Return 1 where both neurons of a coordinate are kept, and 0 elsewhere."""
    one, two = (kept[layer].astype(float) for layer in ("one", "two"))
    return {
        "one.weight": np.outer(one, np.ones(32)), "one.bias": one, "two.weight": np.outer(two, one), "two.bias": two,
        "fc.weight": np.outer(np.ones(3), two), "fc.bias": np.ones(3),
    }  # fmt: skip


def pruned(x: Net, kept: dict[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """Return the neurons that are left: 30 % of those that are there leave, rounded up, of smallest L1 norm."""
    found = {}
    for layer, size in SIZES.items():
        there = np.flatnonzero(kept[layer])
        count = max(min(len(there), max(1, int(size * share))), len(there) - int(np.ceil(0.3 * len(there) - 1e-9)))
        norms = np.abs(x[f"{layer}.weight"]).sum(axis=1)[there]
        found[layer] = np.isin(np.arange(size), there[np.argsort(-norms)[:count]])
    return found


def test_five_rounds_are_those_of_the_paper_in_float64() -> None:
    """No neuron differs. Clients 0 and 2 prune down to a quarter, client 1 to a half."""
    graph, prunings, refused = three_layers(), 0, 0
    run = Run(METHOD, graph)
    w = doubled(run.initial)
    sets = {client: {layer: np.ones(size, bool) for layer, size in SIZES.items()} for client in range(3)}
    for round, chosen in rounds_of(run, 5):
        total, count = ({name: np.zeros(value.shape) for name, value in w.items()} for _ in range(2))
        for client in chosen:
            x = submodel(w, marks_of(sets[client]), batches_of(graph, client, round, 2, 5))
            data = device(graph, client)
            tests, labels = data.data.x[data.test].reshape(len(data.test), -1), data.data.y[data.test]
            right = (outputs(x, tests.astype(np.float64))[-1].argmax(axis=1) == labels).mean()
            before = sum(each.sum() for each in sets[client].values())
            if right >= METHOD.accuracy:
                sets[client] = pruned(x, sets[client], METHOD.keep[client])
            refused += right < METHOD.accuracy
            prunings += before > sum(each.sum() for each in sets[client].values())
            marks = marks_of(sets[client])
            total = {name: total[name] + x[name] * marks[name] for name in w}
            count = {name: count[name] + marks[name] for name in w}
            held = unpacked(SPEC, run.clients[client].arrays[NEURONS])
            known = unpacked(SPEC, run.state.arrays.get(f"{NEURONS}.{client}"))
            for layer in SIZES:
                assert held.active[layer].tolist() == known.active[layer].tolist()
                assert held.active[layer].tolist() == np.flatnonzero(sets[client][layer]).tolist()
        w = {name: np.where(count[name] > 0, total[name] / np.maximum(count[name], 1), w[name]) for name in w}
        assert difference(run.state.arrays[MODEL], w) < 1e-6
    assert (prunings, refused) == (3, 5)  # of 10 times


def neurons(one: Any, two: Any = range(6)) -> NeuronSet:
    return NeuronSet.of(SPEC, {"one": one, "two": two})


def test_a_coordinate_of_one_client_alone_keeps_its_value_and_a_shared_one_is_the_mean() -> None:
    """Client 0 has neurons 0 and 1 and sends 4. Client 1 has 1 and 2 and sends 8. So they become 4, 6 and 8."""
    method, accumulator = replace(METHOD, keep=(0.25,)), Accumulator(SPEC)
    run = Run(method, three_layers())
    for client, ids, value in ((0, [0, 1], 4.0), (1, [1, 2], 8.0)):
        model = {name: np.full_like(each, value) for name, each in run.initial.items()}
        plan = method.client_plan(run.task, run.state, 1, client)
        method.aggregate(accumulator, plan, Reply(1, client, {MODEL: take(model, SPEC, neurons(ids))}, examples=1))
    state = method.finish(run.task, run.state, accumulator, 1)
    assert state.arrays[MODEL]["one.bias"].tolist() == [4, 6, 8, *run.initial["one.bias"][3:].tolist()]
    again = method.client_plan(run.task, state, 2, 1)
    assert again.selection == neurons([1, 2])
    assert again.payload[MODEL].blocks["one.bias"].values.tolist() == [6, 8]


def test_a_client_gains_no_neuron() -> None:
    """A reply at neurons that were not planned counts with those among them that were, or with all that were."""
    values = take({n: np.zeros(p.shape, np.float32) for n, p in SPEC.params.items()}, SPEC, neurons([0, 1, 5], [2]))
    assert left_in(values, neurons([1, 2, 5], [3, 4]), SPEC) == neurons([1, 5], [3, 4])


def test_with_every_neuron_it_is_uniform_fedavg_bit_for_bit() -> None:
    runs = [Run(replace(METHOD, keep=(1.0,)), plain()), Run(FedAvg(**OPTIONS, weight="uniform"), plain())]
    for run in runs:
        assert [len(chosen) for _, chosen in rounds_of(run, 2)] == [2, 2]
    assert same_bits(*(copied(run.state.arrays[MODEL]) for run in runs))
    assert runs[0].state.arrays.keys() == {MODEL}


def test_a_client_never_gets_more_neurons_than_it_declares() -> None:
    """The strongest half of the server's: 4 of 8 and 3 of 6."""
    run = Run(METHOD, three_layers())
    task = replace(run.task, limits={1: 0.5})
    plan = METHOD.client_plan(task, run.state, 1, 1)
    norms = np.abs(run.initial["one.weight"]).sum(axis=1)
    assert plan.selection.active["one"].tolist() == sorted(np.argsort(-norms)[:4].tolist())
    assert [len(ids) for ids in plan.selection.active.values()] == [4, 3]


def test_a_model_that_is_not_accurate_enough_keeps_its_neurons() -> None:
    run = Run(replace(METHOD, accuracy=1.0), three_layers())
    for client_state in run.clients:
        evaluate = client_state.learner.evaluate
        client_state.learner.evaluate = lambda *args, e=evaluate: replace(e(*args), correct=0)  # type: ignore[method-assign]
    assert [reply.payload[MODEL].count for _, reply in run.play(1)] == [339, 339]


def test_a_client_sends_what_is_left_and_is_tested_with_it() -> None:
    """3 of 8 and 2 of 6 neurons leave: 5 * 32 + 5 + 4 * 5 + 4 + 3 * 4 + 3 values go up of 339 that came."""
    run = Run(replace(METHOD, keep=(0.25,), accuracy=0.0), three_layers())
    for plan, reply in run.play(1):
        assert [side.payload[MODEL].count for side in (plan, reply)] == [339, 204]
        with METHOD.own(run.clients[plan.client], run.state.arrays[MODEL]) as own:
            assert sum(value.size for value in own.learner.read().values()) == 204
    assert METHOD.scored([MODEL]) == "personal"


def test_a_client_without_samples_to_judge_by_is_named() -> None:
    client_state = device(three_layers())
    client_state.validation = client_state.validation[:0]
    with pytest.raises(TrainingError, match="client 0 has 0 validation samples; pruning needs at least 1"):
        Hermes()._judges(client_state)
    assert Hermes().needs_validation and not replace(Hermes(), keep=(1.0,)).needs_validation


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loss=mse; expected a loss with right and wrong answers: a model is pruned"):
        METHOD.start(Task(SPEC, 3, 1, loss=MSE(), outputs=3), {})
    for name, value in (("prune_rate", 1.0), ("accuracy", 2.0)):
        with pytest.raises(ValueError, match=f"{name}={value}; expected 0 <= {name}"):
            replace(METHOD, **{name: value})
