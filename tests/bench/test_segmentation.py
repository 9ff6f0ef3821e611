"""The U-Net of `python -m bench segmentation`, its labels of pixels, and the record of its figures."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from bench.segmentation.command import CENTRAL, FEDERATED, RECORD
from bench.segmentation.network import KINDS, labelled, u_net
from edgefl import rng
from edgefl.learning import GraphLearner, Samples
from edgefl.learning.scores import mean_iou
from edgefl.models.graph import Model

from ..learning import oracle


def test_bright_pixels_have_the_kind_of_the_garment() -> None:
    pictures = np.array([[[0, 25], [26, 255]]] * 2, np.uint8)
    x, y = labelled(pictures, np.array([0, 9]), np.random.default_rng(1))
    assert y.tolist() == [[[0, 0], [1, 1]], [[0, 0], [10, 10]]]
    assert x.shape == (2, 1, 2, 2) and 0 < np.abs(x[:, 0] - pictures / 255).max() < 1


def test_a_small_u_net_has_the_loss_and_the_mean_iou_of_torch() -> None:
    graph = u_net(2, 8)
    model = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    draw = np.random.default_rng(1)
    data = Samples(draw.random((3, 1, 8, 8), np.float32), draw.integers(0, KINDS, (3, 8, 8)).astype(np.int32))
    outputs = oracle.logits(graph, oracle.to_torch(model.params), torch.tensor(data.x, dtype=torch.float64), True)
    found = GraphLearner(model).evaluate(data)
    assert found.loss_sum / 3 == pytest.approx(float(oracle.loss_of(data.loss, outputs, data.y).detach()), rel=1e-5)
    assert found.mean_iou == pytest.approx(mean_iou([(outputs.detach().numpy(), data.y)]))


def test_the_record_has_a_row_of_each_way_to_train() -> None:
    """Every way to train is better than no training, by both scores."""
    rows = {row["name"]: row for row in map(json.loads, RECORD.read_text("utf-8").splitlines())}
    assert list(rows) == [*FEDERATED, CENTRAL, "untrained"]
    assert all(row["parameters"] == 118155 and row["machine"]["commit"] for row in rows.values())
    for name in (*FEDERATED, CENTRAL):
        assert 1 > rows[name]["mean_iou"] > 5 * rows["untrained"]["mean_iou"]
        assert 1 > rows[name]["accuracy"] > rows["untrained"]["accuracy"]
