"""Code of the user's own, named by MODULE:FACTORY: how it is found, and the error if it fails."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from edgefl.errors import RequestError

HELP = (
    "torch module, as a Python module or its file, and a name in it (for example: model.py:net). The name stands for a "
    "torch.nn.Module, or for a function that returns a torch.nn.Module."
)


@contextmanager
def users_code(text: str) -> Iterator[None]:
    """Turn every exception raised inside, except edgefl's own errors, into a RequestError that names the code."""
    try:
        yield
    except RequestError:
        raise
    except Exception as error:  # the user's code may raise anything
        if type(error).__module__.startswith("edgefl."):
            raise
        raise RequestError(f"{text} ends with {type(error).__name__}: {error}") from error


def found(text: str) -> object:
    """Return the object that MODULE:FACTORY names. Raises RequestError if there is no such object."""
    module, colon, name = text.rpartition(":")
    if not (colon and module and name):
        raise RequestError(f"{text!r}; expected MODULE:FACTORY")
    return _attribute(_imported(module), name)


def _attribute(module: ModuleType, name: str) -> object:
    if not hasattr(module, name):
        public = ", ".join(each for each in vars(module) if not each.startswith("_")) or "nothing"
        raise RequestError(f"{module.__name__} has no {name!r}; expected one of its names: {public}")
    return getattr(module, name)


def _imported(name: str) -> ModuleType:
    """Import a module by its name, from the current directory first, or by the path of its file."""
    path = Path(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise RequestError(f"{path} is not a file; expected a Python module")
        sys.path.insert(0, str(path.resolve().parent))  # so that the module can import its neighbours
        return _from_file(path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        found = None
    if found is None:
        raise RequestError(f"no module {name!r}; expected one in {Path.cwd()} or an installed module")
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    """Import the module in this file, whatever other modules of its name there are."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
