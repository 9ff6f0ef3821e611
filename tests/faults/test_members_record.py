"""The figures of docs/members.md are those of tests/faults/members.jsonl."""

from __future__ import annotations

import json
from typing import Any

from tests.sources import ROOT

RECORD = ROOT / "tests" / "faults" / "members.jsonl"


def row(run: dict[str, Any]) -> str:
    faults = run["faults"]
    of_server = faults["SIGKILL of the server"]
    kills = of_server + faults["SIGKILL of a device"]
    which = "asynchronous" if run["is_asynchronous"] else "that wait"
    counts = (
        f"{run['rounds']:,} | {run['outcomes']['accepted']:,} | {kills}, {of_server} | {faults['SIGSTOP of a device']}"
    )
    told = f"{faults['departure that was told']} | {faults['command']}"
    return f"| {which} | {counts} | {told} | {run['first_mb']} and {run['last_mb']} MB |"


def test_the_page_says_what_the_runs_had() -> None:
    runs = [json.loads(line) for line in RECORD.read_text().splitlines()]
    page = (ROOT / "docs" / "members.md").read_text()
    assert [run["is_asynchronous"] for run in runs] == [False, True]
    assert all(row(run) in page for run in runs), [row(run) for run in runs]
    assert all(run["identical"] and not run["twice"] and run["enrolled"] == 212 for run in runs)
    assert all(run["seconds"] > 900 for run in runs)
