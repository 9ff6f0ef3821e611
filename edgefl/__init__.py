"""edgefl: personalised federated learning on devices. Importing this package loads no kernels and no torch.

run = edgefl.simulate("fedspu", model=my_model, data=(x, y, groups), rounds=60, seeds=3)
print(run.table())
run = edgefl.open_run("edgefl-runs/001-digits")
edgefl.load("model.safetensors").predict(x)

A name imports its module when the name is first asked for. This keeps the start of a device short, because every module
of edgefl imports this package first. Only _finder.py, which finds the server of a checkout, is imported here at once.
Types of these names are in __init__.pyi.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

EXPORTS = {  # name -> the module that has it
    "Run": "edgefl.study.run",
    "load": "edgefl.learning.predictor",
    "open_run": "edgefl.study.run",
    "simulate": "edgefl.study.simulate",
}

import_module("edgefl._finder").install()


def __getattr__(name: str) -> Any:
    """Return a name of EXPORTS from the module that defines it."""
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(EXPORTS[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
