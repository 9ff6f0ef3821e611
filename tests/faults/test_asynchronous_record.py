"""The figures of docs/asynchronous.md are those of tests/faults/asynchronous.jsonl."""

from __future__ import annotations

import json
import re

from tests.sources import ROOT

RECORD = ROOT / "tests" / "faults" / "asynchronous.jsonl"


def test_the_page_says_what_the_runs_had() -> None:
    runs = [json.loads(line) for line in RECORD.read_text().splitlines()]
    faults = [run["faults"] for run in runs]
    of_server, of_devices, stops = (
        sum(each[name] for each in faults)
        for name in ("SIGKILL of the server", "SIGKILL of a device", "SIGSTOP of a device")
    )
    accepted = sum(run["outcomes"]["accepted"] for run in runs)
    stalest = max(int(staleness) for run in runs for staleness in run["staleness"])
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "asynchronous.md").read_text())
    assert (
        f"Three runs had {of_server + of_devices} SIGKILLs, {of_server} of them of the server, and {stops} stops."
        in page
    )
    assert f"{accepted:,} replies were accepted, with a staleness of up to {stalest}." in page
    assert len(runs) == 3
    assert all(run["identical"] and not run["twice"] for run in runs)
