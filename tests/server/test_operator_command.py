"""The commands of an operator as words, and what they settle about a run."""

from __future__ import annotations

import pytest

from edgefl.server.member_records import OperatorCommand
from edgefl.server.operator_command import ClientSelection, checked, selection, whom
from edgefl.server.round_deadline import AdaptiveDeadline
from edgefl.server.round_rules import Rules
from edgefl.server.run_control import RunControl, commanded_rounds


def command(text: str) -> OperatorCommand:
    return OperatorCommand(text, 0.0, 1, tuple(text.split()))


@pytest.mark.parametrize(
    "text",
    [
        "pause",
        "remove 3",
        "remove site=3",
        "readmit 3",
        "set deadline=2.5",
        "set evaluation-deadline=auto",
        "set rounds=9",
        "set select=seen:5",
    ],
)
def test_a_command_is_taken(text: str) -> None:
    assert checked(text.split()) == tuple(text.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "expected pause, resume"),
        (("pause", "now"), "command 'pause now'; expected pause"),
        (("remove",), "expected pause"),
        (("remove", "kitchen"), "client 'kitchen'; expected the id"),
        (("remove", "=3"), "expected the id"),
        (("set", "speed=3"), "set speed=3; expected one of deadline=VALUE"),
        (("set", "deadline="), "expected one of deadline=VALUE"),
        (("set", "deadline=nan"), "expected auto, none or a number"),
        (("set", "deadline=-1"), "expected auto, none or a number"),
        (("set", "rounds=0"), "expected a whole number of rounds"),
        (("set", "rounds=" + "9" * 30), "expected a whole number of rounds"),
        (("set", "select=seen:x"), "expected all, enrolled, or seen:SECONDS"),
        (("set", "select=often"), "or a condition such as"),
    ],
)
def test_what_is_no_command_is_named(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        checked(words)
    assert why in str(refused.value)


def test_a_client_is_named_by_its_id_or_by_a_tag() -> None:
    assert (whom("12"), whom("site=a=b")) == (12, ("site", "a=b"))


def test_selections() -> None:
    assert selection("all") == ClientSelection()
    assert selection("enrolled") == ClientSelection(among_enrolled=True)
    assert selection("seen:2.5") == ClientSelection(seen_s=2.5)
    (seen_s, among, choice) = selection("site == 3")
    assert (seen_s, among, choice and choice.text) == (None, False, "site == 3")


def test_settings_hold_until_they_are_changed_and_over_a_restart() -> None:
    rules = Rules(rounds=5, eval_every=1, seen_s=3.0)
    told = ["set deadline=7", "pause", "set rounds=8", "set select=enrolled", "set evaluation-deadline=none", "drain"]
    control = RunControl(rules, map(command, told))
    assert (control.is_paused, control.is_stopping, control.is_draining) == (True, False, False)
    found = control.rules
    assert (found.deadline_s, found.rounds, found.seen_s, found.among_enrolled) == (7.0, 8, None, True)
    control.apply(("resume",))
    control.apply(("set", "deadline=auto"))
    control.apply(("stop",))
    assert (control.is_paused, control.is_stopping, control.rules.deadline_s) == (False, True, AdaptiveDeadline())
    assert commanded_rounds(map(command, told), 5) == 8
    assert commanded_rounds([], 5) == 5
