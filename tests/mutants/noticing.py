"""The tests that should notice a mistake in a file: those of its name, and those that import it.

`tests/` mirrors the tree, so tests/methods/test_fedprox.py has the tests of edgefl/methods/fedprox.py. Tests that
import the module come after it, the nearest first. A file without tests of its name has a row of EXCEPTIONS, or else
the tests that import it, or the tests of the modules that import it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import PurePosixPath

from tests.selection import nightly_groups
from tests.sources import MODULES, ROOT, contents

MOST = 3  # files of tests for one file
CASES = "tests/kernels/test_operations.py -k 'matches_reference and native and ({})'"
LARGE = (
    "tests/kernels/test_operations.py tests/kernels/test_large_shapes.py"
    " -k '(matches_reference and native and ({})) or large_shapes'"
)
EXCEPTIONS = {
    "csrc": "tests/kernels/test_operations.py -k 'matches_reference and native'",
    "csrc/core/check.h": "tests/kernels/test_expressions.py",
    "csrc/core/cores.cc": "tests/kernels/test_cores.py",
    "csrc/core/split.cc": "tests/kernels/test_threads.py",
    "csrc/kernels/activation.inl.h": CASES.format("activation or prelu"),
    "csrc/kernels/adam.inl.h": CASES.format("adam"),
    "csrc/kernels/arrange.inl.h": CASES.format("put or upsample or embedding or transpose"),
    "csrc/kernels/attention.inl.h": CASES.format("attention"),
    "csrc/kernels/batch.inl.h": LARGE.format("gather or take"),
    "csrc/kernels/convolution": LARGE.format("conv2d or pointwise"),
    "csrc/kernels/expression.inl.h": CASES.format("evaluate or reduce"),
    "csrc/kernels/growth.inl.h": CASES.format("largest"),
    "csrc/kernels/linear": LARGE.format("linear"),
    "csrc/kernels/linear/pack.inl.h": "tests/kernels/test_spare_lanes.py",
    "csrc/kernels/loss.inl.h": CASES.format("cross_entropy or softmax"),
    "csrc/kernels/norm": LARGE.format("norm"),
    "csrc/kernels/pool": CASES.format("pool"),
    "csrc/kernels/pool/max_strips.inl.h": "tests/kernels/test_native_words.py",
    "csrc/kernels/recurrent.inl.h": CASES.format("gru or lstm or rnn"),
    "csrc/kernels/sdpa.inl.h": CASES.format("sdpa"),
    "csrc/kernels/update.inl.h": CASES.format("sgd or nesterov or sum_squares or sum_squared_changes or add_scaled"),
    "csrc/micro": LARGE.format("linear or conv2d or norm or dropout or gru"),
    "edgefl/__main__.py": "tests/cli/test_cli.py",
    "edgefl/cli": "tests/cli/test_cli.py tests/cli/test_experiment_options.py tests/cli/test_model_commands.py",
    "edgefl/experiment/data": "tests/experiment/data/test_file_formats.py",
    "edgefl/kernels/numba": "tests/kernels/test_operations.py -k 'matches_reference and numba'",
    "edgefl/learning/lowering": "tests/learning/test_gradients.py tests/learning/test_saved_inputs.py",
    "edgefl/learning/running": "tests/learning/test_graph_learner.py tests/learning/test_packed_inputs.py",
    "edgefl/protocol/codec": "tests/protocol/codec/test_codec.py tests/protocol/codec/test_codec_malformed.py",
    "edgefl/study": "tests/study/test_run_results.py tests/study/simulation/test_simulate.py",
    "edgefl/torch": "tests/torch/test_trace.py tests/torch/test_torch_learner.py",
    "server": " ".join(
        f"tests/server/test_{name}.py"
        for name in ("coordinator", "coordinator_replies", "coordinator_ends", "coordinator_there", "refusing_devices")
    ),
}  # by the beginning of the path


def noticing(file: str) -> str:
    """Return the arguments of pytest for the tests that should notice. Raises LookupError if no test is known."""
    found = [] if file.startswith("csrc/") else _named(file)
    if not any(PurePosixPath(test).name == f"test_{PurePosixPath(file).name}" for test in found):
        fitting = [begin for begin in EXCEPTIONS if file == begin or file.startswith(f"{begin}/")]
        if fitting:
            return EXCEPTIONS[max(fitting, key=len)]
        found = found or _of_importers(module_of(file))
    if not found:
        raise LookupError(f"{file} has no tests of its name, and no test imports it; expected a row of EXCEPTIONS")
    groups = nightly_groups()
    day = [test for test in found if test not in groups][:MOST] or found[:1]
    long = [group for group in groups if group.partition("::")[0] in day and group not in day]
    return " ".join([*day, *(f"--deselect '{group}'" for group in long)])


def module_of(file: str) -> str:
    """Return the import name of a file of Python."""
    path = PurePosixPath(file).with_suffix("")
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return ".".join(("edgefl", *parts) if parts[0] == "server" else parts)


def _named(file: str) -> list[str]:
    """Return the test of the file's name, and then the tests that import its module, the nearest first."""
    path = PurePosixPath(file)
    folder = PurePosixPath("tests", *path.parts[path.parts[0] == "edgefl" : -1])
    own = folder / f"test_{path.name}"
    importing = sorted(_importing()[module_of(file)], key=lambda test: (-_shared(test, folder), test))
    return list(dict.fromkeys([*([str(own)] if (ROOT / own).exists() else []), *importing]))


def _of_importers(module: str) -> list[str]:
    """Return the tests of the modules that import a module, of the nearest ones that have tests."""
    seen, level = {module}, {module}
    while level:
        level = {user for name in level for user in _users()[name]} - seen
        seen |= level
        paths = (str(MODULES[user].relative_to(ROOT)) for user in sorted(level))
        if tests := [test for path in paths for test in _named(path)]:
            return list(dict.fromkeys(tests))
    return []


@cache
def _users() -> defaultdict[str, set[str]]:
    """Return the modules that import a module, by its name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for name in (*contents(module).imports, *contents(module).types):
            found[name if name in MODULES else name.rpartition(".")[0]].add(module)
    return found


def _shared(test: str, folder: PurePosixPath) -> int:
    """Return how many folders a test and a folder have in common."""
    pairs = zip(PurePosixPath(test).parts, folder.parts, strict=False)
    return sum(a == b for a, b in pairs)


@cache
def _importing() -> defaultdict[str, set[str]]:
    """Return the files of tests that import a module, by its name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module, *(f"{node.module}.{name}" for name in names)]
            for name in names:
                found[name].add(str(path.relative_to(ROOT)))
    return found
