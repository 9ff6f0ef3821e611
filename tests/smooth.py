"""A small federation for tests of learners of different arithmetic, whose results differ by rounding alone.

Its model decides nothing by the last bits: it has no ReLU and no pool with winners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from edgefl import rng
from edgefl.experiment import model_file
from edgefl.experiment.assembly import assemble
from edgefl.experiment.federation import Federation
from edgefl.experiment.settings import Experiment
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import AvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, Tanh

CLIENTS, EXAMPLES, TOLERANCE = 3, 24, 2e-5  # of an array's largest value, after a run of two rounds


def _graph(has_norm: bool) -> Graph:
    ops = {
        "conv": Conv2d(1, 6, (3, 3), padding=(1, 1)),
        **({"bn": BatchNorm2d(6)} if has_norm else {}),
        "act": Tanh(),
        "pool": AvgPool2d((2, 2), (2, 2)),
        "flat": Flatten(),
        "fc1": Linear(54, 10),
        "act1": Tanh(),
        "fc2": Linear(10, 3),
    }
    names = list(ops)
    return Graph(
        (1, 6, 6), tuple(Node(n, op, (s,)) for (n, op), s in zip(ops.items(), ["input", *names], strict=False))
    )


def federation(
    path: Path, methods: tuple[str, ...], has_norm: bool = True, **settings: object
) -> tuple[Experiment, Model, Federation]:
    """Return the federation's settings, model and clients. The data are written to the path."""
    draw = np.random.default_rng(11)
    y = np.arange(CLIENTS * EXAMPLES) % 3
    x = draw.normal(size=(len(y), 1, 6, 6)).astype(np.float32)
    x[np.arange(len(y)), 0, 0, y] += 2
    np.savez(path / "made.npz", x=x, y=y)
    graph = _graph(has_norm)
    model = Model(graph, graph.init(rng.stream(3, rng.INIT)))
    given = {"partition": "iid", "per_round": 2, "rounds": 2, "eval_every": 1, "epochs": 2, "batch": 5, "lr": 0.1}
    chosen = {**given, "keep": (0.5, 1.0), **settings}
    named = model_file.name_of(model)
    experiment = Experiment(methods, str(path / "made.npz"), named, clients=CLIENTS, **chosen)  # type: ignore[arg-type]
    return experiment, model, assemble(experiment, None, model)


def assert_close(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float = TOLERANCE
) -> None:
    """Require each array to be within this share of its largest value."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        allowed = tolerance * max(float(np.abs(value).max(initial=0)), 1e-3)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=allowed, err_msg=name)


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
