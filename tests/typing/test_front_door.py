"""The public names: what each package gives, and a user's program over all of them.

scripts/typecheck.sh checks the types of the program (tests/test_types.py runs it). Here the program is run.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import edgefl
from tests.torch.conftest import one_torch_thread  # noqa: F401  a fixture: converted layers set the kernels' threads
from tests.typing import front_door

ROOT = Path(__file__).resolve().parents[2]
NAMES = {  # public name of a package -> its names for users. What is not listed here may change in any version
    "edgefl": "Client Experiment Method Predictor RoundRecord Run load open_run simulate",
    "edgefl.kernels": "BACKENDS NAMED backend best name_of",
    "edgefl.learning": "Adam AdamW Evaluation FitOptions FitResult GraphLearner Learner SGD Samples pack_inputs",
    "edgefl.methods": (
        "APFL Accumulator Algorithm BODY ClientState Ditto FedAvg FedAvgFT FedBABU FedDC FedDyn FedMP FedPer FedProx "
        "FedRecon FedRep FedSPU FedSPUCached FedSelect FedSpa FedUmf FedUmfDC FjORD Hermes LGFedAvg LocalOnly "
        "LocalTraining METHODS MODEL OwnModel PFLEGO Plan PruneFL RandomDropout Reply Scaffold State SubFedAvg "
        "SubModels Subsampling Task build having labelled parse sample_clients settings_of take values"
    ),
    "edgefl.models": (
        "Block Graph LowRankAdapter Mask Model ModelSpec NeuronSet Node Params Update add_adapters adapters_of "
        "dequantize merge_adapters put quantize_frozen quantize_model take values"
    ),
    "edgefl.torch": (
        "GraphModule SparseConv2d SparseLinear TorchLearner compact_gradients convert from_torch keep_frozen plain "
        "select sparsify to_torch"
    ),
}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_has_these_public_names(package: str) -> None:
    module, expected = importlib.import_module(package), sorted(NAMES[package].split())
    assert sorted(module.EXPORTS if package == "edgefl" else module.__all__) == expected
    assert all(getattr(module, name) is not None for name in expected)


@pytest.mark.parametrize("package", NAMES)
def test_type_checkers_see_the_names_that_are_imported_later(package: str) -> None:
    """A name of a package comes from an import under TYPE_CHECKING, or from the package's own code."""
    tree = ast.parse(Path(str(importlib.import_module(package).__file__)).read_text())
    known = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    known |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    known |= {ast.unparse(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    known |= {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert set(NAMES[package].split()) <= known


@pytest.mark.parametrize("called", [edgefl.simulate, edgefl.load, edgefl.open_run])
def test_no_argument_is_of_any_type(called: object) -> None:
    signature = inspect.signature(called)  # type: ignore[arg-type]
    kinds = [signature.return_annotation, *(each.annotation for each in signature.parameters.values())]
    assert kinds and not [kind for kind in kinds if "Any" in str(kind) or kind is inspect.Parameter.empty]


def test_the_types_of_the_settings_are_those_of_the_fields() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "settings.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run python scripts/settings.py"


def test_a_users_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(60, 8, generator=draw)
    y = (x[:, 0] > 0).long()
    run = front_door.federate(tmp_path / "run", x, y)
    assert list(run.methods) == ["fedspu:keep=0.5", "fedavg", "tests.typing.front_door:MyProx"]
    assert "tests.typing.front_door:MyProx 2" in capsys.readouterr().out
    assert {name for name in front_door.train_by_hand(x, y).params if name.startswith("2.")} >= {"2.weight", "2.bias"}
