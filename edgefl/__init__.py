"""edgefl: personalised federated learning on devices. Importing this package loads no kernels and no torch.

run = edgefl.simulate("fedspu", model=my_model, data=(x, y, groups), rounds=60, seeds=3)
print(run.table())
run = edgefl.open_run("edgefl-runs/001-digits")
edgefl.load("model.safetensors").predict(x)

What a name needs is imported when it is first asked for: everything imports this package first, devices on every start.
_finder.py, which finds the server of a checkout, is the one module that is imported here.
Types of these names are in __init__.pyi.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

EXPORTS = {  # name -> the module that has it
    "Run": "edgefl.study.run",
    "load": "edgefl.learning.predictor",
    "open_run": "edgefl.study.run",
    "simulate": "edgefl.study.simulate",
}

import_module("edgefl._finder").install()


def __getattr__(name: str) -> Any:
    """A name of PLACES, from its module."""
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(EXPORTS[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
