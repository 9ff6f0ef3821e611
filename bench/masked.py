"""Whole training steps at ERK masks over our own dense step, and the cost of moving a mask: `python -m bench masked`.

    step     GraphLearner.fit at a mask of each density (the ratio is the time of the dense step over its own)
    search   Learner.strongest, as many as a quarter of the mask, over a dense gradient by Learner.gradient
    restrict from one mask to another with as many coordinates

The dense step is today's. `python -m bench sparse` times single layers. All contenders of a model take turns in one
process, in CPU time for one thread and wall time for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bench import machine
from bench.figures import Figure
from bench.native_steps import steps
from bench.runner import Contender, Effort, Timing, clock_for, interleave
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.random_mask import random_mask
from edgefl.rng import INIT, stream

MODELS = ("vgg11", "resnet18", "lenet5")
DENSITIES = (0.5, 0.2, 0.1, 0.05)
TARGETS = {"vgg11": (1.2, 1.95, 2.9, 4.3), "resnet18": (1.15, 1.6, 2.2, 3.3), "lenet5": (1.35, 2.2, 3.2, 4.2)}
SHARE = 0.25  # a search looks for as many coordinates as this share of the mask
SGD_STEP = SGD(1e-3)
SEED = 1
DENSE = "dense step"


def measure(
    models: Sequence[str], batch: int, threads: Sequence[int], effort: Effort, densities: Sequence[float] = DENSITIES
) -> Iterator[Figure]:
    """Yield the dense step in ms, then ratios, for each model and number of threads."""
    for name in models:
        for count in threads:
            machine.use_threads(count)
            timings = interleave(_contenders(name, batch, densities), effort, clock_for(count))
            yield from _figures(f"{name}, B={batch}, {count} threads", name, timings, densities)


def _figures(title: str, name: str, timings: Mapping[str, Timing], densities: Sequence[float]) -> Iterator[Figure]:
    dense = timings[DENSE].median_s
    yield Figure(f"{title}: dense step", dense * 1e3, "ms")
    targets = dict(zip(DENSITIES, TARGETS[name], strict=True))
    for density in densities:
        step = timings[f"step {density}"].median_s
        note = f"at least {targets[density]:g} asked of it" if density in targets else ""
        yield Figure(f"{title}: step at density {density:g}", dense / step, "x", note=note)
    for density in densities:
        search, gradient = timings[f"search {density}"].median_s, timings[f"gradient {density}"].median_s
        yield Figure(f"{title}: search at {density:g} over a gradient", search / gradient, "x", 1.25)
        yield Figure(f"{title}: another mask at {density:g}", timings[f"restrict {density}"].median_s * 1e3, "ms")


def _contenders(name: str, batch: int, densities: Sequence[float]) -> dict[str, Contender]:
    shape, classes = EXAMPLES[name]
    graph = build(name, shape, classes)
    model, draw = Model(graph, graph.init(stream(SEED, INIT))), np.random.RandomState(SEED)
    x, y = draw.randint(0, 256, (batch, *shape)).astype(np.uint8), draw.randint(0, classes, batch).astype(np.int32)
    samples = Samples(x, y, scale=2 / 255, shift=-1.0)
    found = {DENSE: _step(GraphLearner(model, "native"), samples)}
    for density in densities:
        found |= _at(model, samples, density)
    return found


def _at(model: Model, samples: Samples, density: float) -> dict[str, Contender]:
    learner, dense = GraphLearner(model, "native"), GraphLearner(model, "native")
    mask, other = (random_mask(learner.spec, density, "erk", SEED, client) for client in (0, 1))
    moving = GraphLearner(model, "native")
    for each in (learner, moving):
        each.restrict(mask, len(samples))
    index = np.arange(len(samples), dtype=np.int32)
    counts = {name: _sought(bits) for name, bits in mask.bits.items()}
    layers = frozenset(name.rpartition(".")[0] for name in mask.bits)
    return {
        f"step {density}": _step(learner, samples),
        f"search {density}": _repeated(lambda: learner.strongest(samples, index, mask, counts)),
        f"gradient {density}": _repeated(lambda: dense.gradient(samples, index, layers)),
        f"restrict {density}": _in_turns(moving, (other, mask), len(samples)),
    }


def _sought(bits: np.ndarray) -> int:
    ones = int(np.count_nonzero(bits))
    return min(int(SHARE * ones), bits.size - ones)


def _step(learner: GraphLearner, samples: Samples) -> Contender:
    return steps(learner, samples, [np.arange(len(samples), dtype=np.int32)], SGD_STEP)


def _repeated(work: object) -> Contender:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            work()  # type: ignore[operator]

    return run


def _in_turns(learner: GraphLearner, masks: tuple[Mask, Mask], batch: int) -> Contender:
    def run(repeats: int) -> None:
        for number in range(repeats):
            learner.restrict(masks[number % 2], batch)

    return run
