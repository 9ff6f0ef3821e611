"""Parameters in a dictionary, read and written as a learner's are: for learners that tests script."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from edgefl.models.graph import Params
from edgefl.models.neurons.gather import put, take
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Update


class Held:
    def __init__(self, spec: ModelSpec, params: Params) -> None:
        self.spec, self.params = spec, params

    def read(self, names: Collection[str] | None = None) -> Mapping[str, np.ndarray]:
        return {name: value for name, value in self.params.items() if names is None or name in names}

    def take(self, neurons: NeuronSet | None = None, **chosen: Any) -> Update:
        return take(self.params, self.spec, neurons, **chosen)

    def write(self, values: Update | Mapping[str, np.ndarray]) -> None:
        if isinstance(values, Update):
            put(self.params, values)
            return
        for name, value in values.items():
            self.params[name][...] = value
