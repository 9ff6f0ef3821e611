"""The class MaskedParameters: the parameters of a torch module and their mask.

It writes parameters and chooses which are trained. It computes no gradient and takes no step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from torch import device

from edgefl.errors import SelectionError
from edgefl.learning.learner import Array
from edgefl.learning.lowering.active_ids import check_masked
from edgefl.learning.lowering.schedule import Index
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.models.neurons.gather import parameter, put
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.update import Update
from edgefl.torch.optimizer_steps import TrainedCoordinates
from edgefl.torch.parameter_arrays import ModuleParameters


class MaskedParameters:
    """The parameters of a module that a specification lists, with their mask.

    held         the module's own parameters and buffers, by name
    restriction  the mask to which the parameters keep. Without a mask they are whole
    place        the device on which torch computes with them
    """

    def __init__(self, held: ModuleParameters, spec: ModelSpec, place: device) -> None:
        self.held, self.restriction = held, Restriction(spec)
        self._spec, self._place = spec, place

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Set the coordinates of an update, or whole parameters, like GraphLearner.write.

        Raises  ValueError for a parameter that does not exist or has another shape, SelectionError for an update that
                does not fit the mask.
        """
        names = list(new.blocks if isinstance(new, Update) else new)
        if isinstance(new, Update):
            self.restriction.check(new)
            arrays = {name: parameter(self.held, name) for name in names}
            put(arrays, new)
            self.held.store(arrays)
        else:
            for name, value in new.items():
                parameter(self.held, name)
                if value.shape != self._spec.params[name].shape:
                    raise ValueError(f"{name!r} of shape {value.shape}; expected {self._spec.params[name].shape}")
            for name, value in new.items():
                self.held.set(name, value)
        self._clear(names)

    def keep_to(self, restriction: Restriction) -> None:
        """Keep the parameters to another mask. Coordinates outside become 0.0."""
        self.restriction = restriction
        self._clear(list(restriction))

    def shared_with(self, relative: MaskedParameters) -> Restriction:
        """Return the mask of the parameters that a relative's module shares with this module."""
        own = self.held.tensors
        shared = [name for name, tensor in relative.held.tensors.items() if tensor is own.get(name)]
        return Restriction(relative._spec, self.restriction.only(shared))

    def check_whole(self, what: str, expected: str) -> None:
        """Raise SelectionError, which says that `what` cannot be combined with a mask, if there is a mask."""
        if self.restriction:
            raise SelectionError(f"{what} of a model with masks of {', '.join(self.restriction)}; expected {expected}")

    def trained(self, trainable: Trainable) -> dict[str, TrainedCoordinates]:
        """Return the trained parameters, each with its trained coordinates.

        Raises  SelectionError if `trainable` does not fit the model, or selects a part of a masked parameter.
        """
        chosen = TrainableParameters.of(self._spec, trainable)
        blocks = chosen.blocks(self._spec)
        check_masked(chosen, blocks, list(self.restriction))
        ids = dict(self.restriction.only(list(self.restriction)).ids)
        shapes = {name: self._spec.params[name].shape for name in blocks}
        ids |= {name: part.flat(shapes[name]) for name, part in blocks.items() if part.bits is not None}
        return {
            name: TrainedCoordinates.of((part.rows, part.cols), ids.get(name), self._place)
            for name, part in blocks.items()
            if name not in self._spec.computed
        }

    @contextmanager
    def statistics_kept(self, channels: Mapping[str, Index]) -> Iterator[None]:
        """Give these channels of running statistics, after the context, the values that they had before it."""
        before = {name: self.held[name].copy() for name in channels}
        yield
        for name, ids in channels.items():
            now = self.held[name].copy()
            chosen = slice(None) if ids is None else ids
            now[chosen] = before[name][chosen]
            self.held.set(name, now)

    def _clear(self, names: Collection[str]) -> None:
        """Set the coordinates of these parameters that the mask leaves out to 0.0."""
        arrays = {name: self.held[name] for name in names if name in self.restriction}
        for name, array in arrays.items():
            self.restriction.clear(name, array)
        self.held.store(arrays)
