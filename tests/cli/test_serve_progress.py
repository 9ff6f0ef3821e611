"""The lines that `edgefl serve` prints of its records: a peer's text is never raw, and a kind has few lines."""

from __future__ import annotations

import pytest

from edgefl.cli.serve_progress import ServeProgress
from edgefl.experiment.settings import Experiment
from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import Enrolment, ReplyJudged


def test_a_peer_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ServeProgress(Experiment(methods=("fedavg",)), [])
    reply = Trained(6, {}, b"", 1, 1, "on", {}, 1.0)
    watch(ReplyJudged(6, 4, "refused", "reply of client 4 has \x1b[31m\nforged: nan", reply))
    (line,) = capsys.readouterr().err.splitlines()
    assert line[20:] == r"WARNING round 6: refused: reply of client 4 has \x1b[31m\nforged: nan"
    assert line.isprintable()


def test_500_enrolments_that_declare_much_are_20_lines_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ServeProgress(Experiment(methods=("fedavg",)), [], most_examples=10)
    for client in range(500):
        watch(Enrolment(client, 1.0, examples=11))
    watch.end()
    *lines, enrolled, last = capsys.readouterr().err.splitlines()
    assert [line[20:] for line in lines if "has enrolled" in line][:2] == [
        "INFO client 0 has enrolled: capacity 1, 11 training samples",
        "INFO client 1 has enrolled: capacity 1, 11 training samples",
    ]
    assert enrolled[20:] == "INFO enrol: 480 more that were not shown"
    lines = [line for line in lines if "has enrolled" not in line]
    assert len(lines) == 20
    assert lines[0][20:] == (
        "INFO client 0 declares 11 training samples and counts as 10; --max-examples sets another limit"
    )
    assert last[20:] == "INFO clients that declare much: 480 more that were not shown"


def test_500_refused_replies_are_20_lines_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ServeProgress(Experiment(methods=("fedavg",)), [])
    for round in range(1, 501):
        watch(ReplyJudged(round, 4, "refused", "y" * 900, Trained(round, {}, b"", 1, 1, "on", {}, 1.0)))
    watch.end()
    assert len(capsys.readouterr().err.splitlines()) == 21
