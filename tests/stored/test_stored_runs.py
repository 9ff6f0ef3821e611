"""Runs and devices that earlier releases have stored go on with the code of the checkout, and end as new ones do.

Each archive beside this file is of one release (make.py). What is tried on it: a simulation is resumed, a server and
its devices are started again, the served run is repeated, and models are exported.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edgefl
from bench.cluster import Cluster, write_partitions
from edgefl.experiment.run_json import read_data_records
from edgefl.server import run_history
from edgefl.study.simulation.committed_rounds import read_committed
from tests.forked import ForkedProcess
from tests.forked_commands import run_edgefl
from tests.stored.runs import SERVED, SIMULATED, STORED_ROUNDS, archive

pytest.importorskip(
    "edgefl.kernels.native", reason="the stored runs were made with native kernels, which are not built"
)

SCALAR = {"EDGEFL_ISA": "scalar"}  # the runs were made with it, as its bits are equal on every machine
RELEASES = sorted(file.name.removesuffix(".tar.xz") for file in Path(__file__).parent.glob("*.tar.xz"))
METHODS = ("fedspu", "fedavg")


def command(*words: object) -> str:
    """Return what a command of edgefl prints. Raises RuntimeError with its last words if it fails."""
    done = run_edgefl(*map(str, words), env=os.environ | SCALAR)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout + done.stderr


@pytest.fixture(scope="module", params=RELEASES)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directories that a release has left, unpacked."""
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(archive(request.param)) as tar:
        if hasattr(tarfile, "fully_trusted_filter"):
            tar.extraction_filter = tarfile.fully_trusted_filter  # keeps the modes of private directories
        tar.extractall(folder)
    yield folder


@pytest.fixture(scope="module")
def resumed(stored: Path) -> Path:
    """The simulation with twice as many rounds."""
    said = command("simulate", "--resume", stored / "simulated", "--rounds", 2 * STORED_ROUNDS)
    assert "other data" not in said
    return stored / "simulated"


@pytest.fixture(scope="module")
def served(stored: Path) -> Path:
    """The served run, whose server and devices were killed in the middle, at its end."""
    write_partitions(stored / "shares", SERVED)
    with Cluster(stored, SERVED, stored / "shares", process=ForkedProcess) as cluster:
        cluster.start_server(SCALAR)
        for client in range(SERVED.clients):
            cluster.start_device(client, SCALAR)
        cluster.finish()
    return stored / "run"


def test_there_is_a_fixture_of_this_version() -> None:
    assert edgefl.__version__ in RELEASES


def test_all_archives_together_are_small() -> None:
    assert sum(archive(release).stat().st_size for release in RELEASES) < 300_000


def test_a_resumed_simulation_ends_as_one_that_was_never_stopped(resumed: Path, tmp_path: Path) -> None:
    command("simulate", *SIMULATED, "--rounds", 2 * STORED_ROUNDS, "--run-dir", tmp_path / "new")
    for method in METHODS:
        old, new = (read_committed(path / method).state for path in (resumed, tmp_path / "new"))
        assert old.values == new.values
        for name, params in new.arrays.items():
            for parameter, value in params.items():
                assert np.array_equal(old.arrays[name][parameter], value), (method, name, parameter)


def test_the_data_are_those_that_the_release_trained_on(resumed: Path, served: Path) -> None:
    assert [len(read_data_records(run)) for run in (resumed, served)] == [1, 1]


def test_a_served_run_goes_on_with_its_devices_and_is_repeated_bit_for_bit(served: Path) -> None:
    assert run_history.progress(served).done
    said = command("simulate", "--replay", served)
    assert f"identical after round {SERVED.rounds}: the replay has the same server state, bit for bit" in said


def test_models_are_exported_from_a_run_and_from_a_device(
    resumed: Path, served: Path, stored: Path, tmp_path: Path
) -> None:
    sources: list[tuple[Path, list[object]]] = [
        (resumed, ["--method", "fedspu", "--client", 0]),
        (served, []),
        (stored / "devices" / "0", []),
    ]
    for number, (source, options) in enumerate(sources):
        command("export", source, tmp_path / f"{number}.safetensors", *options)
        model = edgefl.load(tmp_path / f"{number}.safetensors")
        assert model.predict(np.zeros((3, 1, 8, 8), np.float32)).shape == (3, 10)
