"""Trained parts in every method: which parts each method trains, what it sends of them, and which parts it refuses."""

from __future__ import annotations

import pytest

from edgefl.methods import METHODS, build
from edgefl.methods.task import BODY, MODEL
from edgefl.models.neurons.trained_part import with_trained
from tests.methods.small_models import plain
from tests.methods.test_frozen import OPTIONS, OWN, Run

HEAD, BIASES, LAST, KEPT = "head", "biases", "last:1", "last:1,-*.running_*"
PARTS = (HEAD, BIASES, LAST, KEPT)
NO_BODY = "all 12 parameters of the model's body are frozen; expected one that is trained, as clients share the body"
NO_HEAD = (
    r"a frozen fc\.weight in its head; expected a head that each client can train, as with head among the patterns"
)
MOVING = r"bn2\.running_var; expected no running statistics that move, as with --train=-\*\.running_\*"
NO_WEIGHTS = r"the trained part conv1\.bias, bn1\.bias, conv2\.bias, \.\.\. has no weights of two or more dimensions"
REFUSED = {  # every other part is trained
    **{(name, HEAD): NO_BODY for name in ("fedper", "fedbabu", "pflego", "fedrecon")},
    **{(name, BIASES): NO_HEAD for name in ("fedper", "pflego", "fedrecon")},
    **{(name, LAST): MOVING for name in ("pflego", "fedrecon")},
    **{(name, BIASES): NO_WEIGHTS for name in ("fedspa", "fedspa-rsm", "subfedavg")},
}


def options(name: str) -> dict[str, object]:
    return {**OPTIONS, **OWN.get(name, {})}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_and_sends_the_part_or_refuses_it(name: str, part: str) -> None:
    graph = with_trained(plain(), part)
    if (name, part) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name, part]):
            Run(build(name, options(name)), graph)
        return
    run = Run(build(name, options(name)), graph)
    sent: set[str] = set()
    for round in (1, 2):
        for plan, reply in run.play(round):
            assert reply.steps > 0
            for payload in (*plan.payload.values(), *reply.payload.values()):
                sent |= payload.blocks.keys()
    trained = set(graph.parameters()) - graph.frozen
    assert sent <= trained
    assert bool(sent) == (name != "local")  # its clients share nothing
    for client_state in run.clients:
        for parameter, value in client_state.learner.read(graph.frozen).items():
            assert value.tobytes() == run.initial[parameter].tobytes()
    for arrays in (run.state.arrays.get(MODEL, {}), run.state.arrays.get(BODY, {})):
        for parameter in graph.frozen & arrays.keys():
            assert arrays[parameter].tobytes() == run.initial[parameter].tobytes()


WHOLE = {"keep": (1.0,)}
NO_NEURONS = r"keep=0\.5, but the trained part fc\.bias has no neurons, so that every client would train all of it"


@pytest.mark.parametrize("name", ["fedspu", "fedspu-es", "fedspu-cached", "fedspu-cached-es"])
def test_fedspu_refuses_a_part_without_neurons_unless_clients_train_all_of_it(name: str) -> None:
    """The 3 values of fc.bias belong to classes."""
    graph = with_trained(plain(), "fc.bias")
    with pytest.raises(ValueError, match=NO_NEURONS):
        Run(build(name, options(name)), graph)
    run = Run(
        build(name, {**options(name), **WHOLE, "budget": ()} if "cached" in name else {**options(name), **WHOLE}), graph
    )
    assert [plan.payload[MODEL].count for plan, _ in run.play(1)] == [3, 3]


def test_fedspu_draws_neurons_within_the_part() -> None:
    """p = .5 of conv1's 4 and conv2's 6 neurons: 3 x 2 x 9 weights, 3 biases, 4 x 3 of bn2, and 3 x 12 + 3 of fc."""
    run = Run(build("fedspu", {**OPTIONS, "keep": (0.5,)}), with_trained(plain(), LAST))
    for plan, reply in run.play(1):
        assert plan.payload[MODEL].count == reply.payload[MODEL].count == 3 * 2 * 9 + 3 + 4 * 3 + 3 * 12 + 3


def test_masks_count_the_weights_of_the_part() -> None:
    """Half of conv2's 6 x 4 x 9 and fc's 3 x 24 weights, and all of 6 + 3 biases and 4 x 6 values of bn2."""
    run = Run(build("fedspa", {**OPTIONS, "density": 0.5}), with_trained(plain(), LAST))
    for plan, _ in run.play(1):
        assert plan.payload[MODEL].count == (6 * 4 * 9 + 3 * 24) // 2 + 6 + 3 + 4 * 6
