"""`edgefl bench backward` on a module of the user's own."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgefl.cli.cli import main

THEIRS = """
from torch import nn

def small():
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)]
    return nn.Sequential(*layers)

class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = small()

    def forward(self, x):
        return self.layers(x) if x.sum() > -1e9 else x

class Pair(nn.Module):
    def forward(self, x):
        return x, x
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "theirs_timed.py").write_text(THEIRS)
    return tmp_path


def of(*more: str) -> list[str]:
    return ["bench", "backward", *more, "--input", "1,8,8", "--seconds", "0.01", "--threads", "1", "--batch", "4"]


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """The command sets torch's threads, and the kernels' with them."""
    torch = pytest.importorskip("torch")
    native_tensors = importlib.import_module("edgefl.torch.native_tensors")
    threads, ops = torch.get_num_threads(), native_tensors.ops()
    own = ops.threads() if ops else 0
    yield
    torch.set_num_threads(threads)
    if ops:
        ops.set_threads(own)


def test_three_ways_with_what_they_keep(desk, capsys) -> None:
    assert main(of("theirs_timed:small", "--keep", ".5", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    eager, converted, frozen = found["ways"]
    assert [way["way"] for way in found["ways"]] == ["torch, eager", "converted", "converted, keep 0.5"]
    assert found["batch"] == 4
    assert found["without"] == ""
    assert frozen["saved_bytes"] < converted["saved_bytes"] < eager["saved_bytes"]
    forward, last = 36 * 4 * 9, 36 * 5  # of the last one's input gradient, too, the active half
    assert frozen["least_share"] == pytest.approx((forward * 1.5 + last * 2) / (forward * 2 + last * 3))
    assert all(way["forward_s"] > 0 and way["cpu_s"] > 0 for way in found["ways"])
    assert eager["speed"] == 1


def test_a_table_and_why_no_neurons_were_frozen(desk, capsys) -> None:
    assert main(of("theirs_timed:Branching")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch("batch 4, 1 threads, medians of [0-9]+ passes in turn", lines[0])
    assert [line[:12] for line in lines[2:4]] == ["torch, eager", "converted   "]
    assert lines[-1].startswith("no neurons to freeze: theirs_timed.py, line 14 ")
    assert "forward branches on values of the input" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["theirs_timed:none"], "theirs_timed has no 'none'"),
        (["nowhere:small"], "no module 'nowhere'"),
        (["theirs_timed"], "'theirs_timed'; expected MODULE:FACTORY"),
        (["theirs_timed:small", "--keep", "0"], "--keep 0; expected a share above 0 and at most 1"),
        (["theirs_timed:small", "--batch", "0"], "--batch 0; expected a number above 0"),
        (["theirs_timed:small", "--input", "2,8,8"], "theirs_timed:small ends with RuntimeError"),
    ],
)
def test_requests_that_cannot_be_met(desk, capsys, arguments, said) -> None:
    factory, *more = arguments
    assert main([*of(factory), *more]) == 2
    assert said in capsys.readouterr().err


def test_a_result_that_is_no_tensor(desk, capsys) -> None:
    assert main(of("theirs_timed:Pair")) == 1
    assert "theirs_timed:Pair returns tuple; expected a tensor" in capsys.readouterr().err
