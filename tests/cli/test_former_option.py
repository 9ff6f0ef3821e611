"""Names that options, commands, settings and verbs had: each still works, and a line says the name of now."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.cli.experiment_arguments import add_experiment
from edgefl.experiment import run_toml
from edgefl.experiment.settings import Experiment
from edgefl.methods.fedavg import FedAvg
from edgefl.study.run_request import _settings


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (["--fold", "median"], ["--aggregation", "median"]),
        (["--deal-test"], ["--partition-test"]),
    ],
)
def test_an_option_of_before_means_the_option_of_now_and_says_so(before, now, capsys) -> None:
    parser = argparse.ArgumentParser()
    add_experiment(parser)
    assert vars(parser.parse_args(before)) == vars(parser.parse_args(now))
    assert capsys.readouterr().err == (
        f"warning: {before[0]} is called {now[0]} now; the former name goes away in edgefl 0.4.0\n"
    )
    assert before[0] not in parser.format_help()


def test_the_command_of_before_runs_the_command_of_now(tmp_path: Path, capsys) -> None:
    assert main(["deal", "--clients", "2", "--out", str(tmp_path)]) == 0
    assert "warning: edgefl deal is called edgefl partition now" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["device-0000.npz", "device-0001.npz"]


def test_run_json_keeps_the_names_that_older_versions_read() -> None:
    stored = Experiment(methods=("fedavg",), aggregation="median", partition_test=False).to_json()
    assert (stored["fold"], stored["deal_test"]) == ("median", False)
    assert not {"aggregation", "partition_test"} & stored.keys()
    assert Experiment.from_json(stored).aggregation == "median"
    assert Experiment.from_json(json.loads(json.dumps(stored))) == Experiment.from_json(stored)


def test_run_toml_of_before_is_read_with_a_warning_and_of_now_has_the_names_of_now(tmp_path: Path, capsys) -> None:
    file = tmp_path / "run.toml"
    file.write_text('method = "fedavg"\nfold = "median"\n')
    assert run_toml.read(file)["aggregation"] == "median"
    assert capsys.readouterr().err.startswith(f"warning: {file}: fold is called aggregation now; the former name goes")
    text = run_toml.text_of(Experiment(methods=("fedavg",), aggregation="median"))
    assert 'aggregation = "median"' in text
    assert "fold" not in text


def test_a_setting_of_before_is_taken_from_a_program_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="fold= is called aggregation= now"):
        plain, _ = _settings(["fedavg"], {"fold": "median"})
    assert plain["aggregation"] == "median"


def test_a_method_of_before_that_defines_fold_aggregates_by_it() -> None:
    with pytest.warns(FutureWarning, match="fold is called aggregate now"):

        @dataclass(frozen=True)
        class Before(FedAvg):
            def fold(self, accumulator, plan, reply) -> None:
                super().fold(accumulator, plan, reply)
                accumulator.reported.append(reply.client)

    assert Before.aggregate is Before.fold
    assert FedAvg.fold is FedAvg.aggregate
