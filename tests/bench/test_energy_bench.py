"""python -m bench energy: rows of what a made-up machine tells, and what is said of one that tells nothing."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from bench import energy, step
from bench.__main__ import main
from edgefl.learning.energy.energy_counters import EnergySource, PowerIntegrator
from tests.made_up import write

SMALL = step.Case("fedspu_emnist", (1, 28, 28), 62, (2,))


def test_without_a_source_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["energy"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "not measured: no source"
    assert said[1] == "  rapl: no package in /sys/class/powercap"
    assert main(["energy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["source"] is None and found["absent"]["battery"] == "no battery"


def test_joules_are_those_of_the_steps() -> None:
    """5 W by a clock of .1 s a look, of which 3 W idle."""
    looks = count()
    source = EnergySource("hwmon", "made up", 60.0, False, lambda: PowerIntegrator(lambda: 5.0))
    full, fifth = energy.measure(SMALL, source, 3.0, 0.25, lambda: 0.1 * next(looks))
    assert (full.model, full.batch, full.keep, fifth.keep, full.steps) == ("fedspu_emnist", 2, 1.0, 0.2, 24)
    assert full.seconds == pytest.approx(0.5)  # begun, three times eight steps with a look after each, ended
    assert (full.joules, full.net_joules) == (pytest.approx(2.5), pytest.approx(1.0))
    assert full.per_step(full.joules) == pytest.approx(2.5 / 24)
    assert full.per_mac(full.net_joules) == pytest.approx(1.0 / 24 / full.macs)
    assert full.macs == 2 * 41301120 // 16
    assert fifth.macs < full.macs / 2
    (silent, _) = energy.measure(SMALL, None, 3.0, 0.25, lambda: 0.1 * next(looks))
    assert (silent.joules, silent.per_step(silent.joules), silent.per_mac(silent.net_joules)) == (None, None, None)


def test_a_row_per_share_beside_a_profile_s_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEFL_ENERGY_ROOT", str(tmp_path))
    meter = {"name": "power_meter", "power1_average": 7_000_000}
    write(tmp_path, {f"sys/class/hwmon/hwmon0/{name}": text for name, text in meter.items()})
    assert main(["energy", "--quick", "--models", "fedspu_emnist", "--model", "2e-11"]) == 0
    head, columns, *rows = capsys.readouterr().out.splitlines()
    model = "a profile's model: 20 pJ a multiply-add, net"
    assert head == f"power_meter hwmon0/1 (hwmon), idle 7 W over 0.2 s; {model}"
    assert columns.split()[-4:] == ["mJ/step", "net", "pJ/MAC", "net"]
    assert [row.split()[2] for row in rows] == ["1", "0.2"]
    ms, mj = (float(cell) for cell in rows[0].split()[4:6])
    assert mj == pytest.approx(7 * ms, rel=1e-2)
