"""Tensors that wait for the backward pass as float16: which ones, the error of the steps, the arena's size."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl import rng
from edgefl.kernels.table import TABLE
from edgefl.learning import SGD, Adam, FitOptions, GraphLearner
from edgefl.learning.lowering import half_precision
from edgefl.learning.lowering import lower as lowering
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.arena_inventory import saved_bytes
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import Schedule, Tensor
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Graph, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.random_mask import random_mask

from .graphs import GRAPHS, model, samples

BATCH = 16
HALF = 2.0**-11  # half a step of float16, relative
MOVES = ("narrow_float16", "widen_float16")
HALVED = SGD(0.05, saved="fp16")


def drawn(graph: Graph, keep: float) -> NeuronSet | None:
    return None if keep == 1 else NeuronSet.draw(ModelSpec.of(graph), keep, rng.stream(1, rng.NEURONS))


def step(graph: Graph, terms: Terms, keep: float = 1, batch: int = BATCH) -> Schedule:
    return lowering.lower(graph, ModelSpec.of(graph), batch, drawn(graph, keep), terms=terms)


def stepped(graph: Graph, backend: str, optimizer: Optimizer, keep: float = 1, density: float = 1) -> dict:
    """Return what one step changes, in float64."""
    learner = GraphLearner(model(graph), backend)
    if density < 1:
        learner.restrict(random_mask(learner.spec, density, "erk", 1), BATCH)
    before = {name: value.astype(np.float64) for name, value in learner.read().items()}
    learner.fit(samples(graph, BATCH), [np.arange(BATCH, dtype=np.int32)], optimizer, FitOptions(drawn(graph, keep)))
    return {name: value - before[name] for name, value in learner.read().items()}


def everything(recorder: Recorder, float_bytes: int) -> Recorder:
    """All that may be narrowed, whether it pays or not."""
    return half_precision._narrowed(recorder, half_precision._waiting(recorder), float_bytes).recorder


def copied(recorder: Recorder, float_bytes: int) -> Recorder:
    """Replace halves by copies, so that nothing is rounded."""
    halved = everything(recorder, float_bytes)
    again, calls = halved.again(), halved.calls
    moves = [call for call in calls if call.op in MOVES]
    sizes = {arg.buffer: max(each.shape[0] for each in call.args) // 2 for call in moves for arg in call.args}
    copies = {
        arg.buffer: again.new((sizes[arg.buffer],))
        for call in moves
        for arg in call.args
        if halved.buffers()[arg.buffer].kind == "byte"
    }
    for call in calls:
        again.node = call.node
        if call.op in MOVES:
            x, y = (copies.get(arg.buffer, arg).view(1, 1, sizes[arg.buffer]) for arg in call.args)
            again.call("put_channels", x, 0, y)
        else:
            again.call(call.op, *call.args)
    return again


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "narrow", everything)
    monkeypatch.setattr(lowering, "_smaller", lambda first, second: second)


def distance(one: dict, other: dict) -> float:
    """Return the distance of a step from another, relative to the other step."""
    apart = sum(float(np.sum((one[name] - other[name]) ** 2)) for name in other)
    return (apart / sum(float(np.sum(each**2)) for each in other.values())) ** 0.5


def test_copies_in_place_of_halves_change_no_bit(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call gets the values that it would get. The graphs are full and frozen, and under a mask."""
    monkeypatch.setattr(lowering, "narrow", copied)
    ways = [(name, graph, keep, 1.0) for name, graph in GRAPHS.items() for keep in (1.0, 0.5)]
    ways += [("digits_cnn", architectures.build("digits_cnn", (1, 8, 8), 10), 1.0, density) for density in (0.3, 0.05)]
    for name, graph, keep, density in ways:
        plain, other = (stepped(graph, "native", each, keep, density) for each in (SGD(0.05), HALVED))
        for each in plain:
            np.testing.assert_array_equal(other[each], plain[each], str((name, keep, density, each)))


def test_steps_with_all_halved_are_within_a_few_roundings(always: None) -> None:
    """Steps on every graph, full and frozen, differ from float32's by at most 8 half steps of float16.

    Native differs from the reference by as much. A half that turns a ReLU's kink away, or that chooses another cell of
    a window, moves a small graph's step by so much.
    """
    for name, graph in GRAPHS.items():
        for keep in (1, 0.5):
            exact = stepped(graph, "native", SGD(0.05), keep)
            native, reference = (stepped(graph, backend, HALVED, keep) for backend in ("native", "reference"))
            assert 0 < distance(native, exact) <= 8 * HALF, (name, keep)
            assert distance(native, reference) <= 8 * HALF, (name, keep)


def test_it_is_done_where_the_arena_gets_smaller_and_nowhere_else() -> None:
    """EMNIST's largest tensor is read where most is live, so that a copy of it would take more: nothing is narrowed."""
    for name, (keep, most) in {
        "fedspu_emnist": (1, 1.0),
        "fedspu_cifar": (1, 0.85),
        "vgg11": (1, 0.75),
        "resnet18": (0.2, 0.6),
    }.items():
        graph = architectures.build(name, *architectures.EXAMPLES[name])
        whole, halved = (step(graph, Terms(saved=saved), keep) for saved in ("fp32", "fp16"))
        if most == 1:
            assert [call.op for call in halved.calls] == [call.op for call in whole.calls], name
            assert halved.arena_bytes == whole.arena_bytes, name
            continue
        assert halved.arena_bytes <= most * whole.arena_bytes, name
        assert saved_bytes(halved) < saved_bytes(whole), name
        assert not any("float16" in call.op for call in whole.calls), name


def test_no_two_live_tensors_overlap_and_what_is_narrow_was_written() -> None:
    graph = architectures.build("resnet18", *architectures.EXAMPLES["resnet18"])
    found = step(graph, Terms(saved="fp16"), 0.4)
    spans = [
        (offset, offset + aligned(buffer.bytes(4)), buffer.first, buffer.last)
        for offset, buffer in zip(found.offsets, found.buffers, strict=True)
    ]
    for i, (start, end, first, last) in enumerate(spans):
        for low, high, since, until in spans[:i]:
            assert end <= low or high <= start or last < since or until < first, i
    written: set[int] = set()
    for call in found.calls:
        for row, arg in zip(TABLE[call.op].arguments, call.args, strict=False):
            if isinstance(arg, Tensor):
                assert row.access or arg.buffer in written, (call.op, row.name)
        written |= {arg.buffer for arg in call.args if isinstance(arg, Tensor)}


def test_planned_is_what_a_learner_holds() -> None:
    graph = architectures.build("fedspu_cifar", *architectures.EXAMPLES["fedspu_cifar"])
    data = samples(graph, BATCH)
    held = {}
    for saved in ("fp32", "fp16"):
        learner = GraphLearner(model(graph))
        learner.fit(data, [np.arange(BATCH, dtype=np.int32)], SGD(0.05, saved=saved))
        held[saved] = learner.memory()["arena"]
        assert held[saved] == step(graph, Terms(saved=saved)).arena_bytes, saved
    assert held["fp16"] < held["fp32"]


def test_statistics_and_ids_of_tokens_stay_float32(always: None) -> None:
    for name in ("plain", "groupnorm", "text", "attention"):
        calls = step(GRAPHS[name], Terms(saved="fp16")).calls
        wide = {call.args[1].buffer for call in calls if call.op == "widen_float16"}
        assert wide, name
        for call in calls:
            for argument, arg in zip(TABLE[call.op].names, call.args, strict=False):
                exact = argument in ("mean", "inv_std", "ids") and isinstance(arg, Tensor)
                assert not (exact and arg.buffer in wide), (name, call.op)


def test_a_saved_that_there_is_not_is_refused() -> None:
    for make in (SGD, Adam):
        with pytest.raises(ValueError, match="saved=fp8; expected one of fp32, fp16"):
            make(0.1, saved="fp8")
