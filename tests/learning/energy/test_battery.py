"""Batteries on made-up trees: joules while they discharge, and no number otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.learning.energy import battery
from edgefl.learning.energy.meter import EnergyMeter
from tests.learning.energy.energy_cases import SUPPLY, Hands
from tests.made_up import write


def put(root: Path, name: str = "BAT0", status: str = "Discharging", **files: object) -> Path:
    return write(
        root, {f"{SUPPLY}/{name}/{file}": text for file, text in {"type": "Battery", "status": status, **files}.items()}
    )


def measured(root: Path, *then: dict[str, object]) -> EnergyMeter:
    """Return a meter of what the battery has given while its files change in this way."""
    hands = Hands()
    with hands.meter(battery.find(root).source) as spent:
        for files in then:
            hands.wait(10.0)
            put(root, **files)  # type: ignore[arg-type]
            hands.read()
    assert hands.every_s == 10.0
    return spent


def test_watt_hours_are_3600_joules(tmp_path: Path) -> None:
    spent = measured(put(tmp_path, energy_now=40_000_000), {"energy_now": 39_990_000})
    assert (spent.joules, spent.kind, spent.source) == (pytest.approx(36.0), "battery", "battery BAT0")  # 10 mWh


def test_charge_is_worth_the_voltage_at_which_it_flowed(tmp_path: Path) -> None:
    spent = measured(
        put(tmp_path, charge_now=3_000_000, voltage_now=4_000_000),
        {"charge_now": 2_999_000, "voltage_now": 3_800_000},  # 3.6 C at 3.9 V in the mean
        {"charge_now": 2_998_000, "voltage_now": 3_600_000},  # 3.6 C at 3.7 V
    )
    assert spent.joules == pytest.approx(3.6 * 3.9 + 3.6 * 3.7)


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", ""])
def test_no_number_unless_it_discharges(tmp_path: Path, status: str) -> None:
    root = put(tmp_path, status=status, energy_now=40_000_000)
    assert battery.find(root).source is not None
    assert measured(root, {"energy_now": 39_990_000}).joules is None


def test_no_number_if_it_was_plugged_in_meanwhile(tmp_path: Path) -> None:
    root = put(tmp_path, energy_now=40_000_000)
    spent = measured(root, {"energy_now": 39_990_000}, {"status": "Charging", "energy_now": 39_995_000},
                     {"energy_now": 39_980_000})  # fmt: skip
    assert spent.joules is None


def test_no_number_if_the_gauge_has_not_moved_or_rose(tmp_path: Path) -> None:
    root = put(tmp_path, energy_now=40_000_000)
    assert measured(root, {"energy_now": 40_000_000}).joules is None
    assert measured(root, {"energy_now": 40_010_000}).joules is None


def test_of_two_batteries_one_may_rest_while_the_other_gives(tmp_path: Path) -> None:
    put(tmp_path, energy_now=40_000_000)
    put(tmp_path, "BAT1", "Not charging", energy_now=20_000_000)
    put(tmp_path, "hidpp", energy_now=10, scope="Device")
    assert measured(tmp_path, {"energy_now": 39_990_000}).joules == pytest.approx(36.0)
    put(tmp_path, "BAT1", "Charging", energy_now=20_000_000)
    assert measured(tmp_path, {"energy_now": 39_980_000}).joules is None


@pytest.mark.parametrize(
    "files", [{}, {"energy_now": "?"}, {"charge_now": 5}, {"charge_now": 5, "voltage_now": 0}, {"capacity": 80}]
)
def test_a_battery_without_a_gauge_is_no_source(tmp_path: Path, files: dict[str, object]) -> None:
    found = battery.find(put(tmp_path, **files))  # type: ignore[arg-type]
    why = "BAT0 does not state its charge; expected energy_now, or charge_now and voltage_now"
    assert (found.source, found.why) == (None, why)


def test_a_machine_on_a_wire_has_none(tmp_path: Path) -> None:
    write(tmp_path, {f"{SUPPLY}/AC/type": "Mains"})
    assert battery.find(tmp_path).why == "no battery"
