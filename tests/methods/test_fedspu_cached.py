"""FedSPU behind a cut: what clients are offered, sent, train and keep. Without a budget it is FedSPU bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl import rng
from edgefl.errors import GraphError, PlanError
from edgefl.methods import FedSPU, FedSPUCached
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.budget import Cost, Effort, Shares, SubmodelOption, choose, cost, offers
from edgefl.methods.early_stopping import train
from edgefl.methods.fedspu_cached import PREFIX
from edgefl.methods.plan import Plan, Reply, refuse
from edgefl.methods.rounds.exchange import plan_of, read_answer, train_message, trained_message
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Graph
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.graph.cuts import after, cuts
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from tests.methods.small_models import GRAPHS, copied, device, plain, same_bits

OPTIONS = {"keep": (0.5,), "per_round": 3, "epochs": 2, "batch": 5, "lr": 0.1}
CHEAPEST = FedSPUCached(**OPTIONS, budget=(1e-9,))
graphs = pytest.mark.parametrize("graph", [make() for make in GRAPHS.values()], ids=list(GRAPHS))


def begin(graph: Graph, method: FedSPU) -> tuple[Task, State]:
    task = Task(ModelSpec.of(graph), 3, seed=1, graph=graph)
    return task, method.start(task, graph.init(rng.stream(1, rng.INIT)))


def rounds(graph: Graph, method: FedSPU, count: int = 3) -> tuple[State, list[Reply]]:
    """Everything through messages, as it is sent."""
    task, state = begin(graph, method)
    clients = [device(graph, client, seed=1) for client in range(3)]
    replies = []
    for round in range(1, count + 1):
        accumulator = Accumulator(task.spec)
        for plan in method.plan(task, state, round):
            client_state = clients[plan.client]
            received = plan_of(train_message(plan, task.spec, "float32"), plan.client, task.spec)
            said = trained_message(train(method, client_state, received), received, task.spec, "float32", 1.0)
            answer = read_answer(said, plan, task.spec)
            assert answer.refusal is None
            assert answer.reply is not None
            replies.append(answer.reply)
            method.aggregate(accumulator, plan, answer.reply)
        state = method.finish(task, state, accumulator, round)
    return state, replies


@graphs
@pytest.mark.parametrize("budget", [(), (1.0,)])
def test_without_a_budget_that_binds_it_is_fedspu_bit_for_bit(graph: Graph, budget: tuple[float, ...]) -> None:
    expected, said = rounds(graph, FedSPU(**OPTIONS, es=True))
    found, too = rounds(graph, FedSPUCached(**OPTIONS, es=True, budget=budget))
    assert found.values == expected.values
    same_bits(found.arrays[MODEL], expected.arrays[MODEL])
    for one, other in zip(said, too, strict=True):
        assert {**one.metrics, "status": one.status} == {**other.metrics, "status": other.status}


@graphs
def test_what_lies_before_the_cut_comes_whole_and_is_not_asked_for(graph: Graph) -> None:
    task, state = begin(graph, CHEAPEST)
    plan, as_fedspu = CHEAPEST.plan(task, state, 1)[0], FedSPU(**OPTIONS).plan(task, state, 1)[0]
    cut = cuts(graph)[-1]
    rest = after(graph, cut).parameters()
    assert plan.settings == {"keep": 0.5, "cut": cut}
    assert set(plan.due) == {MODEL}
    assert plan.payload[MODEL].blocks.keys() == rest.keys()
    assert plan.payload[PREFIX].blocks.keys() == task.spec.params.keys() - rest.keys()
    for name, block in plan.payload[PREFIX].blocks.items():
        assert block.index is None
        assert block.values.tobytes() == state.arrays[MODEL][name].tobytes()
    for name, block in plan.payload[MODEL].blocks.items():  # FedSPU's draw
        assert block.index == as_fedspu.payload[MODEL].blocks[name].index
    message = train_message(plan, task.spec, "float32")
    assert message.selection == b""  # the payload says which neurons are active
    assert plan_of(message, plan.client, task.spec).selection == plan.selection


@graphs
def test_a_client_keeps_its_frozen_part_and_takes_the_first_layers(graph: Graph) -> None:
    method = replace(CHEAPEST, bn_frozen="freeze")
    task, state = begin(graph, method)
    plan = method.plan(task, state, 1)[0]
    assert plan.selection is not None
    client_state = device(graph, plan.client, seed=7)  # a personal model that differs from the server's
    before = copied(client_state.learner.read())
    reply = method.train(client_state, plan)
    assert refuse(plan, reply) is None
    rest, selected = after(graph, plan.settings["cut"]).parameters(), plan.selection.blocks(task.spec)
    for name, value in client_state.learner.read().items():
        if name not in rest:
            assert value.tobytes() == state.arrays[MODEL][name].tobytes()
            continue
        rows, cols = selected[name]
        kept = np.ones(value.shape, bool)
        kept[np.ix_(*(np.arange(n) if ids is None else ids for n, ids in zip(value.shape, (rows, cols))))] = False
        assert np.array_equal(value[kept], before[name][kept])
    assert reply.payload[MODEL].blocks.keys() == rest.keys()


def test_what_nobody_trains_stays_as_it_was_and_the_rest_is_averaged_where_it_was_trained() -> None:
    graph = plain()
    task, state = begin(graph, CHEAPEST)
    plans = CHEAPEST.plan(task, state, 1)
    replies = [CHEAPEST.train(device(graph, plan.client), plan) for plan in plans]
    accumulator = Accumulator(task.spec)
    for plan, reply in zip(plans, replies, strict=True):
        CHEAPEST.aggregate(accumulator, plan, reply)
    found = CHEAPEST.finish(task, state, accumulator, 1).arrays[MODEL]
    rest = after(graph, cuts(graph)[-1]).parameters()
    for name, value in found.items():
        if name not in rest:
            assert value.tobytes() == state.arrays[MODEL][name].tobytes()
    bias = np.mean([reply.payload[MODEL].blocks["fc.bias"].values for reply in replies], axis=0)  # equal samples
    np.testing.assert_allclose(found["fc.bias"], bias, rtol=1e-6)


def test_the_cost_of_the_papers_cnn_by_hand() -> None:
    """conv1 takes 784 x 9 x 20 multiply-adds, conv2 196 x 9 x 20 x 20, fc 980 x 62. 4 of 20 neurons are active."""
    graph, effort = build("fedspu_emnist", *EXAMPLES["fedspu_emnist"]), Effort(5, 16)
    conv1, conv2, fc = 784 * 9 * 20, 196 * 9 * 400, 980 * 62
    dense = cost(graph, SubmodelOption(1.0), effort)
    assert dense.macs == 5 * (2 * conv1 + 3 * conv2 + 3 * fc)  # no signal to the input
    assert cost(graph, SubmodelOption(0.2), effort).macs == 5 * (conv1 * 1.2 + conv2 * (1 + 0.2 + 0.04) + fc * 2.2)
    cached = cost(graph, SubmodelOption(0.2, "flatten"), effort)
    assert (cached.still, cached.steps) == (conv1 + conv2, 5 * fc * (1 + 0.2))
    assert cached.macs / dense.macs == pytest.approx(0.094, abs=5e-4)
    first = 20 * 9 + 20 + 4 * 20 + 20 * 20 * 9 + 20 + 4 * 20  # both convolutions and their norms, whole, down
    assert cached.values == first + 2 * (196 * 62 + 62)


def test_the_largest_share_comes_first_then_the_earliest_cut_then_what_is_cheapest() -> None:
    graph, effort = build("fedspu_cifar", *EXAMPLES["fedspu_cifar"]), Effort(5, 16)
    assert [offer.cut for offer in offers(graph, (0.2,))] == ["", "pool1", "flatten", "relu3", "relu4"]
    assert choose(graph, (0.2, 0.4), effort, Shares()) == SubmodelOption(0.4)
    assert choose(graph, (0.2, 0.4), effort, Shares(macs=0.4)) == SubmodelOption(0.4, "pool1")
    assert choose(graph, (0.2, 0.4), effort, Shares(macs=1e-9)) == SubmodelOption(0.2, "relu4")
    assert choose(graph, (0.2, 0.4), effort, Shares(values=0.05)) == SubmodelOption(0.2)
    assert choose(graph, (0.2,), effort, Shares(macs=0.35, values=0.05)) == SubmodelOption(0.2, "pool1")
    dense = cost(graph, SubmodelOption(1.0), effort)
    assert Shares(1.0, 1.0, 1.0).allows(dense, dense)
    assert not Shares(memory=0.99).allows(dense, Cost(1, 1, dense.memory, 1))
    with pytest.raises(GraphError, match="cut after 'fc9'"):
        cost(graph, SubmodelOption(0.2, "fc9"), effort)


def test_tiers_have_budgets_of_their_own_and_a_declared_capacity_goes_before() -> None:
    graph = build("fedspu_emnist", *EXAMPLES["fedspu_emnist"])
    task, method = Task(ModelSpec.of(graph), 5, seed=1, graph=graph), FedSPUCached()
    found = [method.offer(task, client) for client in range(5)]
    assert found == [
        SubmodelOption(0.2, "flatten"),
        SubmodelOption(0.4, "flatten"),
        SubmodelOption(0.6),
        SubmodelOption(0.8),
        SubmodelOption(1.0),
    ]
    assert method.offer(replace(task, limits={4: 0.3}), 4) == SubmodelOption(0.3)
    assert replace(method, traffic=(0.2,)).offer(task, 0).keep == 0.2


def test_bad_settings_plans_and_models_without_a_graph_are_named() -> None:
    with pytest.raises(ValueError, match=r"budget=0\.0; expected budget > 0"):
        FedSPUCached(budget=(0.0,))
    graph = plain()
    task, state = begin(graph, CHEAPEST)
    with pytest.raises(ValueError, match="fedspu-cached has a time budget and a model without a graph"):
        CHEAPEST.plan(replace(task, graph=None), state, 1)
    plan = CHEAPEST.plan(task, state, 1)[0]
    with pytest.raises(PlanError, match="plan with cut=3; expected the name of a result of the graph"):
        CHEAPEST.train(device(graph, plan.client), replace(plan, settings={"cut": 3}))
    with pytest.raises(GraphError, match="cut after 'nowhere'; expected a result"):
        CHEAPEST.train(device(graph, plan.client), replace(plan, settings={"cut": "nowhere"}))


def test_a_cut_drawn_whole_is_still_a_selection_that_both_sides_know() -> None:
    """At a share of one everything after the cut is active. What lies before the cut is still not sent back."""
    graph = plain()
    method = replace(CHEAPEST, keep=(1.0,))
    task, state = begin(graph, method)
    plan: Plan = method.plan(task, state, 1)[0]
    assert plan.selection == NeuronSet.full(task.spec)
    reply = method.train(device(graph, plan.client), plan)
    assert reply.payload[MODEL].blocks.keys() == after(graph, cuts(graph)[-1]).parameters().keys()
