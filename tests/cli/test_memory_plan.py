"""`edgefl memory --plan`: plans with less and less memory, which a learner with such a limit holds, and a picture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgefl.cli.cli import main
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import TrainingConfiguration, estimate
from edgefl.learning.memory.exact import exact
from edgefl.learning.memory.plans import frontier
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.study.memory_meter import measure

CIFAR = build("fedspu_cifar", *EXAMPLES["fedspu_cifar"])


def test_the_first_plan_is_the_account_and_each_takes_less_and_works_more() -> None:
    training = TrainingConfiguration("cifar", CIFAR, 16, examples=16)
    found = frontier(training)
    assert found[0].footprint.parts == estimate("exact", training).parts
    assert (found[0].segments, found[0].work) == (0, 1.0)
    assert len(found) >= 2
    totals, work = [each.footprint.total for each in found], [each.work for each in found]
    assert totals == sorted(totals, reverse=True)
    assert work == sorted(work)
    for each in found:
        assert 0 <= each.footprint.parts["arena"] - max(each.live) <= 0.2 * max(each.live)


def test_a_learner_with_the_limit_of_a_plan_holds_as_many_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "fedspu_cifar", "--plan", "--measure", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert len(plans) >= 2
    for each in plans:
        assert each["measured"]["learner"] == each["held"]


def test_the_table_and_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "digits_cnn", "--plan", "--keep", ".5", "--plot", str(tmp_path / "plan.svg")]) == 0
    shown = capsys.readouterr().out
    assert "digits_cnn, batch 16, method fedspu: memory and work of a step" in shown
    assert "1.00" in shown
    assert "memory of the arena, MB" in (tmp_path / "plan.svg").read_text()


def test_parts_of_a_batch_take_less_which_a_learner_holds(capsys: pytest.CaptureFixture[str]) -> None:
    held = []
    for most in (0, 4):
        asked = ["--method", "full", "--micro-batch", str(most), "--account", "exact", "--json"]
        assert main(["memory", "fedspu_emnist", "--batch", "16", *asked]) == 0
        (found,) = json.loads(capsys.readouterr().out)["footprints"]
        graph = build("fedspu_emnist", *EXAMPLES["fedspu_emnist"])
        training = TrainingConfiguration("emnist", graph, 16, "full", terms=Terms(micro_batch=most))
        (learner,) = measure(training, ("learner",))
        assert learner.total == found["total"]
        held.append(found["total"])
    assert held[1] < 0.8 * held[0]


@pytest.mark.parametrize("share", [0.95, 0.5])
def test_the_first_way_that_fits_is_what_a_learner_holds(share: float, capsys: pytest.CaptureFixture[str]) -> None:
    training = TrainingConfiguration("cifar", CIFAR, 16, examples=16)
    limit = int(share * exact(training).total)
    assert main(["memory", "fedspu_cifar", "--plan", "--fit", str(limit), "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)["ways"]
    assert [each["fits"] for each in tried] == [False] * (len(tried) - 1) + [True]
    assert [each["keep"] for each in tried] == sorted((each["keep"] for each in tried), reverse=True)
    assert [each["micro_batch"] for each in tried][:6] == [0, 8, 4, 2, 1, 1][: len(tried)]
    way = tried[-1]
    terms = Terms(saved=way["saved"], micro_batch=way["micro_batch"])
    (learner,) = measure(replace(training, keep=way["keep"], terms=terms), ("learner",), limit)
    assert learner.total <= limit
    assert learner.total == sum(way["footprint"]["parts"].values())


def test_the_ways_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "digits_cnn", "--plan", "--fit", "600KB"]) == 0
    shown = capsys.readouterr().out
    assert "digits_cnn, batch 16, method fedspu: ways to train within 600.0 kB" in shown
    assert "all 16" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fit", "24MB", "--measure"], "--plan --fit with --measure or --plot; expected neither"),
        (["--fit", "2KB", "--keep", "1"], "nothing fits 2000 bytes; the least by the account exact is"),
        (["--board", "pi4"], "--plan with --board; expected one of them"),
        (["--keep", ".5,1"], "--plan with 2 shares; expected one share, such as --keep .5"),
        (["--method", "pflego"], "plans with method=pflego; expected another method"),
        (["--plot", "plan.xyz"], "plan.xyz"),
    ],
)
def test_what_has_no_plans_is_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "digits_cnn", "--plan", *options]) != 0
    assert said in capsys.readouterr().err
