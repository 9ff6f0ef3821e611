"""Random dropout: clients train a random smaller model, and it is written back (ALGORITHMS 7.14)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.errors import GraphError, PlanError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.methods import FedAvg, FedSPU, RandomDropout, build
from edgefl.methods.client_state import minibatches
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.random_dropout import scaled
from edgefl.methods.task import MODEL
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Conv2d, ConvTranspose2d, Embedding, Flatten, GroupNorm, Linear, ReLU, Reshape
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import values
from edgefl.protocol import codec
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits
from tests.methods.small_rounds import OPTIONS, Rounds, averaged, batches_of, cut_out, inside, logits, model, step

METHOD = RandomDropout(**OPTIONS, keep=(0.25, 0.5, 1.0))
HALF = replace(METHOD, keep=(0.5,))
graphs = pytest.mark.parametrize("graph", [make() for make in GRAPHS.values()], ids=list(GRAPHS))


@graphs
def test_with_all_neurons_it_is_fedavg_bit_for_bit(graph: Graph) -> None:
    mine, theirs = Rounds(replace(METHOD, keep=(1.0,)), graph), Rounds(FedAvg(**OPTIONS), graph)
    for round in (1, 2):
        assert same_bits(model(mine.play(round)), model(theirs.play(round)))


@graphs
def test_neurons_and_bytes_are_fedspu_s(graph: Graph) -> None:
    mine, theirs = Rounds(METHOD, graph), Rounds(FedSPU(**OPTIONS, keep=METHOD.keep), graph)
    for plan, other in zip(mine.plans(3), theirs.plans(3), strict=True):
        assert (plan.client, plan.selection, plan.payload) == (other.client, other.selection, other.payload)
        assert plan.settings == other.settings
        ours, their = mine.answer(plan), theirs.answer(other)
        sent = [codec.encode(each.payload[MODEL], mine.spec, known=plan.selection) for each in (ours, their)]
        assert codec.sizes(sent[0]) == codec.sizes(sent[1])
        assert sent[0] != sent[1] or plan.settings["keep"] == 1.0


def test_a_round_is_torch_s_on_nets_cut_by_hand() -> None:
    """Three clients of 12, 18 and 24 training samples at a quarter, a half and all of the neurons, in float64."""
    rounds = Rounds(METHOD, counts=(20, 30, 40))
    for round in (1, 2):
        old, trained = copied(model(rounds.state)), []
        for plan in rounds.plans(round):
            count = rounds.counts[plan.client]
            marks = inside(rounds.spec, plan.selection)
            net = cut_out(old, marks)
            for batch in batches_of(plan.client, count, round):
                step(net, *batch)
            trained.append((count * 0.6, marks, net))
        expected = averaged(old, trained)
        for name, value in model(rounds.play(round, seed=9)).items():
            np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-5, err_msg=name)


def test_the_smaller_model_is_the_whole_one_with_the_outputs_of_absent_neurons_at_zero() -> None:
    """The model is in evaluation mode. gamma and beta of 0 make a channel 0 after norm and rectifier."""
    rounds = Rounds(HALF)
    (plan, *_) = rounds.plans(1)
    client_state = device(plain(), plan.client, seed=5)
    whole = copied(client_state.learner.read())
    smaller = client_state.learner.sub(plan.selection)
    for name in ("bn1", "bn2"):
        absent = np.setdiff1d(np.arange(len(whole[f"{name}.bias"])), plan.selection.active[f"conv{name[-1]}"])
        whole[f"{name}.weight"][absent] = whole[f"{name}.bias"][absent] = 0
    client_state.learner.write(whole)
    x = client_state.data.x[:8]
    np.testing.assert_allclose(smaller.predict(x), client_state.learner.predict(x), rtol=1e-5, atol=1e-6)
    net = cut_out(whole, inside(rounds.spec, plan.selection))
    by_hand = logits(net, torch.tensor(x.astype(np.float64)), training=False)
    np.testing.assert_allclose(smaller.predict(x), by_hand.numpy(), rtol=1e-5, atol=1e-6)


@graphs
def test_what_nobody_trained_keeps_its_bits_and_what_one_did_is_its_own(graph: Graph) -> None:
    rounds = Rounds(replace(HALF, per_round=1), graph)
    (plan,) = rounds.plans(1)
    before, reply = copied(model(rounds.state)), rounds.answer(plan, seed=7)
    after = copied(model(rounds.close([plan], [reply])))
    expected = copied(before)
    learner = GraphLearner(Model(graph, expected))
    learner.write(reply.payload[MODEL])
    assert same_bits(after, copied(learner.read()))
    assert any((after[name] == before[name]).any() and (after[name] != before[name]).any() for name in after)


@graphs
def test_models_that_come_back_as_they_went_change_nothing(graph: Graph) -> None:
    rounds = Rounds(METHOD, graph)
    before, plans = copied(model(rounds.state)), rounds.plans(1)
    replies = [Reply(1, plan.client, plan.payload, plan.selection.hash(), 7 + plan.client, 1) for plan in plans]
    assert same_bits(model(rounds.close(plans, replies)), before)


def test_nothing_of_a_client_s_own_is_in_its_reply() -> None:
    rounds = Rounds(METHOD)
    for plan in rounds.plans(1):
        assert rounds.answer(plan, seed=3) == rounds.answer(plan, seed=8)
    assert not METHOD.keeps_model and not METHOD.keeps_state and METHOD.scored([MODEL]) is None


MLP = Graph(
    (8,), (Node("fc1", Linear(8, 16), ("input",)), Node("r", ReLU(), ("fc1",)), Node("fc2", Linear(16, 4), ("r",)))
)


@pytest.mark.parametrize(("keep", "kept"), [(0.25, 4), (0.5, 8), (1.0, 16)])
def test_a_step_multiplies_as_much_as_the_smaller_model_s(keep: float, kept: int) -> None:
    """The layers are 8 - kept - 4, with the forward pass and the gradients of both weights and of fc2's inputs."""
    rounds, client_state = Rounds(replace(METHOD, keep=(keep,)), MLP), device(plain(), 0)
    x = rng.stream(4, rng.DATA).uniform(20 * 8).astype(np.float32).reshape(20, 8)
    client_state.data, client_state.spec = Samples(x, client_state.data.y), rounds.spec
    client_state.learner = GraphLearner(Model(MLP, MLP.init(rng.stream(2, rng.INIT))))
    seen = 24  # two epochs of 12 samples
    reply = rounds.method.train(client_state, rounds.plans(1)[0])
    assert rounds.method.effort(12) == (reply.steps, seen) == (6, 24)
    assert client_state.learner.work().training == 2 * seen * (2 * 8 * kept + 3 * kept * 4)


def test_a_client_trains_no_more_than_it_declares() -> None:
    rounds = Rounds(replace(METHOD, keep=(1.0,)))
    rounds.task = replace(rounds.task, limits={0: 0.25, 2: 0.5})
    plans = rounds.plans(1)
    assert [plan.settings["keep"] for plan in plans] == [0.25, 1.0, 0.5]
    assert [len(plan.selection.active["conv1"]) for plan in plans] == [1, 4, 2]
    freed = rounds.method.replan(replace(rounds.task, limits={}), rounds.state, plans[0])
    assert freed.selection.is_full and (freed.round, freed.client) == (1, 0)


def test_after_a_refresh_its_next_smaller_model_is_tested() -> None:
    rounds = Rounds(HALF)
    (plan,) = HALF.refreshes(rounds.task, rounds.state, 4, [2])
    assert plan.selection == NeuronSet.draw(rounds.spec, 0.5, rng.stream(1, rng.NEURONS, client=2, round=4))
    client_state, again = device(plain(), 2, seed=6), device(plain(), 2, seed=6)
    with HALF.refreshed(client_state, plan, 3) as mine:
        found, neurons = mine.evaluate(client_state.test), mine.neurons
    smaller = GraphLearner(Model(plain().sub(plan.selection), values(plan.payload[MODEL])))
    smaller.fit(again.data, minibatches(again, 0, 3, 5), SGD(0.1))
    assert found == smaller.evaluate(again.data, again.test)
    assert neurons == plan.selection


def test_tested_after_training_is_the_smaller_model() -> None:
    rounds = Rounds(replace(HALF, eval_point="post_local"))
    (plan, *_) = rounds.plans(1)
    reply, client_state = rounds.answer(plan), device(plain(), plan.client)
    client_state.learner.write(reply.payload[MODEL])
    found = client_state.learner.sub(plan.selection).evaluate(client_state.data, client_state.test)
    assert (reply.metrics["correct"], reply.metrics["tested"]) == (found.correct, found.examples)


# Scaled inputs.


def test_scaled_weights_stand_for_the_inputs_that_are_gone() -> None:
    """conv1 and biases have all their inputs, conv2 has 1 of 4 channels, and fc has 3 of 6."""
    spec = ModelSpec.of(plain())
    neurons = NeuronSet.of(spec, {"conv1": [2], "conv2": [0, 3, 5]})
    ones = {name: np.ones(param.shape, np.float32) for name, param in spec.params.items()}
    found = values(scaled(take(ones, spec, neurons), spec, np.multiply))
    factors = {name: set(value.ravel().tolist()) for name, value in found.items()}
    assert factors.pop("conv2.weight") == {4.0} and factors.pop("fc.weight") == {2.0}
    assert all(each == {1.0} for each in factors.values())
    back = values(scaled(scaled(take(ones, spec, neurons), spec, np.multiply), spec, np.true_divide))
    assert all((value == 1).all() for value in back.values())


def test_inputs_lie_where_the_layer_has_them() -> None:
    """Rows of a transposed convolution, no axis of an embedding nor of a depthwise convolution."""
    nodes = (
        Node("emb", Embedding(9, 6), ("input",)),
        Node("plane", Reshape((5, 1)), ("emb",)),
        Node("mix", Conv2d(6, 4, (1, 1)), ("plane",)),
        Node("each", Conv2d(4, 4, (1, 1), groups=4), ("mix",)),
        Node("up", ConvTranspose2d(4, 8, (1, 1)), ("each",)),
        Node("flat", Flatten(), ("up",)),
        Node("fc", Linear(40, 3), ("flat",)),
    )
    assert ModelSpec.of(Graph((5,), nodes)).inputs == {"mix.weight": 1, "up.weight": 0, "fc.weight": 1}


def test_a_scaled_client_trains_the_scaled_model() -> None:
    rounds = Rounds(replace(HALF, scale=True))
    old, trained = copied(model(rounds.state)), []
    for plan in rounds.plans(1):
        marks = inside(rounds.spec, plan.selection)
        net = cut_out(old, marks)
        net["conv2.weight"], net["fc.weight"] = net["conv2.weight"] * 2, net["fc.weight"] * 2
        for batch in batches_of(plan.client, 20, 1):
            step(net, *batch)
        net["conv2.weight"], net["fc.weight"] = net["conv2.weight"] / 2, net["fc.weight"] / 2
        trained.append((12.0, marks, net))
    expected, unscaled = averaged(old, trained), model(Rounds(HALF).play(1))
    for name, value in model(rounds.play(1)).items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-5, err_msg=name)
    assert np.abs(unscaled["fc.weight"] - expected["fc.weight"]).max() > 1e-3


# What it refuses.


def test_a_plan_without_neurons_is_refused() -> None:
    with pytest.raises(PlanError, match=r"plan of round 3 without neurons; expected the neurons of the smaller model"):
        METHOD.train(device(plain()), Plan("train", 3, 0, payload={MODEL: take({}, ModelSpec({}, {}, b""), None)}))


def test_a_group_norm_that_would_break_is_named() -> None:
    nodes = (
        Node("conv", Conv2d(2, 4, (1, 1)), ("input",)),
        Node("norm", GroupNorm(2, 4), ("conv",)),
        Node("flat", Flatten(), ("norm",)),
        Node("fc", Linear(64, 3), ("flat",)),
    )
    rounds = Rounds(replace(METHOD, keep=(0.25,)), Graph((2, 4, 4), nodes))
    with pytest.raises(GraphError, match="norm"):
        rounds.answer(rounds.plans(1)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": (0.2, 1.3)}, r"keep=1.3; expected 0 < keep <= 1"),
        ({"keep": ()}, r"keep=\(\); expected at least one tier"),
        ({"lr": 0.0}, r"lr=0.0; expected a finite lr > 0"),
        ({"weight": "batches"}, r"weight=batches; expected samples or uniform"),
    ],
)
@pytest.mark.parametrize("name", ["random-dropout", "fjord"])
def test_hyper_parameters_out_of_range_are_named(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, options)
