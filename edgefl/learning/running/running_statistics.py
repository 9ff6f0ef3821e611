"""The running statistics that steps leave unchanged: which channels they are, and how they are restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from edgefl.kernels.memory import BackendMemory
from edgefl.learning.learner import Array
from edgefl.learning.lowering.schedule import Index
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters


def everything(spec: ModelSpec) -> dict[str, Index]:
    """Return all channels of every running statistic."""
    return {name: None for name, param in spec.params.items() if param.kind == "stat"}


def frozen(spec: ModelSpec, trainable: Trainable) -> dict[str, Index]:
    """Return for each running statistic the channels that are not trained."""
    sizes = {name: spec.params[name].shape[0] for name in everything(spec)}
    trained = TrainableParameters.of(spec, trainable).statistics(spec).items()
    return {name: np.setdiff1d(np.arange(sizes[name]), rows) for name, rows in trained if rows is not None}


@contextmanager
def kept(params: Params, channels: Mapping[str, Index], home: BackendMemory) -> Iterator[None]:
    """Restore these channels of these parameters at the end of the with block.

    home  memory in which the parameters lie
    """
    home.fetch(*(params[name] for name in channels))
    before: dict[str, Array] = {name: params[name][_at(ids)].copy() for name, ids in channels.items()}
    yield
    home.fetch(*(params[name] for name in before))
    for name, value in before.items():
        params[name][_at(channels[name])] = value
        home.wrote(params[name])


def _at(ids: Index) -> slice | Array:
    return slice(None) if ids is None else ids
