"""A user's day: a table with a user column, compared with three seeds and a tuned rate, then served to four devices.
The tables and pictures of both agree with what the runs have logged.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.cli.cli import main

pytest.importorskip("matplotlib", reason="the picture is an optional extra")
from matplotlib.figure import Figure

USERS, ROWS = ("ann", "bo", "cy", "di"), 60
END_S = 120.0
DATA = ["--data", "people.csv", "--label", "activity", "--group", "user"]
TRAINING = ["--per-round", "3", "--epochs", "1", "--rounds", "4", "--eval-every", "2", "--keep", ".5,1"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the table: three activities, whose sensor values lie elsewhere for each user."""
    monkeypatch.chdir(tmp_path)
    random_stream = np.random.default_rng(1)
    lines = ["user,activity,a,b,c,d"]
    for user in USERS:
        centres = random_stream.normal(size=(3, 4)) * 2
        for row in range(ROWS):
            values = centres[row % 3] + random_stream.normal(size=4)
            lines.append(",".join([user, ("sit", "walk", "run")[row % 3], *(f"{value:.3f}" for value in values)]))
    Path("people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return a list that collects every saved figure. Saving still works."""
    found: list[Figure] = []
    save = Figure.savefig

    def kept(self: Figure, *given: Any, **options: Any) -> None:
        found.append(self)
        save(self, *given, **options)

    monkeypatch.setattr(Figure, "savefig", kept)
    return found


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(log_record) for log_record in (path / "metrics.jsonl").read_text().splitlines()]


def accuracies(log_records: list[dict[str, Any]], kind: str) -> list[float]:
    return [log_record["evaluation"][kind]["accuracy"] for log_record in log_records if log_record.get("evaluation")]


def sent(log_records: list[dict[str, Any]]) -> int:
    return sum(sum(log_record[way].values()) for log_record in log_records for way in ("down", "up"))


def curves(figure: Figure) -> list[list[float]]:
    """The heights of every line of a picture, in percent."""
    return [[round(float(y), 6) for y in line.get_ydata()] for axes in figure.axes for line in axes.get_lines()]


def has_curve(figure: Figure, expected: list[float]) -> bool:
    return [round(100 * share, 6) for share in expected] in curves(figure)


def test_from_a_table_to_devices(desk: Path, drawn: list[Figure], capsys: pytest.CaptureFixture[str]) -> None:
    tuned = ["--seeds", "3", "--tune", "lr=.01,.1", "--tune-rounds", "2", "--validation-share", ".2"]
    methods = ["--method", "fedspu,fedavg-ft"]
    assert main(["simulate", *DATA, *TRAINING, *tuned, *methods, "--run-dir", "study", "--plot", "study.svg"]) == 0
    table = capsys.readouterr().out
    study, kinds = edgefl.open_run("study"), {"fedspu": "personal", "fedavg-ft": "adapted"}
    assert study.experiment.clients == len(USERS) and study.experiment.partition == "group"
    for method, kind in kinds.items():
        of_seeds = [logged(Path(f"study/seed-{seed}/{method}")) for seed in (1, 2, 3)]
        ends = [accuracies(log_records, kind)[-1] for log_records in of_seeds]
        mean, spread = np.mean(ends), np.std(ends, ddof=1)
        payload = np.mean([sent(log_records) for log_records in of_seeds]) / 1e6
        (row,) = (line for line in table.splitlines() if re.match(rf" ?{method} +(own|adapted) ", line))
        assert f"{100 * mean:.1f}±{100 * spread:.1f}%" in row.replace(" ", "") and f"{payload:.2f} MB" in row
        assert study.methods[method].accuracy == pytest.approx(mean)
        over_seeds = [accuracies(log_records, kind) for log_records in of_seeds]
        shown = [list(np.mean(over_seeds, axis=0)), *over_seeds]
        assert any(has_curve(drawn[0], curve) for curve in shown), "of single seeds, or their mean"
    assert Path("study.svg").read_text("utf-8").count("<svg") == 1
    rate = json.loads(Path("study/tuned.json").read_text())["methods"]["fedspu"]["chosen"]["lr"]
    assert f"fedspu: lr={rate:g}" in table

    served = serve(["--method", "fedspu", *DATA, *TRAINING, "--lr", str(rate), "--validation-share", ".2"])
    log_records = served.method.seeds[1].log_records
    expected = accuracies(log_records, "personal")
    assert expected == accuracies(logged(Path("study/seed-1/fedspu")), "personal"), "as the first seed was simulated"
    assert sent(log_records) == sent(logged(Path("study/seed-1/fedspu")))
    assert f"{100 * expected[-1]:.1f} %" in served.table() and f"{sent(log_records) / 1e6:.2f} MB" in served.table()
    served.plot("served.svg")
    assert has_curve(drawn[-1], expected)
    assert main(["status", "served", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["last_evaluation"]["evaluation"]["personal"]["accuracy"] == served.method.accuracy == expected[-1]
    assert said["payload_bytes"] == served.method.payload_bytes


def serve(options: list[str]) -> edgefl.Run:
    """A server and a device for each user, as processes, to their end."""
    assert main(["partition", *options, "--out", "shares"]) == 0
    with ExitStack() as until_end:
        server = start(until_end, "serve", *options, "--run-dir", "served", "--port", "0")
        address = address_of(server)
        own = [["--state", f"device-{i}", "--data", f"shares/device-{i:04d}.npz"] for i in range(len(USERS))]
        devices = [start(until_end, "client", "--server", address, "--id", str(i), *own[i]) for i in range(len(USERS))]
        for each in (*devices, server):
            _, errors = each.communicate(timeout=END_S)
            assert each.returncode == 0, errors
    return edgefl.open_run("served")


def start(until_end: ExitStack, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgefl", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until_end.callback(process.wait)
    until_end.callback(process.kill)
    return process


def address_of(server: subprocess.Popen[str]) -> str:
    """HOST:PORT, once it says so."""
    assert server.stderr is not None
    seen = []
    for line in server.stderr:
        seen.append(line)
        if found := re.search(r"listening on (\S+)", line):
            return found[1]
    raise AssertionError(f"the server does not listen: {seen}")
