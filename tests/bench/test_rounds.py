"""The bench of served runs: bytes add up over real sockets, and the stopwatch counts each moment once."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench import flower, overhead, registered, rounds, traffic
from bench.stopwatch import Stopwatch

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at through /proc")


class Work:
    def outer(self) -> None:
        spend(0.02)
        self.inner()

    def inner(self) -> None:
        spend(0.05)


def spend(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_span_leaves_out_what_timed_functions_inside_took() -> None:
    watch, work = Stopwatch(), type("Timed", (Work,), {})
    watch.time(work, "outer", "outer")
    watch.time(work, "inner", "inner")
    work().outer()
    inner, outer = watch.spans
    assert (inner.label, outer.label) == ("inner", "outer")
    assert inner.own_cpu_s >= 0.05 > outer.own_cpu_s >= 0.02
    assert outer.own_s < inner.start_s - outer.start_s + 0.05


def test_span_of_a_call_that_fails_is_kept() -> None:
    watch, work = Stopwatch(), type("Failing", (), {"fail": lambda self: 1 / 0})
    watch.time(work, "fail", "fail")
    with pytest.raises(ZeroDivisionError):
        work().fail()
    assert [span.label for span in watch.spans] == ["fail"]


@linux
def test_bytes_of_a_round_are_payload_and_stated_headers(tmp_path: Path) -> None:
    figures = {figure.what: figure for figure in traffic.measure(tmp_path / "run", 2, 2)}
    assert {"header of Train", "header of Trained", "header of Verdict"} < figures.keys()
    heads = sum(figures[f"header of {kind}"].value for kind in ("Train", "Trained", "Verdict"))
    whole = figures["bytes of a round at the socket"]
    assert whole.note.startswith(f"= {whole.value - 2 * heads:.1f} of payload + {2 * heads:.1f} of headers")


@linux
def test_overhead_has_parts_of_both_sides(tmp_path: Path) -> None:
    figures = [figure.what for figure in overhead.measure(tmp_path / "run", 2, 3)]
    assert figures[0] == "round beyond training"
    assert {"server: store", "server: fold", "devices together: keep"} < set(figures)


@linux
@pytest.mark.parametrize("mode", ["enrolled", "asynchronous"])
def test_the_cost_of_a_reply_is_that_of_few_and_of_many_clients(tmp_path: Path, mode: str) -> None:
    """Few and many clients cost about the same where both are few."""
    *found, ratio = registered.measure(tmp_path, registered.QUICK, [mode])
    assert [each.unit for each in found] == ["ms", "MB"] * 2
    assert 0.3 < ratio.value < 3 and ratio.bar == 1.3


def test_without_flower_its_figure_is_quoted_and_says_how_to_measure_it() -> None:
    (figure,) = rounds.measure(["flower"], rounds.QUICK, None, None)
    assert figure.value == 5100
    assert flower.HOW in figure.note


def test_python_without_flower_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"nowhere has no Flower .*; expected python -m venv"):
        flower.version(tmp_path / "nowhere")
