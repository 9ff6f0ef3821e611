"""A sample of `python -m tests faults malicious`: a real device against a server that asks for too much."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.faults import malicious
from tests.faults.hostile_plans import PLANS

TERABYTES = "padding and stride of 2^30 under 64 channels, whose packing is terabytes"
FLOOD = "a flood of payloads beside a frozen base"
SAMPLE = ("an honest round", "10^6 epochs", "no payload", TERABYTES, FLOOD)

if sys.platform != "linux":
    pytest.skip("resident memory is read from Linux's /proc", allow_module_level=True)


def test_a_device_refuses_within_its_bounds(tmp_path: Path) -> None:
    plans = [plan for plan in PLANS if plan.name in SAMPLE]
    found = list(malicious.run(tmp_path / "place", plans, seconds=20.0))
    assert [outcome.wrong for outcome in found] == [None] * len(SAMPLE)
    assert [outcome.exit_code for outcome in found] == [0, 1, 1, 1, 1]
    assert 10e6 < found[0].memory_bytes < 200e6


def test_what_goes_beyond_the_bounds_is_found(tmp_path: Path) -> None:
    """The honest round is tried again, where nothing is allowed and another end is expected."""
    honest = PLANS[0]
    other = honest.__class__("another end", "a sentence")
    (first, second, third) = malicious.run(tmp_path / "place", [honest, other, honest], memory=8_000_000)
    assert (first.wrong, third.wrong) == (None, None)
    assert re.fullmatch(
        r"exit code 0, '\S+ INFO the run is over: that was all'; expected 'a sentence'", str(second.wrong)
    )


def test_there_are_twenty_plans_of_different_names() -> None:
    assert len({plan.name for plan in PLANS}) == len(PLANS) >= 20
