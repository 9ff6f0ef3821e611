"""A step of GPT-2 with adapters: edgefl, torch with peft, and the step's products alone, in turn in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

from bench.adapters import gpt2
from edgefl.learning import SGD, GraphLearner

BAR = 0.75  # of the rate of the products alone
TIMES_PEFT = 1.5


def measured(folder: Path, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row with the medians."""
    sides = {"edgefl": own_step(folder), "peft": peft_step(), "products": products()}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, step in sides.items():
            begun = time.process_time()
            step()
            if repeat:  # the first step of each side binds programs, or warms caches
                spent[name].append(time.process_time() - begun)
    seconds = {name: median(each) for name, each in spent.items()}
    tokens = gpt2.BATCH * gpt2.LENGTH
    yield {
        "name": "gpt2",
        **{f"{name}_s": round(value, 3) for name, value in seconds.items()},
        "tokens_a_second": round(tokens / seconds["edgefl"], 1),
        "of_products": round(seconds["products"] / seconds["edgefl"], 3),
        "times_peft": round(seconds["peft"] / seconds["edgefl"], 3),
        "most_times_peft": round(seconds["peft"] / seconds["products"], 3),
        "bars": [BAR, TIMES_PEFT],
        "repeats": repeats,
    }


def own_step(folder: Path) -> Callable[[], object]:
    """Return a step of edgefl over one batch."""
    learner, data, rows = GraphLearner(gpt2.model(folder)), gpt2.samples(), np.arange(gpt2.BATCH, dtype=np.int32)
    return lambda: learner.fit(data, [rows], SGD(0.01))


def peft_step() -> Callable[[], object]:
    """Return a step of torch with peft over that batch."""
    module, data = gpt2.with_peft(gpt2.module()), gpt2.samples()
    x, y = torch.from_numpy(data.x).long(), torch.from_numpy(data.y).long().reshape(-1)
    optimiser = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x).logits.reshape(-1, gpt2.WORDS), y)
        loss.backward()
        optimiser.step()

    return step


def products() -> Callable[[], object]:
    """Return the products of both passes with the frozen weights, in torch: the least that any step has to compute."""
    places, width = gpt2.BATCH * gpt2.LENGTH, gpt2.WIDTH
    block = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    pairs = {shape: (torch.randn(places, shape[0]), torch.randn(*shape)) for shape in [*block, (width, gpt2.WORDS)]}

    def step() -> None:
        for shape in [*block * gpt2.LAYERS, (width, gpt2.WORDS)]:
            x, weight = pairs[shape]
            (x @ weight) @ weight.T

    return step
