"""The time of an evaluation in each way, on each instruction set of this machine. All take turns on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.int8_activations.learners import ACTIVATIONS, drawn, learners
from bench.runner import Contender, Effort, clock_for, interleave
from edgefl.kernels import native
from edgefl.learning import GraphLearner, Samples

IMAGES = {"fedspu_cifar": 256, "fedspu_emnist": 256, "lenet5": 256, "resnet18": 16, "vgg11": 32}
INSTRUCTIONS = (("avx2", "plain"), ("avx512", "plain"), ("avx512", "vnni"), ("neon", "i8mm"))


@dataclass(frozen=True)
class Timed:
    """Microseconds of an image, the median of turns: of a model, in a way, with these instructions."""

    model: str
    way: str
    isa: str
    products: str
    image_us: float


def measure(models: tuple[str, ...], effort: Effort) -> Iterator[Timed]:
    """Yield the times of a model when all of its ways and instruction sets have taken their turns."""
    native.set_threads(1)
    before = native.isa(), native.code_products()
    for name in models:
        model, samples = drawn(name, IMAGES[name])
        runs: dict[tuple[str, str, str], Contender] = {}
        for way, learner in learners(model).items():
            for tier, products in _available():
                if way == ACTIVATIONS or products == "plain" or tier == "neon":
                    runs[way, tier, products] = _evaluation(learner, samples, tier, products)
        found = interleave({"|".join(key): run for key, run in runs.items()}, effort, clock_for(1))
        _choose(*before)
        for key, timing in found.items():
            yield Timed(name, *key.split("|"), 1e6 * timing.median_s / len(samples))


def _available() -> Iterator[tuple[str, str]]:
    for tier, products in INSTRUCTIONS:
        if native.has_isa(tier):
            _choose(tier, products)
            if products == "plain" or tier == "neon" or native.code_products() == products:
                yield tier, products


def _choose(tier: str, products: str) -> None:
    native.cap_isa(tier)
    native.cap_code_products(products)


def _evaluation(learner: GraphLearner, samples: Samples, tier: str, products: str) -> Contender:
    def run(repeats: int) -> None:
        _choose(tier, products)
        for _ in range(repeats):
            learner.evaluate(samples)

    return run
