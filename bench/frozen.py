"""A client's training with a frozen backbone, against training of the whole model, by the learner alone.

Only the classifier of a MobileNetV2 is trained. One thread is timed in CPU time, and the two take turns. Multiply-adds
of convolutions and Linear layers are counted (learning/lowering/mac_counts.py): forward through the whole model, and
backward through the classifier alone. Other work, such as the statistics of BatchNorms, is in the time and in no count.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch

from bench import figures, machine
from bench.figures import Figure
from bench.runner import QUICK_STEPS, STEPS, Contender, Effort, clock_for, interleave
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.memory.accounts import ACCOUNTS
from edgefl.models.graph import Model
from edgefl.torch import from_torch
from tests.mobilenet import MobileNetV2, frozen_backbone

CLASSES, EXAMPLES, SIZES, BATCH = 10, 32, (32, 96), 16
BAR = 1.1  # upper limit of the time, relative to what is counted


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench frozen", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    options = parser.parse_args(arguments)
    figures.print_table(machine.facts(), measure(QUICK_STEPS if options.quick else STEPS))
    return 0


def measure(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a round over what is counted, and the memory, by the size of images."""
    machine.use_threads(1)
    for size in SIZES:
        torch.manual_seed(0)
        modules = {"frozen": frozen_backbone(CLASSES), "whole": MobileNetV2(CLASSES)}
        models = {name: from_torch(module, torch.zeros(1, 3, size, size)) for name, module in modules.items()}
        learners = {name: GraphLearner(model) for name, model in models.items()}
        rounds = {name: _round(learner, size) for name, learner in learners.items()}
        timings = interleave(rounds, effort, clock_for(1))
        counted = {name: step_macs(model.graph) for name, model in models.items()}
        spent, share = timings["frozen"].median_s / timings["whole"].median_s, counted["frozen"] / counted["whole"]
        what, (ours, theirs) = f"MobileNetV2 at {size} x {size}", (timings[name].median_s for name in modules)
        note = f"{1e3 * ours:.4g} of {1e3 * theirs:.4g} ms: {spent:.3f}; {share:.3f} counted"
        yield Figure(f"{what}, classifier alone: time", spent / share, "times what is counted", BAR, note)
        for name, model in models.items():
            yield _memory(f"{what}, {name}", model, learners[name])


def _memory(what: str, model: Model, learner: GraphLearner) -> Figure:
    """Return what the learner holds, beside the accounts."""
    training = TrainingConfiguration("", model.graph, BATCH, "full", examples=EXAMPLES)
    accounts = ", ".join(f"{account} {estimate(account, training).total / 1e6:.4g}" for account in ACCOUNTS)
    held = learner.memory()
    note = f"MB by the accounts: {accounts}; arena {held['arena'] / 1e6:.4g} MB"
    return Figure(f"{what}: memory held", sum(held.values()) / 1e6, "MB", None, note)


def _round(learner: GraphLearner, size: int) -> Contender:
    """Return an epoch over a client's samples."""
    values = np.random.RandomState(1)
    x = values.randint(0, 256, (EXAMPLES, 3, size, size)).astype(np.uint8)
    samples = Samples(x, values.randint(0, CLASSES, EXAMPLES).astype(np.int32), 2 / 255, -1.0)
    rows = np.arange(EXAMPLES, dtype=np.int32)
    batches = Listed([rows[at : at + BATCH] for at in range(0, EXAMPLES, BATCH)], Keyed(1))

    def run(repeats: int) -> None:
        for _ in range(repeats):
            learner.fit(samples, batches, SGD(1e-3))

    return run
