"""Data with a label for each place, or with targets of several axes: read, partitioned, trained, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgefl
from edgefl.errors import DataError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import partition_file, read_partition, write_partition
from edgefl.experiment.settings import Experiment
from edgefl.learning.losses import MSE, BinaryCrossEntropy, CrossEntropy, Loss
from edgefl.models.graph import INPUT, Graph, Node
from edgefl.models.graph.operations import Conv2d, Embedding, Linear, Permute

from ..learning.graphs import model

DRAW = np.random.default_rng(3)
IDS = DRAW.integers(0, 7, (24, 6))
PIXELS = DRAW.integers(0, 256, (24, 1, 4, 5)).astype(np.uint8)
KINDS = (PIXELS[:, 0] > 100).astype(np.int64) + (PIXELS[:, 0] > 200)
IGNORING = np.where(DRAW.random(KINDS.shape) < 0.2, -1, KINDS)
WIDE = Conv2d(1, 3, (3, 3), padding=(1, 1))
SEGMENTS = Graph((1, 4, 5), (Node("conv", WIDE, (INPUT,)),))
PICTURES = Graph((1, 4, 5), (Node("conv", Conv2d(1, 1, (3, 3), padding=(1, 1)), (INPUT,)),))
TOKENS = Graph((6,), (Node("emb", Embedding(7, 4), (INPUT,)), Node("head", Linear(4, 7), ("emb",))))
TURNED = Graph((6,), (*TOKENS.nodes, Node("turn", Permute((1, 0)), ("head",))))
ASKED = "cross-entropy:ignore_index=-1"
CASES: list[tuple[Graph, dict[str, Any], str, Loss, tuple[int, ...]]] = [
    (SEGMENTS, {"x": PIXELS, "y": KINDS}, "", CrossEntropy(), (4, 5)),
    (SEGMENTS, {"x": PIXELS, "y": IGNORING}, ASKED, CrossEntropy(ignore_index=-1), (4, 5)),
    (TOKENS, {"x": IDS, "y": IDS}, "cross-entropy", CrossEntropy(), (6,)),
    (TURNED, {"x": IDS, "y": IDS, "targets": "labels"}, "", CrossEntropy(class_axis=-1), (6,)),
    (TURNED, {"x": IDS, "y": IDS, "classes": 7}, "", CrossEntropy(class_axis=-1), (6,)),
    (PICTURES, {"x": PIXELS, "y": PIXELS / 255}, "", MSE(), (1, 4, 5)),
    (PICTURES, {"x": PIXELS, "y": KINDS > 0}, "bce", BinaryCrossEntropy(), (1, 4, 5)),
]
REFUSED: list[tuple[Graph, dict[str, Any], dict[str, str], str]] = [
    (
        TOKENS,
        {"x": IDS, "y": IDS},
        {},
        "6 values for an example; .*: a label at each place, as loss=.cross-entropy. has it",
    ),
    (SEGMENTS, {"x": PIXELS, "y": KINDS[:, :3]}, {}, r"\(24, 3, 5\); expected int32 of shape \(24, 4, 5\) for outputs"),
    (SEGMENTS, {"x": PIXELS, "y": KINDS + 1}, {}, "label 3; expected labels below 3"),
    (SEGMENTS, {"x": PIXELS, "y": KINDS}, {"partition": "dirichlet:0.1"}, "targets are a label for each place"),
]


def experiment(folder: Path, data: dict[str, Any], **settings: str) -> Experiment:
    np.savez(folder / "made.npz", **data)
    wanted: dict[str, Any] = {"partition": "iid", "model": "sha256:" + "0" * 64, "clients": 3, "per_round": 2}
    return Experiment(data=str(folder / "made.npz"), methods=("fedavg",), **{**wanted, **settings})


@pytest.mark.parametrize("case", range(len(CASES)))
def test_targets_with_places_become_samples_and_shares(case: int, tmp_path: Path) -> None:
    graph, data, text, loss, shape = CASES[case]
    federation = assemble(experiment(tmp_path, data, loss=text), model=model(graph))
    assert federation.data.loss == loss
    assert federation.data.y.shape == (24, *shape)
    write_partition(partition_file(tmp_path, 1), federation, 1)
    samples, split = read_partition(partition_file(tmp_path, 1))
    assert split is not None
    np.testing.assert_array_equal(samples.y[split.train], federation.data.y[federation.clients[1].train])


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_targets_that_do_not_fit_the_places_are_refused(case: int, tmp_path: Path) -> None:
    graph, data, settings, message = REFUSED[case]
    with pytest.raises((DataError, ValueError), match=message):
        assemble(experiment(tmp_path, data, **settings), model=model(graph))


def test_inputs_are_the_targets_of_an_autoencoder(tmp_path: Path) -> None:
    federation = assemble(experiment(tmp_path, {"x": PIXELS}, label="x"), model=model(PICTURES))
    np.testing.assert_array_equal(federation.data.y, PIXELS.astype(np.float32) * np.float32(1 / 255))


def test_rounds_train_and_report_the_share_of_right_places(tmp_path: Path) -> None:
    """FedSPU learns where a pixel is bright. A personal head has to be a Linear layer."""
    asked: dict[str, Any] = {"data": {"x": PIXELS, "y": (PIXELS[:, 0] > 100).astype(int)}, "clients": 3, "rounds": 8}
    graph = Graph((1, 4, 5), (Node("conv", Conv2d(1, 2, (1, 1)), (INPUT,)),))
    run = edgefl.simulate("fedspu", model=model(graph), directory=tmp_path / "run", lr=2.0, **asked)
    assert run.method.accuracy > 0.7
    with pytest.raises(ValueError, match=r"model with head \[\] and body .*; expected both"):
        edgefl.simulate("pflego", model=model(graph), directory=tmp_path / "own", **asked)
