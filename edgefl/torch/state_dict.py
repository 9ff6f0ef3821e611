"""A model as a torch state_dict, for torch.load.

The file is not a pickled module: a reader needs a module that has these parameter names.
"""

from __future__ import annotations

from typing import BinaryIO

import torch

from edgefl.models.graph import Model
from edgefl.torch.graph_module import to_torch
from edgefl.torch.parameter_operands import CONSTANT


def write_state_dict(model: Model, file: BinaryIO) -> None:
    """Write the model's values under torch's names, for `torch.load(..., weights_only=True)`.

    The file also has num_batches_tracked of each BatchNorm, and the values that the graph does not use. A shared weight
    is there under each name that the original module has for it. The file does not have the constants of the module's
    forward, which no state_dict of the module has.
    Raises  GraphError like to_torch.
    """
    unused = {name: torch.from_numpy(value) for name, value in model.beside().items()}
    own = {name: value for name, value in to_torch(model).state_dict().items() if not name.startswith(CONSTANT)}
    torch.save({**own, **unused}, file)
