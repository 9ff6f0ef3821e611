"""The tensors that torch saves, counted by hand on two small modules."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is an optional extra")

from edgefl.torch.saved_tensors import saved_bytes  # noqa: E402

X, Y = torch.zeros(8, 5), torch.zeros(8, dtype=torch.int64)
LOSS = 8 * 3 * 4 + 8 * 8 + 4  # log-softmax, labels, and the sum of their weights


def test_a_linear_layer_saves_its_input_but_not_its_weight() -> None:
    assert saved_bytes(torch.nn.Linear(5, 3), X, Y) == 8 * 5 * 4 + LOSS


def test_a_tensor_saved_twice_counts_once() -> None:
    hidden = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    assert saved_bytes(hidden, X, Y) == 8 * 5 * 4 + 8 * 6 * 4 + LOSS  # ReLU's result is the second layer's input
