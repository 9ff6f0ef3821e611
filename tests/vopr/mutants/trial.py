"""A trial of a mistake: seeds are simulated in a copy of the repository with the mistake until a promise breaks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from time import process_time
from typing import NamedTuple

from tests.mutants.mutant import Mutant
from tests.mutants.tree import ROOT, copy_built, mutated
from tests.vopr.case import Case
from tests.vopr.outcome import Outcome
from tests.vopr.simulation import simulated

LIMIT_S = 180.0  # seconds of the processor for which seeds are tried, where nothing else is said
WALL_S = 1800.0  # seconds after which a trial on a busy machine ends in any case
HOURS, DEVICES, OFTEN = 0.15, 4, 3.0
METHODS = ("fedspu", "fedavg")  # of even and of odd seeds
PLACE = re.compile(r"\S*/vopr-[^/]*/")  # the folder of a simulation, which is another one each time
SEEK = """
import sys
sys.meta_path = [each for each in sys.meta_path if "editable" not in getattr(each, "__module__", "")]
from tests.vopr.mutants.trial import seek
import edgefl.server
assert edgefl.server.__file__.startswith(sys.argv[1]), edgefl.server.__file__
print(seek(float(sys.argv[2])).to_json())
"""


class Trial(NamedTuple):
    """The result of a trial.

    seed     the seed that found the mistake, or None if no seed did
    message  the promise that was broken
    cpu_s    seconds of the processor up to the end
    """

    seed: int | None
    message: str
    cpu_s: float

    def to_json(self) -> str:
        return json.dumps(self._asdict())


def seek(limit_s: float) -> Trial:
    """Simulate one seed after another until a promise breaks, or so many seconds of the processor are over."""
    begun = process_time()
    for seed in count():
        message = _broken(seed)
        seconds = round(process_time() - begun, 1)
        if message or seconds > limit_s:
            return Trial(seed if message else None, PLACE.sub("", message), seconds)
    raise AssertionError("count ends")


def outcome_of(seed: int) -> Outcome:
    """Simulate a seed as in a trial."""
    return simulated(Case(seed, HOURS, DEVICES, METHODS[seed % len(METHODS)], "real", often=OFTEN))


def _broken(seed: int) -> str:
    """Return the promise that breaks in a simulation, or "". An exception of the code under test breaks one, too."""
    try:
        return outcome_of(seed).failure or ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tried(mutants: Iterable[Mutant], limit_s: float) -> Iterator[tuple[Mutant, Trial]]:
    """Try mistakes one after another, each for so many seconds of the processor."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_built(ROOT, Path(folder))
        for mutant in mutants:
            with mutated(tree, mutant):
                yield mutant, _trial(tree, limit_s)


def _trial(tree: Path, limit_s: float) -> Trial:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", SEEK, str(tree), str(limit_s)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=WALL_S)
    if done.returncode:
        raise RuntimeError(f"a trial ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return Trial(**json.loads(done.stdout.splitlines()[-1]))
