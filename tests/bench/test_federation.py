"""The two rounds that python -m bench federation compares are the same round."""

from __future__ import annotations

import numpy as np

from bench.federation import federation, own_round, peer_round
from edgefl.algorithms import FedSPU


def test_both_sides_end_with_the_same_model() -> None:
    clients, _ = federation(2)
    dense = FedSPU(keep=(1.0,), per_round=2, epochs=1)
    expected = peer_round(dense, clients)
    for name, value in own_round(dense, clients).items():
        size = np.linalg.norm(value)
        assert np.linalg.norm(value - expected[name].numpy()) <= 1e-3 * size, name
