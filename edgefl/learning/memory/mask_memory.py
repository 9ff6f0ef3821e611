"""The memory that a learner holds because of a mask: the values of the kept weights, structures and bits.

The mask is drawn at random. The bytes follow from its counts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgefl import kernels
from edgefl.kernels.memory import HOST
from edgefl.learning.lowering.arena import aligned
from edgefl.learning.lowering.schedule import Existing, Schedule, Structure
from edgefl.learning.lowering.sparse_weight import sparse_weights
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.weight_arrays import Compact, structures
from edgefl.models.graph import Graph
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.random_mask import random_mask

SEED = 1


@dataclass(frozen=True)
class MaskFootprint:
    """A mask as a learner holds it. It is empty without a mask.

    sparse     weights that exist as values alone
    existing   bits of the other masked weights
    bit_bytes  bytes of the mask itself
    """

    sparse: Mapping[str, Compact]
    existing: Mapping[str, Existing]
    bit_bytes: int = 0

    @staticmethod
    def of(graph: Graph, spec: ModelSpec, density: float, batch: int) -> MaskFootprint:
        """Return the footprint of a learner restricted to an ERK mask of this density, for batches of this size."""
        return _made(graph, density, batch) if density < 1 else MaskFootprint({}, {})

    @property
    def value_bytes(self) -> int:
        return sum(aligned(each.values.nbytes) for each in self.sparse.values())

    @property
    def index_bytes(self) -> int:
        """The bytes of bits and structures."""
        bits = self.bit_bytes + sum(each.nbytes for each in self.existing.values())
        return bits + sum(each.index_bytes for each in self.sparse.values())

    def other_lists(self, schedule: Schedule) -> int:
        """Return the bytes of a schedule's id lists, without the bits of the mask."""
        ours = {id(bits) for bits in self.existing.values()}
        return sum(ids.nbytes for ids in schedule.id_lists() if id(ids) not in ours)

    def structures(self) -> dict[Structure, NDArray[np.uint32]]:
        return structures(self.sparse)


@lru_cache(maxsize=2)
def _made(graph: Graph, density: float, batch: int) -> MaskFootprint:
    spec, ops = ModelSpec.of(graph), kernels.backend()
    mask: Mask = random_mask(spec, density, "erk", SEED)
    held = Restriction(spec, mask)
    plans = sparse_weights(graph, spec, held.counts, batch, ops)
    sparse = {name: Compact(plan, np.dtype(np.float32), HOST) for name, plan in plans.items()}
    for name, each in sparse.items():
        each.build(mask.bits[name], ops)
    existing = {name: held.packed(name).copy() for name in held if name not in sparse}
    return MaskFootprint(sparse, existing, held.nbytes)
