"""The cost of a client's training in its reply's metrics, with a stub of a learner and a scripted meter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgefl.learning.energy import EnergyMeter
from edgefl.learning.energy.energy_counters import EnergySource
from edgefl.learning.learner import ExecutedFlops
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.client_round import trained

TIMES = [3.0, 5.5]


class Told:
    """An accumulator that was told what there was."""

    def __init__(self, joules: float | None) -> None:
        self.joules = joules

    def take(self, at_s: float) -> None:
        pass


class Stub:
    """A method and its learner: 10 operations, 4 of them to search."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.done = error, 0

    def train(self, client_state: Any, plan: Plan) -> Reply:
        if self.error is not None:
            raise self.error
        self.done += 1
        return Reply(plan.round, plan.client, examples=5, steps=2, metrics={"loss": 0.5})

    def work(self) -> ExecutedFlops:
        return ExecutedFlops(6 * self.done, 4 * self.done)

    def flops(self, graph: Any, examples: int) -> None:
        return None


def outcome(joules: float | None, kind: str = "rapl") -> tuple[Reply, float]:
    stub, times = Stub(), iter(TIMES)
    source = EnergySource(kind, "made up", 30.0, True, lambda: Told(joules))
    client_state: Any = SimpleNamespace(learner=stub, train=range(5))
    return trained(stub, None, client_state, Plan("train", 1, 0), lambda: next(times), lambda: EnergyMeter(source))  # type: ignore[arg-type]


def test_joules_are_a_metric_by_their_kind_of_source() -> None:
    reply, seconds = outcome(7.25)
    assert seconds == 2.5
    assert reply.metrics == {"loss": 0.5, "executed_flops": 6.0, "search_flops": 4.0, "joules_rapl": 7.25}
    assert "joules_hwmon" in outcome(7.25, "hwmon")[0].metrics


def test_where_nothing_tells_them_the_reply_is_as_without_a_meter() -> None:
    stub, times = Stub(), iter(TIMES)
    client_state: Any = SimpleNamespace(learner=stub, train=range(5))
    plain = trained(stub, None, client_state, Plan("train", 1, 0), lambda: next(times))  # type: ignore[arg-type]
    assert plain == outcome(None)
    assert plain[0].metrics == {"loss": 0.5, "executed_flops": 6.0, "search_flops": 4.0}


def test_training_that_fails_leaves_the_meter() -> None:
    stub, left = Stub(ValueError("no")), []

    class Watched(EnergyMeter):
        def __exit__(self, *why: Any) -> None:
            left.append(why[0])

    client_state: Any = SimpleNamespace(learner=stub, train=range(5))
    with pytest.raises(ValueError, match="no"):
        trained(stub, None, client_state, Plan("train", 1, 0), lambda: 0.0, lambda: Watched(None))  # type: ignore[arg-type]
    assert left == [ValueError]
