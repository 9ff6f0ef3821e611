"""The two rounds that python -m bench federation compares are the same round."""

from __future__ import annotations

import numpy as np
import torch

from bench.federation import federation, own_round, peer_round
from edgefl.methods import FedSPU

LOSS = 4  # times what PyTorch's own float32 loses: steps of training magnify where a ReLU or a window's maximum turns


def test_both_sides_end_with_the_same_model() -> None:
    clients, _ = federation(2)
    dense = FedSPU(keep=(1.0,), per_round=2, epochs=1)
    exact = {name: value.numpy() for name, value in peer_round(dense, clients, torch.float64).items()}
    lost = {name: np.linalg.norm(value.numpy() - exact[name]) for name, value in peer_round(dense, clients).items()}
    for name, value in own_round(dense, clients).items():
        allowed = 1e-3 * np.linalg.norm(exact[name]) + LOSS * lost[name]
        assert np.linalg.norm(value - exact[name]) <= allowed, name
