"""Verdicts on the rows of `bench kernels`, and the caps under which both sides run."""

from __future__ import annotations

import os

import pytest

from bench import caps
from bench.rows import Row
from bench.runner import Timing
from bench.verdict import verdicts


def row(work: str, own_us: float, peer_us: float, keep: float = 1.0, frozen: float = 1.0, bound: float = 1.0) -> Row:
    own, peer = (Timing(us * 1e-6, us * 1e-6, us * 1e-6) for us in (own_us, peer_us))
    return Row(work, 16, 1, keep, own, peer, peer, "eager", frozen, bound)


def test_long_operations_are_counted_by_kind_and_the_worst_is_named() -> None:
    rows = [
        row("m a forward", 100, 100),
        row("m b forward", 106, 100),
        row("m c forward", 120, 100),
        row("m d forward", 15, 10),  # short on both sides
        row("m e forward", 10, 30),  # long on one
        row("m a grad_weight", 50, 100),
        row("m a grad_weight", 300, 100, keep=0.2),  # a frozen product is no dense one
    ]
    near, far, *weights = verdicts(rows)
    assert (near.good, near.of, near.limit, near.is_met) == (2, 4, 1.03, False)
    assert (far.good, far.of, far.limit) == (3, 4, 1.08)
    assert (near.worst, near.where) == (pytest.approx(1.2), "m c forward B=16 p=1")
    assert [(each.what.split()[0], each.good, each.of, each.is_met) for each in weights] == [
        ("grad_weight,", 1, 1, True),
        ("grad_weight,", 1, 1, True),
    ]
    assert str(near) == (
        "forward, our time over PyTorch's fastest, threads 1: 2 of 4 at most 1.03 (50%, asked 95%): missed; "
        "the most is 1.20, m c forward B=16 p=1"
    )


def test_layer_steps_by_their_median_and_frozen_ones_by_their_bound() -> None:
    rows = [
        row("m a step", 100, 200),
        row("m a step", 70, 200, keep=0.2, frozen=0.70, bound=0.68),
        row("m b step", 90, 100),
        row("m b step", 98, 100, keep=0.2, frozen=1.09, bound=0.95),
        row("m b step", 80, 100, keep=0.4, frozen=0.89, bound=0.70),
        row("m c step", 30, 60),  # dense too short for its frozen steps to count
        row("m c step", 29, 60, keep=0.2, frozen=0.97, bound=0.5),
    ]
    layers, near, far, dense = verdicts(rows)
    assert "median 0.50" in layers.what
    assert (layers.good, layers.of, layers.is_met) == (2, 3, True)
    assert (near.good, near.of, far.good, far.of) == (1, 3, 2, 3)
    assert (far.worst, far.where) == (pytest.approx(0.89 / 0.70), "m b step B=16 p=0.4")
    assert (dense.good, dense.of, dense.worst) == (2, 3, 1.09)


def test_caps_start_the_bench_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda path, command, environment: started.append((command, environment)))
    caps.start_anew("avx2", ["kernels", "--isa", "avx2"], {"HOME": "/home"})
    command, environment = started.pop()
    assert command[1:] == ["-m", "bench", "kernels", "--isa", "avx2"]
    assert environment == {
        "HOME": "/home",
        "EDGEFL_ISA": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }
    caps.start_anew("avx2", ["kernels"], environment)
    assert started == []
    assert caps.in_force({}) == "none"
    assert caps.in_force(environment) == (
        "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2"
    )
