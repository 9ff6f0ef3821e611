"""Power monitors on made-up trees: which rails are the whole board, and power over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.errors import RequestError
from edgefl.learning.energy import hwmon, jetson
from edgefl.learning.energy.energy_counters import EnergySourceProbe
from edgefl.learning.energy.source_detection import choose
from tests.learning.energy.energy_cases import HWMON, IIO, Hands, ina3221
from tests.made_up import write

ORIN_NANO = [("VDD_IN", 5000, 1200), ("VDD_CPU_GPU_CV", 5000, 400), ("VDD_SOC", 5000, 300)]  # VDD_IN: 6 W


def joules(found: EnergySourceProbe, seconds: float = 1.0) -> float | None:
    assert found.source is not None, found.why
    hands = Hands()
    with hands.meter(found.source) as spent:
        hands.wait(seconds)
    return spent.joules


def test_the_input_of_a_jetson_is_the_whole_and_rails_behind_it_are_not_added(tmp_path: Path) -> None:
    found = hwmon.find(ina3221(tmp_path, "hwmon3", ORIN_NANO))
    assert found.source is not None
    assert (found.source.kind, found.source.name, found.source.is_cheap) == ("hwmon", "ina3221 VDD_IN", False)
    assert joules(found) == pytest.approx(6.0)


def test_power_is_integrated_by_trapezoids(tmp_path: Path) -> None:
    hands = Hands()
    root = ina3221(tmp_path, "hwmon3", ORIN_NANO)
    with hands.meter(hwmon.find(root).source) as spent:
        for watts, seconds in ((6, 0.5), (10, 0.25), (2, 1.0)):
            hands.wait(seconds)
            ina3221(root, "hwmon3", [("VDD_IN", 5000, 200 * watts), *ORIN_NANO[1:]])
            hands.read()
        hands.wait(0.25)
    # 6 W for .5 s, from 6 to 10 for .25, from 10 to 2 for 1, 2 for .25
    assert spent.joules == pytest.approx(3.0 + 2.0 + 6.0 + 0.5)
    assert (spent.seconds, hands.every_s) == (2.0, 0.1)


def test_a_gap_in_the_samples_is_no_number(tmp_path: Path) -> None:
    found = hwmon.find(ina3221(tmp_path, "hwmon3", ORIN_NANO))
    assert joules(found, 1.0) == pytest.approx(6.0)
    assert joules(found, 1.01) is None


def test_a_sample_that_fails_is_no_number(tmp_path: Path) -> None:
    hands = Hands()
    root = ina3221(tmp_path, "hwmon3", ORIN_NANO)
    with hands.meter(hwmon.find(root).source) as spent:
        (root / HWMON / "hwmon3/curr1_input").unlink()
        hands.wait(0.1)
        hands.read()
        ina3221(root, "hwmon3", ORIN_NANO)
        hands.wait(0.1)
    assert spent.joules is None


def test_the_rails_of_an_agx_xavier_are_added_and_those_of_an_agx_orin_are_for_its_owner(tmp_path: Path) -> None:
    xavier, orin = tmp_path / "xavier", tmp_path / "orin"
    ina3221(xavier, "hwmon3", [("GPU", 1000, 1000), ("CPU", 1000, 2000), ("SOC", 1000, 3000)])
    ina3221(xavier, "hwmon10", [("CV", 1000, 400), ("VDDRQ", 1000, 500), ("SYS5V", 1000, 600)])
    assert joules(hwmon.find(xavier)) == pytest.approx(7.5)
    ina3221(orin, "hwmon3", [("VDD_GPU_SOC", 1000, 3000), ("VDD_CPU_CV", 1000, 2000), ("VIN_SYS_5V0", 5000, 1000)])
    ina3221(orin, "hwmon4", [("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 1000, 500)])
    found = hwmon.find(orin)
    assert (found.source, found.why) == (
        None,
        "it is not known which of the rails VDD_GPU_SOC, VDD_CPU_CV, VIN_SYS_5V0, VDDQ_VDD2_1V8AO feed the whole "
        "board; expected their names in --measure-energy",
    )
    chosen = choose(orin, wanted=["VDD_CPU_CV", "VDD_GPU_SOC"])
    assert chosen is not None and chosen.name == "ina3221 VDD_GPU_SOC + VDD_CPU_CV"
    assert joules(EnergySourceProbe("hwmon", chosen)) == pytest.approx(5.0)
    with pytest.raises(RequestError, match="rail 'VDD_IN'; expected some of VDD_GPU_SOC, VDD_CPU_CV, VIN_SYS_5V0, V"):
        choose(orin, wanted=["VDD_CPU_CV", "VDD_IN"])
    with pytest.raises(
        RequestError, match="rail 'VDD_IN' on a machine without a power monitor; expected no rail names"
    ):
        choose(tmp_path / "nothing", wanted=["VDD_IN"])


def test_two_rails_of_one_label_are_not_known_to_be_the_whole(tmp_path: Path) -> None:
    ina3221(tmp_path, "hwmon3", ORIN_NANO)
    ina3221(tmp_path, "hwmon4", ORIN_NANO)
    assert hwmon.find(tmp_path).source is None


def test_a_single_monitor_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    """An INA219's or INA226's driver has the shunt's voltage at in0, and computes power."""
    files = {"name": "ina226", "in0_input": 3, "in1_input": 5100, "curr1_input": 900, "power1_input": 4_600_000}
    write(tmp_path, {f"{HWMON}/hwmon2/{name}": value for name, value in files.items()})
    assert joules(hwmon.find(tmp_path)) == pytest.approx(4.6)
    (tmp_path / HWMON / "hwmon2/power1_input").unlink()
    assert joules(hwmon.find(tmp_path)) == pytest.approx(5.1 * 0.9)
    found = choose(tmp_path)
    assert found is not None and found.name == "ina226 hwmon2/1"
    assert choose(tmp_path, is_asked=False) is None


def test_a_single_monitor_that_counts_is_still_only_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, {f"{HWMON}/hwmon2/name": "ina228", f"{HWMON}/hwmon2/energy1_input": 1_000_000})
    assert choose(tmp_path, is_asked=False) is None
    source, hands = choose(tmp_path), Hands()
    with hands.meter(source) as spent:
        write(tmp_path, {f"{HWMON}/hwmon2/energy1_input": 3_000_000})
    assert spent.joules == pytest.approx(2.0)


def test_of_amds_counters_the_sockets_are_added_and_cores_are_in_them(tmp_path: Path) -> None:
    def counters(*uj: int) -> None:
        labels = ("Ecore000", "Ecore001", "Esocket0", "Esocket1")
        files: dict[str, object] = {f"{HWMON}/hwmon1/name": "amd_energy"}
        for channel, (label, value) in enumerate(zip(labels, uj, strict=True), 1):
            files |= {f"{HWMON}/hwmon1/energy{channel}_label": label, f"{HWMON}/hwmon1/energy{channel}_input": value}
        write(tmp_path, files)

    counters(1, 1, 10_000_000, 20_000_000)
    source, hands = choose(tmp_path, is_asked=False), Hands()
    with hands.meter(source) as spent:
        counters(9_000_000, 9_000_000, 11_000_000, 22_500_000)
    assert (spent.joules, spent.source) == (pytest.approx(3.5), "amd_energy Esocket0 + Esocket1")


def test_a_power_meter_of_acpi_averages(tmp_path: Path) -> None:
    write(tmp_path, {f"{HWMON}/hwmon0/name": "power_meter", f"{HWMON}/hwmon0/power1_average": 95_000_000})
    assert joules(hwmon.find(tmp_path)) == pytest.approx(95.0)


@pytest.mark.parametrize("driver", ["amdgpu", "nvme", "coretemp", "", "ina3221_like"])
def test_drivers_of_parts_of_a_machine_are_not_asked(tmp_path: Path, driver: str) -> None:
    write(tmp_path, {f"{HWMON}/hwmon0/name": driver, f"{HWMON}/hwmon0/power1_input": 95_000_000})
    found = hwmon.find(tmp_path)
    assert (found.source, found.why) == (None, "no power monitor that edgefl knows")


@pytest.mark.parametrize("broken", ["in1_input", "curr1_input"])
@pytest.mark.parametrize("text", ["", "n/a"])
def test_a_channel_that_cannot_be_read_is_no_rail(tmp_path: Path, broken: str, text: str) -> None:
    """Such a channel is switched off, and reading it is an error."""
    ina3221(tmp_path, "hwmon3", ORIN_NANO)
    write(tmp_path, {f"{HWMON}/hwmon3/{broken}": text})
    assert [rail.label for rail in hwmon.rails(tmp_path)] == ["VDD_CPU_GPU_CV", "VDD_SOC"]


def test_a_jetson_nano_with_jetpack_4(tmp_path: Path) -> None:
    device = f"{IIO}/6-0040/iio:device0"
    rails = (("POM_5V_IN", 2500), ("POM_5V_GPU", 300), ("POM_5V_CPU", 900))
    for channel, (label, milliwatt) in enumerate(rails):
        write(tmp_path, {f"{device}/rail_name_{channel}": label, f"{device}/in_power{channel}_input": milliwatt})
    (tmp_path / IIO / "6-0040/iio_device").symlink_to("iio:device0")  # the same once more
    found = jetson.find(tmp_path)
    assert found.source is not None
    assert (found.source.kind, found.source.name) == ("iio", "ina3221x POM_5V_IN")
    assert joules(found) == pytest.approx(2.5)
    chosen = choose(tmp_path, wanted=["POM_5V_CPU"])
    assert chosen is not None and joules(EnergySourceProbe("iio", chosen)) == pytest.approx(0.9)
