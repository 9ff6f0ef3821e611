"""The bars of a run: one per method, and one over all methods, seeds and trials, in 80 columns."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from edgefl.experiment.settings import Experiment
from edgefl.study.progress_display import Bar
from edgefl.study.tuning import rounds_in_all

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TWO = Experiment(methods=("fedspu", "fedavg"), rounds=10)


@pytest.mark.parametrize(
    ("experiment", "rounds"),
    [
        (replace(TWO, methods=("fedspu",)), 0),
        (TWO, 20),
        (replace(TWO, seeds=3), 60),
        (replace(TWO, tune=(("lr", (0.1, 0.2)),)), 20 + 4 * 10),
        (replace(TWO, tune=(("lr", (0.1, 0.2)),), tune_rounds=5), 20 + 4 * 5),
    ],
)
def test_rounds_of_all_are_counted(experiment: Experiment, rounds: int) -> None:
    assert rounds_in_all(experiment) == rounds


def test_the_bar_over_all_counts_what_was_done_before_and_fits_80_columns() -> None:
    text = io.StringIO()
    bar = Bar(30, Console(file=text, force_terminal=True, width=80, color_system=None))
    bar.begin("fedspu:keep=1 seed 1", 10, 4)
    bar.log_record(
        {"round": 10, "evaluation": {"personal": {"accuracy": 0.912, "loss": 0.5}}, "clients": [{"loss": 0.25}]}
    )
    bar.begin("a tuned method with a name that is far too long for a line of it", 20, 0)
    bar.log_record({"round": 5})
    bar.end()
    lines = [line.rstrip() for line in ESCAPE.sub("", text.getvalue()).splitlines() if line.strip()][-3:]
    assert lines[0].startswith("fedspu:keep=1 seed 1 ")
    assert lines[0].endswith("accuracy 91.2 %, loss 0.250")
    assert "10/10" in lines[0]
    assert " 5/20" in lines[1]
    assert "15/30" in lines[2]
    assert lines[2].endswith(" left")
    assert max(map(len, lines)) <= 80
