"""The coordinator as tables, events in and actions out: evaluation, the end, and going on after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgefl.errors import RunError
from edgefl.methods import build
from edgefl.methods.task import State, Task
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.wire.messages import (
    AdaptationReport,
    AdaptationWork,
    Evaluate,
    Evaluated,
    Finished,
    Scores,
    Verdict,
)
from edgefl.server.coordinator import Coordinator
from edgefl.server.events import (
    Admit,
    Close,
    DeviceJoined,
    Enrolment,
    MessageReceived,
    ReplyJudged,
    RoundClosed,
    RoundEvaluated,
    RunCompleted,
    Save,
    Send,
    Tick,
)
from edgefl.server.round_evaluation import OpenEvaluation
from edgefl.server.round_rules import Rules
from edgefl.server.run_progress import Progress, Ruling
from tests.server.played import GRAPH, INITIAL, RULES, asks, begun, coordinator, play, saved, scores, train, trained

# Evaluation and the end.


def evaluating(rules: Rules = RULES) -> Coordinator:
    """Return a coordinator after both rounds, which has asked clients 0 and 1 for their scores."""
    under_test = begun(rules)
    for round in (1, 2):
        play(under_test, MessageReceived(10, trained(round)), MessageReceived(11, trained(round)))
    assert under_test.phase == "scoring"
    return under_test


def test_the_last_round_is_evaluated_by_every_enrolled_client() -> None:
    under_test = begun()
    play(under_test, DeviceJoined(12, 2, 1.0, 0), MessageReceived(10, trained(1)), MessageReceived(11, trained(1)))
    actions = play(under_test, MessageReceived(10, trained(2)), MessageReceived(11, trained(2)))
    assert actions[-3:] == [asks(link, Evaluate(2, True, {})) for link in (10, 11, 12)]


def test_the_run_ends_when_all_have_answered() -> None:
    under_test = evaluating()
    assert play(under_test, MessageReceived(10, scores(2, correct=1))) == []
    summary = {
        "accuracy": 0.5,
        "accuracy_weighted": 0.5,
        "loss": 0.5,
        "correct": [1, 3, None],
        "examples": [4, 4, None],
        "loss_sum": [2.0, 2.0, None],
    }
    end = Finished("the run ended after round 2")
    assert play(under_test, MessageReceived(11, scores(2, correct=3))) == [
        Save(RoundEvaluated(2, {"personal": summary})),
        asks(10, end),
        asks(11, end),
        RunCompleted(),
    ]
    assert play(under_test, DeviceJoined(12, 2, 1.0, 0)) == [Save(Enrolment(2, 1.0)), Admit(12, 2), asks(12, end)]


def test_scores_are_taken_once_and_only_of_this_round() -> None:
    under_test = evaluating()
    assert (
        play(under_test, MessageReceived(10, scores(1)), MessageReceived(10, scores(2)), MessageReceived(10, scores(2)))
        == []
    )
    assert under_test.phase == "scoring"


def test_a_client_that_joins_during_an_evaluation_takes_part() -> None:
    under_test = evaluating()
    assert play(under_test, DeviceJoined(12, 2, 1.0, 0))[1:] == [Admit(12, 2), asks(12, Evaluate(2, True, {}))]
    play(under_test, MessageReceived(10, scores(2)), MessageReceived(11, scores(2)))
    assert under_test.phase == "scoring"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Evaluated(2, None, None), "lacks personal scores"),
        (Evaluated(2, Scores(1.0, 1, 4), Scores(1.0, 1, 4)), "has global scores"),
        (
            Evaluated(2, Scores(1.0, 5, 4), None),
            "has 5 correct of 4 (personal); expected at least 1 example, and not more correct",
        ),
        (
            Evaluated(2, Scores(1.0, 0, 0), None),
            "has 0 correct of 0 (personal); expected at least 1 example, and not more correct",
        ),
    ],
)
def test_scores_that_cannot_be_are_left_out(answer: Evaluated, problem: str) -> None:
    under_test = evaluating()
    assert play(under_test, MessageReceived(10, answer)) == [Close(10, f"evaluation of client 0 {problem}")]
    (record,) = saved(play(under_test, MessageReceived(11, scores(2))))
    assert isinstance(record, RoundEvaluated)
    assert record.bundle["personal"]["correct"] == [None, 1, None]


def test_an_evaluation_ends_at_its_deadline() -> None:
    under_test = evaluating(replace(RULES, evaluation_deadline_s=5.0))
    play(under_test, MessageReceived(10, scores(2)), now=1.0)
    actions = play(under_test, Tick(), now=5.0)
    (record,) = saved(actions)
    assert isinstance(record, RoundEvaluated)
    assert record.bundle["personal"]["correct"] == [1, None, None]
    assert actions[-1] == RunCompleted()


def test_an_evaluation_that_nobody_answered_is_empty() -> None:
    under_test = evaluating(replace(RULES, evaluation_deadline_s=5.0))
    assert saved(play(under_test, Tick(), now=5.0)) == [RoundEvaluated(2, {})]


def test_a_device_that_owes_a_reply_at_the_end_hears_the_verdict_first() -> None:
    under_test = evaluating()
    play(under_test, DeviceJoined(20, 0, 1.0, 2), MessageReceived(20, scores(2)))
    ending = play(under_test, MessageReceived(11, scores(2)))
    assert RunCompleted() in ending
    assert not any(isinstance(action, Send) and action.link == 20 for action in ending)
    assert play(under_test, MessageReceived(20, trained(2))) == [
        asks(20, Verdict(2, "accepted", "")),
        asks(20, Finished("the run ended after round 2")),
    ]


# Going on from what is durable. test_served.py does it at every record of whole runs.


def test_a_restarted_round_asks_those_who_have_not_been_judged() -> None:
    progress = Progress(
        capacities={0: 1.0, 1: 1.0},
        opened=(0, 1),
        answers=(ReplyJudged(1, 0, "accepted", "", trained(1, examples=5)),),
        rulings={(1, 0): Ruling("accepted", ""), (1, 1): None},
    )
    under_test = coordinator(progress=progress)
    assert under_test.start(0.0) == []
    assert play(under_test, DeviceJoined(30, 0, 1.0, 1)) == [Admit(30, 0)]
    assert play(under_test, MessageReceived(30, trained(1))) == [asks(30, Verdict(1, "accepted", ""))]
    assert play(under_test, DeviceJoined(31, 1, 1.0, 0)) == [Admit(31, 1), asks(31, train(1))]
    records = saved(play(under_test, MessageReceived(31, trained(1, examples=7))))
    assert isinstance(records[1], RoundClosed)
    assert records[1].state.values == {"total": 12}


def test_a_round_that_was_complete_is_closed_at_the_start() -> None:
    judged = tuple(ReplyJudged(1, client, "accepted", "", trained(1)) for client in (0, 1))
    rulings = {(1, client): Ruling("accepted", "") for client in (0, 1)}
    under_test = coordinator(progress=Progress({0: 1.0, 1: 1.0}, opened=(0, 1), answers=judged, rulings=rulings))
    (save,) = under_test.start(0.0)
    assert isinstance(save, Save)
    assert isinstance(save.record, RoundClosed)


def test_an_evaluation_that_was_not_stored_is_repeated() -> None:
    under_test = coordinator(progress=Progress({0: 1.0}, round=2, state=State({}, {"total": 9}), done=True))
    assert under_test.start(0.0) == []
    assert play(under_test, DeviceJoined(30, 0, 1.0, 0)) == [Admit(30, 0), asks(30, Evaluate(2, True, {}))]


def test_a_run_that_is_over_says_so_at_once() -> None:
    progress = Progress({0: 1.0}, round=2, state=State({}, {"total": 9}), done=True, scored=2)
    assert coordinator(progress=progress).start(0.0) == [RunCompleted()]


def test_a_round_begun_with_other_clients_is_an_error() -> None:
    progress = Progress({0: 1.0, 1: 1.0}, opened=(0, 2), rulings={(1, 0): None, (1, 2): None})
    with pytest.raises(RunError, match=r"round 1 began with clients \(0, 2\); expected clients \(0, 1\)"):
        coordinator(progress=progress).start(0.0)


def test_a_device_of_an_earlier_version_is_missing_among_the_adaptations() -> None:
    """Client 0 took 4 steps, client 1 passes over the question, and client 2 has not answered."""
    task, method = Task(ModelSpec.of(GRAPH), 3, seed=1), build("fedavg-ft", {})
    open_evaluation = OpenEvaluation(task, method, method.start(task, INITIAL), 2)
    assert open_evaluation.request.payload["adaptation"] == b""
    of_global = Scores(2.0, 1, 4)
    report = AdaptationReport(2, of_global, of_global, AdaptationWork(4, 3360.0, 0.5))
    assert open_evaluation.answer(0, report) is None
    assert open_evaluation.answer(1, Evaluated(2, of_global, of_global)) is None
    entry = {"client": 0, "steps": 4, "executed_flops": 3360.0, "seconds": 0.5}
    assert open_evaluation.adaptation() == {"adaptation": {"payload_bytes": 0, "clients": [entry]}}
