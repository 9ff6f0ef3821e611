"""Masks that a method keeps between rounds, a bit a coordinate: the server one for each client, a client its own.

Not what masks are (neurons/mask.py) nor how they move (neurons/prune_and_grow.py). A client keeps the mask that it
moved from, too: what it sent may have come too late to be aggregated, and then the server goes on with that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from edgefl.learning.learner import Learner
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.client_state import ClientState
from edgefl.methods.task import State
from edgefl.models.graph import Params
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec

MASK = "mask"  # of a reply, and among a client's arrays the one that it uses
BEFORE = "mask_before"  # the one that it used before


def packed(mask: Mask) -> Params:
    """The bits by parameter, eight a byte, the first lowest."""
    return {name: np.packbits(bits, bitorder="little") for name, bits in mask.bits.items()}


def unpacked(spec: ModelSpec, arrays: Mapping[str, np.ndarray]) -> Mask:
    """The inverse. Raises SelectionError or ValueError for what is no mask of this model."""
    shapes = {name: spec.params[name].shape for name in spec.params if name in arrays}
    bits = {name: np.unpackbits(arrays[name], count=math.prod(s), bitorder="little") for name, s in shapes.items()}
    return Mask.of(spec, {name: each.view(np.bool_).reshape(shapes[name]) for name, each in bits.items()})


def known(state: State, spec: ModelSpec, client: int) -> Mask | None:
    """Server: the last mask of a client that was aggregated; None if none has been."""
    arrays = state.arrays.get(f"{MASK}.{client}")
    return None if arrays is None else unpacked(spec, arrays)


def aggregated(state: State, accumulator: Accumulator) -> dict[str, Params]:
    """Server: the arrays of a state with the masks that came in a round."""
    return {**state.arrays, **{f"{MASK}.{client}": packed(mask) for client, mask in accumulator.masks.items()}}


def keep(client_state: ClientState, mask: Mask, before: Mask) -> None:
    """Client: uses `mask` from now on, which it moved from `before`."""
    client_state.arrays = {name: each for name, each in client_state.arrays.items() if name not in (MASK, BEFORE)}
    client_state.arrays |= {MASK: packed(mask)} | ({} if mask == before else {BEFORE: packed(before)})


def kept(client_state: ClientState) -> list[Mask]:
    """Client: its masks, the one that it uses first; none before its first round."""
    return [
        unpacked(client_state.spec, client_state.arrays[name]) for name in (MASK, BEFORE) if name in client_state.arrays
    ]


@contextmanager
def restricted(learner: Learner, mask: Mask, batch: int) -> Iterator[None]:
    """For the length of the with block the learner has the coordinates of the mask alone, for steps of such batches."""
    learner.restrict(mask, batch)
    try:
        yield
    finally:
        learner.restrict(None)
