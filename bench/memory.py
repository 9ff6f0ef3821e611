"""Memory of a process that trains one model: the accounts and meters of edgefl on the benches' cases, a row each."""

from __future__ import annotations

from collections.abc import Iterator

from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.study.memory_meter import METERS, measure

MB = 1e6
CASES = (("fedspu_cifar", 16), ("fedspu_cifar", 128), ("fedspu_emnist", 16), ("fedspu_speech", 16))
KEEPS = (1.0, 0.2)

Row = dict[str, str | int | float]


def rows() -> Iterator[Row]:
    """Yield a row per model, batch and share of active neurons, in units of 1e6 bytes.

    bound, exact             accounts
    saved, torch             what our plan, and eager PyTorch on the dense model, keep for the backward pass
    learner, resident, peak  meters
    imports                  the part of `resident` from before the model and the data existed
    """
    for model, batch in CASES:
        for keep in KEEPS:
            training = TrainingConfiguration(model, build(model, *EXAMPLES[model]), batch, keep=keep)
            exact, found = estimate("exact", training), {each.account: each for each in measure(training, METERS)}
            sizes = {name: footprint.total for name, footprint in found.items()}
            sizes |= {"bound": estimate("bound", training).total, "exact": exact.total, "saved": exact.saved or 0}
            sizes["imports"] = found["resident"].parts["imports"]
            yield {"model": model, "batch": batch, "keep": keep} | {name: size / MB for name, size in sizes.items()}
