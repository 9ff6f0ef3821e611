"""The kernels' and the codec's rows by pytest-benchmark: `pytest bench --benchmark-only`. `pytest` alone does not run
them.

The work is that of `python -m bench kernels` and `codec`, on one thread: FedSPU's models, with our native products and
eager PyTorch's. pytest-benchmark compares and stores runs. Only `python -m bench` takes the contenders in turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch

from bench import codec, kernels, machine
from bench.peers import EAGER
from bench.runner import Contender
from bench.step import PAPER
from edgefl.kernels import native


class Product(NamedTuple):
    """One product of one layer, and the side that computes it."""

    case: int
    batch: int
    layer: str
    kind: str
    contender: str

    @property
    def work(self) -> str:
        return f"{PAPER[self.case].model} {self.layer} {self.kind} B={self.batch}"

    def __str__(self) -> str:
        return f"{self.work} {self.contender}"


@cache
def layers(case: int, batch: int) -> dict[str, kernels.Layer]:
    return kernels.layers(PAPER[case].graph, batch)


def products() -> Iterator[Product]:
    for number, case in enumerate(PAPER):
        for batch in case.batches:
            for name, layer in layers(number, batch).items():
                for kind in kernels.KINDS:
                    for contender in kernels.contenders(layer, kind):
                        if contender.startswith("native") or contender == EAGER:
                            yield Product(number, batch, name, kind, contender)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    ours, theirs = native.threads(), torch.get_num_threads()
    machine.use_threads(1)
    yield
    native.set_threads(ours)
    torch.set_num_threads(theirs)


@pytest.mark.parametrize("product", list(products()), ids=str)
def test_product(product: Product, benchmark: Any) -> None:
    benchmark.group = product.work
    layer = layers(product.case, product.batch)[product.layer]
    time_one(benchmark, kernels.contenders(layer, product.kind)[product.contender])


@pytest.mark.parametrize("operation", list(codec.contenders()))
def test_codec(operation: str, benchmark: Any) -> None:
    benchmark.group = "codec, a million values"
    time_one(benchmark, codec.contenders()[operation])


def time_one(benchmark: Any, contender: Contender) -> None:
    """Time calls of one repetition, as many as pytest-benchmark chooses."""
    benchmark(contender, 1)
