"""Frozen parameters in every method: they keep their bits, no payload has them, and clients are evaluated with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import CodecError
from edgefl.methods import METHODS, build
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.early_stopping import plans, train
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.methods.rounds.round_closing import AggregationSettings, close
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.graph import Graph
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.update import EVERY_KIND
from tests.methods.small_models import device, plain

ROUNDS, CLIENTS = 3, 3
STILL = ("conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var")
MIXED = ("conv2.bias", "bn2.weight", "bn2.running_mean", "bn2.running_var")
FROZEN = frozenset((*STILL, *MIXED))  # a layer as a whole, and parts of two layers
OPTIONS: dict[str, Any] = {"per_round": 2, "epochs": 2, "batch": 5, "lr": 0.1, "keep": (0.5, 1.0), "momentum": 0.5}
OWN: dict[str, dict[str, Any]] = {
    "apfl": {"momentum": 0.0},
    "fedspu-cached": {"budget": (0.3, 1.0)},
    "fedspu-cached-es": {"budget": (0.3, 1.0)},
    "fjord": {"momentum": 0.0},
    "hermes": {"accuracy": 0.0},
    "prunefl": {"initial_rounds": 1, "every": 1, "prune_rate": 0.3},
    "random-dropout": {"scale": True},
    "scaffold": {"momentum": 0.0},
    "subfedavg": {"prune_rate": 0.3, "distance": 0.0, "accuracy": 0.0},
    "pflego": {"tau": 3, "beta": 0.01, "rho": 0.1},
    "fedrecon": {"tau": 3, "beta": 0.01, "rho": 0.1},
}


def partly_frozen() -> Graph:
    """The plain net with FROZEN, and so without running statistics that move."""
    return replace(plain(), frozen=FROZEN)


class Run:
    """Rounds of a method by the protocol's messages, with clients that live as long as the run."""

    def __init__(self, method: Algorithm, graph: Graph) -> None:
        self.method, spec = method, ModelSpec.of(graph)
        self.clients = [device(graph, client) for client in range(CLIENTS)]
        for each in self.clients:
            each.seed = 1
        examples = sum(len(each.train) for each in self.clients)
        self.task = Task(spec, CLIENTS, 1, examples=examples, rounds=ROUNDS, outputs=3, graph=graph)
        self.initial = graph.init(rng.stream(1, rng.INIT))
        self.state: State = method.start(self.task, self.initial)

    def play(self, round: int) -> Iterator[tuple[Plan, Reply]]:
        """Yield what each client receives, and its reply. Then the round is closed."""
        accepted, spec = [], self.task.spec
        for plan in plans(self.method, self.task, self.state, round):
            client_state = self.clients[plan.client]
            client_state.learner.write({name: self.initial[name] for name in spec.exchanged} | self._kept(client_state))
            message = train_message(plan, spec, "float32")
            received = plan_of(message, plan.client, spec, self.method.held(client_state))
            reply = train(self.method, client_state, received)
            answer = read_answer(trained_message(reply, received, spec, "float32", 1.0), plan, spec)
            assert answer.refusal is None
            self._keep(client_state)
            accepted.append((plan, answer.reply))
            yield received, reply
        self.state = close(self.task, self.method, self.state, accepted, round, AggregationSettings()).state

    def _kept(self, client_state: ClientState) -> dict[str, np.ndarray]:
        return getattr(client_state, "model_of_its_own", {})

    def _keep(self, client_state: ClientState) -> None:
        if self.method.keeps_model:
            read = client_state.learner.read(self.task.spec.exchanged)
            client_state.model_of_its_own = {name: value.copy() for name, value in read.items()}


@pytest.mark.parametrize("name", METHODS)
def test_frozen_parameters_keep_their_bits_and_are_not_sent(name: str) -> None:
    run = Run(build(name, {**OPTIONS, **OWN.get(name, {})}), partly_frozen())
    for round in range(1, ROUNDS + 1):
        for plan, reply in run.play(round):
            for payload in (*plan.payload.values(), *reply.payload.values()):
                assert not payload.blocks.keys() & FROZEN
            for mask in (*plan.masks.values(), *reply.masks.values()):
                assert not mask.bits.keys() & FROZEN
    for group, arrays in run.state.arrays.items():
        if group not in (MODEL, BODY):  # no server's moment, drift or gradient of what is frozen
            assert not arrays.keys() & FROZEN
    for arrays in [run.state.arrays.get(MODEL, {}), run.state.arrays.get(BODY, {})]:
        for parameter in FROZEN & arrays.keys():
            assert arrays[parameter].tobytes() == run.initial[parameter].tobytes()
    for client_state in run.clients:
        for arrays in client_state.arrays.values():
            assert not arrays.keys() & FROZEN
        for parameter, value in client_state.learner.read(FROZEN).items():
            assert value.tobytes() == run.initial[parameter].tobytes()


@pytest.mark.parametrize("name", METHODS)
def test_the_rest_is_trained_and_clients_are_evaluated(name: str) -> None:
    run = Run(build(name, {**OPTIONS, **OWN.get(name, {})}), partly_frozen())
    trained = [reply for round in range(1, ROUNDS + 1) for _, reply in run.play(round)]
    assert all(reply.steps > 0 for reply in trained)
    shared = run.method.shared(run.state.arrays)
    sent = shared and {parameter: value for parameter, value in shared.items() if parameter not in FROZEN}
    for client_state in run.clients:  # a device is sent what is not frozen
        found = [run.method.evaluate(client_state, given) for given in (shared, sent)]
        assert found[0] == found[1]
        assert found[0].examples == len(client_state.test)
    server = run.state.arrays.get(MODEL) or run.state.arrays.get(BODY)
    if server is not None:
        moved = {parameter for parameter, value in server.items() if not np.array_equal(value, run.initial[parameter])}
        assert {"conv2.weight", "bn2.bias"} <= moved


BODY_OF_PLAIN = frozenset(name for name in plain().parameters() if not name.startswith("fc."))
REFUSED = [
    ("fedper", BODY_OF_PLAIN, "all 12 parameters of the model's body are frozen; expected one that is trained"),
    ("fedbabu", BODY_OF_PLAIN, "of the model's body are frozen"),
    ("pflego", BODY_OF_PLAIN, "of the model's body are frozen"),
    ("fedrecon", BODY_OF_PLAIN, "of the model's body are frozen"),
    ("fedper", FROZEN | {"fc.bias"}, r"model with a frozen fc\.bias in its head; expected a head that each client"),
    ("fedbabu:ft=head", FROZEN | {"fc.weight", "fc.bias"}, "ft=head; expected full or body, as the model's head is"),
]


@pytest.mark.parametrize(("name", "frozen", "problem"), REFUSED)
def test_a_method_with_nothing_to_share_is_refused(name: str, frozen: frozenset[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Run(build(name, OPTIONS), replace(plain(), frozen=frozen))


def test_a_frozen_body_leaves_the_head_alone_in_messages() -> None:
    """24 x 3 weights and 3 biases, down and up."""
    run = Run(build("fedavg", OPTIONS), replace(plain(), frozen=BODY_OF_PLAIN))
    for plan, reply in run.play(1):
        assert [plan.payload[MODEL].count, reply.payload[MODEL].count] == [75, 75]
        assert [*plan.payload[MODEL].blocks] == ["fc.weight", "fc.bias"]


def test_a_payload_with_a_frozen_parameter_is_refused() -> None:
    """Such a payload would come from a server that moves what the device keeps."""
    run = Run(build("fedavg", OPTIONS), partly_frozen())
    (plan, *_) = run.method.plan(run.task, run.state, 1)
    update = take(run.initial, run.task.spec, kinds=EVERY_KIND, names=["conv1.weight"])
    message = train_message(replace(plan, payload={MODEL: update}), run.task.spec, "float32")
    with pytest.raises(
        CodecError, match=r"block 'conv1\.weight' of a frozen parameter; expected a parameter that rounds"
    ):
        plan_of(message, plan.client, run.task.spec)


def test_scale_reaches_frozen_weights_in_the_smaller_model_alone() -> None:
    """Half of the 6 channels reach fc: in the sub-model each of its weights is twice the device's."""
    graph = replace(plain(), frozen=frozenset({"fc.weight"}))
    run = Run(build("random-dropout", {**OPTIONS, "keep": (0.5,), "scale": True}), graph)
    (plan, *_) = run.method.plan(run.task, run.state, 1)
    client_state, spec = run.clients[plan.client], run.task.spec
    smaller = run.method.smaller(client_state, plan_of(train_message(plan, spec, "float32"), plan.client, spec))
    columns = (plan.selection.active["conv2"][:, None] * 4 + np.arange(4)).ravel()
    np.testing.assert_array_equal(smaller.read(["fc.weight"])["fc.weight"], 2 * run.initial["fc.weight"][:, columns])
    np.testing.assert_array_equal(client_state.learner.read(["fc.weight"])["fc.weight"], run.initial["fc.weight"])
