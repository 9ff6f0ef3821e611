"""The history of the benches: a line per whole run, and a picture that depends on nothing else."""

import json
from pathlib import Path

import pytest

from bench import history
from bench.__main__ import main
from bench.rows import Row
from bench.runner import Timing

FACTS = {"commit": "abc1234", "cpu": "a CPU", "isa": "avx2", "compiler": "gcc 12.2.0"}


def row(keep: float, native_us: float, eager_us: float = 300.0) -> Row:
    native, eager = (Timing(us * 1e-6, us * 1e-6, us * 1e-6) for us in (native_us, eager_us))
    return Row("cnn", 16, 1, keep, native, eager, eager, "eager", 1.0, 1.0)


def test_a_run_is_one_line_with_its_commit_cpu_isa_and_compiler(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for native_us in (100.0, 60.0):
        list(history.recording(path, FACTS, [row(1.0, native_us), row(0.2, 40.04)]))
    first, second = history.read(path)
    assert first["machine"] == second["machine"] == FACTS
    assert [each["native_us"] for each in first["rows"]] == [100.0, 40.0]
    assert second["rows"][0] == {
        "work": "cnn", "batch": 16, "threads": 1, "keep": 1.0, "native_us": 60.0, "eager_us": 300.0, "fastest_us": 300.0
    }  # fmt: skip


def test_a_run_that_breaks_leaves_no_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    rows = history.recording(path, FACTS, (row(1.0, 100.0 / divisor) for divisor in (1, 0)))
    with pytest.raises(ZeroDivisionError):
        list(rows)
    assert not path.exists()


def test_ratios_are_of_one_thread_and_missing_ones_leave_a_gap() -> None:
    run = {"rows": [{"work": "cnn", "batch": 16, "threads": 1, "keep": 1.0, "native_us": 100.0, "eager_us": 300.0}]}
    assert history._ratio(run, ("cnn", 16, 1.0)) == 3.0
    assert str(history._ratio(run, ("cnn", 16, 0.2))) == "nan"


def test_the_same_history_gives_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture is an optional extra")
    runs = [{"machine": FACTS, "rows": [history._brief(row(keep, 100.0)) for keep in (1.0, 0.2)]}]
    for name in ("one.svg", "two.svg"):
        history.draw(tmp_path / name, runs)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "abc1234" in (tmp_path / "one.svg").read_text()


def test_step_records_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    arguments = ["--quick", "--json", "--threads", "1", "--models", "fedspu_speech", "--record", str(path)]
    assert main(["step", *arguments]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (run,) = history.read(path)
    assert run["machine"] == printed[0]["machine"]
    assert {"commit", "cpu", "isa", "compiler", "date"} <= run["machine"].keys()
    assert [each["keep"] for each in run["rows"]] == [each["keep"] for each in printed[1:] if "keep" in each]


def test_only_steps_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["peak", "--record"])
    assert "--record with peak; expected it with step only" in capsys.readouterr().err
