"""`edgefl serve`: when rounds are closed and whom they choose among, as asked on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.cli.serve import words_of
from edgefl.server.round_deadline import AdaptiveDeadline


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--deadline", "soon"], "deadline 'soon'; expected auto, none or a number of seconds > 0"),
        (["--deadline", "0"], "deadline '0'; expected auto, none or a number of seconds > 0"),
        (["--evaluation-deadline", "inf"], "deadline 'inf'; expected auto, none or a number of seconds > 0"),
        (["--select", "seen"], "selection 'seen'; expected all, enrolled, seen:SECONDS, or a condition such as"),
        (["--select", "seen:-1"], "selection 'seen:-1'; expected all, enrolled, or seen:SECONDS"),
        (["--select", "some:60"], "selection 'some:60'; expected all, enrolled, seen:SECONDS, or a condition such as"),
        (["--keep-rounds", "1"], "--keep-rounds 1; expected at least 2"),
        (["--strangers", "0"], "strangers=0; expected strangers >= 1"),
        (["--drain", "-1"], "--drain -1; expected a finite number of seconds, 0 or more"),
        (["--come-again", "0"], "come_again_s=0.0; expected a finite time > 0"),
        (["--come-again", "500000"], "come_again_s=500000; expected at most 403200 s"),
        (["--method", "fedumf", "--open"], "--open with fedumf; expected all, as it asks everybody every round"),
        (
            ["--method", "fedspu-cached", "--round-seconds", "-1"],
            "round_seconds=-1.0; expected 0 <= round_seconds, finite",
        ),
        (["--method", "fedspu-cached", "--round-seconds", "soon"], "round_seconds=soon; expected a number"),
        (
            ["--method", "fedspu", "--round-seconds", "1"],
            "round_seconds=1 is not a hyper-parameter of fedspu; exp",
        ),
        (
            ["--method", "fedumf", "--select", "enrolled"],
            "--select enrolled with fedumf; expected all, as it asks everybody every round",
        ),
        (
            ["--method", "fedumf", "--select", "seen:60"],
            "--select seen:60 with fedumf; expected all, as it asks everybody every round",
        ),
    ],
)
def test_what_cannot_be_is_said(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["serve", "--clients", "2", "--run-dir", str(tmp_path / "run"), *options]
    try:
        code = main(arguments)
    except SystemExit as ended:  # argparse's own
        code = int(str(ended.code))
    assert code == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_deadline_is_said_and_how_to_change_it() -> None:
    assert words_of(AdaptiveDeadline()) == (
        "a round is closed after 10 times what replies took, 60 s at least, 3600 s at first "
        "(--deadline S sets it, --deadline none waits for ever)"
    )
    assert words_of(12.5) == "a round is closed after 12.5 s (--deadline none waits for ever)"
    assert words_of(None) == "rounds wait for every reply, however long (--deadline sets a limit)"
