"""python -m bench converted: training steps of converted torch modules beside eager ones, in turn in one process.

--layers times every layer and block of these models apart, which must not be slower than torch's. A step is zero_grad,
forward, cross-entropy, backward and torch's SGD on ready float32 batches. Figures are medians of CPU time over turns of
20 ms. Bytes are what torch's own hooks see between the passes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench import brought, machine
from edgefl.models.graph import Model
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.rng import INIT, stream
from edgefl.torch import convert, plain, select, to_torch
from edgefl.torch.conversion import converted
from edgefl.torch.native_tensors import ops
from edgefl.torch.saved_tensors import saved_bytes

BAR = {"fedspu_emnist": 2.0, "fedspu_cifar": 2.0, "fedspu_speech": 2.0}  # eager over converted, small CNNs
MODELS = (*BAR, "lenet5", "pflego_mlp", "vgg11", "resnet18", "mobilenet_v2")
SLOWER = 1.05  # time of a layer over torch's
TURN_S = 0.02
LEAST_S, LAYER_S, FEWEST = 3.0, 0.3, 7


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench converted", description=__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=float, default=0.2, help="of the neurons, in a further column")
    parser.add_argument("--layers", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    ops().set_threads(options.threads)
    print(json.dumps(machine.facts() | {"threads": options.threads, "batch": options.batch}))
    measure = layers if options.layers else steps
    for name in options.models:
        for row in measure(name, options):
            print(json.dumps(row), flush=True)
    return 0


def steps(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of whole steps of a model."""
    model, x, y = _case(name, options.batch)
    frozen = convert(model)
    select(frozen, options.keep, example_input=x[:2], seed=1)
    ways = {"eager": model, "converted": convert(model), "frozen": frozen}
    taken = _in_turn({way: _step(each, x, y) for way, each in ways.items()})
    times = {way: statistics.median(each) for way, each in taken.items()}
    saved = {way: saved_bytes(each, x, y) for way, each in ways.items()}
    speed = times["eager"] / times["converted"]
    row = {
        "model": name,
        **{f"{way}_ms": round(1e3 * each, 3) for way, each in times.items()},
        "speed": round(speed, 2),
        "undisturbed": round(_tenth(taken["eager"]) / _tenth(taken["converted"]), 2),
    }
    bar = {"bar": BAR[name], "is_met": speed >= BAR[name]} if name in BAR else {}
    yield row | bar | {f"{way}_saved_mb": round(each / 1e6, 3) for way, each in saved.items()}


def layers(name: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the time of both passes of every converted layer and block, on inputs of the shapes that it meets."""
    model, x, _ = _case(name, options.batch)
    ours = convert(model)
    seen: set[str] = set()
    for path, shape in _inputs(ours, x).items():
        block = _block(ours, path)
        key = f"{[str(each) for each in block]} {shape}"
        if key in seen:
            continue
        seen.add(key)
        draw = torch.randn(shape).requires_grad_()
        theirs = nn.Sequential(*(plain(each) for each in block))
        mine = convert(theirs)
        taken = _in_turn({way: _passes(each, draw) for way, each in (("eager", theirs), ("converted", mine))}, LAYER_S)
        times = {way: statistics.median(each) for way, each in taken.items()}
        ratio = times["converted"] / times["eager"]
        yield {
            "model": name, "layer": path, "input": list(shape), "modules": [type(each).__name__ for each in block],
            "eager_us": round(1e6 * times["eager"], 1), "ratio": round(ratio, 3), "is_slower": ratio > SLOWER,
        }  # fmt: skip


def _case(name: str, batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(1)
    if name in brought.MODULES:
        shape, classes, module = (3, 32, 32), 10, brought.MODULES[name](10)
    else:
        shape, classes = EXAMPLES[name]
        graph = build(name, shape, classes)
        module = to_torch(Model(graph, graph.init(stream(1, INIT))))
    return module.train(), torch.randn(batch, *shape), torch.randint(0, classes, (batch,))


def _step(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return run


def _passes(model: nn.Module, x: Tensor) -> Callable[[], None]:
    output_grad = torch.ones_like(model(x))

    def run() -> None:
        model.zero_grad(set_to_none=True)
        x.grad = None
        model(x).backward(output_grad)

    return run


def _in_turn(runs: dict[str, Callable[[], None]], least_s: float = LEAST_S) -> dict[str, list[float]]:
    """Return the CPU seconds of a run of each way, sorted.

    The first two turns are for warming up. A turn is several runs of one way, as in a loop: after a run of another way,
    the caches hold the data of that way.
    """
    taken: dict[str, list[float]] = {way: [] for way in runs}
    began = time.perf_counter()
    while min(map(len, taken.values())) < FEWEST or time.perf_counter() - began < least_s:
        for way, run in runs.items():
            before, count = time.process_time(), 0
            while not count or time.process_time() - before < TURN_S:
                run()
                count += 1
            taken[way].append((time.process_time() - before) / count)
    return {way: sorted(times[2:]) for way, times in taken.items()}


def _tenth(times: list[float]) -> float:
    """Return the time that one run in ten is below, as on a machine with less to do."""
    return times[len(times) // 10]


def _inputs(model: nn.Module, x: Tensor) -> dict[str, torch.Size]:
    """Return the input shape of each converted module that begins a block or stands alone."""
    found: dict[str, torch.Size] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Tensor, ...]) -> None:
            found.setdefault(name, args[0].shape)

        return hook

    alone = [(name, module) for name, module in converted(model) if not getattr(module, "edgefl_links", ())]
    handles = [module.register_forward_pre_hook(note(name)) for name, module in alone]
    model(x)
    for handle in handles:
        handle.remove()
    return found


def _block(model: nn.Module, path: str) -> list[nn.Module]:
    """Return the module and the modules that follow it in its block."""
    first = model.get_submodule(path)
    link = getattr(first, "edgefl_link", None)
    return [first, *(link.followers if link else ())]
