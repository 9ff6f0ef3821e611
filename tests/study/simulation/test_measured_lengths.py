"""A simulation measures the lengths of changes where the replies are made, and the server measures them at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgefl.experiment.assembly import assemble
from edgefl.experiment.settings import Experiment
from edgefl.methods.plan import Reply
from edgefl.methods.rounds import change_bound
from edgefl.methods.rounds.round_closing import close, values_before
from edgefl.methods.task import MODEL
from edgefl.models.neurons.update import Update
from edgefl.study.simulation import round_loop
from tests.study.simulation.test_simulate import run

NOTHING = Update({})


def unmeasured(reply: Reply) -> Reply:
    """Return the reply without what was measured when its values were copied."""
    payload = {
        name: Update({at: replace(block, change=None) for at, block in update.blocks.items()})
        for name, update in reply.payload.items()
    }
    return replace(reply, payload=payload)


@pytest.mark.parametrize("name", ["fedavg", "fedspu", "pflego", "scaffold"])
def test_measured_lengths_are_those_of_the_close(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, measured = [], []

    def compared(task: Any, algorithm: Any, state: Any, accepted: Any, *rest: Any, lengths: Any, **named: Any) -> Any:
        old = values_before(algorithm, state)
        for plan, reply in accepted:
            expected = change_bound.lengths(unmeasured(reply), old, task.spec)
            assert lengths[plan.client] == expected
            seen.append(expected)
            blocks = reply.payload.get(MODEL, NOTHING).blocks
            measured.append([name for name, block in blocks.items() if block.change])
            assert all(block.change is None or block.change.since is old[MODEL][n] for n, block in blocks.items())
        return close(task, algorithm, state, accepted, *rest, lengths=lengths, **named)

    monkeypatch.setattr(round_loop, "close", compared)
    train = "-*.running_*" if name == "pflego" else ""
    experiment = Experiment(methods=(name,), clients=4, rounds=2, per_round=2, epochs=1, train=train)
    run(tmp_path, experiment.algorithms()[name], assemble(experiment), experiment.settings(workers=1))
    assert len(seen) == 4
    assert any(length > 0 for each in seen for lengths in each.values() for length in lengths.values())
    assert any(measured) == (name in ("fedavg", "scaffold"))  # whose clients send the whole model
