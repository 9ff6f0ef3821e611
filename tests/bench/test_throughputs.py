"""`python -m bench paces`: its figures by hand, and what holds processes back."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.throttle import Turns, _period_s
from bench.throughputs import Run, _together

LIMIT_S = 30.0


def run(times: list[list[float]], accuracy: float) -> Run:
    foretold = {0: [(1.0, 1.1), (1.0, 0.7)], 1: [(2.0, 2.0)]}
    return Run(dict(enumerate(times)), foretold, {}, accuracy)


def test_spreads_by_hand() -> None:
    found = run([[1.0, 9.0, 2.0], [8.0, 4.0, 6.0], [3.0, 3.0, 3.0]], 90.0)
    assert found.typical == [2.0, 6.0, 3.0]
    assert found.spread == 3.0
    assert found.inner_spread == 8.0 / 1.0  # of 1 2 3 3 3 4 6 8 9 the last but one, and the first


def test_what_is_asked_by_hand() -> None:
    tiers, throughputs = run([[1.0], [12.0]], 90.5), run([[1.0], [3.0]], 90.0)
    found = {figure.what: figure for figure in _together(tiers, throughputs, 2.0)}
    spread = found["paces: the slowest device's round over the fastest one's"]
    assert (spread.value, spread.bar) == (3.0, 4.0)
    assert found["points of accuracy that paces lose"].value == 0.5
    off = found["rounds beside what was foretold, off by: median"]
    assert off.value == pytest.approx(10)
    assert found["the same: mean"].value == pytest.approx((10 + 30 + 0) / 3)
    assert found["the same: mean"].note == "2 of 3 within"


def test_a_quota_is_never_below_a_millisecond() -> None:
    for share in (1.0, 0.5, 0.04, 0.01, 0.001):
        assert share * _period_s(share) >= 0.001 or math.isclose(share * _period_s(share), 0.001)
    assert _period_s(0.5) == 0.025


@pytest.mark.skipif(sys.platform != "linux", reason="signals and /proc of Linux")
def test_turns_stop_a_process_and_let_it_go_on() -> None:
    turns, seen, until = Turns(), set[str](), time.monotonic() + LIMIT_S
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        turns.hold(process.pid, 0.5)
        while len(seen & {"R", "T"}) < 2 and time.monotonic() < until:
            seen.add(_state(process.pid))
        turns.end()
        assert seen >= {"R", "T"}
        assert _state(process.pid) != "T"
        os.kill(process.pid, signal.SIGKILL)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
