"""Simulations on Ray's actors leave the files of simulations on threads, whoever dies. They are skipped without ray."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="ray is not installed (pip install ray)")

from edgefl import kernels  # noqa: E402
from edgefl.cli.cli import main  # noqa: E402
from edgefl.errors import RunError  # noqa: E402
from edgefl.experiment.assembly import assemble  # noqa: E402
from edgefl.experiment.federation import Federation  # noqa: E402
from edgefl.experiment.settings import Experiment  # noqa: E402
from edgefl.integrations import ray as adapter  # noqa: E402
from edgefl.methods import FedAvg, FedSPU  # noqa: E402
from edgefl.study.simulation.client_player import SimulationContext  # noqa: E402
from edgefl.study.simulation.engine import MakeEngine, Threads  # noqa: E402
from edgefl.study.simulation.journal import Journal  # noqa: E402
from edgefl.study.simulation.round_loop import simulate  # noqa: E402

SMALL = Experiment(clients=7, rounds=5, per_round=5, epochs=1, eval_every=2, checkpoint_every=2, keep=(0.25, 0.5, 1.0))
NAMES = ["fedspu-es", "fedavg", "fedumf", "ditto", "fedspa"]
METHODS = replace(SMALL, methods=tuple(NAMES)).algorithms()


@pytest.fixture(scope="module", autouse=True)
def engines() -> Iterator[MakeEngine]:
    module = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(module)  # no node has the tests
    with adapter.cluster(None, 3) as engine:
        yield engine
    ray.cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def federation() -> Federation:
    return assemble(SMALL)


def files(path: Path) -> dict[str, Any]:
    """Return what a run leaves: bytes of files, and metrics without times."""
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        if file.name == "metrics.jsonl":
            found[file.name] = [without_times(json.loads(line)) for line in file.read_bytes().splitlines()]
        elif file.suffix == ".safetensors":
            found[str(file.relative_to(path))] = file.read_bytes()
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "seconds"}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def run(
    path: Path, method: Any, federation: Federation, engine: MakeEngine, workers: int, **how: Any
) -> dict[str, Any]:
    journal = Journal(path)
    try:
        simulate(method, federation, SMALL.settings(workers), journal, engine=engine, **how)
    finally:
        journal.close()
    return files(path)


@pytest.mark.parametrize("name", NAMES)
def test_actors_leave_the_files_of_threads(
    name: str, federation: Federation, engines: MakeEngine, tmp_path: Path
) -> None:
    expected = run(tmp_path / "threads", METHODS[name], federation, Threads, 2)
    assert len(expected["metrics.jsonl"]) == SMALL.rounds
    workers = (1, 2, 3) if name == "fedspu-es" else (2,)
    for count in workers:
        assert run(tmp_path / f"ray-{count}", METHODS[name], federation, engines, count) == expected


def test_an_actor_killed_in_each_round_changes_nothing(
    federation: Federation, engines: MakeEngine, tmp_path: Path
) -> None:
    expected = run(tmp_path / "threads", METHODS["fedspu-es"], federation, Threads, 2)
    made: list[adapter.RayEngine] = []
    killed: list[int] = []

    class Murdered(adapter.RayEngine):
        """An actor of it dies with chunks in its hands, once a round."""

        def do(self, jobs: Any, round: int, common: Any = ()) -> list[Any]:
            made.append(self)
            if round > len(killed):
                killed.append(self.pids()[round % 2])
                jobs = [Fatal(jobs[0], self.pids()[round % 2], tmp_path / f"died-{round}"), *jobs[1:]]
            return super().do(jobs, round, common)

    assert run(tmp_path / "ray", METHODS["fedspu-es"], federation, Murdered, 2) == expected
    assert len(killed) == SMALL.rounds
    assert not set(killed) & set(made[-1].pids())


@dataclass(frozen=True)
class Fatal:
    """A job that kills a process once: a process that works on other jobs, or its own process."""

    job: Any
    pid: int
    mark: Path

    @property
    def client(self) -> int:
        return int(self.job.client)

    @property
    def needs_kept(self) -> bool:
        return bool(self.job.needs_kept)

    def play(self, player: Any, kept: Any, common: Any, keep: Callable[[Any], None]) -> Any:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(self.pid, signal.SIGKILL)
        return self.job.play(player, kept, common, keep)


@dataclass(frozen=True)
class Deadly:
    """A job that no process survives."""

    client: int = 3
    needs_kept: bool = False

    def play(self, player: Any, kept: Any, common: Any, keep: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Faulty:
    client: int = 3
    needs_kept: bool = False

    def play(self, player: Any, kept: Any, common: Any, keep: Any) -> None:
        raise RunError("client 3 has no learning rate; expected one")


@dataclass(frozen=True)
class Nosy:
    """A job that returns what the actor has."""

    client: int
    needs_kept: bool = False

    def play(self, player: Any, kept: Any, common: Any, keep: Any) -> Any:
        return kernels.backend().threads(), [float(each.sum()) for each in common]


@pytest.fixture
def engine(federation: Federation, engines: MakeEngine, tmp_path: Path) -> Iterator[Any]:
    journal = Journal(tmp_path / "run")
    cast = SimulationContext(METHODS["fedavg"], federation, federation.initial(), SMALL.settings(2))
    made = engines(cast, journal, 2)
    yield made
    made.close()
    journal.close()


def test_a_job_that_kills_every_actor_ends_the_run_by_name(engine: Any) -> None:
    with pytest.raises(RunError, match=r"4 workers died in a row, the last at clients \[3\]"):
        engine.do([Deadly()], 1)


def test_an_error_of_a_job_is_the_run_s(engine: Any) -> None:
    with pytest.raises(RunError, match="client 3 has no learning rate"):
        engine.do([Faulty()], 1)


def test_a_method_that_a_node_cannot_import_is_named(engine: Any) -> None:
    module = sys.modules[__name__]
    ray.cloudpickle.unregister_pickle_by_value(module)
    try:
        with pytest.raises(RunError, match=r"worker \d: No module named '.*test_ray_engine'; expected"):
            engine.do([Nosy(1)], 1)
    finally:
        ray.cloudpickle.register_pickle_by_value(module)


def test_what_jobs_have_in_common_arrives_and_kernels_have_one_thread(engine: Any) -> None:
    found = engine.do([Nosy(client) for client in range(5)], 1, (np.ones(3), np.full((2, 2), 2.0)))
    assert found == [(1, [3.0, 8.0])] * 5
    assert engine.do([], 1) == []


def test_too_few_processors_are_refused(federation: Federation, engines: MakeEngine, tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match="4 workers on a Ray cluster of 3 processors; expected a processor for each worker"
    ):
        run(tmp_path, FedAvg(per_round=2), federation, engines, 4)


def test_an_actor_that_computes_otherwise_is_refused(
    federation: Federation, engines: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "other_provenances", lambda made: f"made by {made[0]}; this is another")
    with pytest.raises(RunError, match=r"worker 0: made by edgefl .*; this is another; expected it on every node"):
        run(tmp_path, FedSPU(per_round=2), federation, engines, 1)


def test_the_command_line_has_the_cluster_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rounds", "2", "--clients", "4", "--per-round", "2", "--method", "fedspu", "--workers", "2"]
    assert main(["simulate", *options, "--run-dir", str(tmp_path / "threads")]) == 0
    assert main(["simulate", *options, "--run-dir", str(tmp_path / "ray"), "--engine", "ray"]) == 0
    assert files(tmp_path / "ray" / "fedspu") == files(tmp_path / "threads" / "fedspu")
    assert main(["simulate", *options, "--ray-address", "auto"]) == 2
    assert "--ray-address auto without --engine ray; expected both" in capsys.readouterr().err
