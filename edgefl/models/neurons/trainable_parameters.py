"""The class TrainableParameters: the coordinates of a model's parameters that training moves.

A coordinate that is not among them keeps its bits. A restriction of a learner to a Mask is another thing: there the
other coordinates are 0. The value has no weights, and it does not know how gradients are computed.

Source  sparse updates: PockEngine (Zhu et al. 2023), MCUNetV3 (Lin et al. 2022). Neurons: FedSPU, ALGORITHMS 1
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgefl.errors import SelectionError, expected_name
from edgefl.models.graph.narrower import IdArray
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import Axis, ModelSpec, layer_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_slice import WHOLE, RowsAndColumns, TrainableSlice

HASH_BYTES = 16


@dataclass(frozen=True, eq=False)
class TrainableParameters:
    """The coordinates that are trained. Make a value with a constructor, which checks it, and intersect two with `&`.

    neurons  active neurons, whose blocks alone are trained. None: all neurons
    slices   parameter -> the part of it that is trained. A parameter that is not listed is not trained. A running
             statistic that is listed follows the batches (FitOptions.bn_frozen). None: every learned parameter, whole

    Example  `TrainableParameters.of(spec, neurons) & TrainableParameters.of(spec, ["conv2", "fc.bias"])`
    """

    neurons: NeuronSet | None = None
    slices: Mapping[str, TrainableSlice] | None = None

    @staticmethod
    def of(spec: ModelSpec, selection: Trainable) -> TrainableParameters:
        """Return the value that a selection means for a model.

        selection  None for everything, a NeuronSet, a Mask as for `masked`, names as for `named`, or a value, which is
                   returned
        Raises     SelectionError naming what does not fit the model
        """
        if selection is None:
            return TrainableParameters()
        if isinstance(selection, NeuronSet):
            selection.check(spec)
            return TrainableParameters(None if selection.is_full else selection)
        if isinstance(selection, Mask):
            return TrainableParameters.masked(spec, selection)
        if isinstance(selection, TrainableParameters):
            selection.check(spec)
            return selection
        return TrainableParameters.named(spec, selection)

    @staticmethod
    def named(spec: ModelSpec, names: Collection[str]) -> TrainableParameters:
        """Return the parameters of these names, whole. The name of a layer stands for all of its parameters.

        Raises  SelectionError for an unknown name, with the nearest names, or for the name of a frozen parameter
        """
        if isinstance(names, str):
            raise SelectionError(f"trainable={names!r}, a text; expected a collection of names, such as {{{names!r}}}")
        chosen = {name for name in names if name in spec.params}
        layers = {layer_of(name) for name in spec.params}
        for name in names:
            if name not in chosen and name not in layers:
                known = expected_name(name, [*(layer for layer in layers if layer), *spec.params])
                raise SelectionError(f"trainable: {name!r} is neither a parameter nor a layer; {known}")
        for name in chosen:
            if spec.params[name].kind == "frozen":
                raise SelectionError(
                    f"trainable: {name!r} is frozen in the graph; expected parameters that are learned"
                )
        of_layers = {name for name in spec.params if layer_of(name) in names and spec.params[name].kind != "frozen"}
        return TrainableParameters(None, {name: WHOLE for name in spec.params if name in chosen | of_layers})

    @staticmethod
    def sliced(spec: ModelSpec, slices: Mapping[str, RowsAndColumns]) -> TrainableParameters:
        """Return slices of parameters.

        slices  parameter -> ids along axis 0 (rows) and axis 1 (columns), sorted and unique. None is a whole axis
        Raises  SelectionError for an unknown or frozen parameter, or for ids that do not fit it
        """
        named = TrainableParameters.named(spec, [name for name in slices if name in spec.params])
        for name in slices:
            if name not in spec.params:
                raise SelectionError(f"trainable: {name!r} is not a parameter; {expected_name(name, spec.params)}")
        found = {name: TrainableSlice.of(name, spec.params[name].shape, *slices[name]) for name in named.slices or ()}
        return TrainableParameters(None, found)

    @staticmethod
    def masked(spec: ModelSpec, mask: Mask) -> TrainableParameters:
        """Return the coordinates of a mask. As in every Mask, a parameter that the mask does not list is whole.

        Raises  SelectionError if the mask does not fit the model, or lists a parameter that is not learned
        """
        bits = Mask.of(spec, mask.bits).bits
        for name in bits:
            if spec.params[name].kind != "learn":
                raise SelectionError(f"trainable: mask of {name!r}; expected parameters that are learned")
        chosen = {
            name: TrainableSlice(bits=bits.get(name)) for name in spec.params if spec.params[name].kind != "frozen"
        }
        return TrainableParameters(None, chosen)

    def __and__(self, other: TrainableParameters) -> TrainableParameters:
        """Return the coordinates that are in both. Raises SelectionError if both have neurons."""
        if self.neurons is not None and other.neurons is not None:
            raise SelectionError("trainable: two sets of neurons; expected one set of neurons, and names or slices")
        neurons = self.neurons if other.neurons is None else other.neurons
        if self.slices is None or other.slices is None:
            return TrainableParameters(neurons, self.slices if other.slices is None else other.slices)
        both = {name: part & other.slices[name] for name, part in self.slices.items() if name in other.slices}
        return TrainableParameters(neurons, both)

    def check(self, spec: ModelSpec) -> None:
        """Raise SelectionError naming what does not belong to a model with this specification."""
        if self.neurons is not None:
            self.neurons.check(spec)
        for name, part in (self.slices or {}).items():
            if name not in spec.params:
                raise SelectionError(f"trainable: {name!r} is not a parameter; {expected_name(name, spec.params)}")
            part.check(name, spec.params[name].shape)

    def within(self, spec: ModelSpec) -> TrainableParameters:
        """Return what is trained of a part of the model, such as the part after a cut."""
        if self.slices is None:
            return self
        return TrainableParameters(self.neurons, {name: at for name, at in self.slices.items() if name in spec.params})

    @property
    def has_slices(self) -> bool:
        """Return whether a parameter is trained in part for another reason than its neurons."""
        return any(part != WHOLE for part in (self.slices or {}).values())

    def blocks(self, spec: ModelSpec) -> dict[str, TrainableSlice]:
        """Return the trained part of each learned parameter. A parameter that is not trained is absent.

        Axes of one group of neurons refer to one array. Raises SelectionError for neurons of another model.
        """
        ids: dict[tuple[Axis | None, int], IdArray | None] = {}
        found = {}
        for name, param in spec.params.items():
            if param.kind != "learn" or (self.slices is not None and name not in self.slices):
                continue
            part = self._of_neurons(param.rows, param.cols, param.shape, ids)
            if self.slices is not None and self.slices[name] != WHOLE:
                part = part & self.slices[name]
            if not part.is_empty:
                found[name] = part
        return found

    def statistics(self, spec: ModelSpec) -> dict[str, IdArray | None]:
        """Return for each running statistic the channels that are trained, or None for all channels.

        A channel is trained if the statistic is selected there, or any parameter of the statistic's layer.
        """
        blocks, found = self.blocks(spec), {}
        for name, param in spec.params.items():
            if param.kind != "stat":
                continue
            size = param.shape[0]
            axis = None if self.neurons is None else self.neurons.ids(param.rows, size)
            layer = [part for of, part in blocks.items() if layer_of(of) == layer_of(name)]
            if self.slices is None or name in self.slices:
                layer = [TrainableSlice(axis) & (self.slices[name] if self.slices else WHOLE)]
            rows = np.unique(np.concatenate([np.zeros(0, np.int32), *(part.row_ids(size) for part in layer)]))
            found[name] = None if rows.size == size else rows.astype(np.int32)
        return found

    @cached_property
    def content(self) -> bytes:
        """Return bytes that are equal for two values if and only if they select the same coordinates alike."""
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        digest.update(self.neurons.hash() if self.neurons is not None else b"all neurons")
        for name, part in sorted((self.slices or {}).items()):
            digest.update(f"\n{name} ".encode() + part.content)
        return digest.digest() + (b"all" if self.slices is None else b"")

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, TrainableParameters) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def _of_neurons(
        self,
        rows: Axis | None,
        cols: Axis | None,
        shape: tuple[int, ...],
        ids: dict[tuple[Axis | None, int], IdArray | None],
    ) -> TrainableSlice:
        if self.neurons is None:
            return WHOLE
        for axis, size in zip((rows, cols), shape, strict=False):
            if (axis, size) not in ids:
                ids[axis, size] = None if axis is None else self.neurons.ids(axis, size)
        return TrainableSlice(ids[rows, shape[0]], ids[cols, shape[1]] if len(shape) > 1 else None)


Trainable = TrainableParameters | NeuronSet | Mask | Collection[str] | None
"""What may be named as trained: a value, neurons, a mask, names of parameters or layers, or None for everything."""
