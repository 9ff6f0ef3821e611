"""Contenders apart: each has a process of its own, only one works at a time, and a failure is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench import peers, step
from bench.apart import Make, interleave_apart
from bench.rows import native_name, sub_name
from bench.runner import Contender, Effort
from bench.step import Case
from edgefl.kernels.native import threads

EFFORT = Effort(rounds=2, turn_s=1e-5)


def writing(file: Path) -> Contender:
    """Return a contender that writes its process and how many lines the file had when its turn began."""

    def run(repeats: int) -> None:
        with file.open("a") as out:
            out.write(f"{os.getpid()} begins\n")
            out.flush()
            sum(range(20_000))
            out.write(f"{os.getpid()} ends\n")

    return run


def test_every_contender_has_its_own_process_and_works_alone(tmp_path: Path) -> None:
    file = tmp_path / "turns"
    timings = interleave_apart({name: lambda: writing(file) for name in "abc"}, EFFORT)
    assert all(0 < each.median_s < 5 for each in timings.values())
    words = [line.split() for line in file.read_text().splitlines()]
    begins, ends = words[0::2], words[1::2]
    assert [each[1] for each in begins] == ["begins"] * len(begins)
    assert [each[0] for each in begins] == [each[0] for each in ends]  # a turn ends before another begins
    assert len({each[0] for each in begins} - {str(os.getpid())}) == 3


def test_a_contender_that_fails_is_told_with_its_words() -> None:
    def failing() -> Contender:
        raise ValueError("no such weights")

    with pytest.raises(RuntimeError, match="no such weights"):
        interleave_apart({"good": lambda: lambda repeats: None, "bad": failing}, EFFORT)
    with pytest.raises(RuntimeError, match="ended without an answer"):
        interleave_apart({"gone": lambda: lambda repeats: os._exit(3)}, EFFORT)


def test_steps_of_two_threads_are_timed_apart_and_this_process_keeps_one_thread() -> None:
    makes = step._makes(Case("digits_cnn", (1, 8, 8), 10, (4,)), 4)
    assert {*peers.PATHS, native_name(1.0), native_name(0.2), sub_name(0.2)} < set(makes)
    ours: dict[str, Make] = {"threads": lambda: _telling(threads)}  # torch is not run: other tests had its threads
    timings = step._timings({native_name(1.0): makes[native_name(1.0)]} | ours, 2, EFFORT)
    assert all(each.median_s > 0 for each in timings.values())
    assert torch.get_num_threads() == 1


def _telling(count: Callable[[], int]) -> Contender:
    """Return a contender that fails unless it has two threads."""

    def run(repeats: int) -> None:
        if count() != 2:
            raise RuntimeError(f"{count()} threads; expected 2")

    return run
