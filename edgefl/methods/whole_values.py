"""Whole parameters of an update that has slices of some. The rest of these parameters is as the learner has it."""

from __future__ import annotations

import numpy as np

from edgefl.learning.learner import Learner
from edgefl.methods.weighted_mean import put_at
from edgefl.models.neurons.block_index import Flat
from edgefl.models.neurons.update import Block, Update


def whole(update: Update, learner: Learner) -> Update:
    """Return the update with whole parameters in place of slices. It is the update itself if it has no slice.

    The learner has equal frozen coordinates at each client, because no message carries them and no step moves them.
    """
    sliced = {name: block for name, block in update.blocks.items() if isinstance(block.index, Flat)}
    if not sliced:
        return update
    blocks = dict(update.blocks)
    for name, block in sliced.items():
        values = np.array(learner.read((name,))[name], block.values.dtype)
        put_at(values, block)
        blocks[name] = Block(block.shape, None, values)
    return Update(blocks)
