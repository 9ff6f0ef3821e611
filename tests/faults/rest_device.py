"""A device's files at rest, damaged one at a time between two starts, and its whole directory older, gone or copied.

The stages are points at which a device may be found. Outcomes are the outcomes of rest.py. A refusal names the file, or
says in words what has happened to the directory. A damage that the device finds when it opens the directory needs no
run. Several damages may leave equal files behind, and then only one of them is run.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster, await_, write_partitions
from edgefl.deployment.device.device_state import DeviceState
from edgefl.deployment.device.identity import read_identity
from edgefl.deployment.device.run_folders import RUNS, name_of
from edgefl.errors import RunError
from edgefl.server import run_history
from tests.faults.damage import damages
from tests.faults.outcome import Truth
from tests.faults.rest import LIMIT_S, Row, Stage, contents
from tests.faults.rest_server import EXPERIMENT
from tests.faults.steps import Fault, Steps

WHOLE = "(all)"
STRUCK = 0
SAYS = ("state directory", "another secret", "another device")  # words of a refusal that tell what happened
NO_STATE = ("identity.json", "lock")  # different at every start
DOWNLOAD = "model.part"  # becomes the model when it is complete

STAGES = {  # the step before which the device is killed, in its life after the previous stage
    "loading": "rename model.bin",  # it has all of the initial model, and has not checked it
    "enrolled": "open .pending.safetensors.tmp",  # it has trained, and kept nothing
    "pending": "rename pending.safetensors +2",  # the reply is kept, and not sent
    "unheard": "rename local.safetensors",  # it is judged, and the device does not know
    "kept": "open .pending.safetensors.tmp",  # it knows, and trains the next
    "both": "rename pending.safetensors +2",
}


@dataclass(frozen=True)
class Case:
    """A damage of the device's directory. `strike` does it to the folder."""

    file: str
    damage: str
    strike: Callable[[Path], None]


class DeviceCases:
    """The cases of one small run. Files go under `directory`. They need Linux and a C compiler."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._partitions = directory, directory / "shares"
        write_partitions(self._partitions, EXPERIMENT)
        self._truth = Truth.of(EXPERIMENT, directory / "simulated")
        self._known: dict[tuple[str, object], tuple[str, str]] = {}
        self.stages = list(self._stages())

    def _stages(self) -> Iterator[Stage]:
        steps, root, older = Steps(self._directory), self._directory / "run", None
        for name in (*STAGES, "over"):
            shutil.rmtree(root / "logs", ignore_errors=True)
            with Cluster(root, EXPERIMENT, self._partitions) as cluster:
                cluster.start_server()
                fault = None if name == "over" else Fault("killed before", STAGES[name])
                watched = cluster.state_of(STRUCK), cluster.logs / "steps"
                cluster.start_device(STRUCK, None if fault is None else steps.environment(*watched, fault))
                cluster.start_device(1 - STRUCK)
                if fault is None:
                    cluster.finish()
                elif cluster.devices[STRUCK].wait() != -signal.SIGKILL:
                    raise RuntimeError(f"the device was not killed before {fault.step}")
            stage = Stage(name, self._directory / name, older)
            shutil.copytree(root, stage.root)
            older = stage.root
            yield stage

    def of(self, stage: Stage, flips: int) -> Iterator[Case]:
        """Yield every damage that the directory may have at this stage."""
        folder = _folder(stage.root)
        for name in sorted(contents(folder)):
            older = None if stage.older is None else _folder(stage.older) / name
            for damage in damages(folder / name, older, flips):
                yield Case(name, str(damage), lambda at, d=damage, n=name, o=older: d.strike(at / n, o))  # type: ignore[misc]
        yield Case(WHOLE, "deleted", shutil.rmtree)
        for before in self.stages[: self.stages.index(stage)]:
            yield Case(WHOLE, f"older, as when {before.name}", lambda at, b=before: _replace(at, _folder(b.root)))  # type: ignore[misc]

    def run(self, stage: Stage, case: Case) -> Row:
        """Carry out one case."""
        started = time.perf_counter()
        root = Path(tempfile.mkdtemp(dir=self._directory)) / "place"
        shutil.copytree(stage.root, root, ignore=shutil.ignore_patterns("logs"))
        case.strike(_folder(root))
        outcome, words = self._opened(stage, case, root)
        shutil.rmtree(root.parent)
        seconds = round(time.perf_counter() - started, 2)
        return Row("device", stage.name, case.file, case.damage, outcome, words, seconds)

    def copied(self, stage: Stage) -> Row:
        """Copy the directory. Its device takes part again, and then the copy on another machine takes part."""
        started = time.perf_counter()
        root = Path(tempfile.mkdtemp(dir=self._directory)) / "place"
        shutil.copytree(stage.root, root, ignore=shutil.ignore_patterns("logs"))
        with Cluster(root, EXPERIMENT, self._partitions) as cluster:
            cluster.start_server()
            cluster.start_device(STRUCK)
            device = cluster.devices[STRUCK]
            await_(lambda: "connected as client" in device.said(), "the device takes part", LIMIT_S)
            device.kill()
            _replace(_folder(root), _folder(stage.root))
            cluster.start_device(STRUCK)
            with suppress(RuntimeError):
                cluster.finish(limit_s=LIMIT_S)
            outcome, words = self._judged(cluster, root, "", contents(_folder(stage.root)), "")
        shutil.rmtree(root.parent)
        return Row("device", stage.name, WHOLE, "copied", outcome, words, round(time.perf_counter() - started, 2))

    def _opened(self, stage: Stage, case: Case, root: Path) -> tuple[str, str]:
        """Return the outcome if the device finds the damage itself, else the outcome of the run."""
        folder, before = _folder(root), contents(_folder(root)) if _folder(root).exists() else {}
        try:
            state = DeviceState(folder)
        except RunError as error:
            return _refused(str(error), folder, case.file, before)
        _mend(state)
        state.close()
        left = stage.name, _state_of(folder)
        if left not in self._known:
            self._known[left] = self._run(root, case.file, before)
        return self._known[left]

    def _run(self, root: Path, file: str, before: dict[str, bytes]) -> tuple[str, str]:
        error = ""
        with Cluster(root, EXPERIMENT, self._partitions) as cluster:
            try:
                cluster.start_server()
                for client in range(EXPERIMENT.clients):
                    cluster.start_device(client)
                cluster.finish(limit_s=LIMIT_S)
            except RuntimeError as found:
                error = str(found)
            return self._judged(cluster, root, file, before, error)

    def _judged(self, cluster: Cluster, root: Path, file: str, before: dict[str, bytes], error: str) -> tuple[str, str]:
        device = cluster.devices[STRUCK]
        if device.ended() not in (None, 0):
            return _refused((device.said().splitlines() or [""])[-1], _folder(root), file, before)
        difference = error or self._truth.difference(cluster)
        return ("identical", "") if difference is None else (difference, "")


def _refused(words: str, folder: Path, file: str, before: dict[str, bytes]) -> tuple[str, str]:
    """Return the outcome of a refusal. It is good if it names the file or says what happened, and nothing was lost."""
    if str(folder / file) not in words and not any(said in words for said in SAYS):
        return f"does not say what happened: {words}", ""
    after = contents(folder)
    kept = {name: data for name, data in before.items() if name not in (*NO_STATE, DOWNLOAD)}
    if lost := [name for name, data in kept.items() if after.get(name) != data]:
        return f"refused, but changed {lost[0]}", words
    return "refused", words.replace(str(folder), "STATE")


def _state_of(folder: Path) -> object:
    """Return what a directory holds, without what differs at every start."""
    identity = read_identity(folder / "identity.json")
    held = {name: data for name, data in contents(folder).items() if name not in NO_STATE}
    return identity, tuple(sorted(held.items()))


def _mend(state: DeviceState) -> None:
    """Do with the initial model what a device does when it starts."""
    if state.damaged_model():
        state.drop_model()
    welcome = None if state.enrolment is None else state.enrolment.welcome
    if welcome is not None and not state.has_model() and state.received() == welcome.model_bytes:
        state.complete(welcome.model_digest)


def _folder(root: Path) -> Path:
    run = run_history.run_id(root / "run")
    return root / "devices" / str(STRUCK) / RUNS / name_of(run, None)


def _replace(folder: Path, other: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def rows(directory: Path, flips: int) -> Iterator[Row]:
    """Yield the rows of all cases, one after the other."""
    cases = DeviceCases(directory)
    for stage in cases.stages:
        for case in cases.of(stage, flips):
            yield cases.run(stage, case)
        yield cases.copied(stage)
