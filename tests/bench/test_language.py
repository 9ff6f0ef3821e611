"""The transformer of `python -m bench language`, its samples, and the record of its figures."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from bench.language.command import FEDERATED, RECORD
from bench.language.network import transformer, windows
from edgefl import rng
from edgefl.learning import GraphLearner, Samples
from edgefl.models.graph import Model

from ..learning import oracle


def test_targets_are_the_next_characters() -> None:
    x, y = windows(np.arange(10, dtype=np.uint8), 5, 4)
    assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert y.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_small_transformer_has_the_loss_of_torch() -> None:
    graph = transformer(8, 2, 2, 6)
    model = Model(graph, graph.init(rng.stream(1, rng.INIT)))
    draw = np.random.default_rng(1)
    x, y = draw.integers(0, 78, (3, 6)), draw.integers(0, 78, (3, 6)).astype(np.int32)
    data = Samples(x.astype(np.float32), y)
    outputs = oracle.logits(graph, oracle.to_torch(model.params), torch.tensor(data.x, dtype=torch.float64), True)
    found = GraphLearner(model).evaluate(data)
    assert found.loss_sum / 3 == pytest.approx(float(oracle.loss_of(data.loss, outputs, y).detach()), rel=1e-5)


def test_the_record_has_a_row_of_each_way_to_train() -> None:
    """The perplexity of a character is 2 to the bits. The model has 5 to 10 million parameters."""
    rows = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
    assert [row["name"] for row in rows] == ["untrained", "central, on other roles", *FEDERATED]
    assert all(5e6 < row["parameters"] < 1e7 and row["machine"]["commit"] for row in rows)
    for row in rows[2:]:
        assert row["perplexity"] == pytest.approx(math.exp(row["bits"] * math.log(2)), rel=1e-3)
        assert row["perplexity"] < rows[0]["perplexity"]
