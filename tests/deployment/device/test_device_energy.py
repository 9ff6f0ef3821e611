"""A device that measures: its reply says joules, and is otherwise the reply of one that does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from edgefl.deployment.device.device_protocol import Device
from edgefl.experiment.federation import Federation
from edgefl.learning.energy import EnergyMeter, choose
from tests.deployment.device.device_cases import METHODS, bits, scripted
from tests.deployment.device.device_server import converse
from tests.made_up import write


def test_joules_change_nothing_but_a_metric(
    federation: Federation, make: Callable[..., Device], tmp_path: Path
) -> None:
    rail = {"name": "ina3221", "in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 1200}  # 5 V times 1.2 A
    write(tmp_path, {f"sys/class/hwmon/hwmon0/{name}": text for name, text in rail.items()})
    source, meters = choose(tmp_path), list[EnergyMeter]()

    def meter() -> EnergyMeter:
        meters.append(EnergyMeter(source))
        return meters[-1]

    plain, measuring = (scripted(federation, METHODS["fedspu-es"], [1, 2]) for _ in range(2))
    one, other = make(0), make(1)
    other._world = other._world._replace(meter=meter)
    converse(one, plain)
    converse(other, measuring)
    assert len(meters) == 2
    for round, spent in zip((1, 2), meters, strict=True):
        without, told = plain.replies[round], measuring.replies[round]
        joules = told.metrics["joules_hwmon"]
        assert joules == pytest.approx(6.0 * spent.seconds) and joules > 0
        rest = {name: value for name, value in told.metrics.items() if name != "joules_hwmon"}
        assert msgspec.structs.replace(told, metrics=rest) == without
    assert measuring.scores == plain.scores
    kept = [device._state.personal() for device in (one, other)]
    assert kept[0] is not None and kept[1] is not None and bits(kept[0].flat()) == bits(kept[1].flat())
    assert kept[0].private == kept[1].private
