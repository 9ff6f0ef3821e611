"""The order in which ONNX's axes lie over a result of a graph, as values without operations.

A result of a graph lies in memory as [channels, ...], in the order of its atoms. An atom is a factor of an extent. Each
axis of an ONNX tensor is made of atoms. So Transpose, Squeeze, Unsqueeze and most Reshapes move no values: they only
say in another way which atoms make which axis. graph_assembly.py moves values where an operation needs another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgefl.errors import GraphError
from edgefl.models.graph.operations import Shape

BATCH = -1  # the atom of the batch, which comes before all other atoms in memory
OPEN_BATCH = 2**31 - 1  # the batch size in computations with shapes: a prime that no other extent is a multiple of
MOST_AXES = 12
Axis = tuple[int, ...]  # indices of atoms, the slowest first. An axis of extent 1 has no atoms


@dataclass(frozen=True)
class OnnxResult:
    """A result of a graph under an ONNX tensor's axes.

    name    name of the result in the graph under construction
    shape   shape of the result, without the batch
    atoms   sizes above 1 in the order of memory, whose product is the number of values of a sample
    axes    for each axis of the ONNX tensor its atoms
    batch   number that stands for the batch size in computations with shapes
    is_ids  whether the values are ids, which only an Embedding may read
    """

    name: str
    shape: Shape
    atoms: tuple[int, ...]
    axes: tuple[Axis, ...]
    batch: int = OPEN_BATCH
    is_ids: bool = False

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the extent of each axis, in which `batch` stands for the batch size."""
        return tuple(math.prod(self.size(atom) for atom in axis) for axis in self.axes)

    def size(self, atom: int) -> int:
        return self.batch if atom == BATCH else self.atoms[atom]

    @property
    def others(self) -> list[int]:
        """Return the indices of all axes but the batch. Raises GraphError if the batch is part of a longer axis."""
        if (BATCH,) not in self.axes:
            raise GraphError(f"the batch is joined with other axes in {self}; expected an axis of its own")
        return [at for at, axis in enumerate(self.axes) if axis != (BATCH,)]

    def axis(self, index: int) -> int:
        """Return the index of an axis, counted from the front. Raises GraphError if there is no such axis."""
        if not -self.rank <= index < self.rank:
            raise GraphError(f"axis {index} of {self}; expected one of its {self.rank} axes")
        return index % self.rank

    def __str__(self) -> str:
        return f"[{', '.join(map(self._shown, self.axes))}]"

    def _shown(self, axis: Axis) -> str:
        size = math.prod(self.atoms[atom] for atom in axis if atom != BATCH)
        return str(size) if BATCH not in axis else "batch" if size == 1 else f"batch x {size}"


def standard(name: str, shape: Shape, batch: int) -> OnnxResult:
    """Return a result whose ONNX axes are the batch and the extents of its shape."""
    return laid(name, shape, [(at, size) for at, size in enumerate(shape, start=1)], len(shape) + 1, batch)


def laid(name: str, shape: Shape, memory: Sequence[tuple[int, int]], rank: int, batch: int, at: int = 0) -> OnnxResult:
    """Return a result of ONNX axes in some order.

    memory  (axis, extent) in the order of memory
    rank    number of axes, of which those that are not named in `memory` have the extent 1
    at      axis of the batch
    """
    axes: list[Axis] = [() for _ in range(rank)]
    axes[at] = (BATCH,)
    atoms: list[int] = []
    for axis, size in memory:
        if size > 1:
            axes[axis] = (len(atoms),)
            atoms.append(size)
    return OnnxResult(name, shape, tuple(atoms), tuple(axes), batch)


def transposed(value: OnnxResult, order: Sequence[int]) -> OnnxResult:
    if sorted(order) != list(range(value.rank)):
        raise GraphError(f"perm={list(order)} of {value}; expected each axis once")
    return replace(value, axes=tuple(value.axes[at] for at in order))


def without_axes(value: OnnxResult, gone: Sequence[int]) -> OnnxResult:
    """Return the value without axes of extent 1."""
    dropped = {value.axis(each) for each in gone}
    for at in dropped:
        if value.axes[at]:
            raise GraphError(f"axis {at} of {value} is dropped; expected an axis of extent 1 that is not the batch")
    return replace(value, axes=tuple(axis for at, axis in enumerate(value.axes) if at not in dropped))


def with_axes(value: OnnxResult, added: Sequence[int]) -> OnnxResult:
    """Return the value with further axes of extent 1, at these indices of the result."""
    rank = value.rank + len(added)
    places = sorted(at + rank if at < 0 else at for at in added)
    if len(set(places)) < len(places) or not all(0 <= at < rank for at in places):
        raise GraphError(f"axes={list(added)} for {value}; expected different axes of a result of {rank}")
    if rank > MOST_AXES:
        raise GraphError(f"{rank} axes; the limit is {MOST_AXES}")
    axes = list(value.axes)
    for at in places:
        axes.insert(at, ())
    return replace(value, axes=tuple(axes))


def regrouped(value: OnnxResult, extents: Sequence[int]) -> OnnxResult | None:
    """Return the value under other extents with the same product, or None if an atom would be cut in an uneven way.

    A batch of 1 is an axis of extent 1 where it meets one, and else a part of the axis before it.
    """
    if len(extents) > MOST_AXES:
        raise GraphError(f"{len(extents)} axes; the limit is {MOST_AXES}")
    waiting = [atom for axis in value.axes for atom in axis]
    atoms, axes = list(value.atoms), list[Axis]()
    for at, extent in enumerate(extents):
        members: list[int] = []
        need = extent
        while waiting and (need > 1 or (waiting[0] == BATCH and value.batch == 1 and not members)):
            size = value.batch if waiting[0] == BATCH else atoms[waiting[0]]
            if need % size == 0:
                members.append(waiting.pop(0))
                need //= size
            elif size % need == 0 and waiting[0] != BATCH:
                _split(need, atoms, waiting, members, axes)
                members.append(waiting.pop(0))
                need = 1
            else:
                return None
            if members == [BATCH] and need == 1:
                break
        if need > 1:
            return None
        is_last_or_longer = at + 1 == len(extents) or extents[at + 1] > 1
        if value.batch == 1 and members and waiting[:1] == [BATCH] and is_last_or_longer:
            members.append(waiting.pop(0))
        axes.append(tuple(members))
    return None if waiting else replace(value, atoms=tuple(atoms), axes=tuple(axes))


def _split(first: int, atoms: list[int], waiting: list[int], members: list[int], axes: list[Axis]) -> None:
    """Split the first waiting atom into two, of which the first has the size `first`, and count later atoms anew."""
    atom = waiting[0]
    atoms[atom : atom + 1] = [first, atoms[atom] // first]
    waiting[:] = [each + (each > atom) for each in waiting]
    waiting.insert(1, atom + 1)
    members[:] = [each + (each > atom) for each in members]
    axes[:] = [tuple(each + (each > atom) for each in axis) for axis in axes]
