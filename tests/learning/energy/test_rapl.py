"""RAPL's counters on made-up trees: what is added, what wraps round, and why there is no number."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.learning.energy import rapl
from edgefl.learning.energy.energy_counters import Counter, EnergySource
from tests.learning.energy.energy_cases import POWERCAP, Hands, package
from tests.made_up import write


def source_in(root: Path) -> EnergySource:
    found = rapl.find(root)
    assert found.source is not None, found.why
    return found.source


def test_two_packages_are_added_and_their_parts_are_not(tmp_path: Path) -> None:
    package(tmp_path, 0, 1_000_000)
    package(tmp_path, 1, 5_000_000, name="package-1")
    package(tmp_path, 2, 7, name="psys")
    for part in ("intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl-mmio:0", "dtpm"):
        write(tmp_path, {f"{POWERCAP}/{part}/name": "package-0", f"{POWERCAP}/{part}/energy_uj": 9})
    hands = Hands()
    with hands.meter(source_in(tmp_path)) as spent:
        hands.wait(4.0)
        package(tmp_path, 0, 3_500_000)  # + 2.5 J
        package(tmp_path, 1, 5_250_000, name="package-1")  # + .25 J
        package(tmp_path, 2, 900_000_000, name="psys")
    assert (spent.joules, spent.seconds) == (pytest.approx(2.75), 4.0)
    assert (spent.kind, spent.source) == ("rapl", "RAPL package-0 + package-1")


def test_a_counter_that_has_wrapped_round_goes_on_from_its_range(tmp_path: Path) -> None:
    package(tmp_path, 0, 9_000_000, range_uj=10_000_000)
    hands = Hands()
    with hands.meter(source_in(tmp_path)) as spent:
        package(tmp_path, 0, 2_000_000, range_uj=10_000_000)  # 1 J up to its range and 2 J beyond
    assert spent.joules == pytest.approx(3.0)


def test_a_long_measurement_counts_every_wrap(tmp_path: Path) -> None:
    hands = Hands()
    package(tmp_path, 0, 0, range_uj=65_000_000_000)
    with hands.meter(source_in(tmp_path)) as spent:
        for uj in (40_000_000_000, 15_000_000_000, 55_000_000_000, 30_000_000_000):  # 40 kJ each time
            hands.wait(30.0)
            package(tmp_path, 0, uj, range_uj=65_000_000_000)
            hands.read()
    assert (spent.joules, spent.seconds, hands.every_s) == (pytest.approx(160_000.0), 120.0, 30.0)


@pytest.mark.parametrize(
    ("range_uj", "now"),
    [("", 5), ("many", 5), (8, 5), (100, "")],
    ids=["no range", "range no number", "was beyond its range", "no longer a number"],
)
def test_no_number_where_it_cannot_be_known(tmp_path: Path, range_uj: object, now: object) -> None:
    package(tmp_path, 0, 10, range_uj)
    hands = Hands()
    with hands.meter(source_in(tmp_path)) as spent:
        hands.wait(1.0)
        package(tmp_path, 0, now, range_uj)
    assert (spent.joules, spent.seconds) == (None, 1.0)


def test_a_range_is_not_needed_as_long_as_nothing_wraps(tmp_path: Path) -> None:
    write(tmp_path, {f"{POWERCAP}/intel-rapl:0/name": "package-0", f"{POWERCAP}/intel-rapl:0/energy_uj": 10})
    hands = Hands()
    with hands.meter(source_in(tmp_path)) as spent:
        write(tmp_path, {f"{POWERCAP}/intel-rapl:0/energy_uj": 4_000_010})
    assert spent.joules == pytest.approx(4.0)


def test_a_counter_that_stands_still_says_nothing(tmp_path: Path) -> None:
    package(tmp_path, 0, 10)
    with Hands().meter(source_in(tmp_path)) as spent:
        pass
    assert spent.joules is None


def test_one_missing_reading_is_no_number_even_if_the_last_is_there(tmp_path: Path) -> None:
    package(tmp_path, 0, 10)
    hands = Hands()
    with hands.meter(source_in(tmp_path)) as spent:
        package(tmp_path, 0, "busy")
        hands.read()
        package(tmp_path, 0, 4_000_010)
    assert spent.joules is None


def test_what_root_alone_may_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, 0, 10)
    read = Path.read_text

    def refusing(file: Path, *more: object, **named: object) -> str:
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return read(file, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", refusing)
    found = rapl.find(tmp_path)
    assert found.source is None
    assert found.why == (
        "/sys/class/powercap/intel-rapl:0/energy_uj may not be read by this user; expected root, or chmod o+r by root"
    )


@pytest.mark.parametrize("uj", ["", "garbage", "1e6", "9" * 400])
def test_a_counter_of_garbage_is_none(tmp_path: Path, uj: str) -> None:
    package(tmp_path, 0, uj)
    found = rapl.find(tmp_path)
    assert (found.source, found.why) == (
        None,
        "/sys/class/powercap/intel-rapl:0/energy_uj does not contain a number; expected microjoules",
    )


def test_without_a_package_there_is_none(tmp_path: Path) -> None:
    assert rapl.find(tmp_path).why == "no package in /sys/class/powercap"
    package(tmp_path, 0, 10, name="psys")
    write(tmp_path, {f"{POWERCAP}/intel-rapl": "a file in place of a folder"})
    assert rapl.find(tmp_path).source is None


@given(st.integers(1, 1 << 40), st.lists(st.integers(0, 1 << 40)))
def test_growth_is_the_same_whether_or_not_it_wraps(range_uj: int, steps: list[int]) -> None:
    """A counter shown modulo its range grows by what it truly grew by, if that is less than the range."""
    counter, total = Counter(Path(), range_uj), 0
    for step in (each % range_uj for each in steps):
        assert counter.grown(total % range_uj, (total + step) % range_uj) == step
        total += step
