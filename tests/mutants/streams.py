"""Mutants that draw from another stream of random numbers, or from the stream of another client, round or seed.

An operator does not know which number names whose stream, and the results are as random as before.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "rounding-client",
        "edgefl/methods/rounds/exchange.py",
        "_rounding(values, 0, round=plan.round)",
        "_rounding(values, plan.client, round=plan.round)",
        "what several clients are sent depends on who is asked first",
        "tests/methods/rounds/test_expected.py",
    ),
    Mutant(
        "fedspa-batch",
        "edgefl/methods/fedspa.py",
        "rng.MASK_BATCH, client_state.client, round)",
        "rng.DATA, client_state.client, round)",
        "the mask grows by the first batch of training",
        "tests/methods/test_fedspa.py",
    ),
    Mutant(
        "random-growth-round",
        "edgefl/models/neurons/prune_and_grow.py",
        "client, round, number)",
        "client, 1, number)",
        "every round grows at random where the last one did",
        "tests/models/neurons/test_mask_pruning.py",
    ),
    Mutant(
        "head-of-client",
        "edgefl/methods/personal_head.py",
        "rng.stream(client_state.seed, rng.HEAD, client_state.client, round)",
        "rng.stream(client_state.seed, rng.HEAD, 0, round)",
        "all clients draw the same head",
        "tests/methods/test_personal_heads.py tests/methods/test_pflego.py",
    ),
    Mutant(
        "dropout-of-client",
        "edgefl/methods/random_dropout.py",
        "self.drawing(task, client, p, round)",
        "self.drawing(task, 0, p, round)",
        "all clients of a round get the same neurons",
        "tests/methods/test_random_dropout.py",
    ),
    Mutant(
        "seed-of-the-first",
        "edgefl/experiment/settings.py",
        "replace(self, seed=self.seed + i, seeds=1)",
        "replace(self, seed=self.seed + (i > 0), seeds=1)",
        "the third seed is the second one again",
        "tests/study/test_study_runner.py",
    ),
    Mutant(
        "seeds-of-one-partition",
        "edgefl/study/runner.py",
        "federation = prepared.assembled.federations[seed]",
        "federation = prepared.assembled.federation",
        "all seeds have the clients of the first one",
        "tests/study/test_study_runner.py",
    ),
)
