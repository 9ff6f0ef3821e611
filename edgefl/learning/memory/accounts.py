"""The memory accounts: the bytes that a way of training takes, by several named ways of counting.

pfeiffer2023  outputs of all modules, the state dict, and the tensors that have a gradient (Pfeiffer et al. 2023). The
              unit is the tensor, so freezing some of a layer's neurons saves nothing
paper         weights, active gradients, outputs of active neurons and the input batch. It reproduces FedSPU's Figure 5
              at a batch of 1. A device also needs the outputs of frozen neurons
bound         weights, active gradients and what an exact backward pass reads, without the buffers that come and go
              within a step. A step can take less where it applies each gradient as soon as it is complete, and never
              holds all gradients, or where it computes signs and winners again. `exact` takes less at small batches
exact         what the native learner allocates, from its schedule (exact.py)

Frozen parameters have no gradient, and below the lowest trained layer no output waits for a backward pass. So no
account counts these. No account counts the data set, the interpreter and its libraries. Only `exact` counts optimiser
state. A method with several passes takes as much as its largest pass.

Source  ALGORITHMS 9
"""

from __future__ import annotations

import math
from collections.abc import Callable

from edgefl.learning.memory.exact import exact
from edgefl.learning.memory.footprint import Footprint
from edgefl.learning.memory.scalar_counts import (
    kept_scalars,
    learned_scalars,
    output_scalars,
    saved_bits,
    scalars,
    trained_scalars,
)
from edgefl.learning.memory.training_setup import FLOAT, Pass, TrainingConfiguration
from edgefl.models.graph.operations import BatchNorm

Parts = dict[str, int]


def estimate(account: str, training: TrainingConfiguration) -> Footprint:
    """Return the footprint of a way of training by one of ACCOUNTS.

    Raises  ValueError for an unknown account, or a cut or names of trained parameters with an account other than
            `exact`. GraphError if a sub-model or a head is impossible
    """
    if account not in ACCOUNTS:
        raise ValueError(f"account={account}; expected one of {', '.join(ACCOUNTS)}")
    if training.cut and account != "exact":
        raise ValueError(f"account={account} with cut={training.cut}; expected account exact")
    if training.trainable is not None and account != "exact":
        raise ValueError(f"account={account} with trainable; expected account exact")
    return ACCOUNTS[account](training)


def _of_passes(account: str, parts_of: Callable[[Pass], Parts]) -> Callable[[TrainingConfiguration], Footprint]:
    """Return an account of the method's largest pass."""

    def footprint(training: TrainingConfiguration) -> Footprint:
        found = {name: parts_of(each) for name, each in training.passes().items()}
        phase = max(found, key=lambda name: sum(found[name].values()))
        return training.footprint(account, found[phase], phase=phase)

    return footprint


def _pfeiffer2023(one: Pass) -> Parts:
    held = [*one.graph.parameters().values(), *one.idle]
    counters = sum(
        isinstance(node.op, BatchNorm) and node.op.track_running_stats for node in one.graph.nodes
    )  # num_batches_tracked
    return {
        "weights": FLOAT * (scalars(held, stats=True) + counters),
        "gradients": FLOAT * (1 + one.summed) * learned_scalars(one.graph.parameters().values()),
        "activations": FLOAT * one.batches[0] * output_scalars(one.graph, None),
    }


def _paper(one: Pass) -> Parts:
    return {
        **_weights_and_gradients(one),
        "activations": FLOAT * one.batches[0] * output_scalars(one.graph, one.neurons),
        "input": FLOAT * one.batches[0] * math.prod(one.graph.input_shape),
    }


def _bound(one: Pass) -> Parts:
    bits = saved_bits(one.graph, one.neurons)
    return {**_weights_and_gradients(one), **{name: one.batches[0] * count // 8 for name, count in bits.items()}}


def _weights_and_gradients(one: Pass) -> Parts:
    return {
        "weights": FLOAT * (kept_scalars(one.graph, one.density) + scalars(one.idle)) - one.graph.quantized_saving,
        "gradients": FLOAT * (1 + one.summed) * trained_scalars(one.graph, one.neurons, one.density),
    }


ACCOUNTS: dict[str, Callable[[TrainingConfiguration], Footprint]] = {
    "pfeiffer2023": _of_passes("pfeiffer2023", _pfeiffer2023),
    "paper": _of_passes("paper", _paper),
    "bound": _of_passes("bound", _bound),
    "exact": exact,
}
