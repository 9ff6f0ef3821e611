"""Training of a part of MobileNetV2: what a step saves and holds, and its time beside what is counted.

The memory is that of images of 224 pixels and B = 8, with the running statistics of all BatchNorms kept, as in most
fine-tuning. The account is compared with what a learner holds after two steps. The time is that of images of 64 pixels
and of VGG11, one thread in CPU time, the parts in turns. Counted are the floating point operations of products as they
are executed (learning/lowering/product_flops.py), so other work is in the time and in no count.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from bench import figures, machine
from bench.figures import Figure
from bench.runner import QUICK_STEPS, STEPS, Contender, Effort, clock_for, interleave
from edgefl.learning import SGD, FitOptions, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.lowering.lower import lower
from edgefl.learning.lowering.product_flops import flops
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph import Graph, Model, architectures
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.rng import INIT, stream
from edgefl.torch import from_torch
from tests.mobilenet import MobileNetV2

CLASSES, SIZE, BATCH = 10, 224, 8
SMALL_SIZE, SMALL_BATCH = 64, 16
CUT = "features.14.conv.3"  # the last result before the last three blocks
SAVED_BARS = {"biases": 15.0, "last three blocks": 40.0}  # MB
TIME_BAR = 1.15  # upper limit of the time, relative to what is counted
MB = 1e6

Parts = dict[str, frozenset[str] | None]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench trained-part", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    options = parser.parse_args(arguments)
    machine.use_threads(1)
    figures.print_table(machine.facts(), [*_memory(), *_times(QUICK_STEPS if options.quick else STEPS)])
    return 0


def parts_of(graph: Graph) -> Parts:
    """Return the trained names of each part of MobileNetV2."""
    learned = ModelSpec.of(graph).learned
    last = ("features.15.", "features.16.", "features.17.", "features.18.", "classifier.")
    return {
        "everything": None,
        "norms": frozenset(name for name in learned if f"{name.rpartition('.')[0]}.running_mean" in graph.parameters()),
        "biases": frozenset(name for name in learned if name.endswith(".bias")),
        "last three blocks": frozenset(name for name in learned if name.startswith(last)),
        "head": frozenset(name for name in learned if name.startswith("classifier.")),
    }


def _mobilenet(size: int) -> Model:
    """Return the model, whose BatchNorms keep their running statistics."""
    torch.manual_seed(0)
    model = from_torch(MobileNetV2(CLASSES), torch.zeros(1, 3, size, size))
    return model._replace(graph=replace(model.graph, frozen=_statistics(model.graph)))


def _statistics(graph: Graph) -> frozenset[str]:
    return frozenset(name for name, info in graph.parameters().items() if info.kind == "stat")


def _memory() -> Iterator[Figure]:
    model = _mobilenet(SIZE)
    for part, names in parts_of(model.graph).items():
        method = {"method": "full", "examples": BATCH, "trainable": names}
        account = estimate("exact", TrainingConfiguration("", model.graph, BATCH, **method))  # type: ignore[arg-type]
        held = _held(model, FitOptions(names))
        same = held == sum(size for name, size in account.parts.items() if name != "scratch")
        says, arena = "as" if same else "NOT as", account.parts["arena"]
        note = f"holds {held / MB:.4g} MB, {says} the account says; arena {arena / MB:.4g} MB"
        yield Figure(
            f"{part}: saved for the backward pass", (account.saved or 0) / MB, "MB", SAVED_BARS.get(part), note
        )
    named, cut = (
        _held(model, options)
        for options in (FitOptions(parts_of(model.graph)["last three blocks"]), FitOptions(cut=CUT))
    )
    yield Figure(
        "last three blocks: held after a cut, of by names",
        cut / named,
        "times",
        1.1,
        f"{cut / MB:.4g} of {named / MB:.4g} MB",
    )


def _held(model: Model, options: FitOptions) -> int:
    """Return the bytes that a learner holds after two steps, without packing memory."""
    learner = GraphLearner(model)
    learner.fit(_samples(model.graph, BATCH), _batches(BATCH), SGD(1e-3), options)
    return sum(size for name, size in learner.memory().items() if name != "scratch")


def _times(effort: Effort) -> Iterator[Figure]:
    graph = architectures.build("vgg11", (3, 32, 32), CLASSES)
    names = ModelSpec.of(graph).learned
    own: Parts = {
        "everything": None,
        "biases": frozenset(name for name in names if name.endswith(".bias")),
        "last two layers": frozenset(names[-6:]),
        "head": frozenset(names[-2:]),
    }
    small = _mobilenet(SMALL_SIZE)
    cases = {
        f"MobileNetV2 at {SMALL_SIZE} pixels": (small, parts_of(small.graph)),
        "VGG11": (Model(graph, graph.init(stream(1, INIT))), own),
    }
    for name, (model, parts) in cases.items():
        counted = {part: _counted(model.graph, chosen) for part, chosen in parts.items()}
        contenders = {part: _steps(model, FitOptions(chosen)) for part, chosen in parts.items()}
        timings = interleave(contenders, effort, clock_for(1))
        whole = timings["everything"].median_s, counted["everything"]
        for part in parts:
            spent, share = timings[part].median_s / whole[0], counted[part] / whole[1]
            note = f"{1e3 * timings[part].median_s:.4g} ms: {spent:.3f} of everything; {share:.3f} counted"
            yield Figure(f"{name}, {part}: time of a step", spent / share, "times what is counted", TIME_BAR, note)


def _counted(graph: Graph, names: frozenset[str] | None) -> int:
    return flops(lower(graph, ModelSpec.of(graph), SMALL_BATCH, names))


def _steps(model: Model, options: FitOptions) -> Contender:
    learner, samples, batches = GraphLearner(model), _samples(model.graph, SMALL_BATCH), _batches(SMALL_BATCH)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            learner.fit(samples, batches, SGD(1e-4), options)

    return run


def _samples(graph: Graph, batch: int) -> Samples:
    values = np.random.RandomState(1)
    x = values.randint(0, 256, (batch, *graph.input_shape)).astype(np.uint8)
    return Samples(x, values.randint(0, CLASSES, batch).astype(np.int32), 2 / 255, -1.0)


def _batches(batch: int) -> Listed:
    return Listed([np.arange(batch, dtype=np.int32)] * 2, Keyed(1))
