"""A bound on seconds: what takes longer is told so, what cannot be told ends with the process."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from edgefl.deployment.device import time_limit
from edgefl.deployment.device.time_limit import Alarm
from edgefl.errors import TimeLimitError

if not hasattr(signal, "setitimer"):
    pytest.skip("the clock strikes by a signal of POSIX", allow_module_level=True)

SENTENCE = "round 3 takes longer than --max-seconds 0.05; expected it to end within this time"


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_work_within_its_time_is_left_alone() -> None:
    former = signal.getsignal(signal.SIGALRM)
    with Alarm(60.0, [].append)("round 3"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is former
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread.is_alive()]


def test_work_that_takes_longer_breaks_off_with_a_sentence() -> None:
    with pytest.raises(TimeLimitError, match=SENTENCE), Alarm(0.05, [].append)("round 3"):
        spin(30)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_alarm_that_was_swallowed_strikes_again() -> None:
    with pytest.raises(TimeLimitError), Alarm(0.05, [].append)("round 3"):
        try:
            spin(30)
        except TimeLimitError:
            spin(30)


def test_a_step_that_cannot_be_interrupted_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal is for the main thread, which here waits for the end itself, as it would in a kernel."""
    monkeypatch.setattr(time_limit, "GRACE_S", 0.05)
    said, ended = list[str](), threading.Event()
    monkeypatch.setattr(signal, "setitimer", lambda *_: None)

    def end(code: int) -> None:
        assert code == 1
        ended.set()

    with Alarm(0.05, said.append, end)("round 3"):
        assert ended.wait(30)
    assert said == [f"{SENTENCE}, and a step of it cannot be interrupted: the device ends"]
