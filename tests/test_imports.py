"""The layers of docs/architecture.md as a literal table, checked with ast: nothing here is imported.

A module may import from its own layer and from the layers above it in the table, and from the third-party packages and
standard modules that the table grants it. A module or a package that is in no table fails, so a new file has to say
where it belongs.
"""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

from tests.sources import MODULES, ROOT, Contents, contents

LAYERS = {  # top to bottom. A package's name stands for each of its modules that no longer name claims
    "errors": ["edgefl", "edgefl.errors"],
    "arithmetic": ["edgefl.kernels", "edgefl._core"],
    "values": ["edgefl.rng", "edgefl.models"],
    "bytes": ["edgefl.protocol"],
    "learning": ["edgefl.learning", "edgefl.torch"],
    "methods": ["edgefl.methods"],
    "world": [
        "edgefl.__main__",
        "edgefl._finder",
        "edgefl.cli",
        "edgefl.deployment",
        "edgefl.experiment",
        "edgefl.integrations",
        "edgefl.learning.energy",
        "edgefl.learning.predictor",
        "edgefl.methods.rounds",
        "edgefl.models.adapters.peft_files",
        "edgefl.models.graph.model_files",
        "edgefl.models.onnx.onnx_files",
        "edgefl.protocol.trust",
        "edgefl.server",
        "edgefl.study",
        "edgefl.system",
    ],
}
ORDER = list(LAYERS)
DOOR = "edgefl"  # its public names come from all layers, by imports for type checkers

ROOMS = (  # a package may import from those before it
    "edgefl", "_finder", "errors", "rng", "system", "kernels", "models", "protocol", "learning",
    "torch", "methods", "experiment", "deployment", "server", "study", "integrations", "cli", "__main__",
)  # fmt: skip
APART = {  # not below each other in spirit, though the order alone would allow it
    "learning": {"bytes"},  # bytes never meet torch
    "methods": {"bytes"},
}

PACKAGES = {  # third-party package -> the modules that may import it
    "numpy": ["edgefl"],
    "torch": ["edgefl.torch"],
    "transformers": ["edgefl.torch.hugging_face"],
    "numba": ["edgefl.kernels.numba.compiled"],
    "cryptography": [
        "edgefl.deployment.supernode.node_key",
        "edgefl.protocol.secure",
        "edgefl.protocol.trust.certificates",
    ],
    "safetensors": [
        "edgefl.deployment.device.round_file",
        "edgefl.system.durable_files",
        "edgefl.models.adapters.peft_files",
        "edgefl.models.graph.model_files",
        "edgefl.methods.rounds.state_file",
        "edgefl.study.simulation.journal",
    ],
    "pandas": ["edgefl.study.data_frame"],
    "flwr": ["edgefl.integrations.flower"],
    "msgspec": ["edgefl.protocol.secure", "edgefl.protocol.wire"],
    "onnx": [
        "edgefl.models.onnx.onnx_content",
        "edgefl.models.onnx.tensor_values",
        "edgefl.study.export.onnx_file",
    ],
    "PIL": ["edgefl.experiment.data.image_pixels"],
    "pyarrow": ["edgefl.experiment.data.arrow_table"],
    "h5py": ["edgefl.experiment.data.hdf5_arrays"],
    "scipy": ["edgefl.experiment.data.matlab_arrays", "edgefl.experiment.data.wav"],
    "mlflow": ["edgefl.integrations.trackers"],
    "tensorboard": ["edgefl.integrations.trackers"],
    "wandb": ["edgefl.integrations.trackers"],
    "tomli": ["edgefl.system.toml"],
    "ray": ["edgefl.integrations.ray"],
    "shtab": ["edgefl.cli.completion"],
    "rich": [
        "edgefl.cli",
        "edgefl.experiment.data.download",
        "edgefl.study.table_style",
        "edgefl.study.progress_display",
        "edgefl.study.tables",
    ],
    "matplotlib": [
        "edgefl.cli.memory_picture",
        "edgefl.study.picture",
        "edgefl.study.picture_figure",
        "edgefl.study.picture_panels",
    ],
}

WORLDLY = {  # standard modules with files, clocks, sockets, threads or randomness in them: the world's own
    "asyncio", "concurrent", "datetime", "http", "io", "multiprocessing", "os", "pathlib", "queue", "random", "secrets",
    "selectors", "shutil", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time",
    "urllib",
}  # fmt: skip
GRANTED = {
    "edgefl.kernels": {"os"},  # EDGEFL_KERNELS
    "edgefl.torch.exported_program": {"io", "time"},  # what torch.export prints, and the seconds that it takes
    "edgefl.torch.module_state": {"random"},  # a forward may draw from it
    "edgefl.kernels.cuda.device": {"threading"},  # one device for all threads
    "edgefl.kernels.cuda.compiled_images": {"pathlib"},  # the compiled kernels
}
SERVING = ("event_loop", "listener", "live_report", "peer", "record_queue", "tls_transport")
FORBIDDEN = {  # standard module -> the modules that may import it
    "asyncio": [f"edgefl.server.{name}" for name in SERVING],
    "socket": [
        "edgefl.deployment.device.device_socket",
        "edgefl.server.listener",
        "edgefl.server.page.http_server",
        "edgefl.server.peer",
    ],
    "pickle": [],
    "marshal": [],
    "shelve": [],
}
WORLDLY_CALLS = {"open", "input", "print", "eval", "exec", "__import__"}  # refused outside the world


def is_in(module: str, names: list[str]) -> bool:
    """True if `module` is one of the names or lies in a package of that name."""
    return any(module == name or module.startswith(name + ".") for name in names)


def covers(name: str, module: str) -> bool:
    """Return whether `module` is `name` or lies in that package. "edgefl" covers only the package's own file."""
    return module == name or (name != "edgefl" and module.startswith(name + "."))


def layer_of(module: str) -> str | None:
    """The layer with the longest name that covers `module`."""
    names = {name: layer for layer, names in LAYERS.items() for name in names}
    covering = [name for name in names if covers(name, module)]
    return names[max(covering, key=len)] if covering else None


def room_of(module: str) -> str:
    """The package or top-level file that a module is in: "graph" for edgefl.models.graph.json."""
    return "edgefl" if module == "edgefl" else module.split(".")[1]


def violations(module: str, found_in: Contents) -> list[str]:
    """Return what the module imports or calls against the tables, one sentence each."""
    layer = layer_of(module)
    if layer is None:
        return [f"{module} is in no layer; add it to LAYERS"]
    names = [*found_in.imports, *(() if module == DOOR else filter(is_ours, found_in.types))]
    found = [
        problem
        for name in names
        if (problem := own(layer, name) if is_in(name, ["edgefl"]) else foreign(module, layer, name))
    ]
    if layer != "world":
        found += [f"calls {name}(), which only the world may" for name in sorted(found_in.calls & WORLDLY_CALLS)]
    return [f"{module} {problem}" for problem in found]


def is_ours(name: str) -> bool:
    return is_in(name, ["edgefl"])


def own(layer: str, name: str) -> str | None:
    """Why a module of `layer` may not import `name` from edgefl, or None."""
    other = "errors" if name in ("edgefl.__version__", "edgefl._lazily") else layer_of(name)  # the package's own
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


def test_every_module_keeps_to_its_layer() -> None:
    problems = [problem for module in sorted(MODULES) for problem in violations(module, contents(module))]
    assert not problems, "\n".join(problems)


def needed(module: str) -> set[str]:
    """The modules of ours that a module imports, inside functions and, but for the front door, for type checking."""
    found = contents(module)
    names = filter(is_ours, (*found.imports, *(() if module == DOOR else found.types)))
    owners = (name if name in MODULES else name.rpartition(".")[0] for name in names)
    return {owner for owner in owners if owner in MODULES} - {module}


def test_no_module_needs_itself_through_others() -> None:
    graph = {module: needed(module) for module in MODULES}
    order = list(TopologicalSorter(graph).static_order())  # CycleError names a circle
    assert order.index("edgefl.models.graph.graph") < order.index("edgefl.models.neurons.model_spec")


def test_rooms_import_only_from_those_before_them() -> None:
    edges = {(room_of(module), room_of(other)) for module in MODULES for other in needed(module)}
    back = [f"{a} imports from {b}" for a, b in edges if ROOMS.index(a) < ROOMS.index(b)]
    assert back == []
    assert set(ROOMS) == {room_of(module) for module in MODULES}


def test_every_name_in_the_layers_exists() -> None:
    named = {name for names in LAYERS.values() for name in names}
    assert named - set(MODULES) == {"edgefl._core"}  # built from csrc/


def test_only_the_server_awaits() -> None:
    waiting = {module for module in MODULES if contents(module).awaits}
    assert waiting == {"edgefl.server.event_loop", "edgefl.server.record_queue"}


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("edgefl.new", "", "edgefl.new is in no layer"),
        ("edgefl.models.neurons.model_spec", "import edgefl.new", "imports edgefl.new, which is in no layer"),
        (
            "edgefl.models.neurons.model_spec",
            "from edgefl.protocol import codec",
            "imports edgefl.protocol.codec of 'bytes' below it",
        ),
        (
            "edgefl.models.neurons.model_spec",
            "from edgefl.learning.learner import SGD",
            "imports edgefl.learning.learner.SGD of 'learning'",
        ),
        ("edgefl.kernels.native", "from .. import models", "imports edgefl.models of 'values'"),
        ("edgefl.kernels.native", "from ..models.graph import Graph", "imports edgefl.models.graph.Graph of 'values'"),
        (
            "edgefl.models.neurons.model_spec",
            "def f():\n    from edgefl.models.graph.model_files import save",
            "imports edgefl.models.graph.model_files.save of 'world'",
        ),
        ("edgefl.methods.fedspu", "from edgefl.protocol.codec import encode", "methods stays apart from bytes"),
        ("edgefl.learning.learner", "import torch", "imports torch, which only"),
        ("edgefl.kernels.native", "import numba", "imports numba, which only"),
        ("edgefl.models.neurons.model_spec", "import polars", "imports polars, which is in no table"),
        ("edgefl.protocol.codec", "import socket", "imports socket, which only"),
        ("edgefl.study.simulation.round_loop", "import asyncio", "imports asyncio, which only"),
        ("edgefl.models.graph.model_files", "import pickle", "imports pickle, which only []"),
        ("edgefl.models.neurons.neuron_set", "import os.path", "imports os, which only the world may"),
        ("edgefl.methods.algorithm", "from time import monotonic", "imports time, which only the world may"),
        ("edgefl.models.graph.graph", "open('x')", "calls open(), which only the world may"),
    ],
)
def test_violations_are_found(module, source, problem) -> None:
    found = violations(module, Contents.of(module, source))
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("edgefl.torch.trace", "import torch\nfrom torch import fx"),
        ("edgefl.torch.graph_module", "import torch"),
        ("edgefl.kernels.numba.compiled", "import numba\nfrom .. import native\nfrom ..native import conv2d_forward"),
        ("edgefl.models.graph.model_files", "import os, json\nfrom edgefl.models.graph import Graph\nopen('x')"),
        (
            "edgefl.models.neurons.update",
            "from edgefl import kernels\nfrom edgefl.models.neurons.model_spec import ModelSpec",
        ),
        (
            "edgefl.study.simulation.round_loop",
            "import time\nfrom edgefl import __version__, rng\nfrom edgefl.protocol import codec",
        ),
    ],
)
def test_what_the_table_allows_passes(module, source) -> None:
    assert violations(module, Contents.of(module, source)) == []


def test_relative_imports_are_resolved() -> None:
    package = Contents.of("edgefl.kernels", "from .table import f\nfrom . import g", is_package=True)
    assert package.imports == ["edgefl.kernels.table.f", "edgefl.kernels.g"]
    module = Contents.of("edgefl.kernels.native", "from .table import f\nfrom .. import g")
    assert module.imports == ["edgefl.kernels.table.f", "edgefl.g"]


def run(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", statement], cwd=ROOT, capture_output=True, text=True, check=False)


def test_models_files_and_codec_load_without_torch() -> None:
    graph = "edgefl.models.graph.model_files, edgefl.models.graph.architectures"
    needed = f"edgefl.protocol.codec, {graph}, edgefl.models.neurons.submodel"
    assert run(f"import sys, {needed}; print('torch' in sys.modules)").stdout == "False\n"


def test_missing_torch_is_reported_in_one_sentence() -> None:
    result = run("import sys; sys.modules['torch'] = None; import edgefl.torch")
    message = "edgefl.torch needs torch, which is not installed; pip install torch"
    assert result.stderr.splitlines()[-1] == f"ModuleNotFoundError: {message}"
