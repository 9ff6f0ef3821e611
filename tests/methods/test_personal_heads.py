"""FedPer and FedRecon: heads of their own, and what they are without one, or with every step on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import DataError
from edgefl.learning import SGD, FitOptions, Samples
from edgefl.methods import PFLEGO, FedPer, FedRecon
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.head_training import HeadTraining
from edgefl.methods.personal_head import CLASSES, HEAD, Personal
from edgefl.methods.task import BODY, Task
from edgefl.models.graph import Graph, Node
from edgefl.models.graph.operations import BatchNorm2d, Flatten, Linear
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import values
from tests.methods.test_pflego import SPEC, assert_close, central, clients, heads, play, start, task, with_heads


def test_fedper_averages_bodies_that_were_trained_under_their_own_heads() -> None:
    """One full-batch step: the body moves along the mean gradient by samples, every head along its own."""
    client_states, method = clients(), FedPer(epochs=1, batch=1000, lr=0.2)
    state = start(method, client_states)
    with_heads(client_states, state.arrays[BODY])
    before, (body, gradients) = heads(client_states), central(client_states, state.arrays[BODY])
    after = play(method, client_states, state)
    old, total = state.arrays[BODY], task(client_states).examples
    assert_close(after.arrays[BODY], {n: old[n] - 0.2 * g for n, g in body.items()}, atol=1e-12, rtol=0)
    for client_state, new, head, gradient in zip(client_states, heads(client_states), before, gradients, strict=True):
        share = len(client_state.train) / total
        assert_close(new, {n: head[n] - 0.2 * g / share for n, g in gradient.items()}, atol=1e-12, rtol=0)


def test_fedrecon_takes_the_gradient_of_the_body_at_the_head_after_its_last_step() -> None:
    """PFLEGO takes it before this step. At tau = 1 they differ by nothing else (ALGORITHMS 7.11)."""
    client_states, method = clients(), FedRecon(tau=3, beta=0.3, rho=0.2, server="sgd")
    state = start(method, client_states)
    after = play(method, client_states, state)
    body, _ = central(client_states, state.arrays[BODY])  # at the heads that were kept
    old = state.arrays[BODY]
    assert_close(after.arrays[BODY], {n: old[n] - 0.2 * g for n, g in body.items()}, atol=1e-12, rtol=0)
    others = clients()
    other = play(PFLEGO(tau=3, beta=0.3, rho=0.2), others, state)
    assert any(np.abs(other.arrays[BODY][n] - after.arrays[BODY][n]).max() > 1e-4 for n in old)


def test_fedrecon_that_resets_does_not_depend_on_the_rounds_before() -> None:
    """t_fedrecon_stateless: heads are drawn anew, so an earlier round changes nothing but the body."""
    method = FedRecon(tau=2, beta=0.3, reset=True)
    fresh, used = clients(), clients()
    state = start(method, fresh)
    play(method, used, state)
    again = [play(method, client_states, state).arrays[BODY] for client_states in (fresh, used)]
    assert all(again[0][name].tobytes() == again[1][name].tobytes() for name in again[0])
    kept = replace(method, reset=False)
    other = play(kept, used, state).arrays[BODY]
    assert any(other[name].tobytes() != again[0][name].tobytes() for name in other)


@pytest.mark.parametrize("head_init", ["torch", "uniform"])
def test_a_first_head_is_a_draw_of_the_seed_and_the_client(head_init: str) -> None:
    """And of nothing that was done with the learner before."""
    body = start(FedPer(), clients()).arrays[BODY]
    drawn = []
    for client in (0, 1, 0):
        client_state = replace(clients()[2], client=client)
        Personal.of(client_state, body, head_init).keep_head()  # type: ignore[arg-type]
        drawn.append(np.concatenate([value.reshape(-1) for value in client_state.arrays[HEAD].values()]))
    assert drawn[0].tobytes() == drawn[2].tobytes() != drawn[1].tobytes()
    low, high = (-1 / np.sqrt(6), 1 / np.sqrt(6)) if head_init == "torch" else (0, 1)
    assert low <= drawn[0].min() < drawn[0].max() <= high


def test_a_personal_model_is_tested_with_its_label_map() -> None:
    """Trained to fit its own classes 1, 2 and 4, it says rows 0, 1 and 2 for them."""
    client_state = clients()[1]
    client_state.test = client_state.train
    method, body = FedPer(), start(FedPer(), [client_state]).arrays[BODY]
    mine = Personal.of(client_state, body, "torch")
    mine.learner.fit(mine.samples, [client_state.train] * 400, SGD(0.5))
    mine.keep_head()
    trained = {name: mine.learner.read()[name].copy() for name in SPEC.body}
    assert client_state.private[CLASSES] == [1, 2, 4]
    assert method.evaluate(client_state, trained).correct == len(client_state.train)


def test_a_class_that_the_head_does_not_have_is_named() -> None:
    """Data that a device got since its first round must not pass for its first class."""
    client_state = clients()[0]
    client_state.private = {CLASSES: [0]}
    with pytest.raises(DataError, match=r"client 0 has examples of class 2; its head has classes \[0\]"):
        FedPer().evaluate(client_state, start(FedPer(), [client_state]).arrays[BODY])


def test_layers_that_are_not_trained_keep_their_bits() -> None:
    """The trainable subsets of a learner: a head alone, a body alone."""
    for layers in (frozenset({"fc"}), frozenset({"conv", "fc1"})):
        client_state = clients("native", np.float32)[2]
        before = {name: value.copy() for name, value in client_state.learner.read().items()}
        whole = client_state.learner.gradient(client_state.data, client_state.train)
        part = client_state.learner.gradient(client_state.data, client_state.train, layers)
        client_state.learner.fit(client_state.data, [client_state.train], SGD(0.1), FitOptions(layers))
        trained = {name for name in before if name.rpartition(".")[0] in layers}
        assert part.keys() == trained
        for name, value in before.items():
            assert (value.tobytes() == client_state.learner.read()[name].tobytes()) == (name not in trained)
        assert_close({n: part[n] for n in trained}, {n: whole[n] for n in trained}, rtol=0, atol=1e-7)


def test_a_head_shares_its_body_and_forgets_nothing() -> None:
    learner = clients("native", np.float32)[0].learner
    two, three = learner.with_head(2), learner.with_head(3)
    two.write({"fc.weight": np.full((2, 6), 5.0)})
    learner.write({"fc1.bias": np.full_like(learner.read()["fc1.bias"], 7.0)})
    assert (two.read()["fc1.bias"] == 7).all()
    assert (three.read()["fc1.bias"] == 7).all()
    assert (learner.with_head(2).read()["fc.weight"] == 5).all()
    assert three.read()["fc.weight"].shape == (3, 6)
    two.head().write({"fc.bias": np.ones(2)})
    assert (two.read()["fc.bias"] == 1).all()
    assert learner.read()["fc.weight"].shape == (5, 6)


def test_a_model_without_a_body_is_refused() -> None:
    graph = Graph((6,), (Node("fc", Linear(6, 5), ("input",)),))
    spec = ModelSpec.of(graph)
    with pytest.raises(ValueError, match=r"head \['fc.weight', 'fc.bias'\] and body \[\]; expected both"):
        FedPer().start(Task(spec, 4, 1), {name: np.zeros(p.shape, np.float32) for name, p in spec.params.items()})


@pytest.mark.parametrize("method", [PFLEGO(), FedRecon()], ids=["pflego", "fedrecon"])
def test_a_model_with_running_statistics_is_refused_where_a_gradient_is_sent(method: PFLEGO | FedRecon) -> None:
    """It is refused before round 1, because the gradient of a batch does not carry running statistics."""
    body = Node("bn", BatchNorm2d(3), ("input",)), Node("flat", Flatten(), ("bn",))
    graph = Graph((3, 2, 2), (*body, Node("fc", Linear(12, 5), ("flat",))))
    with pytest.raises(ValueError, match=r"model=bn.running_mean, bn.running_var; expected no running statistics"):
        method.start(Task(ModelSpec.of(graph), 4, 1, examples=9), graph.init(rng.stream(1, rng.INIT)))


def test_payloads_are_the_body_in_the_order_of_the_model() -> None:
    client_states = clients("native", np.float32)
    method = FedRecon(tau=2)
    plan = method.plan(task(client_states), start(method, client_states), 1)[0]
    reply = method.train(client_states[plan.client], plan)
    assert tuple(values(plan.payload[BODY])) == tuple(values(reply.payload[BODY])) == SPEC.body


@pytest.mark.parametrize(
    "method", [PFLEGO(tau=3), FedPer(epochs=1), FedRecon(tau=3)], ids=["pflego", "fedper", "fedrecon"]
)
def test_a_head_has_the_classes_that_are_trained_whatever_is_tested(method: PFLEGO | FedPer | FedRecon) -> None:
    """Test samples of other classes are wrong, with the loss of a guess among the head's classes and one more."""
    whole, other = clients(count=1)[0], clients(count=1)[0]  # classes 0 and 2
    label = np.array(other.data.y)
    label[other.test[:2]] = (1, 4)
    other.data = replace(other.data, y=label)
    state = start(method, [whole])
    models = []
    for client_state in (whole, other):
        play(method, [client_state], state)
        assert client_state.private[CLASSES] == [0, 2]
        models.append({name: value.copy() for name, value in client_state.arrays[HEAD].items()})
    assert all(models[0][name].tobytes() == models[1][name].tobytes() for name in models[0])
    found = method.evaluate(other, state.arrays[BODY])
    whole.test = other.test[2:]
    known = method.evaluate(whole, state.arrays[BODY])
    assert (found.correct, found.examples, known.examples) == (known.correct, 5, 3)
    assert found.loss_sum == pytest.approx(known.loss_sum + 2 * np.log(3), rel=1e-12)
    whole.test, other.test = other.test[:2], other.test[:2]
    nothing = method.evaluate(other, state.arrays[BODY])
    assert (nothing.correct, nothing.examples) == (0, 2) and nothing.loss_sum == pytest.approx(2 * np.log(3))


@pytest.mark.parametrize("kind", [PFLEGO, FedRecon])
@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.9, "nesterov": True},
        {"optimizer": "adam", "weight_decay": 0.1},
        {"optimizer": "adamw", "clip": 0.1},
        {"schedule": "cosine", "rounds": 4, "lr_floor": 0.01},
    ],
    ids=str,
)
def test_the_head_s_steps_have_optimizers_and_a_schedule(kind: type[HeadTraining], options: dict[str, Any]) -> None:
    """A round's heads by hand: that optimizer on the features of the round's body, at the rate of the round."""
    method = kind(tau=4, beta=0.05, rho=0.1, server="sgd", **options)  # type: ignore[call-arg]
    mine, state = clients(), start(method, clients())
    plans = {plan.client: plan for plan in replace(method, per_round=4).plan(task(mine), state, 2)}
    count, rate = {PFLEGO: 3, FedRecon: 4}[kind], method.scheduled(0.05, 2)
    for client_state, again in zip(mine, clients(), strict=True):
        method.train(client_state, plans[client_state.client])
        other = Personal.of(again, state.arrays[BODY], "torch")
        features = other.learner.features(other.samples, again.train)
        labelled = Samples(features, other.samples.y[again.train])
        everything = np.arange(len(features), dtype=np.int32)
        other.learner.head().fit(labelled, [everything] * count, method.optimizer_at(rate))
        head = {name: value.copy() for name, value in other.learner.read(SPEC.head).items()}
        if kind is PFLEGO:
            gradient = other.learner.gradient(other.samples, again.train)
            share = method.scheduled(0.1, 2) * len(again.train) / task(mine).examples
            head = {name: value - share * gradient[name] for name, value in head.items()}
        assert_close(client_state.arrays[HEAD], head, atol=1e-12, rtol=0)
    assert (rate == 0.05) == ("schedule" not in options)


def test_the_server_s_rate_has_the_schedule_too() -> None:
    """Half of it moves the body half as far."""
    moves = []
    for method in (FedRecon(tau=1, beta=0.1, server="sgd"), FedRecon(tau=1, beta=0.1, server="sgd", lr_decay=0.5)):
        client_states = clients()
        state = start(method, client_states)
        (plan, *_) = method.plan(task(client_states), state, 2)
        accumulator = Accumulator(SPEC)
        method.aggregate(accumulator, plan, replace(FedRecon(tau=1, beta=0.0).train(client_states[plan.client], plan)))
        after = method.finish(task(client_states), state, accumulator, 2)
        moves.append({name: after.arrays[BODY][name] - value for name, value in state.arrays[BODY].items()})
    assert_close({name: move / 2 for name, move in moves[0].items()}, moves[1], atol=1e-15, rtol=1e-9)
