"""The lines that `edgefl serve` prints of its records: a peer's text is never raw, and a kind has few lines."""

from __future__ import annotations

import pytest

from edgefl.cli.serve_progress import ServeProgress
from edgefl.experiment.settings import Experiment
from edgefl.methods.task import State
from edgefl.protocol.wire.messages import Trained
from edgefl.server.events import Enrolment, ReplyJudged, RoundClosed


def test_a_peer_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ServeProgress(Experiment(methods=("fedavg",)), [])
    reply = Trained(6, {}, b"", 1, 1, "on", {}, 1.0)
    watch(ReplyJudged(6, 4, "refused", "reply of client 4 has \x1b[31m\nforged: nan", reply))
    (line,) = capsys.readouterr().err.splitlines()
    assert line[20:] == r"WARNING round 6: refused: reply of client 4 has \x1b[31m\nforged: nan"
    assert line.isprintable()


def test_a_round_of_groups_shows_the_mean_over_their_clients(capsys: pytest.CaptureFixture[str]) -> None:
    watch = ServeProgress(Experiment(methods=("fedavg",), rounds=9), [])
    watch._display.begin("fedavg", 9, 0)
    groups = [{"clients": 6, "loss": 0.5, "accuracy": 0.9}, {"clients": 2, "loss": 1.5, "accuracy": 0.5}]
    unseen = [{"clients": 5, "loss": 0.25}]
    for round, found, loss in ((1, groups, 0.75), (2, [], 0.0), (3, unseen, 0.25)):
        watch(RoundClosed(round, State({}), {"round": round, "groups": found, "train_loss": loss}, False))
    assert [line[20:] for line in capsys.readouterr().err.splitlines()] == [
        "INFO fedavg round 1/9: after training: accuracy 80.0 %, loss 0.750",
        "INFO fedavg round 3/9: after training: loss 0.250",
    ]


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
