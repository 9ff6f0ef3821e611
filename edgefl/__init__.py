"""edgefl: personalised federated learning on devices. Importing this package loads no kernels and no torch.

edgefl.load("model.safetensors").predict(x)
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def load(path: str) -> Any:
    """The model in a file that `edgefl convert` or `edgefl export` wrote, as an edgefl.predictor.Predictor.

    What it needs is imported when it is called: everything imports this package first, devices on every start.
    Raises  GraphError if the file is not a model, or contradicts itself; OSError if it cannot be opened.
    """
    return import_module("edgefl.predictor").load(path)
