"""python -m bench cuda: training steps on an NVIDIA GPU beside PyTorch's on the same one, in one run, by events.

Our steps are the steps of a learner's fit (native_steps.py): uint8 examples are gathered by index on the device. They
run at shares p of active neurons, and at densities of an ERK mask, once with every possible layer on masked kernels and
once with no such layer. sparse_choice.py should have its limits where the two meet.

PyTorch's steps are whole dense steps with ready float32 inputs: eager, torch.compile, and either captured as a CUDA
graph. TF32 is off and cudnn.benchmark is on. Rows labelled TF32 are of the backend cuda-tf32 and of PyTorch where it
may use TF32, in turns with each other. Without a device that the backend and torch both see, this says so and prints no
number. `--part I/N` takes every N-th case, for machines that are lent for minutes. A case is printed when it is done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from bench.cuda_cases import BATCHES, CASES, models, part, sizes
from bench.machine import facts
from bench.native_steps import steps
from bench.runner import Contender, Effort, Timing, interleave
from bench.step import KEEPS, POOL, SEED, Case
from edgefl import kernels
from edgefl.errors import BackendError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.learning.lowering import sparse_weight
from edgefl.learning.lowering.mac_counts import step_macs
from edgefl.models.graph import Model
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.random_mask import random_mask
from edgefl.rng import INIT, NEURONS, stream
from edgefl.torch import to_torch

DENSITIES = (0.5, 0.2, 0.1, 0.05, 0.02)
MASKED = ("vgg11", "resnet18", "fedspu_emnist")
TURNS, QUICK = Effort(rounds=9, turn_s=0.03), Effort(rounds=3, turn_s=0.002)
LEARNING_RATE = 1e-3
THEIRS = "cuda"  # torch's device


@dataclass(frozen=True)
class Step:
    """A whole training step. `share` is relative to the fp32 rate of PyTorch's best large product on this device."""

    model: str
    batch: int
    what: str
    time: Timing
    share: float | None


def main(arguments: Sequence[str]) -> int:
    """Measure and print. The exit code is 0 without a device, too: then it says that nothing was measured."""
    options = _parser().parse_args(arguments)
    device = cuda_device()
    if isinstance(device, str):
        print(f"not run: no device ({device})")
        return 0
    part, parts = options.part
    found = facts() | {"device": device.described, "torch_cuda": str(torch.version.cuda)}
    work = [(case, batch) for case in options.models for batch in options.batches][part - 1 :: parts]
    cases = _measured(device, work, QUICK if options.quick else TURNS)
    (_print_json if options.json else _print_tables)(found, cases)
    return 0


def cuda_device() -> Any:
    """Return the backend's device, or the reason why nothing can be measured."""
    try:
        device = kernels.backend("cuda").DEVICE
    except BackendError as error:
        return str(error.__cause__)
    return device if torch.cuda.is_available() else "torch sees none"


class EventClock:
    """A clock for `interleave`: seconds that work took on the device, by events around it."""

    def __init__(self, device: Any) -> None:
        self._device, self._seconds = device, 0.0

    def __call__(self) -> float:
        return self._seconds

    def ours(self, run: Contender) -> Contender:
        def timed(repeats: int) -> None:
            with self._device.timed() as elapsed:
                run(repeats)
            self._seconds += elapsed()

        return timed

    def theirs(self, run: Contender) -> Contender:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def timed(repeats: int) -> None:
            first.record()
            run(repeats)
            last.record()
            last.synchronize()
            self._seconds += first.elapsed_time(last) / 1e3

        return timed


def _measured(device: Any, work: Sequence[tuple[Case, int]], effort: Effort) -> Iterator[list[Step]]:
    """Yield the rows of each case.

    Contenders are made with the settings that they run with, because a captured graph keeps the settings of its
    capture.
    """
    clock = EventClock(device)
    with _settings(tf32=False):
        peak = _rate(clock, effort)
    for case, batch in work:
        dense = 2 * step_macs(case.graph) * batch
        with _settings(tf32=False):
            contenders = dict(_contenders(clock, case, batch))
            timings = interleave({name: run for name, (run, _) in contenders.items()}, effort, clock)
        flops = {name: dense * share for name, (_, share) in contenders.items()}
        rows = [Step(case.model, batch, name, t, flops[name] / t.median_s / peak) for name, t in timings.items()]
        with _settings(tf32=True):
            timings = interleave(_tf32(clock, case, batch), effort, clock)
        yield [*rows, *(Step(case.model, batch, name, timing, None) for name, timing in timings.items())]


def _contenders(clock: EventClock, case: Case, batch: int) -> Iterator[tuple[str, tuple[Contender, float]]]:
    """Yield contenders by name, each with the share of a dense step's multiplications that it needs."""
    model, samples = _problem(case, batch)
    spec, dense = ModelSpec.of(model.graph), step_macs(model.graph)
    for keep in KEEPS:
        neurons = None if keep == 1 else NeuronSet.draw(spec, keep, stream(SEED, NEURONS))
        share = 1.0 if neurons is None else step_macs(model.graph, neurons) / dense
        yield f"edgefl p={keep:g}", (clock.ours(_ours(model, samples, batch, "cuda", neurons)), share)
    for density in DENSITIES if case.model in MASKED else ():
        for name, is_sparse in (("masked", True), ("dense", False)):
            learner = GraphLearner(model, "cuda")
            with patch.object(sparse_weight, "runs_sparse", lambda weight, ops, is_sparse=is_sparse: is_sparse):
                learner.restrict(random_mask(spec, density, "erk", SEED), batch)
            run = steps(learner, samples, _rows(samples, batch), SGD(LEARNING_RATE))
            yield f"edgefl density={density:g}, {name} kernels", (clock.ours(run), density if is_sparse else 1.0)
    for name, run in _theirs(model, samples, batch).items():
        yield f"torch {name}", (clock.theirs(run), 1.0)


def _tf32(clock: EventClock, case: Case, batch: int) -> Mapping[str, Contender]:
    """Return whole steps in TF32: PyTorch's, and ours where the device has TF32."""
    model, samples = _problem(case, batch)
    theirs = _theirs(model, samples, batch, compiles=False)
    found = {f"torch {name}, TF32": clock.theirs(run) for name, run in theirs.items()}
    try:
        ours = _ours(model, samples, batch, "cuda-tf32")
    except BackendError as error:
        print(f"edgefl p=1, TF32: {error}", file=sys.stderr)
        return found
    return {"edgefl p=1, TF32": clock.ours(ours), **found}


def learner_of(case: Case, batch: int, keep: float = 1.0) -> GraphLearner:
    """Return a learner on the device that has made steps of this case with a share of active neurons."""
    model, samples = _problem(case, batch)
    neurons = None if keep == 1 else NeuronSet.draw(ModelSpec.of(model.graph), keep, stream(SEED, NEURONS))
    learner = GraphLearner(model, "cuda")
    steps(learner, samples, _rows(samples, batch), SGD(LEARNING_RATE), neurons)
    return learner


def _ours(model: Model, samples: Samples, batch: int, backend: str, neurons: NeuronSet | None = None) -> Contender:
    learner = GraphLearner(model, backend)
    return steps(learner, samples, _rows(samples, batch), SGD(LEARNING_RATE), neurons)


def _problem(case: Case, batch: int) -> tuple[Model, Samples]:
    model, draw = Model(case.graph, case.graph.init(stream(SEED, INIT))), np.random.RandomState(SEED)
    x = draw.randint(0, 256, (POOL * batch, *case.input_shape)).astype(np.uint8)
    return model, Samples(x, draw.randint(0, case.classes, len(x)).astype(np.int32), scale=2 / 255, shift=-1.0)


def _rows(samples: Samples, batch: int) -> list[Any]:
    order = np.random.RandomState(SEED).permutation(len(samples)).astype(np.int32)
    return np.split(order, len(samples) // batch)


def _theirs(model: Model, samples: Samples, batch: int, compiles: bool = True) -> dict[str, Contender]:
    """Return PyTorch's paths, with torch.compile only where it is asked for and can compile.

    It is reset before, because all models have one `forward`. Without a reset it would compile eight of them, with
    sizes that may change from the second on, and run the others eagerly.
    """
    torch._dynamo.reset()
    x = torch.from_numpy(samples.x[:batch]).to(THEIRS).float() * samples.scale + samples.shift
    y = torch.from_numpy(samples.y[:batch]).to(THEIRS).long()
    found = {"eager": _repeated(_step(model, x, y)), "graph": _repeated(_captured(_step(model, x, y)))}
    if not compiles:
        return found
    try:
        compiled = _step(model, x, y, partial(torch.compile, dynamic=False))
        compiled()
        found["compile"] = _repeated(compiled)
        found["compile, graph"] = _repeated(_captured(compiled))
    except Exception as error:  # torch's back ends raise any exception
        print(f"torch.compile of {type(model).__name__}: {error}".splitlines()[0], file=sys.stderr)
    return found


def _step(
    model: Model, x: torch.Tensor, y: torch.Tensor, wrap: Callable[[Any], Any] = lambda module: module
) -> Callable[[], None]:
    module = to_torch(model).to(THEIRS)
    module.train()
    called, optimizer = wrap(module), torch.optim.SGD(module.parameters(), lr=LEARNING_RATE, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(called(x), y).backward()
        optimizer.step()

    return step


class Replay:
    """A replay of a captured step. It keeps the step, because the graph knows the step's parameters only by address."""

    def __init__(self, graph: torch.cuda.CUDAGraph, step: Callable[[], None]) -> None:
        self._graph, self._step = graph, step

    def __call__(self) -> None:
        self._graph.replay()


def _captured(step: Callable[[], None]) -> Replay:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return Replay(graph, step)


def _repeated(step: Callable[[], None]) -> Contender:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            step()

    return run


def _rate(clock: EventClock, effort: Effort) -> float:
    """Return the floating-point operations a second of a large fp32 product."""
    a, b = (torch.randn(4096, 4096, device=THEIRS) for _ in range(2))
    run = clock.theirs(_repeated(lambda: torch.mm(a, b)))
    return 2 * 4096**3 / interleave({"product": run}, effort, clock)["product"].median_s


@contextmanager
def _settings(tf32: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before[:2]
        torch.backends.cudnn.benchmark = before[2]


def _print_json(found: Mapping[str, Any], cases: Iterator[list[Step]]) -> None:
    print(json.dumps({"machine": found}), flush=True)
    for rows in cases:
        for each in rows:
            print(json.dumps(asdict(each)), flush=True)


def _print_tables(found: Mapping[str, Any], cases: Iterator[list[Step]]) -> None:
    console = Console()
    console.width = max(console.width, 140)
    console.print(", ".join(f"{name} {value}" for name, value in found.items()))
    for rows in cases:
        console.print(_table(rows))
        sys.stdout.flush()


def _table(rows: Sequence[Step]) -> Table:
    """Return the table of a case."""
    table = Table()
    for heading in ("model", "B", "step", "us", "+-%", "eager takes", "share of fp32 rate"):
        table.add_column(heading, justify="left" if heading in ("model", "step") else "right")
    (eager,) = (each.time.median_s for each in rows if each.what == "torch eager")
    for each in rows:
        time, ratio = each.time, eager / each.time.median_s
        spread = 50 * (time.high_s - time.low_s) / time.median_s
        share = "" if each.share is None else f"{each.share:.2f}"
        table.add_row(
            each.model, str(each.batch), each.what, f"{time.median_s * 1e6:.1f}", f"{spread:.0f}", f"{ratio:.2f}", share
        )
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench cuda", description=(__doc__ or "").split("\n\n")[0])
    known = ", ".join(case.model for case in CASES)
    parser.add_argument("--models", type=models, default=list(CASES), help=f"some of {known}; default: all")
    parser.add_argument("--batches", type=sizes, default=BATCHES, help="default: 16,128")
    parser.add_argument("--part", type=part, default=(1, 1), help="I/N: every N-th case, from the I-th")
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    parser.add_argument("--json", action="store_true", help="JSON lines: facts first, then a line per row")
    return parser
