"""An agent in a simulation: its owner's rules are checked when work begins, and it takes part in runs."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from edgefl.deployment.agent import machine_status
from tests.vopr import agent, seams
from tests.vopr.agent import AgentProcess, Machine
from tests.vopr.case import Case
from tests.vopr.disk import Disk
from tests.vopr.ledger import BrokenPromiseError
from tests.vopr.schedule import Schedule
from tests.vopr.simulation import simulate
from tests.vopr.world import World


def test_a_machine_goes_off_the_mains_and_back(tmp_path: Path) -> None:
    schedule = Schedule(0)
    machine = Machine(tmp_path, schedule)
    assert machine_status.power(tmp_path).on_mains
    machine.unplug(50.0)
    schedule.now = 10.0
    machine.unplug(20.0)
    assert not machine_status.power(tmp_path).on_mains
    assert [machine.is_unplugged(seconds) for seconds in (6.0, 12.0)] == [True, False]
    while schedule.step():
        pass
    assert schedule.now == 50.0
    assert machine_status.power(tmp_path).on_mains


class Idle(AgentProcess):
    """An agent that does nothing by itself."""

    def __init__(self, schedule: Schedule, disk: Disk) -> None:
        self.name, self.schedule, self.disk = "device 1", schedule, disk

    def begin_work(self) -> None:
        with self._within("round 1"):
            raise AssertionError("the work begins")


@pytest.mark.parametrize(
    ("seconds", "unplugged_s", "leapt_at", "broken"),
    [
        (1200.0, 0.0, 0.0, "the work begins"),
        (600.0, 0.0, 0.0, "begins round 1 at 08:10; its owner allows 08:15-08:05"),
        (303.0, 0.0, 0.0, "the work begins"),
        (600.0, 0.0, 598.0, "the work begins"),
        (1200.0, 20.0, 0.0, "begins round 1 off the mains"),
        (1200.0, 3.0, 0.0, "the work begins"),
    ],
    ids=["allowed", "forbidden-hour", "a-reading-of-before", "clock-leapt", "off-the-mains", "just-unplugged"],
)
def test_work_begins_only_as_the_owner_allows(
    seconds: float, unplugged_s: float, leapt_at: float, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule, disk = Schedule(0), Disk(tmp_path / "disk", random.Random(0))
    idle = Idle(schedule, disk)
    idle.machine, disk.leapt_at = Machine(tmp_path / "machine", schedule), leapt_at
    if unplugged_s:
        schedule.now = seconds - unplugged_s
        idle.machine.unplug(100.0)
    schedule.now = seconds
    monkeypatch.setattr(agent.time, "time", lambda: seams.BEGIN + schedule.now)
    monkeypatch.setattr(Idle, "_training", lambda self, what: nullcontext())
    with pytest.raises((BrokenPromiseError, AssertionError), match=broken):
        idle.begin_work()


def test_agents_take_part_and_keep_every_promise(tmp_path: Path) -> None:
    """In one seed of three, half of the devices are agents. The first such seed is simulated."""
    worlds = ((seed, World(Case(seed, 0.1, 4, "fedavg"), tmp_path / str(seed))) for seed in range(30))
    seed = next(seed for seed, world in worlds if world._operator.agents)
    found = simulate(seed, hours=0.1, devices=4, method="fedavg", often=2.0)
    assert found.failure is None
    assert found.rounds == 6
