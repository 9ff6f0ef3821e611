"""An agent whose server has no work for it, and the tag `power` that an agent adds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from edgefl.deployment.agent.agent_settings import AgentSettings, ServerSettings
from edgefl.deployment.agent.conditions import Conditions
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from edgefl.deployment.agent.power_tag import with_power
from edgefl.deployment.agent.service import AgentService
from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_socket import ServerAddress
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.experiment.client_dataset import partition_file
from edgefl.protocol.wire.messages import DeviceNotice
from tests.deployment.device.device_cases import ANYBODY
from tests.deployment.device.device_listener import Listener
from tests.deployment.device.device_server import ScriptedServer
from tests.deployment.device.sleepy_server import SleepyServer

SPEAKING = ANYBODY._replace(tags={"site": "north"})


@pytest.mark.parametrize(
    ("profile", "is_on_mains", "tags"),
    [
        (SPEAKING, True, {"site": "north", "power": "mains"}),
        (SPEAKING, False, {"site": "north", "power": "battery"}),
        (SPEAKING, None, {"site": "north"}),
        (ANYBODY._replace(sleeps=True), False, {"power": "battery"}),
        (ANYBODY._replace(tags={"power": "sun"}), True, {"power": "sun"}),
        (ANYBODY, True, {}),  # a server of an earlier version would refuse it
        (ANYBODY._replace(tags=dict.fromkeys(map(str, range(32)), "v")), True, dict.fromkeys(map(str, range(32)), "v")),
    ],
)
def test_a_device_that_gives_a_notice_tells_its_power(profile: Any, is_on_mains: bool | None, tags: Any) -> None:
    assert with_power(profile, is_on_mains).tags == tags


def test_an_agent_that_is_sent_away_asks_its_server_after_that_time(
    server: ScriptedServer, partitions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has no battery, and so is on mains."""
    sleepy = SleepyServer.like(server)
    sleepy.seconds = 86400.0
    now, said, told = [0.0], list[str](), list[str]()
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 3600.0))
    world = DeviceEnvironment(said.append, lambda failures: None, lambda: now[0])
    heard, answers = list[Any](), sleepy.answers
    monkeypatch.setattr(sleepy, "answers", lambda message: heard.append(message) or answers(message))
    with Listener(sleepy) as listener:
        address, profile = ServerAddress.parse(listener.address), ANYBODY._replace(sleeps=True)
        entry = ServerSettings(address, profile, partition_file(partitions, 0), (), False, (None, None, None), False)
        watch = ConditionMonitor(Conditions(), tmp_path, lambda: now[0], lambda: None, 5, 30)  # type: ignore[arg-type, return-value]
        directory = StateDirectory(tmp_path / "state")
        AgentService(AgentSettings(tmp_path, (entry,)), directory, watch, world, told.append, 1).run()
    away = "the server has no work: connecting again in 86400 s"
    assert said == [
        f"{address}: connected as client 0",
        f"{address}: {away}",
        f"{address}: connected as client 0",
        f"{address}: run {sleepy.run} is over: all rounds are done",
    ]
    assert f"waiting for a server ({away})" in told
    assert now[0] == 86400.0
    notices = [each for each in heard if isinstance(each, DeviceNotice)]
    assert notices == [DeviceNotice({"power": "mains"}, True, False)] * 2
