"""One of eight real devices is stopped: within its deadline the log, the page, /metrics and the commands name it."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from edgefl.cli.cli import main
from edgefl.experiment.client_dataset import partition_file
from tests.server.processes import lines, start

DEVICES, STOPPED, DEADLINE_S = 8, 2, 4.0
SLACK_S = 3.0  # of a machine that does other things


def test_a_stopped_device_is_named_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEFL_NUM_THREADS", "1")
    shares, run = tmp_path / "shares", tmp_path / "run"
    assert main(["partition", "--clients", str(DEVICES), "--out", str(shares)]) == 0
    with ExitStack() as stack:
        rounds = "--rounds", "2000", "--eval-every", "2000", "--per-round", str(DEVICES), "--deadline", str(DEADLINE_S)
        where = "--clients", str(DEVICES), "--run-dir", str(run), "--port", "0", "--page", "--log-json"
        server = start(stack, "serve", "--method", "fedavg", *rounds, *where)
        log = map(json.loads, lines(server))
        page = _until(log, lambda each: each["text"].startswith("page: "))["text"].removeprefix("page: ")
        address = _until(log, lambda each: "listening on" in each["text"])["text"].removeprefix("listening on ")
        devices = [_device(stack, tmp_path, shares, address, client) for client in range(DEVICES)]
        connected = set()
        while len(connected) < DEVICES:
            connected.add(_until(log, lambda each: each["event"] == "connect")["client"])
        assert connected == set(range(DEVICES))
        os.kill(devices[STOPPED].pid, signal.SIGSTOP)
        stopped_at = time.time()
        absent = _until(
            log, lambda each: each["event"] == "absent" and STOPPED in each.get("clients", [each["client"]])
        )
        assert time.time() - stopped_at < DEADLINE_S + SLACK_S
        assert absent["level"] == "WARNING"
        _check_page(page)
        _check_commands(run, capsys)
        devices[STOPPED].kill()
        gone = _until(log, lambda each: each["event"] == "gone")
        assert (gone["level"], gone["client"]) == ("INFO", STOPPED)


def _until(log: Any, wanted: Any) -> dict[str, Any]:
    for each in log:
        assert {"time", "level", "event", "client", "text"} <= each.keys()
        if wanted(each):
            return dict(each)
    raise AssertionError("the server has ended")


def _device(stack: ExitStack, tmp_path: Path, shares: Path, address: str, client: int) -> Any:
    data = str(partition_file(shares, client))
    own = "--state", str(tmp_path / f"d{client}"), "--data", data, "--id", str(client)
    process = start(stack, "client", "--server", address, *own)
    stack.callback(process.send_signal, signal.SIGCONT)
    return process


def _state(url: str) -> dict[str, Any]:
    with urlopen(f"{url}state.json") as answer:
        return dict(json.load(answer))


def _check_page(url: str) -> None:
    """The next round is open, and the device still owes its reply."""
    state = _state(url)
    until = time.time() + SLACK_S
    while not state["devices"][STOPPED]["absent"] and time.time() < until:
        with urlopen(f"{url}events?after={state['event']}") as events:
            next(line for line in events if line.startswith(b"event: "))  # something is new
        state = _state(url)
    row = state["devices"][STOPPED]
    assert row["absent"] >= 1
    assert row["why"].endswith("no reply by the time the round was closed")
    assert STOPPED in [each["client"] for each in state["devices"] if each["absent"]]
    with urlopen(f"{url}metrics") as answer:
        metrics = answer.read().decode().splitlines()
    name = f'edgefl_device_replies_total{{client="{STOPPED}",outcome="absent"}} '
    (absent,) = [line for line in metrics if line.startswith(name)]
    assert float(absent.removeprefix(name)) >= 1
    with urlopen(f"{url}healthz") as answer:
        assert json.load(answer)["ok"]


def _check_commands(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["status", str(run), "--devices"], ["devices", str(run)]):
        capsys.readouterr()
        assert main(command) == 0
        named = [each.split()[0] for each in capsys.readouterr().out.splitlines() if "no reply by the time" in each]
        assert str(STOPPED) in named
        assert main([*command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["devices"]
        assert found[STOPPED]["absent"] >= 1
