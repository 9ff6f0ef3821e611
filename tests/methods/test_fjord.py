"""FjORD: nested widths, a drawn one for each batch, statistics of each (ALGORITHMS 7.15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.learning import SGD, GraphLearner
from edgefl.methods import FedAvg, FjORD, RandomDropout
from edgefl.methods.client_state import ClientState, minibatches
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.exchange import evaluate_message
from edgefl.methods.task import MODEL
from edgefl.models.graph import Graph, Model, Node, Params, architectures
from edgefl.models.graph.operations import Concat, Conv2d, Flatten, Linear, ReLU
from edgefl.models.neurons.gather import put
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params
from edgefl.models.neurons.update import values
from edgefl.protocol import codec
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits
from tests.methods.small_rounds import OPTIONS, Rounds, averaged, batches_of, cut_out, inside, model, step

METHOD = FjORD(**OPTIONS, keep=(0.25, 0.5, 1.0))
FIXED = replace(METHOD, width="fixed")
graphs = pytest.mark.parametrize("graph", [make() for make in GRAPHS.values()], ids=list(GRAPHS))
STATS = [name for name, param in ModelSpec.of(plain()).params.items() if param.kind == "stat"]


def joined() -> Graph:
    """Two branches one after another: the first neurons of both are no corner of what follows."""
    nodes = (
        Node("left", Conv2d(2, 4, (1, 1)), ("input",)),
        Node("right", Conv2d(2, 4, (3, 3), padding=(1, 1)), ("input",)),
        Node("both", Concat(), ("left", "right")),
        Node("relu", ReLU(), ("both",)),
        Node("mix", Conv2d(8, 4, (1, 1)), ("relu",)),
        Node("flat", Flatten(), ("mix",)),
        Node("fc", Linear(64, 3), ("flat",)),
    )
    return Graph((2, 4, 4), nodes)


@graphs
@pytest.mark.parametrize("method", [METHOD, FIXED], ids=["sampled", "fixed"])
def test_with_all_neurons_it_is_fedavg_bit_for_bit(graph: Graph, method: FjORD) -> None:
    mine, theirs = Rounds(replace(method, keep=(1.0,)), graph), Rounds(FedAvg(**OPTIONS), graph)
    for round in (1, 2):
        assert same_bits(model(mine.play(round)), model(theirs.play(round)))
    assert mine.state.arrays.keys() == {MODEL}


def test_narrower_models_are_the_first_neurons_of_wider_ones() -> None:
    """max(1, floor(n p)): of 4 and 6 neurons the first 1 and 1, 2 and 3, 4 and 6."""
    plans = Rounds(METHOD).plans(1)
    active = [{group: ids.tolist() for group, ids in plan.selection.active.items()} for plan in plans]
    assert active == [{"conv1": list(range(one)), "conv2": list(range(two))} for one, two in ((1, 1), (2, 3), (4, 6))]
    for narrow, wide in pairwise(plans):
        small, large = (values(plan.payload[MODEL]) for plan in (narrow, wide))
        for name, value in small.items():
            corner = large[name][tuple(map(slice, value.shape))]
            assert corner.tobytes() == value.tobytes(), name


# A whole round, in float64.


class Whole:
    """A client's model, and the statistics of its widths, as whole arrays of torch."""

    def __init__(self, params: Params, apart: Mapping[str, Params]) -> None:
        self.learned, self.apart = copied(params), {name: copied(each) for name, each in apart.items()}
        for name in self.learned:
            self.learned[name] = self.learned[name].astype(np.float64)

    def step(self, state_key: str, marks: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> None:
        own = self.learned if state_key == MODEL else {**self.learned, **self.apart[state_key]}
        net = cut_out(own, marks)
        step(net, x, y)
        for name, value in net.items():
            home = self.apart[state_key] if name in STATS and state_key != MODEL else self.learned
            home[name] = home[name].astype(np.float64)
            home[name][marks[name]] = value.numpy().ravel()


@pytest.mark.parametrize("keep", [(0.25, 0.5, 1.0), (0.25, 0.3, 0.5), (0.5,)], ids=str)
@pytest.mark.parametrize("method", [METHOD, FIXED], ids=["sampled", "fixed"])
def test_a_round_is_torch_s_on_nets_cut_by_hand(method: FjORD, keep: tuple[float, ...]) -> None:
    """Clients of 12, 18 and 24 samples. At .25 and .3 there is one net with two sets of statistics."""
    method = replace(method, keep=keep)
    rounds = Rounds(method, counts=(20, 30, 40))
    for round in (1, 2):
        old, trained = {name: copied(params) for name, params in rounds.state.arrays.items()}, []
        for plan in rounds.plans(round):
            count, own = rounds.counts[plan.client], plan.settings["keep"]
            client = Whole(old[MODEL], {name: params for name, params in old.items() if name != MODEL})
            widths = [p for p in sorted(keep) if p <= own] if method.width == "sampled" else [own]
            batches = batches_of(plan.client, count, round)
            drawn = rng.stream(1, rng.NEURONS, plan.client, round).below(np.full(len(batches), len(widths)))
            for which, batch in zip(drawn, batches, strict=True):
                neurons = NeuronSet.leading(rounds.spec, widths[which])
                client.step(method.state_key(widths[which]), inside(rounds.spec, neurons), *batch)
            trained.append((0.6 * count, plan, client))
        rounds.play(round, seed=9)
        for state_key, params in rounds.state.arrays.items():
            mine = []
            for weight, plan, client in trained:
                marks = inside(rounds.spec, plan.selection)
                nets = client.learned if state_key == MODEL else client.apart[state_key]
                sent = plan.payload[state_key].blocks if state_key in plan.payload else {}
                marks = {name: marks[name] & (name in sent) for name in params}
                mine.append((weight, marks, {name: torch.tensor(nets[name][marks[name]]) for name in params}))
            expected = averaged(old[state_key], mine)
            for name, value in params.items():
                np.testing.assert_allclose(value, expected[name], rtol=3e-4, atol=3e-5, err_msg=f"{state_key} {name}")
    assert not same_bits(old[MODEL], model(rounds.state))


@pytest.mark.parametrize("graph", [joined(), *(make() for make in GRAPHS.values())], ids=["joined", *GRAPHS])
def test_steps_are_those_of_a_model_of_each_width_taken_one_by_one(graph: Graph) -> None:
    """Every reference step is made by a new learner of the smaller graph, which is then written back."""
    rounds = Rounds(METHOD, graph)
    plan = rounds.plans(1)[2]
    params = copied(model(rounds.state))
    apart = {width: copied(rounds.state.arrays.get(METHOD.state_key(width), {})) for width in (0.25, 0.5)}
    client_state = device(graph, 2)
    batches = minibatches(client_state, 1, 2, 5)
    drawn = rng.stream(1, rng.NEURONS, 2, 1).below(np.full(len(batches), 3))
    assert len(set(drawn.tolist())) == 3
    for width, batch in zip((METHOD.keep[which] for which in drawn), batches, strict=True):
        neurons = NeuronSet.leading(rounds.spec, width)
        whole = {**params, **apart.get(width, {})}
        one = GraphLearner(Model(graph.sub(neurons), sub_params(graph, whole, neurons)))
        one.fit(client_state.data, [batch], SGD(0.1))
        learner = GraphLearner(Model(graph, whole))
        learner.absorb(one, neurons)
        after = copied(learner.read())
        learned = {name for name, param in rounds.spec.params.items() if param.kind == "learn"}
        params |= {name: value for name, value in after.items() if name in learned or width == 1.0}
        if width < 1.0:
            apart[width] = {name: after[name] for name in apart[width]}
    reply = rounds.answer(plan, seed=4)
    assert same_bits(values(reply.payload[MODEL]), params)
    for width, statistics in apart.items():
        sent = reply.payload.get(METHOD.state_key(width))
        assert same_bits({} if sent is None else values(sent), statistics)


# What is sent, and what becomes of it.


def test_statistics_of_a_width_are_those_of_clients_that_stepped_at_it() -> None:
    """Client 0 has the smallest width alone, client 1 the next, too."""
    rounds = Rounds(replace(METHOD, per_round=1, epochs=4), counts=(30, 30, 30))
    start = {name: copied(params) for name, params in rounds.state.arrays.items()}
    moved = {}
    for client, plan in enumerate(METHOD.refreshes(rounds.task, rounds.state, 1, [0, 1, 2])):
        rounds.state = replace(rounds.state, arrays={name: copied(params) for name, params in start.items()})
        after = rounds.close([plan], [rounds.answer(plan)]).arrays
        moved[client] = [
            state_key for state_key in after if not same_bits(stats(after[state_key]), stats(start[state_key]))
        ]
        assert all((after[state_key]["bn2.running_mean"][3:] == 0).all() for state_key in ("width-0.25", "width-0.5"))
    assert moved == {0: ["width-0.25"], 1: ["width-0.25", "width-0.5"], 2: [MODEL, "width-0.25", "width-0.5"]}


def stats(params: Params) -> Params:
    return {name: params[name] for name in STATS}


def test_without_statistics_a_payload_is_the_model_alone() -> None:
    rounds, other = Rounds(METHOD, joined()), Rounds(replace(METHOD, width="fixed"), joined())
    for plan, fixed in zip(rounds.plans(1), other.plans(1), strict=True):
        assert plan.payload == fixed.payload and plan.payload.keys() == {MODEL}
    assert rounds.state.arrays.keys() == {MODEL}


@pytest.mark.parametrize("method", [METHOD, FIXED], ids=["sampled", "fixed"])
def test_bytes_are_random_dropout_s_and_statistics_of_narrower_widths(method: FjORD) -> None:
    """A mean and a variance of each channel, for every narrower width: of 1 + 1, 2 + 3 or 4 + 6 channels."""
    rounds, theirs = Rounds(method), Rounds(RandomDropout(**OPTIONS, keep=METHOD.keep))
    for each, (plan, other) in enumerate(zip(rounds.plans(1), theirs.plans(1), strict=True)):
        statistics = 2 * (1 + 1, 2 + 3, 4 + 6)[each]
        more = each if method.width == "sampled" else 0
        reply = rounds.answer(plan)
        for payload in (plan.payload, reply.payload):
            count = sum(update.count for update in payload.values())
            assert count == other.payload[MODEL].count + more * statistics
        sent = [codec.sizes(codec.encode(u, rounds.spec, known=plan.selection)) for u in reply.payload.values()]
        assert sum(size.values for size in sent) == 4 * count and not any(size.index for size in sent)


def test_blocks_that_one_client_has_are_its_own_values() -> None:
    rounds = Rounds(FIXED)
    plans = rounds.plans(1)
    replies = [rounds.answer(plan) for plan in plans]
    after = model(rounds.close(plans, replies))
    widest = values(replies[2].payload[MODEL])
    alone = ~inside(rounds.spec, plans[1].selection)["conv2.weight"]
    assert alone.sum() == 6 * 4 * 9 - 3 * 2 * 9
    assert after["conv2.weight"][alone].tobytes() == widest["conv2.weight"][alone].tobytes()
    first = [values(reply.payload[MODEL])["conv1.bias"][0].astype(np.float64) for reply in replies]
    assert after["conv1.bias"][0] == np.float32(sum(12 * value for value in first) / 36)


def test_widths_are_drawn_alike_and_for_the_client_and_round_alone() -> None:
    counts: Counter[float] = Counter()
    for round in range(1, 31):
        client_state, plan = _wide(round)
        drawn = _drawn(client_state, plan)
        assert drawn == _drawn(*_wide(round))
        counts.update(drawn)
    total = sum(counts.values())
    assert total == 30 * 6 and counts.keys() == {1, 2, 4}
    assert all(abs(found - total / 3) < 4 * np.sqrt(total * 2 / 9) for found in counts.values())


def _wide(round: int) -> tuple[ClientState, Plan]:
    rounds = Rounds(METHOD)
    return device(plain(), 2), rounds.plans(round)[2]


def _drawn(client_state: ClientState, plan: Plan) -> list[int]:
    """Return the number of channels of conv1 in every step of a round."""
    found: list[int] = []
    fit = GraphLearner.fit

    def told(learner: GraphLearner, samples, batches, *given, **named):  # type: ignore[no-untyped-def]
        found.extend([len(learner.read()["conv1.bias"])] * len(batches))
        return fit(learner, samples, batches, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphLearner, "fit", told)
        METHOD.train(client_state, plan)
    return found


def test_a_step_multiplies_as_much_as_a_model_of_its_width() -> None:
    client_state, plan = _wide(3)
    drawn = _drawn(client_state, plan)
    before = client_state.learner.work().training
    METHOD.train(client_state, plan)
    expected = 0
    for width, batch in zip(drawn, minibatches(client_state, 3, 2, 5), strict=True):
        keep = {1: 0.25, 2: 0.5, 4: 1.0}[width]
        graph = plain().sub(NeuronSet.leading(client_state.spec, keep))
        one = GraphLearner(Model(graph, graph.init(rng.stream(1, rng.INIT))))
        one.fit(client_state.data, [batch], SGD(0.1))
        expected += one.work().training
    assert client_state.learner.work().training - before == expected


# Evaluation.


def test_a_client_is_tested_at_its_width_with_the_statistics_of_that() -> None:
    rounds = Rounds(METHOD)
    for round in (1, 2):
        plans = rounds.plans(round)
        client_states = [device(plain(), plan.client, seed=8) for plan in plans]
        rounds.close(plans, [METHOD.train(*pair) for pair in zip(client_states, plans, strict=True)])
    arrays = rounds.state.arrays
    for client_state, plan in zip(client_states, plans, strict=True):
        assert client_state.private == {"keep": plan.settings["keep"]}
        whole = copied(arrays[MODEL]) | (arrays[METHOD.state_key(plan.settings["keep"])])
        small = GraphLearner(Model(plain().sub(plan.selection), sub_params(plain(), whole, plan.selection)))
        found = METHOD.evaluate(client_state, METHOD.shared(arrays))
        assert found == small.evaluate(client_state.data, client_state.test)
        with METHOD.own(client_state, METHOD.shared(arrays)) as mine:
            assert mine.neurons == plan.selection
    assert METHOD.scored(arrays) == "adapted"


def test_who_was_never_selected_is_tested_at_the_smallest_width() -> None:
    rounds, client_state = Rounds(METHOD), device(plain(), 2)
    with METHOD.own(client_state, METHOD.shared(rounds.state.arrays)) as mine:
        assert mine.neurons == NeuronSet.leading(rounds.spec, 0.25)


def test_an_evaluation_sends_the_statistics_beside_the_model() -> None:
    rounds = Rounds(METHOD)
    state = rounds.play(1)
    message = evaluate_message(1, METHOD, state, rounds.spec)
    assert message.personal and message.payload.keys() == state.arrays.keys()
    for name, data in message.payload.items():
        found = codec.decode(data, rounds.spec, limit=len(data))
        assert same_bits(values(found), state.arrays[name]), name


def test_after_a_refresh_it_has_trained_at_all_its_widths() -> None:
    """A round does so, too, in the order of round 0. The client is tested at its own width."""
    rounds = Rounds(METHOD)
    (plan,) = METHOD.refreshes(rounds.task, rounds.state, 4, [2])
    client_state, again = device(plain(), 2, seed=6), device(plain(), 2, seed=6)
    with METHOD.refreshed(client_state, plan, 2) as mine:
        found = mine.evaluate(client_state.test)
    reply = METHOD.train(again, replace(plan, round=0))
    params = copied(again.learner.read())
    put(params, reply.payload[MODEL])
    again.learner.write(params)
    assert found == again.learner.evaluate(again.data, again.test)
    assert client_state.private == {}


# Capacities, memory, and what is refused.


@pytest.mark.parametrize(
    ("limit", "own", "kept"), [(1.0, 1.0, 4), (0.99, 0.5, 2), (0.5, 0.5, 2), (0.3, 0.25, 1), (0.2, 0.2, 1)]
)
def test_a_client_has_the_largest_width_that_it_can_afford(limit: float, own: float, kept: int) -> None:
    rounds = Rounds(METHOD)
    rounds.task = replace(rounds.task, limits={2: limit})
    plan = rounds.plans(1)[2]
    assert plan.settings == {"keep": own}
    assert len(plan.selection.active["conv1"]) == kept
    reply = rounds.answer(plan)
    rounds.close([plan], [reply])
    assert METHOD.replan(replace(rounds.task, limits={}), rounds.state, plan).settings == {"keep": 1.0}


def test_within_a_limit_it_holds_the_step_of_one_width_at_a_time_and_ends_the_same() -> None:
    """The EMNIST CNN in batches of 16."""
    graph, method = architectures.build("fedspu_emnist", (1, 28, 28), 3), replace(METHOD, batch=16)
    rounds = Rounds(method, graph, counts=(200, 200, 200))
    plan, found, held = rounds.plans(1)[2], [], []
    x = rng.stream(4, rng.DATA).uniform(200 * 784).astype(np.float32).reshape(200, 1, 28, 28)
    for limit in (None, 3_000_000):
        client_state = device(plain(), 2, count=200)
        client_state.spec, client_state.data = rounds.spec, replace(client_state.data, x=x)
        client_state.learner = GraphLearner(Model(graph, model(rounds.state)), limit_bytes=limit)
        found.append(method.train(client_state, plan).payload)
        held.append(sum(size for what, size in client_state.learner.memory().items() if what != "scratch"))
    assert held[1] <= 3_000_000 < held[0]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"momentum": 0.9}, r"optimizer=sgd with momentum=0.9; expected plain sgd, or width=fixed"),
        ({"optimizer": "adam"}, r"optimizer=adam with momentum=0; expected plain sgd, or width=fixed"),
        ({"width": "random"}, r"width=random; expected sampled or fixed"),
        ({"keep": tuple(k / 20 for k in range(1, 18))}, r"keep=\(.*\); expected at most 16 different widths"),
    ],
)
def test_what_it_cannot_do_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FjORD(**options)
    if "width" not in options and "keep" not in options:
        FjORD(**options, width="fixed")
