"""edgefl: personalised federated learning on devices. Importing this package loads no kernels and no torch.

run = edgefl.simulate("fedspu", model=my_model, data=(x, y, groups), rounds=60, seeds=3)
print(run.table())
run = edgefl.open_run("edgefl-runs/001-digits")
edgefl.load("model.safetensors").predict(x)

A name imports its module when the name is first asked for. This keeps the start of a device short, because every module
of edgefl imports this package first. Only _finder.py, which finds the modules, is imported here at once. Editors and
type checkers read the imports under TYPE_CHECKING.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgefl.experiment.settings import Experiment as Experiment
    from edgefl.learning.predictor import Predictor as Predictor
    from edgefl.learning.predictor import load as load
    from edgefl.study.round_records import RoundRecord as RoundRecord
    from edgefl.study.run import Client as Client
    from edgefl.study.run import Method as Method
    from edgefl.study.run import Run as Run
    from edgefl.study.run import open_run as open_run
    from edgefl.study.simulate import simulate as simulate

__version__ = "0.2.0"

EXPORTS = {  # name -> the module that has it
    "Client": "edgefl.study.run",
    "Experiment": "edgefl.experiment.settings",
    "Method": "edgefl.study.run",
    "Predictor": "edgefl.learning.predictor",
    "RoundRecord": "edgefl.study.round_records",
    "Run": "edgefl.study.run",
    "load": "edgefl.learning.predictor",
    "open_run": "edgefl.study.run",
    "simulate": "edgefl.study.simulate",
}

import_module("edgefl._finder").install()


def _lazily(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package, for Python. Type checkers read imports under TYPE_CHECKING.

    names   public name -> the module that defines the name
    Raises  AttributeError for a name that is not in `names`. The function raises it, and `_lazily` raises nothing
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(names[name]), name)

    return get


if not TYPE_CHECKING:
    __getattr__ = _lazily(__name__, EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
