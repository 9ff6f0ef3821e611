"""Mutants that keep too little or too much for a restart. tests/vopr/mutants has more: fsyncs that are missing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "put-half",
        "edgefl/models/neurons/gather.py",
        "        targets.append((target, block))",
        "        _scatter(target, block, ops)",
        "blocks before one that does not fit are written",
        "tests/models/neurons/test_update.py",
    ),
    Mutant(
        "done-not-stored",
        "server/store.py",
        "row = int(record.done),",
        "row = 0,",
        "a run that is over goes on after a restart",
        "tests/server/test_store.py",
    ),
    Mutant(
        "replaced-rows",
        "server/row_digest.py",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA recursive_triggers = OFF",
        "a run whose device sent its reply again is called damaged",
        "tests/server/test_row_digest.py",
    ),
    Mutant(
        "committed-unchecked",
        "edgefl/study/simulation/committed_rounds.py",
        "commit.digests.get(str(file.relative_to(path))))\n\n\ndef _kept",
        "None)\n\n\ndef _kept",
        "a damaged file of the server is exported",
        "tests/study/export/test_trained_models.py",
    ),
    Mutant(
        "adapting-is-kept",
        "edgefl/methods/fedavg_ft.py",
        "        yield self._adapted(client_state, self.ft_epochs)",
        (
            '        yield self._adapted(client_state, self.ft_epochs)\n        client_state.arrays["adapted"] = '
            "dict(client_state.learner.read())"
        ),
        "a client keeps the model that it adapted to be tested",
        "tests/methods/test_fedavg_ft.py",
    ),
    Mutant(
        "adam-goes-on",
        "edgefl/learning/running/pass_scalars.py",
        "self._adam[:], self._adam_steps[0] = rates, 0",
        "self._adam[:] = rates",
        "Adam's steps count on from the fit before",
        "tests/learning/test_optimizers.py",
    ),
)
