"""A meter: which source it takes, net of idle, what it says without one, and its thread."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Event, Thread
from threading import enumerate as threads

import pytest

from edgefl.cli.energy_messages import told_meter
from edgefl.learning.energy import EnergyMeter, choose, idle_watts, meter, survey, unmeasured
from edgefl.learning.energy.energy_counters import EnergySource, PowerIntegrator
from edgefl.learning.energy.source_detection import ROOT
from tests.learning.energy.energy_cases import SUPPLY, Hands, ina3221, package
from tests.made_up import write


def names() -> list[str]:
    return [thread.name for thread in threads() if thread.name == "edgefl-energy"]


def laptop(root: Path) -> Path:
    package(root, 0, 10)
    ina3221(root, "hwmon3", [("VDD_IN", 5000, 1200), ("VDD_SOC", 5000, 300)])
    battery = {"type": "Battery", "status": "Discharging", "energy_now": 40_000_000}
    return write(root, {f"{SUPPLY}/BAT0/{name}": text for name, text in battery.items()})


def test_a_counter_goes_before_samples_and_those_before_a_battery(tmp_path: Path) -> None:
    root = laptop(tmp_path)
    found = []
    for file in ("sys/class/powercap/intel-rapl:0/energy_uj", "sys/class/hwmon/hwmon3/name", f"{SUPPLY}/BAT0/type"):
        best, cheap = choose(root), choose(root, is_asked=False)
        found.append((best and best.kind, cheap and cheap.kind))
        (root / file).unlink()
    assert found == [("rapl", "rapl"), ("hwmon", None), ("battery", None)]
    assert choose(root) is None
    assert [(each.kind, each.why) for each in survey(root)] == [
        ("rapl", "/sys/class/powercap/intel-rapl:0/energy_uj does not contain a number; expected microjoules"),
        ("hwmon", "no power monitor that edgefl knows"),
        ("iio", "no power monitor that edgefl knows"),
        ("battery", "no battery"),
    ]


def test_without_a_source_there_are_seconds_and_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    with hands.meter(None, idle_watts=3.0) as spent:
        hands.wait(2.5)
    assert (spent.joules, spent.net_joules, spent.source, spent.kind, spent.seconds) == (None, None, None, None, 2.5)
    monkeypatch.setenv(ROOT, str(tmp_path))
    with meter() as spent:
        assert names() == []  # nothing to read, no thread
    assert (spent.joules, spent.source) == (None, None)
    assert unmeasured().source is None


def test_the_folder_that_stands_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT, str(package(tmp_path, 0, 1_000_000)))
    with meter(is_asked=False) as spent:
        package(tmp_path, 0, 1_500_000)
    assert (spent.joules, spent.source) == (pytest.approx(0.5), "RAPL package-0")
    assert spent.seconds > 0


def test_a_device_s_meter_is_chosen_once_and_said(tmp_path: Path) -> None:
    """It reads the folder that it was given, as the agent does, and only a counter unless more is asked for."""
    said: list[str] = []
    root = laptop(tmp_path)
    make = told_meter(None, said.append, root)
    assert make() is not make()
    assert said == ["energy of rounds is measured, of this whole machine: RAPL package-0"]
    (root / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    assert make().source == "RAPL package-0"
    assert told_meter(None, said.append, root)().source is None
    assert len(said) == 1  # nobody has asked, nothing is said
    assert told_meter("", said.append, root)().source == "ina3221 VDD_IN"
    assert told_meter("VDD_SOC,VDD_IN", said.append, root)().source == "ina3221 VDD_IN + VDD_SOC"
    assert told_meter("", said.append, tmp_path / "nothing")().source is None
    assert said[-1].startswith("--measure-energy: not measured: no source (no package in /sys/class/powercap; ")


def test_net_is_gross_less_what_idling_takes(tmp_path: Path) -> None:
    hands, source = Hands(), choose(package(tmp_path, 0, 0))

    def rest(seconds: float) -> None:
        hands.wait(seconds)
        package(tmp_path, 0, 8_000_000)

    idle = idle_watts(source, 4.0, rest, lambda: hands.now_s)
    assert idle == pytest.approx(2.0)
    with hands.meter(source, idle) as spent:
        hands.wait(3.0)
        package(tmp_path, 0, 29_000_000)
    assert (spent.joules, spent.net_joules) == (pytest.approx(21.0), pytest.approx(15.0))
    with hands.meter(source) as gross:
        hands.wait(1.0)
        package(tmp_path, 0, 30_000_000)
    assert (gross.joules, gross.net_joules) == (pytest.approx(1.0), None)
    assert idle_watts(source, 4.0, hands.wait, lambda: hands.now_s) is None  # the counter stood still
    assert idle_watts(None, 4.0, hands.wait, lambda: hands.now_s) is None


def test_two_meters_at_once_have_everything_each(tmp_path: Path) -> None:
    source = choose(package(tmp_path, 0, 0))
    found = []
    entered, left = Barrier(3), Barrier(3)

    def measure() -> None:
        with EnergyMeter(source) as spent:
            entered.wait(60)
            left.wait(60)
        found.append(spent.joules)

    both = [Thread(target=measure) for _ in range(2)]
    for each in both:
        each.start()
    entered.wait(60)
    package(tmp_path, 0, 2_000_000)
    left.wait(60)
    for each in both:
        each.join()
    assert found == [pytest.approx(2.0)] * 2


def test_the_thread_reads_while_the_block_runs_and_is_gone_after_it() -> None:
    third, reads = Event(), list[None]()

    def watts() -> float:
        reads.append(None)
        if len(reads) == 3:
            third.set()
        return 5.0

    source = EnergySource("hwmon", "made up", 0.001, False, lambda: PowerIntegrator(watts))
    with EnergyMeter(source) as spent:
        assert third.wait(60)
        assert names() == ["edgefl-energy"]
    assert names() == []
    assert spent.joules == pytest.approx(5.0 * spent.seconds)
    with pytest.raises(ZeroDivisionError), EnergyMeter(source) as spent:
        raise ZeroDivisionError
    assert names() == []
    assert spent.joules == pytest.approx(5.0 * spent.seconds)
