"""The bench of steps on a GPU, with the stand-in for ours and the processor for torch's: which rows it has, and that
torch's paths are made as they run. What a step takes is nobody's here.
"""

from __future__ import annotations

import gc
import json
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from bench import cuda
from bench.runner import Contender, Effort
from bench.step import Case
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, ReLU
from tests.kernels.cuda import standin  # tests/kernels

GRAPH = Graph(
    (1, 4, 4),
    (
        Node("conv", Conv2d(1, 3, (3, 3)), (INPUT,)),
        Node("relu", ReLU(), ("conv",)),
        Node("flatten", Flatten(), ("relu",)),
        Node("fc", Linear(12, 5), ("flatten",)),
    ),
)


class Small(Case):
    @property
    def graph(self) -> Graph:
        return GRAPH


CASE = Small("small", GRAPH.input_shape, 5, (2,))
EFFORT = Effort(rounds=2, turn_s=1e-6)

pytestmark = pytest.mark.skipif(standin.is_real(), reason="a device measures by itself")


@pytest.fixture
def backend() -> ModuleType:
    return standin.backend()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Record for each captured step whether torch's convolutions could use TF32, and could be chosen by trial."""
    found = []

    def captured(step: Callable[[], None]) -> Callable[[], None]:
        found.append((torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark))
        return step

    def theirs(self: Any, run: Contender) -> Contender:
        def timed(repeats: int) -> None:
            begin = time.perf_counter()
            run(repeats)
            self._seconds += time.perf_counter() - begin

        return timed

    monkeypatch.setattr(cuda, "THEIRS", "cpu")
    monkeypatch.setattr(cuda, "_captured", captured)
    monkeypatch.setattr(cuda, "_rate", lambda clock, effort: 1e12)
    monkeypatch.setattr(cuda.EventClock, "theirs", theirs)
    monkeypatch.setattr(torch, "compile", lambda module, **named: module)
    return found


def cases(backend: ModuleType) -> Iterator[list[cuda.Step]]:
    return cuda._measured(backend.DEVICE, [(CASE, 2)], EFFORT)


def test_rows_of_a_case(
    backend: ModuleType, made: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cuda, "MASKED", (CASE.model,))
    monkeypatch.setattr(cuda, "KEEPS", (1.0, 0.5))
    monkeypatch.setattr(cuda, "DENSITIES", (0.2,))
    cuda._print_json({}, cases(backend))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()][1:]
    theirs = ["torch eager", "torch graph", "torch compile", "torch compile, graph"]
    assert [row["what"] for row in rows] == [
        "edgefl p=1", "edgefl p=0.5", "edgefl density=0.2, masked kernels", "edgefl density=0.2, dense kernels",
        *theirs, "edgefl p=1, TF32", *(f"{name}, TF32" for name in theirs[:2]),
    ]  # fmt: skip
    assert all(row["time"]["median_s"] > 0 for row in rows)


def test_torch_captures_fp32_steps_without_tf32(
    backend: ModuleType, made: list[tuple[bool, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "KEEPS", (1.0,))
    before = torch.backends.cudnn.allow_tf32
    list(cases(backend))
    assert made == [(False, True)] * 2 + [(True, True)]  # TF32 is not compiled
    assert torch.backends.cudnn.allow_tf32 == before


def test_a_captured_step_keeps_what_it_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its parameters' memory would be another's by the next replay."""
    for name in ("Stream", "current_stream", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, nullcontext)
    step = MagicMock()
    kept, replay = weakref.ref(step), cuda._captured(step)
    assert step.call_count == 4
    del step
    gc.collect()
    assert kept() is not None
    replay()
    torch.cuda.CUDAGraph().replay.assert_called_once_with()


def test_a_case_is_printed_when_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    timing = cuda.Timing(2e-3, 1e-3, 3e-3)

    def rows() -> Iterator[list[cuda.Step]]:
        for model in ("first", "second"):
            yield [cuda.Step(model, 2, what, timing, 0.5) for what in ("edgefl p=1", "torch eager")]
            assert model in capsys.readouterr().out

    cuda._print_tables({}, rows())


def test_every_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo gives a function up after some."""
    compiled = []

    def count(module: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        compiled.append(module)
        return module

    monkeypatch.setattr(cuda, "THEIRS", "cpu")
    monkeypatch.setattr(cuda, "_captured", lambda step: step)
    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, **named: whole(module, backend=count, **named))
    with torch._dynamo.config.patch(recompile_limit=2):  # monkeypatch would hide the setting afterwards
        for number in range(4):
            cuda._theirs(*cuda._problem(CASE, 2 + number % 2), 2 + number % 2)
            assert len(compiled) == number + 1
