"""ParameterAccess: reading and writing a learner's parameters from outside. parameter_store.py knows where they lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType

from edgefl.learning.learner import Array
from edgefl.learning.running.parameter_store import ParameterStore
from edgefl.learning.running.weight_arrays import Readable, WritableWeights
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.block_index import same_bits
from edgefl.models.neurons.gather import has_values, parameter, put, take
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_parameters import TrainableParameters
from edgefl.models.neurons.update import Update


class ParameterAccess:
    """Access to the parameters of a store, whole or in blocks. `backend` copies the blocks."""

    def __init__(self, spec: ModelSpec, store: ParameterStore, backend: ModuleType) -> None:
        self._spec, self._store, self._backend = spec, store, backend
        self._readable = Readable(store.weights)

    def read(self, names: Collection[str] | None) -> Mapping[str, Array]:
        """Return whole parameters (None: all), read-only. Raises ValueError for a name that is not one of the
        parameters.
        """
        if names is None:
            return self._readable
        return {name: parameter(self._readable, name) for name in names}

    def take(
        self,
        selection: NeuronSet | Mask | TrainableParameters | None,
        kinds: Collection[Kind],
        names: Collection[str] | None,
        since: Mapping[str, Array] | None = None,
    ) -> Update:
        """Return a copy of the blocks under these neurons, or in this mask. See gather.take."""
        held = self._store.params if self._store.is_plain else self._store.weights
        return take(held, self._spec, selection, kinds=kinds, names=names, ops=self._backend, since=since)

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Set an update's coordinates, or whole parameters. See GraphLearner.write."""
        if isinstance(new, Update) and self._store.is_plain:
            put(self._store.params, new, ops=self._backend)
            return
        new = self._without_still(new)
        if isinstance(new, Update):
            self._store.restriction.check(new)
            opened = WritableWeights(self._store.weights)
            put(opened, new, ops=self._backend)
            opened.close()
        else:
            self._write_whole(new)
        for name in new.blocks if isinstance(new, Update) else new:
            self._store.clear(name)

    def arrays(self) -> dict[str, Array]:
        """Return every parameter as it is now, by name. An array may be the store's own."""
        return {name: self._store.weights.held(name) for name in self._store.weights}

    def _without_still(self, new: Update | Mapping[str, Array]) -> Update | Mapping[str, Array]:
        """Leave out the parameters that lie in the caller's arrays. Raises ValueError if one of them would change."""
        still, weights, ops = self._store.in_place, self._store.weights, self._backend
        if not still:
            return new
        if isinstance(new, Update):
            differs = (
                name
                for name, block in new.blocks.items()
                if name in still and not has_values(weights, name, block, ops=ops)
            )
        else:
            differs = (name for name, value in new.items() if name in still and not same_bits(weights[name], value))
        if (name := next(differs, None)) is not None:
            raise ValueError(
                f"other values for {name!r}, which is frozen and shared; expected a learner without shares_frozen"
            )
        if isinstance(new, Update):
            return Update({name: block for name, block in new.blocks.items() if name not in still})
        return {name: value for name, value in new.items() if name not in still}

    def _write_whole(self, new: Mapping[str, Array]) -> None:
        for name, value in new.items():
            parameter(self._store.params, name)
            if value.shape != self._spec.params[name].shape:
                raise ValueError(f"{name!r} of shape {value.shape}; expected {self._spec.params[name].shape}")
        for name, value in new.items():
            self._store.weights.set(name, value)
