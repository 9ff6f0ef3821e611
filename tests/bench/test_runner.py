"""The interleaved runner on a clock that the test drives."""

import json

import pytest

from bench.__main__ import main
from bench.runner import Contender, Effort, Timing, interleave


class Stage:
    """A clock, and contenders that move it by a known time. It notes the order of turns."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns: list[tuple[str, int]] = []

    def contender(self, name: str, cost_s: float) -> Contender:
        def run(repeats: int) -> None:
            self.turns.append((name, repeats))
            self.now_s += cost_s * repeats

        return run

    def clock(self) -> float:
        return self.now_s


def test_medians_are_per_repetition() -> None:
    stage = Stage()
    contenders = {"fast": stage.contender("fast", 0.25), "slow": stage.contender("slow", 4.0)}
    timings = interleave(contenders, Effort(rounds=4, turn_s=2.0), stage.clock)
    assert timings == {"fast": Timing(0.25, 0.25, 0.25), "slow": Timing(4.0, 4.0, 4.0)}


def test_turns_alternate_and_the_order_rotates() -> None:
    stage = Stage()
    contenders = {name: stage.contender(name, 1.0) for name in "abc"}
    interleave(contenders, Effort(rounds=3, turn_s=2.0), stage.clock)
    assert stage.turns[-9:] == [(name, 2) for name in "abcbcacab"]


def test_turns_of_a_cheap_contender_are_long_enough() -> None:
    stage = Stage()
    interleave({"cheap": stage.contender("cheap", 0.001)}, Effort(rounds=2, turn_s=1.0), stage.clock)
    assert stage.turns[-1][1] == pytest.approx(1000, rel=0.01)


def test_quartiles_of_five_turns() -> None:
    assert Timing.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Timing(3.0, 2.0, 4.0)


def test_wrong_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["step", "--models", "alexnet"])
    assert "model 'alexnet'; expected all, or some of fedspu_cifar" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["step", "kernels"])
def test_quick_run_gives_a_row_per_share(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([what, "--quick", "--json", "--threads", "1", "--models", "fedspu_emnist"]) == 0
    machine, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert machine["machine"]["torch"] and machine["machine"]["isa"]
    rows = [line for line in lines if "work" in line]
    verdicts = [line["verdict"] for line in lines if "verdict" in line]
    behind = [line["cut"] for line in lines if "cut" in line]
    assert len(rows) + len(verdicts) + len(behind) == len(lines)
    assert [each["value"] < 1 for each in behind] == ([True, True] if what == "step" else [])
    assert bool(verdicts) == (what == "kernels") and len(rows) >= 5
    works = {row["work"] for row in rows}
    if what == "step":
        assert [row["keep"] for row in rows] == [1.0, 0.8, 0.6, 0.4, 0.2]
    else:
        assert "fedspu_emnist conv1 grad_weight" in works and "fedspu_emnist conv1 grad_input" not in works
    for row in rows:
        assert row["native"]["median_s"] > 0 and row["fastest"]["median_s"] <= row["eager"]["median_s"]
        assert row["keep"] == 1 or row["bound"] < 1
        assert row["eager_ratio"] == pytest.approx(row["eager"]["median_s"] / row["native"]["median_s"])
