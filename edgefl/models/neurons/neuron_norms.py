"""The L1 norm of every neuron's weights, and the neurons of largest norm: the rule of structured pruning by magnitude.

The weights of a neuron are the weights that make its output: the filter of a channel, or the row of a Linear layer. The
weights that read its output do not count, and neither do biases and norms.

Source  Li et al. (ICLR 2017), "Pruning filters for efficient ConvNets"
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgefl.models.neurons.model_spec import ModelSpec, parts_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Array

Norms = dict[str, NDArray[np.float64]]


def l1_norms(params: Mapping[str, Array], spec: ModelSpec) -> Norms:
    """Return by group the sum of |w| over the weights of each neuron, in float64.

    A neuron of a GRU has all its gates, and a head of attention its queries, keys and values. A group whose neurons
    have no weights of two or more dimensions has norms of 0.
    """
    norms: Norms = {group: np.zeros(size) for group, size in spec.groups.items()}
    for name, param in spec.params.items():
        for at, axis in enumerate((param.rows, param.cols)[: len(param.shape)]):
            if len(param.shape) > 1 and axis is not None and spec.inputs.get(name) != at:
                others = tuple(each for each in range(len(param.shape)) if each != at)
                along, begin = np.abs(params[name]).sum(axis=others, dtype=np.float64), 0
                for part, size in parts_of(axis, param.shape[at]):
                    if part is not None:
                        norms[part.group] += along[begin : begin + size].reshape(-1, part.repeat).sum(axis=1)
                    begin += size
    return norms


def largest_neurons(spec: ModelSpec, norms: Mapping[str, Array], counts: Mapping[str, int]) -> NeuronSet:
    """Return the `counts[group]` neurons of largest norm of each group. Among equal norms the lower id is taken."""
    chosen = {group: np.argsort(-norms[group], kind="stable")[: counts[group]] for group in spec.groups}
    return NeuronSet.of(spec, {group: np.sort(ids) for group, ids in chosen.items()})
