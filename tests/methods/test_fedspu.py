"""FedSPU's two halves on small real models: what is drawn, sent, trained, kept and averaged (ALGORITHMS 1.5)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.learning import SGD, FitOptions
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import minibatches
from edgefl.methods.fedavg import FedAvg
from edgefl.methods.fedspu import FedSPU
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph
from edgefl.models.graph.architectures import build
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet, n_act
from edgefl.protocol import codec
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits

HALF = FedSPU(keep=(0.5,), per_round=3, epochs=2, batch=5, lr=0.1)
graphs = pytest.mark.parametrize("graph", [make() for make in GRAPHS.values()], ids=list(GRAPHS))


def begin(graph: Graph, algorithm: FedSPU, clients: int = 3) -> tuple[Task, State]:
    task = Task(ModelSpec.of(graph), clients, seed=1)
    return task, algorithm.start(task, graph.init(rng.stream(1, rng.INIT)))


def close(algorithm: FedSPU | FedAvg, task: Task, state: State, plans: list[Plan], replies: list[Reply]) -> State:
    accumulator = Accumulator(task.spec)
    for plan, reply in zip(plans, replies, strict=True):
        assert refuse(plan, reply) is None
        algorithm.aggregate(accumulator, plan, reply)
    return algorithm.finish(task, state, accumulator, plans[0].round)


def inside(spec: ModelSpec, neurons: NeuronSet) -> dict[str, np.ndarray]:
    """A boolean array per parameter: True where the coordinate is active."""
    marks = {name: np.zeros(param.shape, np.float32) for name, param in spec.params.items()}
    ones = {name: np.ones(param.shape, np.float32) for name, param in spec.params.items()}
    put(marks, take(ones, spec, neurons))
    return {name: mark == 1 for name, mark in marks.items()}


@graphs
def test_frozen_coordinates_keep_their_bits(graph: Graph) -> None:
    """t_fedspu_frozen_bits, invariant 1.5.1. Running statistics keep their bits, too, because bn_frozen is 'freeze'."""
    algorithm = replace(HALF, bn_frozen="freeze")
    task, state = begin(graph, algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    client_state = device(graph, plan.client, seed=7)  # a personal model that differs from the server's
    before = copied(client_state.learner.read())
    algorithm.train(client_state, plan)
    active = inside(task.spec, plan.selection)
    for name, value in client_state.learner.read().items():
        assert value[~active[name]].tobytes() == before[name][~active[name]].tobytes(), name
        assert not np.array_equal(value[active[name]], before[name][active[name]]), name


STEPS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "nesterov and decay": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "adam": {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.1},
    "adamw": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1, "clip": 0.5},
}


@pytest.mark.parametrize("options", STEPS.values(), ids=list(STEPS))
@graphs
def test_whatever_steps_frozen_coordinates_keep_their_bits_in_every_round(
    graph: Graph, options: dict[str, Any]
) -> None:
    """Velocities and moments are gone after a round.

    So they move nothing at a neuron that is frozen in the next round.
    """
    algorithm = replace(HALF, bn_frozen="freeze", per_round=1, **options)
    task, state = begin(graph, algorithm, clients=1)
    client_state = device(graph, 0, seed=7)
    ever = []
    for round in (1, 2, 3, 4):
        (plan,) = algorithm.plan(task, state, round)
        before = copied(client_state.learner.read())
        assert plan.selection is not None
        active = inside(task.spec, plan.selection)
        reply = algorithm.train(client_state, plan)
        for name, value in client_state.learner.read().items():
            assert value[~active[name]].tobytes() == before[name][~active[name]].tobytes(), (round, name)
        now = client_state.learner.read()
        assert any(not np.array_equal(now[name][active[name]], before[name][active[name]]) for name in now)
        state = close(algorithm, task, state, [plan], [reply])
        ever.append(active)
    assert any((one[name] & ~next_[name]).any() for one, next_ in pairwise(ever) for name in one)


@graphs
def test_tracked_statistics_of_frozen_channels_move_and_stay_private(graph: Graph) -> None:
    task, state = begin(graph, HALF)
    plan = HALF.plan(task, state, 1)[0]
    client_state = device(graph, plan.client)
    before = copied(client_state.learner.read())
    reply = HALF.train(client_state, plan)
    active = inside(task.spec, plan.selection)
    for name, param in task.spec.params.items():
        frozen = ~active[name]
        moved = not np.array_equal(client_state.learner.read()[name][frozen], before[name][frozen])
        assert moved == (param.kind == "stat"), name
    assert reply.payload[MODEL].count == plan.selection.count(task.spec, ("learn", "stat"))


@graphs
def test_one_step_is_the_true_gradient_on_active_coordinates(graph: Graph) -> None:
    """Invariant 1.5.2: w - lr * g with g of the full model, restricted to A_k."""
    algorithm = replace(HALF, epochs=1, batch=100)
    task, state = begin(graph, algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    client_state = device(graph, plan.client)
    client_state.learner.write(plan.payload[MODEL])
    before = copied(client_state.learner.read())
    order = rng.stream(1, rng.DATA, client=plan.client, round=1).permutation(len(client_state.train))
    gradient = client_state.learner.gradient(client_state.data, client_state.train[order])
    algorithm.train(client_state, plan)
    active = inside(task.spec, plan.selection)
    for name, param in task.spec.params.items():
        if param.kind == "learn":
            wanted = before[name] - np.float32(0.1) * gradient[name]
            found = client_state.learner.read()[name]
            np.testing.assert_allclose(found[active[name]], wanted[active[name]], rtol=1e-5, atol=1e-6)


@graphs
def test_exact_gradient_is_a_projection_and_cut_is_not(graph: Graph) -> None:
    """Invariant 1.5.8 (Lemma 2): <grad F, grad Fbar> = |grad Fbar|^2 in exact mode only."""
    client_state = device(graph)
    spec = client_state.spec
    neurons = NeuronSet.draw(spec, 0.5, rng.stream(3, rng.NEURONS))
    full = client_state.learner.gradient(client_state.data, client_state.train)
    learnt = [name for name, param in spec.params.items() if param.kind == "learn"]

    def gap(delta: str) -> float:
        part = client_state.learner.gradient(client_state.data, client_state.train, neurons, delta=delta)
        active = inside(spec, neurons)
        inner = sum(float(full[name][active[name]].astype(float) @ part[name].ravel()) for name in learnt)
        norm = sum(float(part[name].ravel().astype(float) @ part[name].ravel()) for name in learnt)
        return abs(inner - norm) / norm

    assert gap("exact") < 1e-5
    assert gap("cut") > 1e-3


@pytest.mark.parametrize("bn_frozen", ["track", "freeze"])
@pytest.mark.parametrize("delta", ["exact", "cut"])
def test_a_client_trains_as_its_settings_say(delta: str, bn_frozen: str) -> None:
    algorithm = replace(HALF, delta=delta, bn_frozen=bn_frozen)
    task, state = begin(plain(), algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    trained, expected = device(plain(), plan.client), device(plain(), plan.client)
    algorithm.train(trained, plan)
    expected.learner.write(plan.payload[MODEL])
    batches = minibatches(expected, 1, algorithm.epochs, algorithm.batch)
    options = FitOptions(plan.selection, delta=delta, bn_frozen=bn_frozen)  # type: ignore[arg-type]
    expected.learner.fit(expected.data, batches, SGD(algorithm.lr), options)
    assert same_bits(copied(trained.learner.read()), copied(expected.learner.read()))


@graphs
def test_full_clients_give_fedavg_bit_for_bit(graph: Graph) -> None:
    """t_fedspu_p1_equals_fedavg, invariant 1.5.3, over two rounds. All clients start at the server's model."""
    spu, avg = replace(HALF, keep=(1.0,)), FedAvg(per_round=3, epochs=2, batch=5, lr=0.1)
    task, mine = begin(graph, spu, clients=4)
    theirs = avg.start(task, graph.init(rng.stream(1, rng.INIT)))
    for round in (1, 2):
        plans, other = spu.plan(task, mine, round), avg.plan(task, theirs, round)
        assert [plan.client for plan in plans] == [plan.client for plan in other]
        mine = close(spu, task, mine, plans, [spu.train(device(graph, p.client, seed=1), p) for p in plans])
        theirs = close(avg, task, theirs, other, [avg.train(device(graph, p.client, seed=1), p) for p in other])
        assert same_bits(mine.arrays[MODEL], theirs.arrays[MODEL])


def test_a_full_client_starts_from_the_servers_model() -> None:
    """Invariant 1.5.3, second half: nothing of an old personal model is left after the merge at p = 1."""
    graph, algorithm = plain(), replace(HALF, keep=(1.0,))
    task, state = begin(graph, algorithm)
    client_state = device(graph, seed=9)
    client_state.learner.write(algorithm.plan(task, state, 1)[0].payload[MODEL])
    assert same_bits(copied(client_state.learner.read()), state.arrays[MODEL])


@graphs
def test_identity_upload_leaves_the_server_unchanged(graph: Graph) -> None:
    """t_fedspu_identity_upload, invariant 1.5.6: every tensor, biases and statistics included."""
    algorithm = replace(HALF, keep=(0.25, 0.5, 1.0))
    task, state = begin(graph, algorithm)
    plans = algorithm.plan(task, state, 1)
    replies = [
        Reply(1, plan.client, plan.payload, plan.selection.hash(), examples=7 + plan.client, steps=1) for plan in plans
    ]
    after = close(algorithm, task, state, plans, replies)
    assert same_bits(after.arrays[MODEL], state.arrays[MODEL])


@graphs
def test_coordinates_of_one_client_are_its_values_and_of_none_the_old_ones(graph: Graph) -> None:
    """Invariant 1.5.4 through plan, train, fold and finish."""
    algorithm = replace(HALF, per_round=1)
    task, state = begin(graph, algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    client_state = device(graph, plan.client)
    after = close(algorithm, task, state, [plan], [algorithm.train(client_state, plan)]).arrays[MODEL]
    for name, active in inside(task.spec, plan.selection).items():
        expected = np.where(active, client_state.learner.read()[name], state.arrays[MODEL][name])
        assert after[name].tobytes() == expected.tobytes(), name


@graphs
def test_merge_then_extract_gives_the_values_and_merging_twice_changes_nothing(graph: Graph) -> None:
    """Invariant 1.5.10, first half."""
    task, state = begin(graph, HALF)
    plan = HALF.plan(task, state, 1)[0]
    params = copied(device(graph, seed=8).learner.read())
    put(params, plan.payload[MODEL])
    once = copied(params)
    put(params, plan.payload[MODEL])
    assert same_bits(params, once)
    assert take(params, task.spec, plan.selection) == plan.payload[MODEL]


def test_a_channel_owns_its_columns_of_the_classifier() -> None:
    """t_fedspu_flatten_columns, invariant 1.5.10: channel c of conv2 trains columns [4c, 4c + 4) of fc only."""
    graph = plain()
    client_state = device(graph)
    client_state.learner.write({"bn2.bias": np.full(6, 3.0)})  # no feature is dead
    neurons = NeuronSet.of(client_state.spec, {"conv1": [0, 1, 2, 3], "conv2": [2, 5]})
    before = client_state.learner.read()["fc.weight"].copy()
    algorithm = replace(HALF, epochs=1)
    payload = {MODEL: take(dict(client_state.learner.read()), client_state.spec, neurons)}
    algorithm.train(client_state, Plan("train", 1, 0, neurons, payload))
    changed = (client_state.learner.read()["fc.weight"] != before).any(axis=0)
    assert np.flatnonzero(changed).tolist() == [8, 9, 10, 11, 20, 21, 22, 23]


@pytest.mark.parametrize("keep", [0.25, 0.5])
def test_every_neuron_is_drawn_equally_often_and_layers_are_independent(keep: float) -> None:
    """t_fedspu_inclusion_prob, invariant 1.5.7: n_act / n is within 4 sigma, and two layers are independent."""
    graph = plain()
    algorithm = replace(HALF, keep=(keep,), per_round=1)
    task, state = begin(graph, algorithm, clients=1)
    draws, single, pair = 600, Counter(), 0
    for round in range(1, draws + 1):
        active = algorithm.plan(task, state, round)[0].selection.active
        single.update((group, int(i)) for group, ids in active.items() for i in ids)
        pair += 0 in active["conv1"] and 0 in active["conv2"]
    rate = {group: n_act(size, keep) / size for group, size in task.spec.groups.items()}
    for group, size in task.spec.groups.items():
        sigma = (draws * rate[group] * (1 - rate[group])) ** 0.5
        assert all(abs(single[group, i] - draws * rate[group]) < 4 * sigma for i in range(size))
    both = rate["conv1"] * rate["conv2"]
    assert abs(pair - draws * both) < 4 * (draws * both * (1 - both)) ** 0.5


@pytest.mark.parametrize(
    ("name", "shape", "classes", "keep", "values"),
    [
        ("fedspu_emnist", (1, 28, 28), 62, 0.2, 12418 + 16),
        ("fedspu_emnist", (1, 28, 28), 62, 1.0, 64722 + 80),
        ("fedspu_cifar", (3, 32, 32), 10, 0.4, 20542 + 16),
        ("fedspu_speech", (1, 32, 32), 35, 0.8, 19435 + 160),
    ],
)
def test_bytes_of_both_directions_are_the_papers_formula(
    name: str, shape: tuple[int, ...], classes: int, keep: float, values: int
) -> None:
    """t_fedspu_pact_formula, t_bytes_counters_equal_formula, invariant 1.5.9: 4 * (P_act + stat_act), table 9.3."""
    graph = build(name, shape, classes)
    algorithm = replace(HALF, keep=(keep,))
    task, state = begin(graph, algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    known = None if plan.selection.is_full else plan.selection
    down = codec.sizes(codec.encode(plan.payload[MODEL], task.spec))
    up = codec.sizes(codec.encode(take(state.arrays[MODEL], task.spec, known), task.spec, known=known))
    assert down.values == 4 * values
    assert up.values == 4 * values
    assert up.index == 0  # the ids do not go up, a hash of them does


@graphs
def test_frozen_values_are_in_no_payload(graph: Graph) -> None:
    """The private part of the model is filled with a marker, whose bytes are nowhere in what the client sends."""
    algorithm = replace(HALF, bn_frozen="freeze")
    task, state = begin(graph, algorithm)
    plan = algorithm.plan(task, state, 1)[0]
    client_state = device(graph, plan.client)
    marker = np.float32(0.123456789)
    active = inside(task.spec, plan.selection)
    model = copied(client_state.learner.read())
    for name, value in model.items():
        value[~active[name]] = marker
    client_state.learner.write(model)
    reply = algorithm.train(client_state, plan)
    assert any((~mark).any() for mark in active.values())
    assert marker.tobytes() not in codec.encode(reply.payload[MODEL], task.spec, known=plan.selection)
    assert marker.tobytes() in codec.encode(take(dict(client_state.learner.read()), task.spec, None), task.spec)


def test_order_of_arrival_does_not_matter_to_the_draws() -> None:
    """A client's neurons depend on (seed, client, round) alone, not on who else is selected."""
    graph = plain()
    few, many = replace(HALF, per_round=1), replace(HALF, per_round=3)
    task, state = begin(graph, few)
    alone = few.plan(task, state, 5)[0]
    together = next(plan for plan in many.plan(task, state, 5) if plan.client == alone.client)
    assert alone.selection == together.selection


def test_a_clients_neurons_are_those_of_its_own_stream() -> None:
    """So the clients of a round draw different neurons, and a client draws others in the next round."""
    task, state = begin(plain(), HALF)
    for round in (1, 2):
        for plan in HALF.plan(task, state, round):
            stream = rng.stream(1, rng.NEURONS, client=plan.client, round=round)
            assert plan.selection == NeuronSet.draw(task.spec, 0.5, stream), (plan.client, round)
    drawn = {plan.selection for round in (1, 2) for plan in HALF.plan(task, state, round)}
    assert len(drawn) >= 5  # of 120 possible ones


def test_clients_form_equal_tiers_in_id_order() -> None:
    algorithm = FedSPU()
    tiers = [algorithm.tier(client, 100) for client in range(100)]
    assert tiers == [0.2] * 20 + [0.4] * 20 + [0.6] * 20 + [0.8] * 20 + [1.0] * 20


def test_first_state_current_global_sends_the_whole_model_once() -> None:
    """Compatibility with the released code (ALGORITHMS 1.6 e): the frozen part of a newcomer is the server's too."""
    graph = plain()
    algorithm = replace(HALF, first_state="current_global", per_round=1)
    task, state = begin(graph, algorithm, clients=1)
    first = algorithm.plan(task, state, 1)[0]
    assert first.payload[MODEL].count == sum(value.size for value in state.arrays[MODEL].values())
    state = close(algorithm, task, state, [first], [algorithm.train(device(graph), first)])
    second = algorithm.plan(task, state, 2)[0]
    assert second.payload[MODEL].count == second.selection.count(task.spec, ("learn", "stat"))
    assert algorithm.untrained(state, {}) is state.arrays[MODEL]


@pytest.mark.parametrize(("weight", "examples", "steps"), [("batches", (10, 10), (3, 1)), ("samples", (12, 4), (1, 1))])
def test_replies_are_averaged_by_their_examples_or_by_their_steps(
    weight: str, examples: tuple[int, int], steps: tuple[int, int]
) -> None:
    graph = plain()
    algorithm = replace(HALF, keep=(1.0,), weight=weight, per_round=2)
    task, state = begin(graph, algorithm, clients=2)
    plans = algorithm.plan(task, state, 1)
    ones = {name: np.ones_like(value) for name, value in state.arrays[MODEL].items()}
    fives = {name: 5 * value for name, value in ones.items()}
    payloads = [{MODEL: take(values, task.spec, None)} for values in (ones, fives)]
    replies = [
        Reply(1, plan.client, payload, plan.selection.hash(), n, k)
        for plan, payload, n, k in zip(plans, payloads, examples, steps, strict=True)
    ]
    after = close(algorithm, task, state, plans, replies).arrays[MODEL]
    assert all((value == 2).all() for value in after.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": (0.2, 1.3)}, r"keep=1.3; expected 0 < keep <= 1"),
        ({"keep": ()}, r"keep=\(\); expected at least one tier"),
        ({"lr": 0.0}, r"lr=0.0; expected a finite lr > 0"),
        ({"lam": 1.5}, r"lam=1.5; expected 0 <= lam <= 1"),
        ({"epochs": 0}, r"epochs=0; expected epochs >= 1"),
        ({"delta": "half"}, r"delta=half; expected exact or cut"),
        ({"es_set": "train"}, r"es_set=train; expected carve or test"),
    ],
)
def test_hyper_parameters_out_of_range_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FedSPU(**settings)
