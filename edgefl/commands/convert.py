"""`edgefl convert`: a torch module of the user's own, with its present weights, as a file that `--model` takes."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType

from edgefl.commands.sizes import extents
from edgefl.errors import RequestError
from edgefl.graph import Model, files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to convert, and where to."""
    parser.add_argument(
        "factory",
        metavar="MODULE:FACTORY",
        help="a Python module here, or the path of its file, and what in it is a torch.nn.Module or returns one",
    )
    parser.add_argument("--input", type=extents, required=True, metavar="C,H,W", help="shape of an example")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="ends in .safetensors")


def run(options: argparse.Namespace) -> int:
    """Imports, converts, writes the file and says what it has."""
    module, colon, name = options.factory.rpartition(":")
    if not (colon and module and name):
        raise RequestError(f"{options.factory!r}; expected MODULE:FACTORY")
    if options.output.suffix != ".safetensors":
        raise RequestError(f"{options.output}; expected a file that ends in .safetensors")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        model = _model(module, name, options.input)
    for warning in said:
        print(f"edgefl convert: {warning.message}", file=sys.stderr)
    files.save(options.output, model)
    scalars = sum(value.size for value in model.params.values())
    print(f"{options.output}: {len(model.graph.nodes)} operations, {scalars} parameters", file=sys.stderr)
    return 0


def _model(module: str, name: str, input_shape: tuple[int, ...]) -> Model:
    """What the user's code makes, as a graph with weights. Raises RequestError if there is no such code, or it fails;
    GraphError for a module that edgefl cannot take.
    """
    try:
        from edgefl.nn.made import made_by
    except ModuleNotFoundError as error:
        raise RequestError(str(error)) from None
    try:
        return made_by(_attribute(_imported(module), name), f"{module}:{name}", input_shape)
    except RequestError:
        raise
    except Exception as error:  # what the user's code raises may be anything
        if type(error).__module__.startswith("edgefl."):
            raise
        raise RequestError(f"{module}:{name} ends with {type(error).__name__}: {error}") from error


def _attribute(module: ModuleType, name: str) -> object:
    if not hasattr(module, name):
        public = ", ".join(each for each in vars(module) if not each.startswith("_")) or "nothing"
        raise RequestError(f"{module.__name__} has no {name!r}; expected one of its names: {public}")
    return getattr(module, name)


def _imported(name: str) -> ModuleType:
    """A module by its name, from the current directory first, or by the path of its file."""
    path = Path(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise RequestError(f"{path} is no file; expected a Python module")
        sys.path.insert(0, str(path.resolve().parent))  # for what it imports itself
        return _from_file(path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        found = None
    if found is None:
        raise RequestError(f"no module {name!r}; expected one in {Path.cwd()} or among the installed ones")
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    """The module in this file, whatever others of its name there are."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
