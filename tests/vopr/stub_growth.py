"""A search for the strongest coordinates without arithmetic, in place of a learner's own search.

The coordinates are drawn from a digest of the parameters, the samples in their order and what is sought, so one wrong
bit in any of them gives other coordinates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgefl.learning.learner import Samples
from edgefl.learning.lowering.active_ids import Growth
from edgefl.learning.running.growth_search import GrowthSearch, Positions

WORD_BYTES = 4


class StubGrowth(GrowthSearch):
    """This checks what is asked as GrowthSearch does, and draws what is found."""

    def _found(self, samples: Samples, index: NDArray[np.int32], grown: Mapping[str, Growth]) -> dict[str, Positions]:
        """Return coordinates that do not exist yet, as positions in the flattened parameters."""
        found = hashlib.shake_128(samples.x[index].tobytes() + samples.y[index].tobytes())
        weights = self._workspace.store.weights
        for name in sorted(self._spec.params):
            found.update(weights[name].tobytes())
        return {name: _drawn(found.copy(), name, each, weights[name].size) for name, each in grown.items()}


def _drawn(key: hashlib._Hash, name: str, growth: Growth, size: int) -> Positions:
    """Draw positions of one parameter, sorted. Among equal draws the lower position is taken."""
    key.update(f"{name} {growth.sought}".encode() + growth.exists.tobytes())
    exists = np.unpackbits(growth.exists, count=size, bitorder="little").astype(np.bool_)
    words = np.frombuffer(key.digest(WORD_BYTES * size), "<u4")
    candidates = np.flatnonzero(~exists)
    order = np.argsort(words[candidates], kind="stable")
    return np.sort(candidates[order[: growth.sought]]).astype(np.uint32)
