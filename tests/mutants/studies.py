"""Mutants of studies: several seeds, runs that go on with more, and experiments as a library."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RUNNER = "tests/study/test_study_runner.py"
FIVE, RUN_CONFIGURATION, TRACKERS = (
    "tests/study/test_five_lines.py",
    "tests/study/test_recipe.py",
    "tests/integrations/test_trackers.py",
)

MUTANTS = (
    Mutant(
        "seeds-of-one-partition",
        "edgefl/study/runner.py",
        "federation = prepared.assembled.federations[seed]",
        "federation = prepared.assembled.federation",
        "all seeds have the clients of the first one",
        RUNNER,
    ),
    Mutant(
        "seed-of-the-first",
        "edgefl/experiment/settings.py",
        "replace(self, seed=self.seed + i, seeds=1)",
        "replace(self, seed=self.seed + (i > 0), seeds=1)",
        "the third seed is the second one again",
        RUNNER,
    ),
    Mutant(
        "cosine-with-more-rounds",
        "edgefl/methods/optimizer_settings.py",
        'return self.schedule == "cosine"',
        'return self.schedule == "step"',
        "a run with a cosine goes on with more rounds, though none could have begun so",
        RUNNER,
    ),
    Mutant(
        "no-more-rounds",
        "edgefl/study/simulation/round_loop.py",
        "done = self.journal.committed.done and round >= last",
        "done = self.journal.committed.done",
        "a run that is over stays so, whatever rounds it is given",
        RUNNER,
    ),
    Mutant(
        "ended-by-itself",
        "edgefl/study/simulation/round_loop.py",
        "done = done or (self.journal.committed.done and not plans)",
        "done = done or (self.journal.committed.done and plans is None)",
        "a run that has ended by itself gets a round without clients when it is resumed with more",
        RUNNER,
    ),
    # Experiments as a library.
    Mutant(
        "own-data-unchecked",
        "edgefl/experiment/array_data.py",
        "if found != path.name:",
        "if found == path:",
        "data that have changed in a run's directory are taken",
        FIVE,
    ),
    Mutant(
        "names-of-columns",
        "edgefl/experiment/array_data.py",
        'digest.update(f"{name} {value.dtype.str} {arrays[name].shape}\\n".encode())',
        'digest.update(b"")',
        "arrays of another type or shape have the same name",
        FIVE,
    ),
    Mutant(
        "bytes-begin-anew",
        "edgefl/study/callbacks.py",
        'self._sent = before["payload_bytes"]',
        "self._sent = 0",
        "the bytes of a resumed run count from its resumption",
        FIVE,
    ),
    Mutant(
        "rounds-of-an-object",
        "edgefl/study/run_request.py",
        'if key != "rounds" and getattr',
        "if getattr",
        "an object's rounds are an option of its own",
        FIVE,
    ),
    Mutant(
        "option-beside-the-file",
        "edgefl/cli/simulate.py",
        'if text.partition("=")[0] not in options',
        'if text.partition("=")[0] in options or True',
        "an option of the command line gives way to the file's",
        RUN_CONFIGURATION,
    ),
    Mutant(
        "path-from-the-shell",
        "edgefl/experiment/run_toml.py",
        "given[name] = str(folder / text)",
        "given[name] = text",
        "a path in run.toml is taken from where the command runs",
        RUN_CONFIGURATION,
    ),
    Mutant(
        "trials-of-fewer-rounds",
        "edgefl/experiment/run_extension.py",
        "if stored.tune and not stored.tune_rounds:",
        "if stored.tune and stored.tune_rounds:",
        "a run that was tuned over its rounds goes on with more",
        RUN_CONFIGURATION,
    ),
    Mutant(
        "tracker-left-open",
        "edgefl/integrations/trackers.py",
        "            self._key = None\n            self._close()",
        "            self._key = None",
        "runs of a tracker are not finished",
        TRACKERS,
    ),
)
