"""Counting instructions on ARM: differences of marks, errors that name a peer, ratios and their bars. No qemu here."""

from __future__ import annotations

import json
import mmap
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.arm import bodies, counting, resident
from bench.arm.command import judged
from bench.arm.cores import Core
from bench.arm.emulator import CannotCountError, emulator
from bench.operation_calls import titled


def test_what_is_done_once_falls_out_of_a_step() -> None:
    start, step = 1000, 70
    marks = [5, 5 + start + step * counting.FIRST]
    marks += [marks[1] + 9, marks[1] + 9 + start + step * (counting.FIRST + counting.MORE)]
    assert counting.a_step(marks) == step
    assert counting.a_step([]) is None
    with pytest.raises(CannotCountError, match="3 counts; expected 4"):
        counting.a_step(marks[:3])


def test_a_peer_that_does_not_run_is_named_and_the_others_go_on() -> None:
    asked: list[tuple[str, str]] = []

    def execute(arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, list[int]]:
        asked.append((arguments[2], environment["EDGEFL_ISA"]))
        if arguments[2] == "torch":
            raise CannotCountError("exit code -4: illegal instruction")
        return json.dumps({"version": "1", "step_s": 2.0}), [0, 10, 20, 50]

    runs = (counting.SCALAR, counting.TORCH, counting.MNN)
    scalar, torch, mnn = counting.count(execute, Path("vgg11.safetensors"), 2, runs)
    assert asked == [("edgefl", "scalar"), ("torch", "neon"), ("mnn", "neon")]
    assert (scalar.model, scalar.instructions, mnn.instructions, mnn.step_s) == ("vgg11", 10, 10, None)
    assert (torch.instructions, torch.error) == (None, "exit code -4: illegal instruction")


def test_ratios_are_judged_of_runs_that_are_there() -> None:
    values = {counting.NEON.name: 50.0, counting.NEON_FROZEN.name: 30.0, counting.SCALAR.name: 100.0}
    assert judged(values, bound=0.5) == {"NEON of scalar, p = 1": (0.5, 0.6), "p = .2 of p = 1": (0.6, 0.54)}
    assert judged({}, bound=0.5) == {}


def test_an_estimate_is_instructions_over_those_of_a_second() -> None:
    assert Core("A72", "Pi 4", clock_hz=1e9, per_cycle=2.0).seconds(4e9) == 2.0


def test_a_folder_that_was_not_prepared_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(CannotCountError, match="qemu-user"):
        emulator(tmp_path, "max", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    with pytest.raises(CannotCountError, match=r"arm\.sh prepare"):
        emulator(tmp_path, "max", tmp_path)


def test_resident_pages_are_those_that_were_touched() -> None:
    size = 32 << 20
    before, memory = resident.resident_bytes(), mmap.mmap(-1, size)  # new pages, which an array's need not be
    untouched = resident.resident_bytes()
    for at in range(0, size, 4096):
        memory[at] = 1
    assert abs(untouched - before) < size / 8
    assert resident.resident_bytes() - untouched == pytest.approx(size, rel=0.1)
    assert resident.resident_bytes() == pytest.approx(resident.all_resident_bytes(), rel=0.1)


def test_the_passes_of_operations_have_the_counts_of_their_marks() -> None:
    """Two passes have 4 counts each. NEON takes 10 and 30 instructions, scalar twice as many."""

    def execute(arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, list[int]]:
        times = 1 if environment["EDGEFL_ISA"] == "neon" else 2
        assert arguments[1:3] == ["bench.arm.body_calls", "RMSNorm"]
        return json.dumps(["a", "b"]), [0, 10 * times, 20, 20 + 30 * times, 0, 30 * times, 100, 100 + 90 * times]

    found = list(bodies.counted(execute, "RMSNorm"))
    assert found == [("a", 10, 20), ("b", 30, 60)]
    assert found[0].share == 0.5
    with pytest.raises(CannotCountError, match="3 counts of 1 passes; expected 4 for each"):
        list(bodies.counted(lambda *_: (json.dumps(["a"]), [1, 2, 3]), "RMSNorm"))


def test_the_record_has_every_pass_with_no_more_instructions_than_scalar() -> None:
    rows = [json.loads(line) for line in bodies.RECORD.read_text("utf-8").splitlines()]
    asked = [f"{work.name} {kind}" for work in titled(",".join(bodies.TITLES)) for kind in ("forward", "backward")]
    assert [row["name"] for row in rows] == asked
    assert all(row["neon"] <= 1.01 * row["scalar"] and row["commit"] and row["cpu"] == "cortex-a76" for row in rows)
