"""python -m bench operations times each operation's own calls, forward and backward, beside PyTorch's."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from bench import operations
from bench.operation_calls import GATED, TWO, Work
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


def test_the_compiled_operation_takes_its_turns_in_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile itself stands aside. Here it makes a module that is called, and counted, like the module."""
    calls = []

    def compiled(module: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
        return lambda *inputs: calls.append(dynamic) or module(*inputs)

    monkeypatch.setattr(torch, "compile", compiled)
    (forward, _) = operations.measure(SHORT, FEW[:1], is_compiled=True)
    assert len(calls) > 3 and not any(calls)
    assert forward.best in (operations.EAGER, operations.COMPILED)


def test_operations_are_chosen_by_their_titles() -> None:
    assert {work.op.title for work in operations.titled("RMSNorm,Attention")} == {"RMSNorm", "Attention"}
    with pytest.raises(ArgumentTypeError, match="operation 'Tan'; expected some of AdaptiveAvgPool2d, "):
        operations.titled("Tan")
