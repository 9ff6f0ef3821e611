"""The layers of docs/architecture.md as a literal table, checked with ast: nothing here is imported.

A module may import from its own layer and from the layers above it in the table, and from the third-party packages and
standard modules that the table grants it. A module or a package that is in no table fails, so a new file has to say
where it belongs.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = {"edgefl": ROOT / "edgefl", "edgefl.server": ROOT / "server"}

LAYERS = {  # top to bottom; a package's name stands for every module in it that no longer name claims
    "errors": ["edgefl", "edgefl.errors"],
    "arithmetic": ["edgefl.kernels", "edgefl._core"],
    "values": ["edgefl.rng", "edgefl.graph", "edgefl.neurons"],
    "bytes": ["edgefl.codec", "edgefl.wire"],
    "learning": ["edgefl.learners", "edgefl.memory", "edgefl.nn"],
    "methods": ["edgefl.algorithms"],
    "world": [
        "edgefl.__main__",
        "edgefl.agent",
        "edgefl.commands",
        "edgefl.data",
        "edgefl.device",
        "edgefl.durable",
        "edgefl.energy",
        "edgefl.experiment",
        "edgefl.export",
        "edgefl.flower",
        "edgefl.graph.files",
        "edgefl.integrations",
        "edgefl.memory.measure",
        "edgefl.predictor",
        "edgefl.rounds",
        "edgefl.server",
        "edgefl.simulation",
        "edgefl.study",
        "edgefl.sysfs",
        "edgefl.toml",
        "edgefl.trust",
        "edgefl.virtual",
    ],
}
ORDER = list(LAYERS)

ROOMS = (  # a package may import from those before it
    "edgefl", "errors", "rng", "durable", "sysfs", "toml", "kernels", "graph", "neurons", "codec", "wire", "learners",
    "nn", "memory", "predictor", "energy", "algorithms", "data", "rounds", "virtual", "experiment", "trust", "device",
    "flower", "agent", "server", "simulation", "export", "integrations", "study", "commands", "__main__",
)  # fmt: skip

APART = {  # not below each other in spirit, though the order alone would allow it
    "learning": {"bytes"},  # bytes never meet torch
    "methods": {"bytes"},
}

PACKAGES = {  # third-party package -> the modules that may import it
    "numpy": ["edgefl"],
    "torch": ["edgefl.nn"],
    "numba": ["edgefl.kernels.numba.compiled"],
    "cryptography": ["edgefl.flower.node_key", "edgefl.trust.certificates"],
    "safetensors": [
        "edgefl.device.state",
        "edgefl.durable",
        "edgefl.graph.files",
        "edgefl.rounds.state_file",
        "edgefl.simulation.journal",
    ],
    "flwr": ["edgefl.integrations.flower"],
    "msgspec": ["edgefl.wire"],
    "onnx": ["edgefl.export.onnx_file"],
    "PIL": ["edgefl.data.images"],
    "mlflow": ["edgefl.integrations.trackers"],
    "tensorboard": ["edgefl.integrations.trackers"],
    "wandb": ["edgefl.integrations.trackers"],
    "tomli": ["edgefl.toml"],
    "ray": ["edgefl.integrations.ray"],
    "rich": [
        "edgefl.commands",
        "edgefl.data.download",
        "edgefl.study.device_tables",
        "edgefl.study.new_table",
        "edgefl.study.progress",
        "edgefl.study.tables",
    ],
    "matplotlib": ["edgefl.commands.memory_picture", "edgefl.study.picture"],
}

WORLDLY = {  # standard modules with files, clocks, sockets, threads or chance in them: the world's own
    "asyncio", "concurrent", "datetime", "http", "io", "multiprocessing", "os", "pathlib", "queue", "random", "secrets",
    "selectors", "shutil", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
GRANTED = {
    "edgefl.kernels": {"os"},  # EDGEFL_KERNELS
    "edgefl.kernels.cuda.device": {"threading"},  # one device for all threads
    "edgefl.kernels.cuda.images": {"pathlib"},  # the compiled kernels
}
FORBIDDEN = {  # standard module -> the modules that may import it
    "asyncio": [f"edgefl.server.{name}" for name in ("entrance", "peer", "secured", "serve")],
    "socket": ["edgefl.device.socket", "edgefl.server.entrance", "edgefl.server.peer"],
    "pickle": [],
    "marshal": [],
    "shelve": [],
}
WORLDLY_CALLS = {"open", "input", "print", "eval", "exec", "__import__"}  # refused outside the world


def modules() -> dict[str, Path]:
    """Every module of the packages by its import name."""
    found = {}
    for package, folder in CODE.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


def is_in(module: str, names: list[str]) -> bool:
    """True if `module` is one of the names or lies in a package of that name."""
    return any(module == name or module.startswith(name + ".") for name in names)


def layer_of(module: str) -> str | None:
    """The layer with the longest name that covers `module`; "edgefl" itself covers only the package's own file."""
    names = {name: layer for layer, names in LAYERS.items() for name in names}
    covering = [name for name in names if module == name or (name != "edgefl" and module.startswith(name + "."))]
    return names[max(covering, key=len)] if covering else None


def room_of(module: str) -> str:
    """The package or top-level file that a module is in: "graph" for edgefl.graph.json."""
    return "edgefl" if module == "edgefl" else module.split(".")[1]


def imports(module: str, source: str, is_package: bool = False) -> Iterator[str]:
    """Absolute names of everything `source` imports, wherever the statement stands: `from a import b` gives a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package and node.level == 1 else is_package - node.level]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """What `source` imports or calls against the tables, one sentence each."""
    layer = layer_of(module)
    if layer is None:
        return [f"{module} is in no layer; add it to LAYERS"]
    found = [
        problem
        for name in imports(module, source, is_package)
        if (problem := own(layer, name) if is_in(name, ["edgefl"]) else foreign(module, layer, name))
    ]
    if layer != "world":
        calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        found += [f"calls {name}(), which only the world may" for name in sorted(names & WORLDLY_CALLS)]
    return [f"{module} {problem}" for problem in found]


def own(layer: str, name: str) -> str | None:
    """Why a module of `layer` may not import `name` from edgefl, or None."""
    other = "errors" if name.startswith("edgefl.__") else layer_of(name)  # edgefl.__version__ is the package's own
    if other is None:
        return f"imports {name}, which is in no layer"
    if ORDER.index(other) > ORDER.index(layer):
        return f"is of the layer {layer!r} and imports {name} of {other!r} below it"
    return f"imports {name}: {layer} stays apart from {other}" if other in APART.get(layer, set()) else None


def foreign(module: str, layer: str, name: str) -> str | None:
    """Why `module` may not import `name` from elsewhere, or None."""
    top = name.split(".")[0]
    if top in PACKAGES:
        return None if is_in(module, PACKAGES[top]) else f"imports {top}, which only {PACKAGES[top]} may"
    if top not in sys.stdlib_module_names:
        return f"imports {top}, which is in no table; add it to PACKAGES"
    if top in FORBIDDEN:
        return None if is_in(module, FORBIDDEN[top]) else f"imports {top}, which only {FORBIDDEN[top]} may"
    granted = {item for owner, items in GRANTED.items() if is_in(module, [owner]) for item in items}
    if layer != "world" and top in WORLDLY - granted:
        return f"of the layer {layer!r} imports {top}, which only the world may"
    return None


MODULES = modules()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_keeps_to_its_layer(module) -> None:
    path = MODULES[module]
    assert violations(module, path.read_text("utf-8"), path.name == "__init__.py") == []


def needed(module: str, path: Path) -> set[str]:
    """The modules of ours that a module imports, inside functions and for type checking too."""
    source = path.read_text("utf-8")
    names = imports(module, source, path.name == "__init__.py")
    owners = (name if name in MODULES else name.rpartition(".")[0] for name in names if is_in(name, ["edgefl"]))
    return {owner for owner in owners if owner in MODULES} - {module}


def test_no_module_needs_itself_through_others() -> None:
    graph = {module: needed(module, path) for module, path in MODULES.items()}
    order = list(TopologicalSorter(graph).static_order())  # CycleError names a circle
    assert order.index("edgefl.graph.graph") < order.index("edgefl.neurons.spec")


def test_rooms_import_only_from_those_before_them() -> None:
    edges = {(room_of(module), room_of(other)) for module, path in MODULES.items() for other in needed(module, path)}
    back = [f"{a} imports from {b}" for a, b in edges if ROOMS.index(a) < ROOMS.index(b)]
    assert back == []
    assert set(ROOMS) == {room_of(module) for module in MODULES}


def test_every_name_in_the_layers_exists() -> None:
    named = {name for names in LAYERS.values() for name in names}
    assert named - set(MODULES) == {"edgefl._core"}  # built from csrc/


def test_only_the_server_awaits() -> None:
    waiting = {
        module
        for module, path in MODULES.items()
        if any(
            isinstance(node, ast.Await | ast.AsyncFunctionDef) for node in ast.walk(ast.parse(path.read_text("utf-8")))
        )
    }
    assert waiting <= {"edgefl.server.serve"}


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("edgefl.new", "", "edgefl.new is in no layer"),
        ("edgefl.neurons.spec", "import edgefl.new", "imports edgefl.new, which is in no layer"),
        ("edgefl.neurons.spec", "from edgefl import codec", "imports edgefl.codec of 'bytes' below it"),
        (
            "edgefl.neurons.spec",
            "from edgefl.learners.base import SGD",
            "imports edgefl.learners.base.SGD of 'learning'",
        ),
        ("edgefl.kernels.native", "from .. import graph", "imports edgefl.graph of 'values'"),
        ("edgefl.kernels.native", "from ..graph import Graph", "imports edgefl.graph.Graph of 'values'"),
        (
            "edgefl.neurons.spec",
            "def f():\n    from edgefl.graph.files import save",
            "imports edgefl.graph.files.save of 'world'",
        ),
        ("edgefl.algorithms.fedspu", "from edgefl.codec import encode", "methods stays apart from bytes"),
        ("edgefl.learners.base", "import torch", "imports torch, which only"),
        ("edgefl.kernels.native", "import numba", "imports numba, which only"),
        ("edgefl.neurons.spec", "import scipy", "imports scipy, which is in no table"),
        ("edgefl.codec", "import socket", "imports socket, which only"),
        ("edgefl.simulation.loop", "import asyncio", "imports asyncio, which only"),
        ("edgefl.graph.files", "import pickle", "imports pickle, which only []"),
        ("edgefl.neurons.selection", "import os.path", "imports os, which only the world may"),
        ("edgefl.algorithms.base", "from time import monotonic", "imports time, which only the world may"),
        ("edgefl.graph.graph", "open('x')", "calls open(), which only the world may"),
    ],
)
def test_violations_are_found(module, source, problem) -> None:
    found = violations(module, source)
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("edgefl.nn.trace", "import torch\nfrom torch import fx"),
        ("edgefl.nn.module", "import torch"),
        ("edgefl.kernels.numba.compiled", "import numba\nfrom .. import native\nfrom ..native import conv2d_forward"),
        ("edgefl.graph.files", "import os, json\nfrom edgefl.graph import Graph\nopen('x')"),
        ("edgefl.neurons.update", "from edgefl import kernels\nfrom edgefl.neurons.spec import ModelSpec"),
        ("edgefl.simulation.loop", "import time\nfrom edgefl import __version__, codec, rng"),
    ],
)
def test_what_the_table_allows_passes(module, source) -> None:
    assert violations(module, source) == []


def test_relative_imports_are_resolved() -> None:
    assert list(imports("edgefl.kernels", "from .table import f\nfrom . import g", is_package=True)) == [
        "edgefl.kernels.table.f",
        "edgefl.kernels.g",
    ]
    assert list(imports("edgefl.kernels.native", "from .table import f\nfrom .. import g")) == [
        "edgefl.kernels.table.f",
        "edgefl.g",
    ]


def run(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", statement], cwd=ROOT, capture_output=True, text=True, check=False)


def test_models_files_and_codec_load_without_torch() -> None:
    needed = "edgefl.codec, edgefl.graph.files, edgefl.graph.models, edgefl.neurons.submodel"
    assert run(f"import sys, {needed}; print('torch' in sys.modules)").stdout == "False\n"


def test_missing_torch_is_reported_in_one_sentence() -> None:
    result = run("import sys; sys.modules['torch'] = None; import edgefl.nn")
    message = "edgefl.nn needs torch, which is not installed; pip install torch"
    assert result.stderr.splitlines()[-1] == f"ModuleNotFoundError: {message}"
