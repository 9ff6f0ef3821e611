"""The search for modules: the server has one name, and documented former paths work."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import edgefl._finder as finder
from edgefl.methods import Accumulator, ClientState, Plan

ROOT = Path(__file__).resolve().parent.parent


def test_the_server_has_one_name_and_one_path() -> None:
    rules = importlib.import_module("edgefl.server.round_rules")
    assert Path(str(rules.__file__)) == ROOT / "server" / "round_rules.py"
    done = subprocess.run([sys.executable, "-c", "import server"], cwd=ROOT, capture_output=True, text=True)
    assert "imported as 'server'; expected `import edgefl.server`" in done.stderr
    assert not [name for name in sys.modules if name.split(".")[0] == "server"]


OTHER_CHECKOUT = """
import sys

class Installed:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "edgefl.server":
            raise AssertionError("the entry of the other checkout was asked for the server")

sys.meta_path.insert(0, Installed)
import edgefl.server
print(edgefl.server.__file__)
"""


def test_the_server_is_that_of_the_checkout_while_another_checkout_is_installed() -> None:
    done = subprocess.run([sys.executable, "-c", OTHER_CHECKOUT], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == str(ROOT / "server" / "__init__.py"), done.stderr


@pytest.mark.parametrize("before", finder.FORMER)
def test_a_path_of_before_warns_and_gives_the_names_of_now(before: str) -> None:
    sys.modules.pop(before, None)
    with pytest.warns(FutureWarning, match=f"{before} is called {finder.FORMER[before]} now"):
        module = importlib.import_module(before)
    now = importlib.import_module(finder.FORMER[before])
    public = [name for name in getattr(now, "__all__", vars(now)) if not name.startswith("_")]
    assert public or any(other.startswith(f"{before}.") for other in finder.FORMER)
    assert all(getattr(module, name) is getattr(now, name) for name in public)
    sys.modules.pop(before, None)


def test_classes_of_before_have_their_names_of_now() -> None:
    with pytest.warns(FutureWarning):
        from edgefl.algorithms.base import Local, Plan as PlanOfBefore, Tally  # noqa: I001

    assert (Local, Tally, PlanOfBefore) == (ClientState, Accumulator, Plan)


DOCUMENTED = """
from edgefl.codec import FORMATS, decode, encode, sizes
from edgefl.codec.masks import encode_mask
from edgefl.data.npz import read_inputs
from edgefl.experiment.assemble import assemble
from edgefl.experiment.shares import read_share
from edgefl.graph.operations import Dropout, Linear
from edgefl.learners.batches import Keyed, Listed
from edgefl.neurons.selection import NeuronSet
from edgefl.neurons.spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.simulation.loop import simulate
from edgefl.wire import frames, messages
from edgefl.wire.messages import Verdict
"""


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_lines_that_pages_of_before_had_still_work() -> None:
    found: dict[str, object] = {}
    exec(DOCUMENTED, found)
    assert found["Verdict"] is importlib.import_module("edgefl.protocol.wire.messages").Verdict
    assert found["ModelSpec"] is importlib.import_module("edgefl.models.neurons.model_spec").ModelSpec
    for before in finder.FORMER:
        sys.modules.pop(before, None)


def test_no_other_name_is_found() -> None:
    assert finder.Finder.find_spec("edgefl.nothing") is None
    with pytest.raises(ModuleNotFoundError, match=r"edgefl\.nothing"):
        importlib.import_module("edgefl.nothing")
