"""The class NeuronSet: the active neurons of one client in one round, and the parameter blocks that they select.

A weight is active if and only if its output neuron and its input neuron are active. A bias, norm parameter or running
statistic is active if and only if its output neuron is active. The rule is that of FedSPU, Alg. 1 (docs/algorithms.md
sections 0 and 1.1).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgefl.errors import SelectionError
from edgefl.models.graph import Graph
from edgefl.models.graph.narrower import IdArray
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.block_index import joined
from edgefl.models.neurons.model_spec import Axis, AxisSpec, ModelSpec, parts_of
from edgefl.rng import Stream, sample_ids

HASH_BYTES = 8


def n_act(n: int, keep: float) -> int:
    """Return the number of active neurons of n: all at keep = 1, and max(1, floor(n * keep + 1e-9)) otherwise.

    Without the 1e-9, 100 * 0.29 would give 28 in binary floating point, and not 29.
    Raises  ValueError unless 0 < keep <= 1.
    """
    if not 0 < keep <= 1:
        raise ValueError(f"keep={keep}; expected 0 < keep <= 1")
    return n if keep == 1 else max(1, math.floor(n * keep + 1e-9))


@dataclass(frozen=True, eq=False)
class NeuronSet:
    """The active neurons of every group of a model. Make one with full, draw, leading or of, which check it.

    active  group -> sorted unique int32 ids
    keys    group -> the 8-byte key with which its ids were drawn (rng.sample_ids), or None
    sizes   group -> number of neurons of the group
    """

    active: Mapping[str, IdArray]
    keys: Mapping[str, int | None]
    sizes: Mapping[str, int]

    @staticmethod
    def full(spec: ModelSpec) -> NeuronSet:
        """Return the set in which every neuron is active."""
        return NeuronSet.of(spec, {group: range(size) for group, size in spec.groups.items()})

    @staticmethod
    def draw(spec: ModelSpec, keep: float, stream: Stream) -> NeuronSet:
        """Draw n_act(n, keep) neurons of each group, uniformly without replacement, independently for each group.

        It takes one word of `stream` for each group, whatever `keep` is. Groups that are fully active have no key.
        Raises  ValueError unless 0 < keep <= 1.
        """
        active: dict[str, IdArray] = {}
        keys: dict[str, int | None] = {}
        for group, size in spec.groups.items():
            key, count = stream.key(), n_act(size, keep)
            active[group] = sample_ids(key, size, count)
            keys[group] = key if count < size else None
        return replace(NeuronSet.of(spec, active), keys=keys)

    @staticmethod
    def leading(spec: ModelSpec, keep: float) -> NeuronSet:
        """Return the set of the first n_act(n, keep) neurons of each group.

        The set of a smaller share is a part of the set of a larger share.
        Raises  ValueError unless 0 < keep <= 1.
        """
        return NeuronSet.of(spec, {group: range(n_act(size, keep)) for group, size in spec.groups.items()})

    @staticmethod
    def of(spec: ModelSpec, active: Mapping[str, Iterable[int]]) -> NeuronSet:
        """Return the set with the given ids, without keys.

        Raises  SelectionError that names the group and the ids that do not fit `spec`.
        """
        if active.keys() != spec.groups.keys():
            raise SelectionError(f"neuron groups {sorted(active)}; expected {sorted(spec.groups)}")
        ids = {group: _checked(group, active[group], size) for group, size in spec.groups.items()}
        return NeuronSet(ids, dict.fromkeys(ids), dict(spec.groups))

    def check(self, spec: ModelSpec) -> None:
        """Raise SelectionError that names a group, unless a model with this specification has these groups."""
        for group in {**spec.groups, **self.sizes}:
            ours, theirs = self.sizes.get(group, 0), spec.groups.get(group, 0)
            if ours != theirs:
                raise SelectionError(f"neurons of another model: {ours} in group {group!r}; expected {theirs}")

    @property
    def is_full(self) -> bool:
        """Return whether all neurons are active."""
        return all(len(ids) == self.sizes[group] for group, ids in self.active.items())

    def ids(self, axis: Axis | None, size: int) -> IdArray | None:
        """Return the sorted indices of the active part of an axis of length `size`, or None if all of it is active.

        Raises  SelectionError if the axis does not belong to groups of this set, or has another length.
        """
        parts = parts_of(axis, size)
        if len(parts) == 1:
            return self._ids(parts[0][0], size)
        found = [self._ids(part, length) for part, length in parts]
        if all(ids is None for ids in found):
            return None
        lengths = [length for _, length in parts]
        return joined(found, lengths)

    def _ids(self, axis: AxisSpec | None, size: int) -> IdArray | None:
        if axis is None:
            return None
        if self.sizes.get(axis.group, 0) * axis.repeat != size:
            have = f"{self.sizes[axis.group]} neurons" if axis.group in self.sizes else "no such group"
            raise SelectionError(f"axis of {size} indices in group {axis.group!r} with repeat {axis.repeat}; {have}")
        neurons = self.active[axis.group]
        if len(neurons) == self.sizes[axis.group]:
            return None
        return (neurons[:, None] * axis.repeat + np.arange(axis.repeat, dtype=np.int32)).astype(np.int32).ravel()

    def blocks(
        self, spec: ModelSpec, kinds: tuple[Kind, ...] = ("learn", "stat", "frozen")
    ) -> dict[str, tuple[IdArray | None, IdArray | None]]:
        """Return (rows, cols) of the active block of each parameter of these kinds. For a whole axis it is None.

        Raises  SelectionError if the set belongs to another model.
        """
        self.check(spec)
        return {
            name: (self.ids(param.rows, param.shape[0]), self.ids(param.cols, param.shape[1] if param.cols else 0))
            for name, param in spec.params.items()
            if param.kind in kinds
        }

    def blocks_of(self, graph: Graph) -> dict[str, tuple[IdArray | None, IdArray | None]]:
        """Return `blocks` for the specification of `graph`."""
        return self.blocks(ModelSpec.of(graph))

    def count(self, spec: ModelSpec, kinds: tuple[Kind, ...] = ("learn",)) -> int:
        """Return the number of active scalars of these kinds: P_act for "learn", stat_act for "stat"."""
        total = 0
        for name, (rows, cols) in self.blocks(spec, kinds).items():
            shape = list(spec.params[name].shape)
            for axis, ids in enumerate((rows, cols)):
                if ids is not None:
                    shape[axis] = len(ids)
            total += math.prod(shape)
        return total

    def hash(self) -> bytes:
        """Return 8 bytes that stand for the groups and their ids in a reply. The keys do not enter."""
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        for group, ids in sorted(self.active.items()):
            digest.update(f"{group} {self.sizes[group]} {len(ids)}\n".encode())
            digest.update(ids.astype("<i4").tobytes())
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NeuronSet):
            return NotImplemented
        same_groups = self.sizes == other.sizes and self.active.keys() == other.active.keys()
        return same_groups and all(np.array_equal(ids, other.active[group]) for group, ids in self.active.items())

    def __hash__(self) -> int:
        return hash(self.hash())


def _checked(group: str, ids: Iterable[int], size: int) -> IdArray:
    given = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise SelectionError(f"group {group!r}: ids of shape {given.shape} and type {given.dtype}; expected integers")
    if given.min() < 0 or given.max() >= size:
        raise SelectionError(f"group {group!r}: ids from {given.min()} to {given.max()}; expected 0 to {size - 1}")
    if (given[1:] <= given[:-1]).any():
        raise SelectionError(f"group {group!r}: ids are not sorted and unique: {given[:8].tolist()}...")
    result = given.astype(np.int32)
    result.flags.writeable = False
    return result
