"""Normal numbers of a model's noise for torch, so that torch takes a step with the numbers that edgefl draws.

tests/learning/test_noise.py checks the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from edgefl.kernels.reference.dropout import uniform
from edgefl.learning.batches import Keyed
from edgefl.learning.lowering.training_alone import ANGLES
from edgefl.models.graph import Model
from edgefl.models.graph.operations import GaussianNoise

TRAINING = Keyed(7)
EVALUATION = Keyed(0)


def numbers(model: Model) -> list[int]:
    """Return the places of the noise among the nodes of a model, in the order of their calls."""
    return [at for at, node in enumerate(model.graph.nodes) if isinstance(node.op, GaussianNoise)]


@contextmanager
def drawn(model: Model, position: Keyed) -> Iterator[None]:
    """A context in which torch.randn_like returns the numbers of one pass of edgefl from this position."""
    places = iter(numbers(model))

    def normal(x: Tensor, **_: Any) -> Tensor:
        place, state = next(places), np.array([position.key, position.step, 0], np.int64)
        lengths, angles = (np.empty(tuple(x.shape)) for _ in range(2))
        uniform(lengths, state, place)
        uniform(angles, state, place + ANGLES)
        return torch.from_numpy(np.sqrt(-2 * np.log(lengths)) * np.cos(2 * np.pi * angles)).to(x)

    with mock.patch.object(torch, "randn_like", normal):
        yield
