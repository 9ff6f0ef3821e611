"""docs/flower.md: its trainer under Flower's own FedAvg, and its app."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed (extra `flower`, Python 3.11; scripts/frameworks.sh)")

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg

from tests.deployment.supernode.in_process import InProcessGrid

PAGE = Path(__file__).resolve().parents[3] / "docs" / "flower.md"


def test_the_trainer_of_the_page_learns_under_flowers_fedavg() -> None:
    (block,) = [each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "train()" in each]
    page: dict[str, Any] = {}
    exec(block, page)
    digits = page["digits"]
    initial = ArrayRecord({name: Array(value) for name, value in digits.initial().items()})
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    result = strategy.start(InProcessGrid(page["client"], 4), initial, num_rounds=4)
    losses = [result.train_metrics_clientapp[number]["loss"] for number in (1, 4)]
    assert losses[1] < 0.9 * losses[0]
    assert result.arrays.keys() == initial.keys()
    assert not np.array_equal(result.arrays["fc1.weight"].numpy(), initial["fc1.weight"].numpy())
