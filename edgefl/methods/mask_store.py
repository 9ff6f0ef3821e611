"""The masks that a method keeps between rounds, one bit per coordinate. The server keeps one for each client, and a
client keeps its own.

neurons/mask.py says what masks are, and neurons/prune_and_grow.py says how they move. A client also keeps the mask
before its last move. Its reply may have come too late to be aggregated, and then the server goes on with the mask
before the move.
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

MASK = "mask"  # name in a reply, and name of the mask in use among a client's arrays
BEFORE = "mask_before"  # name of the mask that the client used before


def packed(mask: Mask) -> Params:
    """Return the bits of a mask by parameter, eight in a byte, the first bit lowest."""
    return {name: np.packbits(bits, bitorder="little") for name, bits in mask.bits.items()}


def unpacked(spec: ModelSpec, arrays: Mapping[str, np.ndarray]) -> Mask:
    """Return the mask from its packed bits. Raises SelectionError or ValueError for what is not a mask of
    this model.
    """
    shapes = {name: spec.params[name].shape for name in spec.params if name in arrays}
    bits = {name: np.unpackbits(arrays[name], count=math.prod(s), bitorder="little") for name, s in shapes.items()}
    return Mask.of(spec, {name: each.view(np.bool_).reshape(shapes[name]) for name, each in bits.items()})


def known(state: State, spec: ModelSpec, client: int) -> Mask | None:
    """Server: return the last mask of a client that was aggregated, or None if there is no such mask."""
    arrays = state.arrays.get(f"{MASK}.{client}")
    return None if arrays is None else unpacked(spec, arrays)


def aggregated(state: State, accumulator: Accumulator) -> dict[str, Params]:
    """Server: return the arrays of a state with the masks that came in a round."""
    return {**state.arrays, **{f"{MASK}.{client}": packed(mask) for client, mask in accumulator.masks.items()}}


def keep(client_state: ClientState, mask: Mask, before: Mask) -> None:
    """Client: use `mask` from now on, to which the client moved from `before`."""
    client_state.arrays = {name: each for name, each in client_state.arrays.items() if name not in (MASK, BEFORE)}
    client_state.arrays |= {MASK: packed(mask)} | ({} if mask == before else {BEFORE: packed(before)})


def kept(client_state: ClientState) -> list[Mask]:
    """Client: return its masks, the mask in use first. Before its first round the list is empty."""
    return [
        unpacked(client_state.spec, client_state.arrays[name]) for name in (MASK, BEFORE) if name in client_state.arrays
    ]


@contextmanager
def restricted(learner: Learner, mask: Mask, batch: int) -> Iterator[None]:
    """Restrict the learner to a mask for the length of the with block, for steps of `batch` examples."""
    learner.restrict(mask, batch)
    try:
        yield
    finally:
        learner.restrict(None)
