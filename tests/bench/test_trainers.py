"""Other trainers' processes: questions, answers and refusals.

The other trainers are not installed for the tests. edgefl's and PyTorch's processes stand for them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.processes import ROOT
from bench.runner import Effort, Timing
from bench.trainers import comparison, environments, task
from bench.trainers.comparison import FROZEN, OWN, Result, check_fall, check_start, compare, judged
from bench.trainers.trainer import trainer
from edgefl.models.graph.architectures import build
from edgefl.rng import INIT, stream

HERE = Path(sys.executable)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = build("lenet5", task.SHAPE, task.CLASSES)
    task.write(task.draw(graph.init(stream(task.SEED, INIT))), tmp_path)
    return tmp_path


def test_two_processes_train_from_the_same_weights_and_are_timed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "LEARNING_STEPS", 9 * task.BATCHES)
    with (
        trainer(OWN, HERE, "edgefl_trainer", folder, "1") as own,
        trainer("pytorch", HERE, "pytorch_trainer", folder) as other,
    ):
        results = compare([own, other], Effort(rounds=2, turn_s=0.01))
    assert [each.trainer for each in results] == [OWN, "pytorch"]
    assert results[0].first_loss == pytest.approx(results[1].first_loss, rel=1e-3)
    for each in results:
        assert each.last_loss < each.first_loss
        assert 1e-4 < each.step.median_s < 1
        assert each.resident_bytes > 20e6
    assert results[1].resident_bytes > 2 * results[0].resident_bytes  # torch


def test_a_process_that_fails_says_why(folder: Path) -> None:
    (folder / "weights.npz").unlink()
    failing = trainer("mine", HERE, "edgefl_trainer", folder, "1")
    with pytest.raises(RuntimeError, match=r"(?s)mine ended: .*FileNotFoundError"), failing:
        pass


def test_a_trainer_that_learns_nothing_or_something_else_is_refused() -> None:
    falling = [3.2, 3.2, 3.2, 3.2, 2.0, 2.0, 2.0, 2.0]
    check_fall("x", falling)
    with pytest.raises(RuntimeError, match=r"x does not learn: loss 3.2000 after 3.2000; expected below 3.1040"):
        check_fall("x", [3.2] * 8)
    check_start("x", [3.2003, *falling[1:]], falling)
    with pytest.raises(RuntimeError, match=r"x: loss 3.300000 in step 2; expected edgefl's 3.200000"):
        check_start("x", [3.2, 3.3, 3.2, 3.2], falling)
    check_start(FROZEN, [3.2, 9.9, 9.9, 9.9], falling)  # other weights move after the first step
    with pytest.raises(RuntimeError, match="in step 1"):
        check_start(FROZEN, [3.3, 3.2, 3.2, 3.2], falling)


def test_onnx_runtime_is_judged_by_its_bars() -> None:
    def result(name: str, seconds: float) -> Result:
        return Result(name, "1", Timing(seconds, seconds, seconds), 1, 3.0, 2.0)

    own = [result(OWN, 1.0), result(FROZEN, 0.5)]
    assert judged([*own, result("mnn", 9.0)]) == {}
    assert judged([*own, result("onnxruntime", 2.9)]) == {OWN: (2.9, 3.0), FROZEN: (5.8, 5.0)}


def test_environments_stay_outside_the_repository_and_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a folder outside"):
        environments.python_of("mnn", ROOT / "environments", HERE)
    no_python = tmp_path / "no-python"
    no_python.write_text("#!/bin/sh\necho there is none >&2\nexit 1\n")
    no_python.chmod(0o755)
    with pytest.raises(environments.NotInstalledError, match=r"MNN==3.6.1 .*: there is none; --python names another"):
        environments.python_of("mnn", tmp_path, no_python)


def test_a_finished_environment_is_used_again(tmp_path: Path) -> None:
    root = tmp_path / "mnn"
    root.mkdir()
    (root / environments.DONE).write_text("\n".join(environments.REQUIREMENTS["mnn"]))
    assert environments.python_of("mnn", tmp_path, tmp_path / "never-called") == root / "bin" / "python"


def test_the_page_s_steps_are_the_record_s() -> None:
    rows = [json.loads(line) for line in (ROOT / "bench/trainers/record.jsonl").read_text().splitlines()]
    steps = {each["trainer"]: each for each in rows if "trainer" in each}
    section = (ROOT / "bench/README.md").read_text().partition("### Other trainers\n")[2].partition("\n### ")[0]
    said = {line.split(" | ")[1]: line for line in section.splitlines() if line.startswith("| ")}
    medians = {name: each["step"]["median_s"] for name, each in steps.items()}
    assert len(said) == len(steps) + 1
    for name, each in steps.items():
        low, middle, high = (1e3 * each["step"][key] for key in ("low_s", "median_s", "high_s"))
        row = said[f"{middle:.2f} ({low:.2f} to {high:.2f})"]
        assert f"| {each['resident_bytes'] / 1e6:.0f} MB |" in row
        if name not in (OWN, FROZEN):
            assert f"| {medians[name] / medians[OWN]:.2f}/{medians[name] / medians[FROZEN]:.2f} |" in row
            assert each["first_loss"] == pytest.approx(steps[OWN]["first_loss"], rel=comparison.ROUNDING)
            assert each["last_loss"] == pytest.approx(steps[OWN]["last_loss"], rel=0.017)
