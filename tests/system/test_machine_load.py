"""The rule that decides if a time that is measured now should be quoted."""

from __future__ import annotations

import pytest

from edgefl.system import machine_load


@pytest.mark.parametrize(
    ("load", "processors", "threads", "is_busy"),
    [
        (0.2, 2, 1, False),
        (1.5, 2, 1, False),
        (1.6, 2, 1, True),
        (20.0, 2, 1, True),
        (2.3, 2, 2, False),
        (2.6, 2, 2, True),
    ],
)
def test_a_load_beyond_the_free_processors_warns(
    load: float, processors: int, threads: int, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    words = machine_load.warning(threads)
    assert bool(words) is is_busy
    if is_busy:
        assert f"is {load:.1f} on {processors} processors" in words
        assert "should not be quoted" in words
