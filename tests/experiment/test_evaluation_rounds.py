"""After which rounds a run is evaluated: about twenty times by default, exactly as asked otherwise, and a run of before
as before.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edgefl
from edgefl.cli import cli
from edgefl.errors import RunError
from edgefl.experiment.evaluation_rounds import default_interval, is_evaluated
from edgefl.experiment.run_json import read_experiment
from edgefl.experiment.run_toml import read, text_of
from edgefl.experiment.settings import Experiment
from edgefl.study.simulation import evaluation, round_loop

SHORT: dict[str, Any] = {"clients": 4, "per_round": 2, "epochs": 1, "partition": "iid", "progress": False}


def evaluated(rounds: int, **changes: Any) -> list[int]:
    settings = replace(Experiment(rounds=rounds), **changes).settings(1)
    due = [is_evaluated(round, settings.eval_every, settings.evaluate_first) for round in range(1, rounds)]
    return [round for round, is_due in enumerate(due, start=1) if is_due] + [rounds]


@pytest.mark.parametrize(
    ("rounds", "interval", "times"),
    [(1, 1, 1), (2, 1, 2), (10, 1, 10), (20, 1, 20), (29, 1, 29), (30, 2, 16), (40, 2, 21), (60, 3, 21), (100, 5, 21),
     (150, 8, 20), (500, 25, 21), (1000, 50, 21)],
)  # fmt: skip
def test_by_default_a_run_is_evaluated_about_twenty_times(rounds: int, interval: int, times: int) -> None:
    found = evaluated(rounds)
    assert (default_interval(rounds), len(found)) == (interval, times)
    assert (found[0], found[-1]) == (1, rounds)


def test_a_number_that_is_given_is_exact() -> None:
    assert evaluated(10) == list(range(1, 11))
    assert evaluated(10, eval_every=4) == [4, 8, 10]
    assert evaluated(10, eval_every=10) == [10]
    assert evaluated(10, eval_every=4, evaluate_first=True) == [1, 4, 8, 10]
    with pytest.raises(ValueError, match=r"eval_every=0; expected eval_every >= 1"):
        evaluated(10, eval_every=0)


def test_run_json_has_numbers_and_one_of_before_is_read_as_it_was(tmp_path: Path) -> None:
    found = Experiment(rounds=60).to_json()
    assert (found["eval_every"], found["evaluate_first"]) == (3, True)
    assert Experiment.from_json(found) == Experiment(rounds=60, eval_every=3, evaluate_first=True)
    before = {**Experiment(rounds=60, eval_every=10).to_json()}
    assert before["eval_every"] == 10 and "evaluate_first" not in before
    assert Experiment.from_json(before).to_json() == before


def test_run_toml_repeats_the_rounds_that_were_evaluated(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text_of(Experiment(rounds=60)))
    given = read(tmp_path / "run.toml")
    assert (given["eval_every"], given["evaluate_first"]) == (3, True)


def rounds_of(run: edgefl.Run) -> list[int]:
    return [record["round"] for record in run.metrics if "accuracy" in record]


def test_more_rounds_go_on_with_the_interval_that_the_run_has(tmp_path: Path) -> None:
    first = edgefl.simulate("fedspu", rounds=4, directory=tmp_path / "run", **SHORT)
    assert rounds_of(first) == [1, 2, 3, 4]
    more = edgefl.simulate("fedspu", rounds=40, directory=tmp_path / "run", **SHORT)
    assert rounds_of(more) == list(range(1, 41)), "of 40 from the beginning every second round"
    assert read_experiment(tmp_path / "run")["eval_every"] == 1


def test_a_run_of_before_goes_on_as_it_was_evaluated(tmp_path: Path) -> None:
    """Its run.json says eval_every=10, which was the default, and nothing about round 1."""
    path = tmp_path / "run"
    edgefl.simulate("fedspu", rounds=3, eval_every=10, directory=path, **SHORT)
    assert "evaluate_first" not in read_experiment(path)
    more = edgefl.simulate("fedspu", rounds=5, directory=path, **SHORT)
    assert rounds_of(more) == [3, 5] and read_experiment(path)["eval_every"] == 10
    assert cli.main(["simulate", "--resume", str(path), "--rounds", "6"]) == 0
    assert rounds_of(edgefl.open_run(path)) == [3, 5, 6]
    with pytest.raises(RunError, match=r"was run with eval_every=10; expected 2"):
        edgefl.simulate("fedspu", rounds=6, eval_every=2, directory=path, **SHORT)


def test_evaluations_change_nothing_that_is_trained(tmp_path: Path) -> None:
    methods = "fedspu-es,fedavg-ft,subfedavg,ditto,fedspu-cached"
    two = {**SHORT, "epochs": 2}
    often = edgefl.simulate(methods, rounds=4, directory=tmp_path / "often", **two)
    once = edgefl.simulate(methods, rounds=4, eval_every=4, directory=tmp_path / "once", **two)
    assert (len(rounds_of(often)), len(rounds_of(once))) == (20, 5)
    for name in once.methods:
        found = [path / name for path in (often.directory, once.directory)]
        files = [sorted(each.relative_to(path) for each in path.rglob("*.safetensors")) for path in found]
        assert files[0] == files[1] != []
        assert all((found[0] / file).read_bytes() == (found[1] / file).read_bytes() for file in files[0])


def test_the_time_of_an_evaluation_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only evaluations move on shows no time for a round."""
    clock = {"now": 0.0}
    monkeypatch.setattr(round_loop.time, "perf_counter", lambda: clock["now"])
    bundle = evaluation.Evaluator.bundle

    def slow(*given: Any) -> Any:
        clock["now"] += 100.0
        return bundle(*given)

    monkeypatch.setattr(evaluation.Evaluator, "bundle", slow)
    edgefl.simulate("fedavg-ft", rounds=3, directory=tmp_path / "run", **SHORT)
    lines = [json.loads(line) for line in (tmp_path / "run" / "fedavg-ft" / "metrics.jsonl").read_text().splitlines()]
    assert clock["now"] == 300.0 and [line["seconds"] for line in lines] == [0.0, 0.0, 0.0]
