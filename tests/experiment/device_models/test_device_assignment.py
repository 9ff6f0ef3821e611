"""The devices of clients: packaged devices and their sources, a user's own file, and the errors of such a file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefl.experiment.device_models.board_models import BOARDS, MIXED
from edgefl.experiment.device_models.device_assignment import NAMES, Fleet, SimulatedDevice, fleet_of, read
from edgefl.experiment.device_models.device_profile import NUMBERS, Profile
from edgefl.methods.sampling import tier

pytest.importorskip("tomllib", reason="Python 3.10 reads TOML by a package")
OWN = """
[weak]
like = "mcu"
up_bytes_per_second = 100
available = [[72000, 21600]]
drop_out = 0.25
share = 3
[strong]
title = "a machine"
macs_per_second = 1e9
down_bytes_per_second = 1e6
up_bytes_per_second = 1e6
joules_per_mac = 0
joules_per_down_byte = 0
joules_per_up_byte = 0
source = "nobody"
"""


def names(fleet: Fleet, clients: int) -> list[str]:
    return [device.name for device in fleet.assigned(clients)]


def test_a_file_says_what_differs_from_a_packaged_device(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    assert read(str(tmp_path / "own.toml")) == read(OWN) == OWN
    weak, strong = fleet_of(OWN).devices
    mcu = BOARDS["mcu"].profile
    changed = {each.name for each in fields(Profile) if getattr(weak.profile, each.name) != getattr(mcu, each.name)}
    assert changed == {"up_bytes_per_second", "available", "drop_out"}
    assert (weak.profile.up_bytes_per_second, weak.profile.available) == (100.0, ((72_000.0, 21_600.0),))
    assert (strong.profile.macs_per_second, strong.profile.idle_watts, strong.profile.title) == (1e9, 0.0, "a machine")


def test_clients_are_partitioned_in_order_by_shares() -> None:
    assert names(fleet_of(OWN), 8) == ["weak"] * 6 + ["strong"] * 2
    assert names(fleet_of("pi4"), 3) == ["pi4"] * 3
    assert names(fleet_of("mixed"), 8) == ["mcu"] * 2 + ["phone-lte"] * 2 + ["pi4"] * 2 + ["orin-nano"] * 2


def test_single_clients_are_named_and_the_others_share_the_rest() -> None:
    fleet = fleet_of('[a]\nlike = "pi4"\nclients = [0, 3]\n[b]\nlike = "mcu"\n[c]\nlike = "pi4"\n')
    assert names(fleet, 6) == ["a", "b", "b", "a", "c", "c"]


@given(clients=st.integers(1, 50), kinds=st.integers(1, 6))
def test_equal_shares_are_partitioned_as_capacity_tiers_are(clients: int, kinds: int) -> None:
    fleet = Fleet(tuple(SimulatedDevice(str(kind), BOARDS["pi4"].profile) for kind in range(kinds)))
    assert [float(name) for name in names(fleet, clients)] == [
        tier([float(kind) for kind in range(kinds)], client, clients) for client in range(clients)
    ]


@pytest.mark.parametrize("name", BOARDS)
def test_every_number_of_a_packaged_device_has_a_source(name: str) -> None:
    profile, sources = BOARDS[name]
    assert {number for number in NUMBERS if getattr(profile, number)} == set(sources)
    assert all(len(source) > 10 for source in sources.values()) and profile.title


STEP_MACS, STEP_INSTRUCTIONS = 22.35e6, 13.03e6  # of FedSPU's CIFAR CNN at a batch of 16 (bench/README.md)
ESP_IDLE_MA, VOLTS = 32.9, 3.3
FOLLOWS = {  # from the figures that the sources name
    ("mcu", "macs_per_second"): 240e6 * 256 / 432,
    ("mcu", "joules_per_mac"): (72.4 - ESP_IDLE_MA) * 1e-3 * VOLTS / 142e6,
    ("mcu", "joules_per_down_byte"): (88 - ESP_IDLE_MA) * 1e-3 * VOLTS / (20e6 / 8),
    ("mcu", "joules_per_up_byte"): (283 - ESP_IDLE_MA) * 1e-3 * VOLTS / (20e6 / 8),
    ("mcu", "idle_watts"): ESP_IDLE_MA * 1e-3 * VOLTS,
    ("phone-lte", "macs_per_second"): STEP_MACS / (STEP_INSTRUCTIONS / (2.2 * 2.4e9)),
    ("phone-lte", "down_bytes_per_second"): 12.74e6 / 8,
    ("phone-lte", "up_bytes_per_second"): 5.64e6 / 8,
    ("phone-lte", "joules_per_mac"): 2.14 / 9.1e9,
    ("phone-lte", "joules_per_down_byte"): (51.97 * 12.74 + 1288.04) * 1e-3 / (12.74e6 / 8),
    ("phone-lte", "joules_per_up_byte"): (438.39 * 5.64 + 1288.04) * 1e-3 / (5.64e6 / 8),
    ("phone-lte", "joules_per_message"): 11.576 * 1.060,
    ("pi4", "macs_per_second"): STEP_MACS / (STEP_INSTRUCTIONS / (1.5 * 1.5e9)),
    ("pi4", "joules_per_mac"): (6.4 - 2.7) / 4 / 3.9e9,
    ("pi4", "joules_per_down_byte"): 137.01e-3 / (1e6 / 8),
    ("pi4", "joules_per_up_byte"): 283.17e-3 / (1e6 / 8),
    ("orin-nano", "macs_per_second"): STEP_MACS / (STEP_INSTRUCTIONS / (2.2 * 1.5e9)),
    ("orin-nano", "joules_per_mac"): (15 - 2.18) / 6 / 5.7e9,
}


@pytest.mark.parametrize(("name", "number"), FOLLOWS)
def test_a_packaged_number_follows_from_its_source(name: str, number: str) -> None:
    assert getattr(BOARDS[name].profile, number) == pytest.approx(FOLLOWS[name, number], rel=0.03)


def test_packaged_devices_are_those_of_the_page() -> None:
    """docs/devices.md has the same numbers."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "devices.md").read_text()
    assert set(MIXED) == set(BOARDS) and list(NAMES) == ["mixed", *BOARDS]
    for number in NUMBERS:
        values = [getattr(BOARDS[name].profile, number) for name in MIXED]
        if any(values):
            cells = [f"{value / 1e6:.0f}e6" if number == "memory_bytes" else f"{value:g}" for value in values]
            assert f"| `{number}` | {' | '.join(cells)} |" in page, number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x =\n", "devices cannot be read (Invalid value"),
        ("\n", "devices has no table; expected a table for each kind of device"),
        ("x = 3\n", "devices: x = 3; expected only tables, as [x]"),
        (
            "[a]\n",
            "devices: [a] has no macs_per_second; expected a number, or `like` with the name of a packaged device",
        ),
        ('[a]\nlike = "pi9"\n', "devices: [a] like = 'pi9'; expected one of mcu, phone-lte, pi4, orin-nano"),
        ('[a]\nlike = "pi4"\nmac = 3\n', "devices: [a] mac = 3; expected one of macs_per_second"),
        ('[a]\nlike = "pi4"\nlatency_s = "1"\n', "devices: [a] latency_s = '1'; expected a number"),
        ('[a]\nlike = "pi4"\nlatency_s = true\n', "devices: [a] latency_s = True; expected a number"),
        ('[a]\nlike = "pi4"\nlatency_s = -1\n', "devices: [a] latency_s = -1.0; expected a finite number >= 0"),
        ('[a]\nlike = "pi4"\navailable = [3]\n', "devices: [a] available = [3]; expected pairs of seconds of a day"),
        ('[a]\nlike = "pi4"\ntitle = 3\n', "devices: [a] title = 3; expected text"),
        ('[a]\nlike = "pi4"\nshare = 0\n', "devices: [a] share = 0.0; expected a number above 0"),
        ('[a]\nlike = "pi4"\nclients = [0.5]\n', "devices: [a] clients = [0.5]; expected a list of ids"),
        (
            '[a]\nlike = "pi4"\nclients = [0]\nshare = 2\n',
            "devices: [a] share = 2 together with clients; expected share or clients",
        ),
    ],
)
def test_a_wrong_file_is_named_with_table_key_and_value(text: str, message: str) -> None:
    with pytest.raises(ValueError) as found:
        fleet_of(text)
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a]\nlike='pi4'\nclients=[4]\n[b]\nlike='pi4'\n", r"\[a\] clients has 4; expected ids below 4"),
        (
            "[a]\nlike='pi4'\nclients=[1]\n[b]\nlike='pi4'\nclients=[1]\n",
            r"\[b\] clients has 1; expected ids below 4, e",
        ),
        ("[a]\nlike='pi4'\nclients=[1]\n", "client 0 of 4 is in no table's clients"),
    ],
)
def test_every_client_has_one_device(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fleet_of(text).assigned(4)


def test_a_name_that_is_no_device_and_a_file_that_is_wrong_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="devices=pi5, which is not a file; expected one of mixed, mcu, phone-lte"):
        read("pi5")
    (tmp_path / "own.toml").write_text("[a]\nlike = 'x'")
    with pytest.raises(ValueError, match=r"own.toml: \[a\] like = 'x'; expected one of"):
        read(str(tmp_path / "own.toml"))
