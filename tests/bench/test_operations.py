"""python -m bench operations times each operation's own calls, forward and backward, beside PyTorch's."""

from __future__ import annotations

import numpy as np

from bench import operations
from bench.operations import GATED, TWO, Work
from bench.runner import Effort
from edgefl.models.graph import operations as ops

SHORT = Effort(rounds=2, turn_s=1e-4)
FEW = (
    Work(ops.Tanh(), (3, 4, 4)),
    Work(ops.Mul(), (3, 4, 4), GATED, "gate"),
    Work(ops.Concat(), (3, 4, 4), TWO),
    Work(ops.BatchNorm1d(5), (5,)),
)


def test_a_row_for_each_pass_of_each_operation() -> None:
    rows = list(operations.measure(SHORT, FEW))
    names = ("Tanh 16x3x4x4", "Mul gate 16x3x4x4", "Concat 16x3x4x4", "BatchNorm1d 16x5")
    assert [each.work for each in rows] == [f"{name} {kind}" for name in names for kind in ("forward", "backward")]
    assert all(each.native.median_s > 0 and each.eager.median_s > 0 for each in rows)


def test_names_tell_all_works_apart() -> None:
    names = [work.name for work in operations.works()]
    assert len(set(names)) == len(names)


def test_pytorchs_form_computes_what_the_operation_does() -> None:
    for work in FEW[:1] + FEW[3:]:
        x = np.random.RandomState(1).standard_normal((16, *work.shape)).astype(np.float32)
        found = operations._module(work.op, work.shape)(operations.torch.tensor(x)).detach().numpy()
        mean, std = x.mean(axis=0), x.std(axis=0)
        expected = np.tanh(x) if work.op == ops.Tanh() else (x - mean) / np.sqrt(std**2 + 1e-5)
        assert np.allclose(found, expected, atol=1e-5), work.name
