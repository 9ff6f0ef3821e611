"""A device that sometimes sends values that are not finite. The server refuses them, and the device goes back."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from edgefl.learning import GraphLearner
from edgefl.learning.learner import MakeLearner
from edgefl.models.neurons.update import Update

SHARE = 0.3  # of the replies of a liar


def lying(stream: random.Random) -> MakeLearner:
    """Return what makes the learner of a liar."""

    class Liar(GraphLearner):
        def take(self, *args: Any, **options: Any) -> Update:
            update = super().take(*args, **options)
            if stream.random() >= SHARE:
                return update
            wrong = {
                name: replace(block, values=np.full_like(block.values, np.nan)) for name, block in update.blocks.items()
            }
            return Update(wrong)

    return Liar
