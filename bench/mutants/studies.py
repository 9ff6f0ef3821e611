"""Mutants of studies: several seeds, runs that go on with more, and experiments as a library."""

from __future__ import annotations

from bench.mutants.mutant import Mutant

RUNNER = "tests/study/test_runner.py"

MUTANTS = (
    Mutant(
        "seeds-of-one-partition",
        "edgefl/study/runner.py",
        "if one.seed == self.experiment.seed:",
        "if self.experiment.seeds:",
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
        "edgefl/algorithms/steps.py",
        'return self.schedule == "cosine"',
        'return self.schedule == "step"',
        "a run with a cosine goes on with more rounds, though none could have begun so",
        RUNNER,
    ),
    Mutant(
        "no-more-rounds",
        "edgefl/simulation/loop.py",
        "done = self.journal.committed.done and round >= last",
        "done = self.journal.committed.done",
        "a run that is over stays so, whatever rounds it is given",
        RUNNER,
    ),
    Mutant(
        "ended-by-itself",
        "edgefl/simulation/loop.py",
        "done = done or (self.journal.committed.done and not plans)",
        "done = done or (self.journal.committed.done and plans is None)",
        "a run that has ended by itself gets a round without clients when it is resumed with more",
        RUNNER,
    ),
)
