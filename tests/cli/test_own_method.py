"""Methods of somebody else: how they are named, what is refused, and that a device imports what its owner named alone.

The example is the page's: docs/own-method.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli import local_processes
from edgefl.cli.cli import main
from edgefl.deployment.device.device_model import method_of
from edgefl.errors import RequestError, RunError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.experiment.user_methods import admit, label
from edgefl.methods import build, settings_of
from edgefl.methods.method_registry import OWN
from edgefl.server import run_history
from edgefl.server.server_setup import welcome
from edgefl.study.simulation.journal import Journal
from edgefl.study.simulation.round_loop import simulate
from tests.forked import OUT, ForkedCommand
from tests.forked_commands import run_edgefl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-method.md"
PROX = "my_prox:MyProx"
SMALL = replace(
    local_processes.EXPERIMENT, data="digits", clients=3, per_round=2, rounds=2, eval_every=1, partition="iid", epochs=1
)
HEAD = """
    from dataclasses import dataclass
    from typing import ClassVar, Literal
    from edgefl.methods import Algorithm, FedAvg
    class Softened: frozen = False
    """


def example() -> str:
    found = re.search(r"cat > my_prox.py <<'END'\n(.*?)^END$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the example in it, in which commands and their children run."""
    (tmp_path / "my_prox.py").write_text(example())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PAGE.parent.parent), str(tmp_path)]))
    yield tmp_path
    OWN.clear()
    for name in ("my_prox", "wrong"):
        sys.modules.pop(name, None)


def test_the_example_has_at_most_40_lines() -> None:
    assert 20 < len(example().splitlines()) <= 40


def test_over_sockets_it_does_what_it_does_in_a_simulation_and_what_fedprox_does(here: Path) -> None:
    mine = replace(SMALL, methods=(label(f"{PROX}:mu=0.5"),))
    local_processes.write_partitions(here / "shares", mine)
    served = local_processes.serve(here / "served", mine, here / "shares", lambda log_record: None)
    ends = [run_history.final_state(here / "served")]
    for name in (mine.methods[0], "fedprox"):
        method = replace(mine, methods=(name,), options=(("mu", 0.5),)).algorithms()[name]
        journal = Journal(here / name.replace(":", "+"))
        ends.append(simulate(method, assemble(mine), mine.settings(1), journal))
        assert [log_record["up"] for log_record in served.log_records] == [
            log_record["up"] for log_record in journal.metrics()
        ]
    for end in ends[1:]:
        for name, value in ends[0].arrays["model"].items():
            np.testing.assert_array_equal(end.arrays["model"][name], value)
    assert main(["simulate", "--replay", str(here / "served"), "--workers", "1"]) == 0


def test_the_run_keeps_the_name_and_goes_on_with_it(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--clients", "3", "--per-round", "2", "--epochs", "1", "--partition", "iid", "--workers", "1"]
    names = f"fedprox:mu=.5,{PROX}:mu=.5,{PROX}:mu=2"
    assert main(["simulate", *options, "--rounds", "1", "--run-dir", "run", "--method", names]) == 0
    stored = json.loads((here / "run" / "run.json").read_text())
    assert stored["methods"] == ["fedprox:mu=0.5", f"{PROX}:mu=0.5", f"{PROX}:mu=2"]
    OWN.clear()  # as another process
    assert main(["simulate", "--resume", "run", "--rounds", "2", "--workers", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    losses = {name: method["evaluation"]["global_local"]["loss"] for name, method in found["methods"].items()}
    assert losses["fedprox:mu=0.5"] == losses[f"{PROX}:mu=0.5"] != losses[f"{PROX}:mu=2"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("Mine = 3", "is int 3; expected a class that inherits from edgefl's Algorithm"),
        ("class Mine: pass", "is the class Mine; expected a class that inherits from"),
        ("class Mine(FedAvg): pass", "is a class without @dataclass(frozen=True); expected it on Mine"),
        ("class Mine(FedAvg.__base__): __dataclass_params__ = Softened", "without @dataclass(frozen=True); expected"),
        ("@dataclass\nclass Mine: pass", "is the class Mine; expected a class that inherits"),
        (
            "@dataclass(frozen=True)\nclass Mine(Algorithm):\n  def start(self): pass",
            "lacks aggregate, finish, plan",
        ),
        ("@dataclass(frozen=True)\nclass Mine(FedAvg):\n  keeps_model = None", "does not say keeps_model; expected"),
        ("@dataclass(frozen=True)\nclass Mine(FedAvg):\n  mu: Nowhere = 1", "has a type that is not imported"),
        ("@dataclass(frozen=True)\nclass Mine(FedAvg):\n  mu: dict = None", "has mu of type dict; expected bool, int"),
        ("@dataclass(frozen=True, kw_only=True)\nclass Mine(FedAvg):\n  mu: float", "has mu without a default"),
        ("import nowhere", "ends with ModuleNotFoundError: No module named 'nowhere'"),
        ("class Mine(", "ends with SyntaxError"),
        ("Other = 1", "has no 'Mine'; expected one of its names"),
    ],
)
def test_what_is_no_method_is_refused_in_words(
    here: Path, code: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "wrong.py").write_text("from __future__ import annotations\n" + textwrap.dedent(HEAD) + code)
    assert main(["simulate", "--run-dir", "run", "--method", "wrong:Mine"]) == 2
    found = capsys.readouterr().err
    assert why in found and len(found.splitlines()) == 1
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere:Mine", "no module 'nowhere'"),
        ("my_prox:", "method=my_prox:; expected NAME, NAME:OPTION=VALUE or package.module:Class"),
        ("my-prox", "method=my-prox; expected one of fedspu, .*, or package.module:Class"),
        (f"{PROX}:nu=3", "nu=3 is not a hyper-parameter of my_prox:MyProx; expected one of batch, .*, mu, "),
        (f"{PROX}:mu=much", "mu=much; expected a number"),
        ("m" * 70 + ":Mine", "no module"),
    ],
)
def test_names_that_are_none_are_refused(name: str, why: str) -> None:
    with pytest.raises((ValueError, RequestError), match=why):
        label(name)


def package(folder: Path, name: str, entries: str) -> None:
    """Make what pip leaves of an installed package."""
    folder = folder / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[edgefl.methods]\n{entries}\n")


def test_an_installed_package_names_its_methods(here: Path) -> None:
    package(here, "proximal", f"prox = {PROX}\nfedavg = {PROX}")
    sys.path.insert(0, str(here))
    assert label("prox:mu=2") == "prox:mu=2"
    assert build("prox", {"mu": 2.0}) == OWN["prox"](mu=2.0)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"method=nix; expected one of fedspu, .*subfedavg, .*fedavg, prox, or"):
        label("nix")
    with pytest.raises(ValueError, match=r"edgefl's own, and proximal \(my_prox:MyProx\) has the same name"):
        label("fedavg")
    package(here, "another", "prox = wrong:Mine")
    OWN.clear()
    with pytest.raises(
        ValueError, match=r"method=prox is the name of methods of another \(wrong:Mine\) and proximal \(my_prox"
    ):
        label("prox")


def test_a_device_looks_a_server_s_method_up_and_imports_nothing() -> None:
    admit(PROX)
    experiment = Experiment(methods=(PROX,))
    told = welcome(0, experiment, PROX, experiment.algorithms()[PROX], b"", assemble(SMALL).data.loss)
    assert method_of(told) == experiment.algorithms()[PROX]
    OWN.clear()
    sys.modules.pop("my_prox")
    with pytest.raises(
        RunError, match=r"my_prox:MyProx of the server is not a method of edgefl; expected .*--allow-method"
    ):
        method_of(told)
    assert "my_prox" not in sys.modules
    with pytest.raises(ValueError, match="method=my_prox:MyProx; expected one of"):
        settings_of(PROX)


def test_a_device_that_was_not_told_of_it_refuses_the_run(here: Path) -> None:
    """Real processes: the module lies beside the device, and is not imported. A run that its only device refuses ends,
    and is taken up again for the next.
    """
    (here / "my_prox.py").write_text(example() + "\nimport pathlib\npathlib.Path('imported').touch()\n")
    local_processes.write_partitions(here / "shares", replace(SMALL, clients=1, per_round=1, methods=(PROX,)))
    apart = here / "apart"
    apart.mkdir()
    (apart / "my_prox.py").write_text((here / "my_prox.py").read_text())
    new = ["--method", PROX, "--clients", "1", "--per-round", "1", "--rounds", "1", "--run-dir", "served"]
    for words, allowed, why in (
        (new, [], "not a method of edgefl; expected one that is installed here and named by --allow-method"),
        (["--resume", "served"], ["--allow-method", "fedavg"], "this device takes part in fedavg"),
    ):
        found, server = served(words, apart, allowed)
        assert (found.returncode, why in found.stderr) == (1, True), found.stderr
        assert server == 1  # nobody is left who takes part
        assert not (apart / "imported").exists()
    for allowed, why in (
        (["--allow-method", "nowhere:Mine"], "no module 'nowhere'"),
        (["--allow-method", "fedup"], "--allow-method fedup: method=fedup; the nearest are fed"),
    ):
        found = device("127.0.0.1:9", apart, allowed)  # asks nobody
        assert (found.returncode, why in found.stderr) == (2, True), found.stderr
        assert not (apart / "imported").exists()
    found, server = served(["--resume", "served"], apart, ["--allow-method", PROX])
    assert (found.returncode, server) == (0, 0), found.stderr
    assert (apart / "imported").exists()


def served(words: list[str], apart: Path, allowed: list[str]) -> tuple[subprocess.CompletedProcess[str], int]:
    """Return what a device with these options did beside a server, and the exit code of the server."""
    with ForkedCommand(["serve", *words, "--port", "0"], stdout=OUT) as server:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"127\.0\.0\.1:\d+", line)))
        return device(address, apart, allowed), server.wait(60)


def device(address: str, apart: Path, allowed: list[str]) -> subprocess.CompletedProcess[str]:
    """A device in a directory of its own, which does not see ours."""
    asked = ["--server", address, "--state", "state", "--data", "../shares/device-0000.npz", "--give-up", "60"]
    environment = {**os.environ, "PYTHONPATH": str(PAGE.parent.parent)}
    return run_edgefl("client", *asked, *allowed, cwd=apart, env=environment)
