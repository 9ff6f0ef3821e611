"""Files at rest, damaged one at a time between two starts: the run ends as if nothing was, or the file is named.

A stage is a run whose processes are gone. A case is a copy of a stage in which one file of one side is damaged. Then
all processes are started again, as a user does it. Every outcome but "identical" and "refused" is a failure: another
result, a traceback, a refusal that does not name the file or that changes a file, a run that does not end.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster, Process
from edgefl.experiment.settings import Experiment
from tests.faults.damage import FLIPS, Damage, damages
from tests.faults.outcome import Truth

LIMIT_S = 200.0  # for one case, on a busy machine
NO_STATE = ("run.db-shm",)  # SQLite's index of its log, made again at every start


@dataclass(frozen=True)
class Side:
    """The side whose files are damaged. `folder` is where they lie in a run's place, with the process that starts on
    them.
    """

    name: str
    folder: str
    process: Callable[[Cluster], Process]


SERVER = Side("server", "run", lambda cluster: cluster.server)


@dataclass(frozen=True)
class Stage:
    """A run at rest. `root` is a Cluster's place, and `older` is this place at an earlier time, if there is one."""

    name: str
    root: Path
    older: Path | None


@dataclass(frozen=True)
class Row:
    """One case. `outcome` is "identical", "refused", or what went wrong. `words` is the refusal."""

    side: str
    stage: str
    file: str
    damage: str
    outcome: str
    words: str
    seconds: float

    @property
    def is_good(self) -> bool:
        return self.outcome in ("identical", "refused")


class Cases:
    """The cases of runs of one experiment, each under a directory of its own in `directory`.

    shares  the devices' samples, as `write_partitions` wrote them
    truth   of the undisturbed run
    """

    def __init__(self, directory: Path, experiment: Experiment, partitions: Path, truth: Truth) -> None:
        self._directory, self._experiment, self._partitions, self._truth = directory, experiment, partitions, truth

    def of(self, side: Side, stage: Stage, flips: int = FLIPS) -> Iterator[tuple[str, Damage]]:
        """Yield every file of the side, with every damage that it may have there."""
        folder = stage.root / side.folder
        for name in sorted(contents(folder)):
            older = None if stage.older is None else stage.older / side.folder / name
            for damage in damages(folder / name, older, flips):
                yield name, damage

    def run(self, side: Side, stage: Stage, file: str, damage: Damage) -> Row:
        """Carry out one case, from the copy of the stage to the end of its run or to a refusal."""
        started = time.perf_counter()
        root = Path(tempfile.mkdtemp(dir=self._directory)) / "place"
        shutil.copytree(stage.root, root)
        shutil.rmtree(root / "logs", ignore_errors=True)
        folder = root / side.folder
        damage.strike(folder / file, None if stage.older is None else stage.older / side.folder / file)
        outcome, words = self._outcome(side, root, file, contents(folder))
        shutil.rmtree(root.parent)
        seconds = round(time.perf_counter() - started, 2)
        return Row(side.name, stage.name, file, str(damage), outcome, words, seconds)

    def _outcome(self, side: Side, root: Path, file: str, before: Mapping[str, bytes]) -> tuple[str, str]:
        error = ""
        with Cluster(root, self._experiment, self._partitions) as cluster:
            try:
                self._go_on(cluster)
            except RuntimeError as found:
                error = str(found)
            struck = side.process(cluster)
            refused = bool(error) and struck.ended() not in (None, 0)
        if refused:
            return judged(struck.said(), root / side.folder, file, contents(root / side.folder), before)
        difference = error or self._truth.difference(cluster)
        return ("identical", "") if difference is None else (difference, "")

    def _go_on(self, cluster: Cluster) -> None:
        """Go on with the run to its end. Raises RuntimeError if a process ends with an error, or if the run does not
        end.
        """
        cluster.start_server()
        for client in range(self._experiment.clients):
            cluster.start_device(client)
        cluster.finish(limit_s=LIMIT_S)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file of a directory, by its path in the directory."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in NO_STATE]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def judged(
    said: str, folder: Path, file: str, after: Mapping[str, bytes], before: Mapping[str, bytes]
) -> tuple[str, str]:
    """Return the outcome of a case whose process ended with an error, and the process's last words."""
    words = (said.splitlines() or [""])[-1]
    if "Traceback" in said:
        return f"traceback: {words}", ""
    if str(folder / file) not in words:
        return f"does not name the file: {words}", ""
    if lost := [name for name, content in before.items() if after.get(name) != content]:
        return f"refused, but changed {lost[0]}", words
    return "refused", words.replace(str(folder), "RUN")
