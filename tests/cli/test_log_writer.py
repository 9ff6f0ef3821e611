"""The log's levels and its JSON: what is shown, and what a program reads of a line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import datetime

import pytest

from edgefl.cli import log_writer
from edgefl.cli.output_options import add_output, use_output
from edgefl.system.log_lines import Alert, Detail, LogLine, kind_of, with_hidden

LINES = (Detail("a stranger", "connect"), LogLine("client 3 is gone", "gone", 3), Alert("late", "late", 3), "plain")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    _use()


def _use(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    add_output(parser, "serve", has_log=True)
    use_output(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        ((), ["INFO", "WARNING", "INFO"]),
        (("-v",), ["DEBUG", "INFO", "WARNING", "INFO"]),
        (("-q",), ["WARNING"]),
    ],
)
def test_levels(arguments: tuple[str, ...], levels: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _use(*arguments)
    for line in LINES:
        log_writer.say(line)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == levels


def test_a_line_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _use("--log-json", "-v")
    for line in (*LINES, Alert("round 2 is closed without \x1b[2J", "absent", 1, 2)):
        log_writer.say(line)
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["level"], each["event"], each["client"]) for each in found] == [
        ("DEBUG", "connect", None),
        ("INFO", "gone", 3),
        ("WARNING", "late", 3),
        ("INFO", "log", None),
        ("WARNING", "absent", None),
    ]
    assert (found[4]["clients"], found[4]["text"]) == ([1, 2], "round 2 is closed without \x1b[2J")
    assert datetime.fromisoformat(found[0]["time"]).tzinfo is not None


def test_another_process_is_started_with_the_same_log() -> None:
    _use("-q", "--log-json")
    assert log_writer.flags() == ["--quiet", "--log-json"]
    assert not log_writer.is_plain()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("plain", "other"),
        (LogLine("x"), "other"),
        (Alert("x", "late", 3), "late client 3"),
        (Alert("x", "absent", 1, 2), "absent"),
        (LogLine("x", "enrol", 3), "enrol"),
    ],
)
def test_lines_are_counted_by_event_and_client(line: str, kind: str) -> None:
    assert kind_of(line, "other") == kind


def test_a_count_of_hidden_lines_keeps_event_and_client() -> None:
    line = with_hidden(Alert("late", "late", 3), 2)
    assert (line, type(line), line.event, line.clients) == ("late (and 2 more like it before)", Alert, "late", (3,))  # type: ignore[attr-defined]
