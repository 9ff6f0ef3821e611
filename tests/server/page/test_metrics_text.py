"""/metrics as Prometheus reads it: form 0.0.4, with names, labels and values that can be counted by hand."""

from __future__ import annotations

import re
from pathlib import Path

from edgefl.server.page.feed import RunFeed
from edgefl.server.page.metrics_text import metrics_text
from edgefl.server.run_view import RunView
from tests.server import made_run

LINE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\[\\n"])*",?)*\})? -?[0-9.e+-]+')


def scraped(path: Path) -> list[str]:
    return RunFeed(RunView(path)).metrics().decode().splitlines()


def test_every_family_has_help_and_type_and_every_line_the_form(tmp_path: Path) -> None:
    made_run.made_run(tmp_path)
    lines = scraped(tmp_path)
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert helped == typed
    assert len(set(helped)) == len(helped)
    samples = [line for line in lines if not line.startswith("#")]
    assert [line for line in samples if not LINE.fullmatch(line)] == []
    assert {re.split(r"[{ ]", line)[0] for line in samples} <= set(helped)
    counters = {line.split()[2] for line in lines if line.startswith("# TYPE") and line.endswith("counter")}
    assert [name for name in counters if not name.endswith("_total")] == []


def test_the_values_are_the_runs(tmp_path: Path) -> None:
    made_run.made_run(tmp_path, rounds=2, done=False)
    made_run.open_round(tmp_path, 3, (0, 1, 2), answered=(0,))
    made_run.alive(tmp_path, 3, {0: "replied", 1: "training", 2: "awaited, away", 3: "idle"})
    lines = scraped(tmp_path)
    for expected in (
        "edgefl_up 1",
        "edgefl_rounds_closed_total 2",
        "edgefl_devices_enrolled 4",
        "edgefl_devices_connected 3",
        "edgefl_devices_awaited 2",
        'edgefl_replies_total{outcome="accepted"} 3',
        "edgefl_payload_bytes_total 4000",
        "edgefl_socket_bytes_total 8000",
        'edgefl_test_accuracy{model="personal"} 0.52',
        'edgefl_device_awaited{client="1"} 1',
        'edgefl_device_awaited{client="3"} 0',
        'edgefl_device_connected{client="2"} 0',
        'edgefl_device_replies_total{client="0",outcome="accepted"} 2',
        'edgefl_device_joules_total{client="0",source="rapl"} 1',
        'edgefl_device_training_seconds{client="0"} 1',
    ):
        assert expected in lines, expected


def test_quotes_and_line_ends_of_a_device_stay_in_their_label() -> None:
    facts = {"run": 'a"b\\c\nd', "method": "m", "data": "d", "phase": "p", "running": True, "done": False}
    facts |= dict.fromkeys(("rounds", "closed", "clients", "enrolled", "connected", "socket_bytes"), 0)
    facts |= {"opened": None, "closes": None, "waiting_for": []}
    text = metrics_text(facts, [], [])
    assert r'edgefl_run_info{run="a\"b\\c\nd",method="m",data="d",phase="p"} 1' in text.splitlines()
