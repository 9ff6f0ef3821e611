"""Whole training steps: forward, loss, backward and update of a model, native at each p against PyTorch.

The native step is GraphLearner.fit's, as a device runs it (see native_steps.py): uint8 examples are gathered and scaled
by index, gradients are exact, and SGD works in place on the active blocks. PyTorch's step is dense (see peers.py).
Beside each p stands what the full forward pass and exact gradients cost: a step of the honest sub-model, of these
neurons alone. The last column is the rate of the step's products over the rate of one large product in the same turns.
On more threads than one, every contender is a process of its own (apart.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from bench import machine, peak, peers
from bench.apart import Make, interleave_apart
from bench.brought import MODULES
from bench.native_steps import steps
from bench.rows import Row, native_name, peak_name, row, sub_name
from bench.runner import Contender, Effort, Timing, clock_for, interleave
from edgefl.errors import GraphError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.models.graph import Graph, Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.submodel import sub_params
from edgefl.rng import INIT, NEURONS, stream
from edgefl.torch import from_torch

KEEPS = (1.0, 0.8, 0.6, 0.4, 0.2)
POOL = 4  # batches of distinct examples a step draws from
SEED = 1


class Case(NamedTuple):
    """A built-in model or one of bench/brought.py: the shape of its examples, its classes, and batch sizes."""

    model: str
    input_shape: tuple[int, ...]
    classes: int
    batches: tuple[int, ...]

    @property
    def graph(self) -> Graph:
        if self.model in MODULES:
            return from_torch(MODULES[self.model](self.classes), torch.zeros(2, *self.input_shape)).graph
        return build(self.model, self.input_shape, self.classes)


PAPER = (
    Case("fedspu_cifar", (3, 32, 32), 10, (16, 128)),
    Case("fedspu_emnist", (1, 28, 28), 62, (16,)),
    Case("fedspu_speech", (1, 32, 32), 35, (16,)),
)
OTHERS = ("lenet5", "pflego_cifar", "pflego_omniglot", "feddyn_mlp", "digits_cnn")
ALL = (
    *PAPER,
    Case("pflego_mlp", (1, 28, 28), 10, (600,)),
    Case("vgg11", (3, 32, 32), 10, (16,)),
    Case("resnet18", (3, 32, 32), 10, (16,)),
    *(Case(name, *EXAMPLES[name], (16,)) for name in OTHERS),
)
BROUGHT = (Case("mobilenet_v2", (3, 32, 32), 10, (16,)), Case("sensor_net", (6, 128), 6, (16,)))
TRANSFORMER = Case("vision_transformer", (3, 32, 32), 10, (16,))


def named(text: str) -> tuple[Case, ...]:
    """Return the cases of these names. Raises ArgumentTypeError for a name that no case has."""
    if text == "all":
        return ALL
    known = {case.model: case for case in (*ALL, *BROUGHT, TRANSFORMER)}
    for name in text.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"model {name!r}; expected all, or some of {', '.join(known)}")
    return tuple(known[name] for name in text.split(","))


def measure(cases: Sequence[Case], threads: Sequence[int], effort: Effort) -> Iterator[Row]:
    """Yield rows of each case, batch size, number of threads and p, in that order, as they are ready."""
    for case in cases:
        for batch in case.batches:
            for count in threads:
                timings = _timings(_makes(case, batch), count, effort)
                dense = step_macs(case.graph)
                for keep in KEEPS:
                    neurons = _neurons(case.graph, keep)
                    macs = step_macs(case.graph, neurons)
                    smaller = step_macs(case.graph.sub(neurons)) if sub_name(keep) in timings else None
                    beside = None if smaller is None else macs / smaller
                    yield row(case.model, batch, count, keep, timings, macs / dense, beside, 2 * batch * macs)


def _timings(makes: Mapping[str, Make], threads: int, effort: Effort) -> dict[str, Timing]:
    """Time one thread in this process by CPU time, and more threads in a process a contender by wall time."""
    machine.use_threads(1)
    if threads == 1:
        return interleave({name: make() for name, make in makes.items()}, effort, clock_for(1))

    def with_threads(make: Make) -> Contender:
        machine.use_threads(threads)
        return make()

    return interleave_apart({name: partial(with_threads, make) for name, make in makes.items()}, effort)


def _makes(case: Case, batch: int) -> dict[str, Make]:
    machine.use_threads(1)
    model = Model(case.graph, case.graph.init(stream(SEED, INIT)))
    values = np.random.RandomState(SEED)
    x = values.randint(0, 256, (POOL * batch, *case.input_shape)).astype(np.uint8)
    y = values.randint(0, case.classes, POOL * batch).astype(np.int32)
    samples = Samples(x, y, scale=2 / 255, shift=-1.0)
    inputs, labels = torch.from_numpy(x[:batch]).float() * samples.scale + samples.shift, torch.from_numpy(y[:batch])
    makes: dict[str, Make] = {native_name(keep): partial(_native_step, model, samples, keep) for keep in KEEPS}
    for keep in KEEPS:
        if (smaller := _sub_model(model, keep)) is not None:
            makes[sub_name(keep)] = partial(_native_step, smaller, samples, 1.0)
    makes |= {path: partial(peers.step, path, model, inputs, labels.long()) for path in peers.PATHS}
    return makes | {peak_name(path): partial(peak.contender, path) for path in peak.PATHS}


def _native_step(model: Model, samples: Samples, keep: float) -> Contender:
    learner = GraphLearner(model, backend="native")
    neurons = None if keep == 1 else _neurons(model.graph, keep)
    order = np.random.RandomState(SEED).permutation(len(samples)).astype(np.int32)
    return steps(learner, samples, np.split(order, POOL), SGD(peers.LEARNING_RATE), neurons)


def _sub_model(model: Model, keep: float) -> Model | None:
    """Return the model that has only the active neurons, or None where its groups would differ in size."""
    neurons = _neurons(model.graph, keep)
    try:
        return Model(model.graph.sub(neurons), sub_params(model.graph, model.params, neurons))
    except GraphError:
        return None


def _neurons(graph: Graph, keep: float) -> NeuronSet:
    return NeuronSet.draw(ModelSpec.of(graph), keep, stream(SEED, NEURONS))
