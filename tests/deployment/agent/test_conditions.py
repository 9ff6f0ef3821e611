"""Readings of a machine, compared with its owner's limits, on folders that stand for /sys and /proc."""

from __future__ import annotations

import math
import os
import sys
from datetime import time
from pathlib import Path

import pytest

from edgefl.deployment.agent import conditions, machine_status
from edgefl.deployment.agent.conditions import Conditions, Hours
from edgefl.deployment.agent.machine_status import Power, Usage
from edgefl.deployment.agent.machine_watch import ConditionMonitor
from tests.made_up import write

MAINS, BATTERY, MOUSE = "sys/class/power_supply/AC", "sys/class/power_supply/BAT0", "sys/class/power_supply/hidpp"
STAT = "cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\n"
OWN = "812 (edgefl (a) b) S 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0 20 0 4"
ROUTES = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"


def test_power_is_what_the_supplies_say(tmp_path: Path) -> None:
    mains, battery = {f"{MAINS}/type": "Mains"}, {f"{BATTERY}/type": "Battery"}
    cases: list[tuple[str, dict[str, str], Power, tuple[bool, bool]]] = [  # ..., whether mains and half a charge hold
        ("a board on a wire", {}, Power(True, None), (True, True)),
        (
            "a mouse's battery",
            {f"{MOUSE}/type": "Battery", f"{MOUSE}/scope": "Device"},
            Power(True, None),
            (True, True),
        ),
        (
            "on mains",
            {**mains, f"{MAINS}/online": "1", **battery, f"{BATTERY}/capacity": "20"},
            Power(True, 0.2),
            (True, True),
        ),
        (
            "unplugged",
            {**mains, f"{MAINS}/online": "0", **battery, f"{BATTERY}/capacity": "49"},
            Power(False, 0.49),
            (False, False),
        ),
        (
            "discharging",
            {**battery, f"{BATTERY}/status": "Discharging", f"{BATTERY}/capacity": "50"},
            Power(False, 0.5),
            (False, True),
        ),
        ("charging", {**battery, f"{BATTERY}/status": "Charging"}, Power(True, None), (True, True)),
        ("nobody knows", {**battery, f"{BATTERY}/status": "Unknown"}, Power(None, None), (False, False)),
        ("no number", {**battery, f"{BATTERY}/capacity": "full"}, Power(None, None), (False, False)),
    ]
    for name, files, expected, holds in cases:
        found = machine_status.power(write(tmp_path / name, files))
        assert found == expected, name
        assert tuple(conditions.check_power(found, limit).holds for limit in (math.inf, 0.5)) == holds, name


def test_the_warmest_zone_counts(tmp_path: Path) -> None:
    zones = {"thermal_zone0/temp": "48312", "thermal_zone1/temp": "61500", "thermal_zone2/temp": "-274000"}
    others = {"cooling_device0/temp": "99000", "thermal_zone3/temp": "x", "thermal_zone4/type": "gpu"}
    root = write(tmp_path, {f"sys/class/thermal/{name}": text for name, text in {**zones, **others}.items()})
    assert machine_status.celsius(root) == 61.5
    assert machine_status.celsius(tmp_path / "none") is None
    checks = [conditions.check_most("temperature", found, 61.5, ".1f") for found in (61.5, 61.6, None)]
    assert [check.holds for check in checks] == [True, False, False]
    assert (checks[1].value, checks[1].limit, checks[2].value) == ("61.6", "at most 61.5", "unknown")


def test_what_others_use_is_without_the_process_itself(tmp_path: Path) -> None:
    root = write(
        tmp_path, {"proc/stat": STAT.format(user=100, idle=900), "proc/self/stat": OWN.format(user=30, system=10)}
    )
    assert (before := machine_status.usage(root)) == Usage(1000, 100, 40)
    write(root, {"proc/stat": STAT.format(user=180, idle=1020), "proc/self/stat": OWN.format(user=70, system=20)})
    now = machine_status.usage(root)
    assert now is not None
    assert machine_status.others(before, now) == pytest.approx((80 - 50) / 200)
    assert machine_status.others(now, now) is None
    assert machine_status.usage(root, 999) == Usage(1200, 180, 0)
    assert machine_status.usage(tmp_path / "none") is None
    if sys.platform == "linux":
        here = machine_status.usage(Path("/"))
        assert here is not None
        assert 0 < here.own < here.busy < here.total


def test_pressure_is_of_the_last_ten_seconds(tmp_path: Path) -> None:
    text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
    assert machine_status.pressure(write(tmp_path, {"proc/pressure/cpu": text})) == 0.125
    assert machine_status.pressure(tmp_path / "none") is None  # a kernel without it


def test_the_network_is_where_its_default_routes_lead(tmp_path: Path) -> None:
    v4 = ["wlan0 00000000 0102A8C0 0003 0 0 600 00000000 0 0 0", "eth0 00000000 0102A8C0 0003 0 0 100 00000000 0 0 0"]
    lost = "usb0 00000000 0102A8C0 0002 0 0 1 00000000 0 0 0"  # it is down
    local = "eth1 0002A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0"
    v6 = f"{'0' * 32} 00 {'0' * 32} 00 {'f' * 32} 00000400 00000001 00000000 00000003 "
    cases = [
        ([*v4, lost, local], [], ("eth0",)),
        (v4[:1], [v6 + "wwan0", v6.replace("00000400", "ffffffff") + "lo"], ("wlan0", "wwan0")),
        ([local], [], ()),
    ]
    for number, (four, six, expected) in enumerate(cases):
        tables = {"proc/net/route": ROUTES + "\n".join(four), "proc/net/ipv6_route": "\n".join(six)}
        assert machine_status.interfaces(write(tmp_path / str(number), tables)) == expected
    allowed = [conditions.check_interfaces(found, ["eth0", "wlan0"]).holds for _, _, found in cases]
    assert allowed == [True, False, False]


def test_a_metered_network_is_what_network_manager_or_a_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, program = tmp_path / "said", tmp_path / "nmcli"
    program.write_text(f'#!/bin/sh\necho "GENERAL.METERED:$(cat "{said}".$6)"\n')
    program.chmod(0o755)
    for name, text in (("eth0", "no"), ("wlan0", "no (guessed)"), ("wwan0", "yes (guessed)"), ("usb0", "unknown")):
        said.with_name(f"said.{name}").write_text(text)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    cases = [(["eth0"], "no", True), (["eth0", "wlan0"], "no", True), (["wlan0", "wwan0"], "yes (guessed)", False)]
    for names, word, holds in [*cases, (["usb0"], "unknown", False), ([], None, False)]:
        assert machine_status.network_manager_says(names) == word
        assert conditions.check_manager(word).holds == holds
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert machine_status.network_manager_says(["eth0"]) is None  # it is not there
    for command, expected in (("exit 0", (True, "ended with 0")), ("exit 3", (False, "ended with 3"))):
        assert machine_status.succeeds(["/bin/sh", "-c", command]) == expected
    assert machine_status.succeeds(["nothing of that name"]) == (False, "did not run")


def test_hours_may_go_over_midnight() -> None:
    night, noon = Hours.parse("22:00-06:30"), Hours.parse("12:00 - 13:00")
    for text, at_night, at_noon in (
        ("22:00", 1, 0),
        ("03:00", 1, 0),
        ("06:30", 0, 0),
        ("12:59", 0, 1),
        ("13:00", 0, 0),
    ):
        found = [time.fromisoformat(text) in hours for hours in (night, noon)]
        assert found == [at_night, at_noon], text
    for wrong in ("22:00", "6-7-8", "25:00-26:00", "08:00-08:00", ""):
        with pytest.raises(ValueError, match=f"hours '{wrong}'; expected"):
            Hours.parse(wrong)
    check = conditions.check_hours(time(12, 30), [night, noon])
    assert check == ("hours", "12:30", "22:00-06:30, 12:00-13:00", True)


def test_a_watch_looks_now_and_then_and_waits_until_all_is_quiet(tmp_path: Path) -> None:
    """The watch looks every 5 s. A condition that did not hold must hold for 30 s."""
    now = [0.0]
    zone = "sys/class/thermal/thermal_zone0/temp"
    limits = Conditions(charge=math.inf, max_celsius=60, hours=(Hours.parse("08:00-20:00"),), metered=("true",))
    watch = ConditionMonitor(limits, write(tmp_path, {zone: "50000"}), lambda: now[0], lambda: time(10), 5, 30)
    assert [check.name for check in watch.checks()] == ["power", "temperature", "hours", "metered"]
    assert watch.why_not() is watch.why_wait() is None
    write(tmp_path, {zone: "70000"})
    for now[0], why in ((4.9, None), (5.0, "temperature 70.0; expected at most 60.0")):
        assert watch.why_not() == watch.why_wait() == why
    write(tmp_path, {zone: "50000"})
    for now[0], why in ((11.0, "conditions hold again; beginning in 24 s"), (34.9, "conditions hold"), (35.0, None)):
        assert watch.why_not() is None
        found = watch.why_wait()
        assert found == why or (why is not None and found is not None and found.startswith(why))
