"""Slices of parameters in every method: which methods train them, what is sent of them, and what keeps its bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgefl.experiment.assembly import check_slices
from edgefl.methods import METHODS, build
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.task import BODY, MODEL
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trained_part import with_trained
from tests.methods.small_models import plain
from tests.methods.test_frozen import OPTIONS, OWN, Run

TRAIN = "conv2.weight[1:3, 2:4],conv2.bias[4:],fc.*"
SENT = {"conv2.weight": 2 * 2 * 9, "conv2.bias": 2, "fc.weight": 3 * 24, "fc.bias": 3}  # values
BODY_ALONE = ("fedper", "fedbabu")
TAKEN = ("fedavg", "local", "fedavg-ft", "fedprox", "fedper", "fedbabu", "ditto")


def test_these_methods_take_slices() -> None:
    assert {name for name, made in METHODS.items() if made().takes_slices} == set(TAKEN)


def outside(params: Params) -> list[bytes]:
    """Return the coordinates that the patterns leave out."""
    weight, kept = params["conv2.weight"], np.ones((6, 4, 3, 3), bool)
    kept[1:3, 2:4] = False
    return [weight[kept].tobytes(), params["conv2.bias"][:4].tobytes(), params["conv1.weight"].tobytes()]


def inside(params: Params) -> bytes:
    return params["conv2.weight"][1:3, 2:4].tobytes() + params["conv2.bias"][4:].tobytes()


def check_payloads(name: str, plan: Plan, reply: Reply) -> None:
    names = SENT.keys() if name not in BODY_ALONE else [each for each in SENT if each.startswith("conv2")]
    expected = {each: SENT[each] for each in names}
    for payload in (*plan.payload.values(), *reply.payload.values()):
        assert {each: block.values.size for each, block in payload.blocks.items()} == expected


@pytest.mark.parametrize("name", TAKEN)
def test_a_slice_is_trained_and_sent_and_the_rest_keeps_its_bits(name: str) -> None:
    run = Run(build(name, {**OPTIONS, **OWN.get(name, {})}), with_trained(plain(), TRAIN))
    trained = set()
    for round in (1, 2):
        for plan, reply in run.play(round):
            check_payloads(name, plan, reply)
            assert reply.steps > 0
            trained.add(plan.client)
    for client in trained:
        model = dict(run.clients[client].learner.read())
        assert outside(model) == outside(run.initial)
        assert inside(model) != inside(run.initial)
    for arrays in (run.state.arrays.get(MODEL, {}), run.state.arrays.get(BODY, {})):
        if arrays:
            assert outside(arrays) == outside(run.initial)
            assert inside(arrays) != inside(run.initial)
    assert bool(run.state.arrays) == (name != "local")


def test_the_server_takes_the_mean_of_the_slices() -> None:
    """Each client weighs its number of samples."""
    run = Run(build("fedavg", OPTIONS), with_trained(plain(), TRAIN))
    replies = [reply for _, reply in run.play(1)]
    examples = [reply.examples for reply in replies]
    values = [reply.payload[MODEL].blocks["conv2.bias"].values.astype(np.float64) for reply in replies]
    mean = sum(n * value for n, value in zip(examples, values, strict=True)) / sum(examples)
    assert run.state.arrays[MODEL]["conv2.bias"][4:].tolist() == mean.astype(np.float32).tolist()


@pytest.mark.parametrize("name", [name for name in METHODS if name not in TAKEN])
def test_other_methods_refuse_a_slice(name: str) -> None:
    spec = ModelSpec.of(with_trained(plain(), TRAIN))
    problem = rf"{name}: the trained part conv2\.bias\[4:6\] is a slice of a parameter; expected whole parameters, as "
    with pytest.raises(ValueError, match=problem + "with --train conv2.bias, or one of the methods fedavg, local, fed"):
        check_slices(name, METHODS[name](), spec)


def test_fedper_refuses_a_slice_of_the_head() -> None:
    graph = with_trained(plain(), "conv2.*,fc.bias,fc.weight[:, 0:8]")
    with pytest.raises(ValueError, match=r"a slice of fc\.weight in its head; expected a head that each client can"):
        Run(build("fedper", OPTIONS), graph)


def test_fedprox_draws_the_slice_to_the_received_model() -> None:
    moved = {}
    for name, options in {"fedavg": {}, "fedprox": {"mu": 1.0}}.items():
        run = Run(build(name, {**OPTIONS, **options}), with_trained(plain(), TRAIN))
        list(run.play(1))
        ends = (np.frombuffer(inside(each), np.float32) for each in (run.state.arrays[MODEL], run.initial))
        moved[name] = math.dist(*ends)
    assert 0 < moved["fedprox"] < moved["fedavg"]
