"""The places of a reply's values in one vector of whole numbers. Clients with one layout can be summed.

The vector has the values of every payload in the order of names, and after them one number for each figure of FIGURES.
Server and client make the layout from the plan alone. So nobody sends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from edgefl.methods.fixed_point import Whole
from edgefl.methods.plan import Plan
from edgefl.methods.rounds.reply_coordinates import expected_names, summed_index
from edgefl.models.graph.operations import Shape
from edgefl.models.neurons.block_index import Axes, Flat, block_shape
from edgefl.models.neurons.model_spec import ModelSpec

FIGURES = ("clipped", "loss", "accuracy", "tested")
"""Numbers after the values: values that were clipped, loss of the training, accuracy, and 1 if there is an accuracy."""


@dataclass(frozen=True)
class Place:
    """The values of one parameter in one payload.

    shape  shape of the whole parameter
    index  coordinates of the values (block_index.py)
    """

    payload: str
    parameter: str
    shape: Shape
    index: Axes | Flat | None

    @property
    def values_shape(self) -> tuple[int, ...]:
        """The shape of the values at the index."""
        return block_shape(self.shape, self.index)

    def to_bytes(self) -> bytes:
        """Return bytes that differ for other places."""
        ids = _ids(self.index)
        head = repr((self.payload, self.parameter, self.shape, [None if each is None else each.size for each in ids]))
        return head.encode() + b"".join(each.astype("<i8").tobytes() for each in ids if each is not None)


@dataclass(frozen=True)
class ReplyLayout:
    """The places of all values, in the order of the vector.

    sent  SHA-256 of what the clients were sent. A server that sends one client another model has another layout for it
    """

    places: tuple[Place, ...]
    sent: bytes

    @staticmethod
    def of(plan: Plan, spec: ModelSpec) -> ReplyLayout:
        """Return the layout of the reply to a plan.

        Raises  PlanError for a plan whose reply has a new mask, or values at coordinates that the client chooses.
        """
        found = []
        for payload in sorted(plan.due):
            for name in sorted(expected_names(plan, payload, spec)):
                found.append(Place(payload, name, spec.params[name].shape, summed_index(plan, payload, name, spec)))
        return ReplyLayout(tuple(found), _sent(plan))

    @cached_property
    def draw(self) -> str:
        """The name of the draw, 64 hexadecimal digits. Clients of one draw have one layout and were sent one model."""
        parts = [self.sent, *(place.to_bytes() for place in self.places)]
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()

    @cached_property
    def count(self) -> int:
        """The number of whole numbers in the vector."""
        return sum(prod(place.values_shape) for place in self.places) + len(FIGURES)

    def joined(self, values: Mapping[tuple[str, str], Whole], figures: Mapping[str, int]) -> Whole:
        """Return the vector, int64.

        values   whole numbers by payload and parameter
        figures  a number for each name of FIGURES
        """
        parts = [values[place.payload, place.parameter].reshape(-1) for place in self.places]
        return np.concatenate([*parts, [figures[name] for name in FIGURES]]).astype(np.int64)

    def split(self, vector: Whole) -> tuple[dict[tuple[str, str], Whole], dict[str, int]]:
        """Return the values and the figures of a vector of `count` numbers."""
        found, start = {}, 0
        for place in self.places:
            shape = place.values_shape
            end = start + prod(shape)
            found[place.payload, place.parameter] = vector[start:end].reshape(shape)
            start = end
        return found, {name: int(vector[start + i]) for i, name in enumerate(FIGURES)}


def _sent(plan: Plan) -> bytes:
    """Return the SHA-256 of the values and the settings that a plan brings to its client."""
    digest = hashlib.sha256(repr(sorted(item for item in plan.settings.items() if item[1] is not None)).encode())
    for payload, update in sorted(plan.payload.items()):
        for name, block in sorted(update.blocks.items()):
            digest.update(Place(payload, name, block.shape, block.index).to_bytes())
            digest.update(np.ascontiguousarray(block.values).data)
    return digest.digest()


def _ids(index: Axes | Flat | None) -> list[np.ndarray | None]:
    """Return the coordinates along each axis of an index, or None in place of a whole axis."""
    if index is None:
        return [None]
    if isinstance(index, Flat):
        return [index.ids]
    return [None if ids is None else ids.expanded for ids in (index.rows, index.cols)]
