"""Closing a round: which replies are left out, shortened or counted as fewer samples, and what methods make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgefl.methods import FedAvg, FedDC, FedSPU
from edgefl.methods.aggregation import AggregationRule
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.fedrecon import FedRecon
from edgefl.methods.pflego import PFLEGO
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.change_bound import UpdateNormBound
from edgefl.methods.rounds.round_closing import AggregationResult, AggregationSettings, close
from edgefl.methods.task import BODY, MODEL, State, Task
from edgefl.models.graph import Graph, Node, Params
from edgefl.models.graph.operations import Linear
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update

GRAPH = Graph((1,), (Node("fc1", Linear(1, 2), ("input",)), Node("fc2", Linear(2, 1), ("fc1",))))
SPEC = ModelSpec.of(GRAPH)
TASK = Task(SPEC, 4, seed=1, examples=12)
OFF = UpdateNormBound("off")


def model(value: float) -> Params:
    return {name: np.full(param.shape, value, np.float32) for name, param in SPEC.params.items()}


def reply(client: int, value: float, examples: int = 3, neurons: NeuronSet | None = None) -> tuple[Plan, Reply]:
    """A client whose every parameter is `value` after the round."""
    plan = Plan("train", 1, client, neurons, {MODEL: take(model(1), SPEC, neurons)})
    return plan, Reply(1, client, {MODEL: take(model(value), SPEC, neurons)}, examples=examples, steps=1)


def closed(
    *values: float, aggregation_settings: AggregationSettings, method: Algorithm | None = None, backwards: bool = False
) -> AggregationResult:
    method = method or FedAvg()
    accepted = [reply(client, value) for client, value in enumerate(values)]
    return close(
        TASK, method, method.start(TASK, model(1)), accepted[:: -1 if backwards else 1], 1, aggregation_settings
    )


def level(found: AggregationResult) -> float:
    """The value that every parameter has after the round."""
    values = {float(value) for array in found.state.arrays[MODEL].values() for value in array.reshape(-1)}
    assert len(values) == 1
    return values.pop()


def test_replies_that_nobody_doubts_give_the_mean_whatever_the_bound() -> None:
    found = [
        closed(2, 3, 7, aggregation_settings=AggregationSettings(bound=bound))
        for bound in (OFF, UpdateNormBound("refuse"), UpdateNormBound("clip"))
    ]
    assert [level(each) for each in found] == [4, 4, 4]
    assert [each._replace(state=State({})) for each in found] == 3 * [AggregationResult(State({}))]


def test_a_reply_beyond_the_bound_is_left_out_and_named() -> None:
    found = closed(2, 3, 3e38, aggregation_settings=AggregationSettings())
    assert level(found) == 2.5
    assert list(found.excluded) == [2]
    assert found.excluded[2].startswith("reply of client 2 changes model/fc2.weight by 3e+38 (root mean square); ")


def test_a_reply_beyond_the_bound_is_shortened_where_that_is_asked() -> None:
    found = closed(2, 4, 3e38, aggregation_settings=AggregationSettings(bound=UpdateNormBound("clip", 2)))
    assert level(found) == pytest.approx((2 + 4 + 7) / 3)  # changes 1, 3 and, of twice the median, 6
    assert (list(found.clipped), found.excluded) == ([2], {})


def test_without_a_bound_one_reply_decides() -> None:
    assert level(closed(2, 3, 3e38, aggregation_settings=AggregationSettings(bound=OFF))) == pytest.approx(1e38)


def test_clipped_shortens_every_change_to_the_median() -> None:
    found = closed(2, 3, 9, aggregation_settings=AggregationSettings(AggregationRule("clipped"), OFF))
    assert level(found) == pytest.approx((2 + 3 + 3) / 3)
    assert found.clipped == {}  # half of all replies, in every round: no news


def test_clipped_takes_the_median_of_what_the_bound_has_left() -> None:
    refused = closed(
        2,
        3,
        3,
        9,
        3e38,
        3e38,
        aggregation_settings=AggregationSettings(AggregationRule("clipped"), UpdateNormBound("refuse", 5)),
    )
    assert level(refused) == pytest.approx((2 + 3 + 3 + 3) / 4)
    clipped = closed(
        2,
        3,
        3,
        9,
        3e38,
        3e38,
        aggregation_settings=AggregationSettings(AggregationRule("clipped"), UpdateNormBound("clip", 5)),
    )
    assert level(clipped) == pytest.approx((2 + 5 * 3) / 6)


def test_trimmed_and_median_rank_what_the_bound_has_left() -> None:
    assert level(closed(2, 3, 4, 9, aggregation_settings=AggregationSettings(AggregationRule("trimmed", 1)))) == 3.5
    assert level(closed(2, 3, 9, 3e38, aggregation_settings=AggregationSettings(AggregationRule("median")))) == 3


@pytest.mark.parametrize("aggregation", ["mean", "clipped", "trimmed:1", "median"])
def test_the_order_of_arrival_does_not_matter(aggregation: str) -> None:
    aggregation_settings = AggregationSettings(AggregationRule.parse(aggregation), UpdateNormBound("clip", 2))
    found = [
        closed(2.1, 3.3, 4.7, 99, aggregation_settings=aggregation_settings, backwards=backwards)
        for backwards in (False, True)
    ]
    assert found[0].state.arrays[MODEL]["fc1.weight"].tobytes() == found[1].state.arrays[MODEL]["fc1.weight"].tobytes()


def test_samples_beyond_the_most_do_not_count() -> None:
    accepted = [reply(0, 2, examples=2**53 - 1), reply(1, 4, examples=10)]
    found = close(TASK, FedAvg(), State({MODEL: model(1)}), accepted, 1, AggregationSettings(most_examples=10))
    assert (level(found), found.counted) == (3, {0: 10})


def test_steps_beyond_those_of_the_most_samples_do_not_count() -> None:
    """FedSPU may weigh by batches: 2 epochs of 10 samples in batches of 5 are 4 steps."""
    method = FedSPU(epochs=2, batch=5, weight="batches")
    pairs = [reply(0, 2, 1000), reply(1, 4, 10)]
    accepted = [(plan, replace(each, steps=method.steps(each.examples))) for plan, each in pairs]
    found = close(TASK, method, method.start(TASK, model(1)), accepted, 1, AggregationSettings(most_examples=10))
    assert level(found) == 3


def test_a_left_out_reply_stops_no_client() -> None:
    """Its client will send a stop again."""
    pairs = [reply(client, value) for client, value in enumerate([2.0, 2.0, 3e38])]
    stops = [(plan, replace(each, status="stopped")) for plan, each in pairs]
    method = FedSPU(es=True)
    found = close(TASK, method, method.start(TASK, model(1)), stops, 1, AggregationSettings())
    assert found.state.values["running"] == [2, 3]


def test_neurons_that_few_trained_stay_under_a_trimmed_mean() -> None:
    one = NeuronSet.of(SPEC, {"fc1": np.array([0], np.int32)})
    accepted = [reply(0, 2, neurons=one), reply(1, 3), reply(2, 4)]
    method = FedSPU()
    found = close(
        TASK, method, method.start(TASK, model(1)), accepted, 1, AggregationSettings(AggregationRule("trimmed", 1))
    )
    assert found.state.arrays[MODEL]["fc1.weight"].tolist() == [[3], [3]]  # from 2, 3, 4, and from 3, 4 and the old 1


def gradient(client: int, value: float) -> tuple[Plan, Reply]:
    update = take(model(value), SPEC, names=SPEC.body)
    return Plan("train", 1, client, payload={BODY: update}), Reply(1, client, {BODY: update}, examples=3, steps=1)


@pytest.mark.parametrize("method", [PFLEGO(rho=0.5), FedRecon(rho=0.5, server="sgd")], ids=["pflego", "fedrecon"])
def test_gradients_are_ranked_as_changes_from_nothing(method: Algorithm) -> None:
    """The gradients are 2, 4, 6 and a lie, each of 3 of 12 samples. The middle two are 4 and 6."""
    accepted = [gradient(client, value) for client, value in enumerate([2, 4, 6, 9])]
    body = {name: model(1)[name] for name in SPEC.body}
    found = close(TASK, method, State({BODY: body}), accepted, 1, AggregationSettings(AggregationRule("median")))
    assert found.state.arrays[BODY]["fc1.weight"].tolist() == [[1 - 0.5 * 5], [1 - 0.5 * 5]]


def test_feddc_adds_up_changes_by_the_aggregation_that_was_chosen() -> None:
    method = FedDC(alpha=0.1)

    def both(client: int, value: float, change: float) -> tuple[Plan, Reply]:
        plan, sent = reply(client, value)
        return plan, replace(sent, payload={**sent.payload, "gradient": Update(take(model(change), SPEC).blocks)})

    accepted = [both(0, 2, 1), both(1, 3, 2), both(2, 9, 30)]
    found = close(
        TASK, method, method.start(TASK, model(1)), accepted, 1, AggregationSettings(AggregationRule("median"))
    )
    assert found.state.arrays["gradient"]["fc1.weight"].tolist() == [[1.5], [1.5]]  # 3 x the median of 4 clients
    assert found.state.arrays["drift"]["fc1.weight"].tolist() == [[1.5], [1.5]]


def test_a_round_without_replies_changes_nothing() -> None:
    for aggregation in ("mean", "clipped", "trimmed:1", "median"):
        assert level(closed(aggregation_settings=AggregationSettings(AggregationRule.parse(aggregation)))) == 1


def test_lengths_that_are_known_are_not_measured_again() -> None:
    method, accepted = FedAvg(), [reply(client, 2) for client in range(3)]
    far = {MODEL: dict.fromkeys([*SPEC.params, ""], 1e6)}
    found = close(TASK, method, method.start(TASK, model(1)), accepted, 1, AggregationSettings(), lengths={1: far})
    assert list(found.excluded) == [1]
