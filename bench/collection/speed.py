"""The time of a training step of one model, edgefl's beside eager torch's, and with less of the model trained.

One thread is timed in CPU time, and all contenders take turns in one process. A step has ready batches on both sides,
and SGD without momentum. Four parts of the model are trained: all of it, the last quarter of its layers, its last
layer, and its biases. BatchNorms in front of the trained part run on their running statistics. Beside a time stands
what the products of the step need, counted as the kernels are called (lowering/product_flops.py).
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bench.collection import oracle
from bench.collection.conversion import BATCH, converted, samples
from bench.collection.entry import Entry, Output
from bench.native_steps import steps
from bench.runner import Contender, Effort, clock_for, interleave
from edgefl.errors import EdgeflError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.batches import Keyed, Listed

RATE = 1e-3
EFFORT = Effort(rounds=7, turn_s=0.02)
PARTS = ("all", "last blocks", "head", "biases")
EAGER, CHANNELS_LAST = "eager", "channels_last"
MORE = 1.15  # the time of a part may be its counted share of the whole, and 15 % more


def measure(entry: Entry, effort: Effort = EFFORT) -> Iterator[dict[str, Any]]:
    """Yield one row: seconds of a step by contender, and the share of the products by part."""
    module, example = entry.module(), entry.example(BATCH)
    target = entry.targets(oracle.outputs_of(copy.deepcopy(module)(*example)))
    batch = samples(entry, example, target)
    contenders: dict[str, Contender] = {EAGER: eager(module, entry, example, target)}
    if example[0].dim() == 4:
        last = {"memory_format": torch.channels_last}
        inputs = tuple(each.contiguous(**last) for each in example)
        candidate = eager(copy.deepcopy(module).to(**last), entry, inputs, target)
        with contextlib.suppress(RuntimeError):  # a view of the module that needs the other format
            candidate(1)
            contenders[CHANNELS_LAST] = candidate
    counted: dict[str, int] = {}
    for part in PARTS:
        outcome = converted(trained_alone(copy.deepcopy(module), part), entry.example(2))
        if outcome.model is None:
            continue
        learner = GraphLearner(outcome.model)
        try:
            contenders[part] = native(learner, batch)
        except (EdgeflError, ValueError):
            continue  # nothing is trained in this part
        counted[part] = learner.work().training
    seconds = {name: each.median_s for name, each in interleave(contenders, effort, clock_for(1)).items()}
    yield row(entry.name, seconds, counted)


def row(name: str, seconds: dict[str, float], counted: dict[str, int]) -> dict[str, Any]:
    """Return the figures of a model: milliseconds, torch's time over edgefl's, and each part's shares of the whole."""
    parts = {
        part: {"time": round(seconds[part] / seconds["all"], 3), "counted": round(counted[part] / counted["all"], 3)}
        for part in PARTS[1:]
        if part in counted
    }
    fastest = min(seconds.get(each, seconds[EAGER]) for each in (EAGER, CHANNELS_LAST))
    return {
        "model": name,
        "ms": {each: round(1e3 * value, 3) for each, value in seconds.items()},
        "speed": round(seconds[EAGER] / seconds["all"], 2),
        "over_fastest": round(fastest / seconds["all"], 2),
        "parts": parts,
        "slow": [part for part, each in parts.items() if each["time"] > MORE * each["counted"]],
    }


def eager(module: nn.Module, entry: Entry, example: tuple[Tensor, ...], target: Output) -> Contender:
    """Return steps of the module by torch's eager mode."""
    optimiser = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], lr=RATE)

    def run(repeats: int) -> None:
        for _ in range(repeats):
            optimiser.zero_grad(set_to_none=True)
            entry.loss(oracle.outputs_of(module(*example)), target).backward()
            optimiser.step()

    return run


def native(learner: GraphLearner, batch: Samples) -> Contender:
    """Return steps of a learner. It makes one step, which its work then counts."""
    rows = Listed([np.arange(BATCH, dtype=np.int32)], Keyed(1))
    return steps(learner, batch, rows, SGD(RATE))


def trained_alone(module: nn.Module, part: str) -> nn.Module:
    """Freeze all but a part of the module, and the statistics of the BatchNorms that have no trained parameter."""
    layers = [each for each in module.modules() if any(True for _ in each.parameters(recurse=False))]
    kept = {"all": len(layers), "last blocks": -(-len(layers) // 4), "head": 1, "biases": 0}[part]
    for layer in layers[: len(layers) - kept]:
        layer.requires_grad_(False)
    if part == "biases":
        for name, value in module.named_parameters():
            value.requires_grad_(name.endswith("bias"))
    for layer in layers:
        if isinstance(layer, _BatchNorm) and not any(each.requires_grad for each in layer.parameters()):
            layer.eval()
    return module
