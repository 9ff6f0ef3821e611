"""--json, --quiet and --verbose in every command, and the lines of progress on a terminal and in a pipe."""

from __future__ import annotations

import argparse
import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgefl.cli import working as module
from edgefl.cli.cli import main
from edgefl.cli.commands import COMMANDS, LOGGED, parser_of
from edgefl.cli.log_writer import LogFormat
from edgefl.cli.output_options import JSON
from edgefl.cli.working import working

WITHOUT_JSON = {"serve", "page", "client", "completion"}  # three write a log, one prints a script
COUNT = 3


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "AFTER_S", 0.0)
    monkeypatch.setattr(module, "TICK_S", 0.001)
    yield
    LogFormat.least, LogFormat.is_json = "INFO", False


class Terminal(io.StringIO):
    """A stderr that says that it is a terminal, and knows when something was written."""

    def __init__(self, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal, self.written = is_terminal, threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        found = super().write(text)
        self.written.set()
        return found


def options_of(command: str) -> dict[str, argparse.Action]:
    return {name: each for each in parser_of(command)._actions for name in each.option_strings}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_options_with_one_text(command: str) -> None:
    found, first = options_of(command), options_of("simulate")
    for name in ("-q", "--quiet", "-v", "--verbose"):
        assert found[name].help == first[name].help
    assert ("--json" in found) == (command in JSON) == (command not in WITHOUT_JSON)
    assert command not in JSON or str(found["--json"].help).startswith("print the result as one JSON object")
    assert ("--log-json" in found) == (command in LOGGED)


def test_the_page_of_operating_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text()
    rows = [row.split("|") for row in page.splitlines() if row.startswith("| `")]
    listed = {name.strip(" `"): [cell.strip() for cell in cells] for _, name, *cells, _ in rows}
    for command in COMMANDS:
        assert [cell == "yes" for cell in listed[command][:3]] == [command in JSON, command in LOGGED, True], command


def test_quiet_and_verbose_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["methods", "-q", "-v"])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_a_line_on_a_terminal_counts_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with working("reading files", COUNT) as at:
        at(2)
        terminal.written.clear()
        assert terminal.written.wait(60)
    shown = terminal.getvalue()
    assert "\rreading files: 2 of 3 ... 0 s" in shown
    assert shown.endswith(f"\r{'':<{len('reading files: 2 of 3 ... 0 s')}}\r")
    assert "\x1b" not in shown


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_pipe_or_a_dumb_terminal_gets_a_plain_line(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal(is_terminal=term == "dumb")
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    with working("reading a.csv"):
        assert stream.written.wait(60)
    assert stream.getvalue() == "reading a.csv ...\n"


def test_work_that_is_short_shows_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "AFTER_S", 600.0)
    with working("reading a.csv"):
        pass
    assert capsys.readouterr().err == ""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    x = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=x, y=(x.sum(1) > 0).astype(np.int64))
    return tmp_path / "s.npz"


def test_quiet_shows_no_progress_and_verbose_shows_the_times(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER_S", 600.0)
    asked = ["partition", "--data", str(samples), "--clients", "3", "--partition", "iid", "--out", str(tmp_path)]
    guess = "s: y: 2 classes, labels 0..1"  # a guess about the data is a warning
    assert main([*asked, "--quiet"]) == 0
    assert capsys.readouterr().err == f"{guess}\n"
    assert main([*asked, "--verbose", "--json"]) == 0
    said = capsys.readouterr()
    first, *more = said.err.splitlines()
    assert first.startswith("edgefl ")
    assert more.pop(1) == guess
    steps = ["reading and partitioning the data", f"writing files into {tmp_path}"]
    assert [line.rpartition(":")[0] for line in more] == steps
    found = json.loads(said.out)
    assert (found["samples"], len(found["clients"])) == (60, 3)
    assert sum(each[name] for each in found["clients"] for name in ("train", "validation", "test")) == 60


def test_verbose_shows_where_an_error_was_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["inspect", str(tmp_path / "m.safetensors")]
    assert main(asked) != 0
    assert "Traceback" not in capsys.readouterr().err
    assert main([*asked, "-v"]) != 0
    assert "Traceback" in capsys.readouterr().err


def test_keys_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", str(tmp_path / "k"), "--clients", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(each["key"]).is_file() for each in found["clients"]] == [True, True]
    assert Path(found["keys"]).is_file()


def test_certificates_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography")
    assert main(["keys", str(tmp_path / "k"), "--clients", "1", "--host", "localhost", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    files = [found[name] for name in ("keys", "tls_cert", "tls_key", "tls_ca")]
    files += [found["clients"][0][name] for name in ("key", "tls_cert", "tls_key")]
    assert [file for file in files if not Path(file).is_file()] == []
