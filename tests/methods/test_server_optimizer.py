"""Server optimisers by hand, and against torch's Adam."""

from __future__ import annotations

import numpy as np
import pytest

from edgefl.methods.server_optimizer import FIRST, SECOND, STEPS, step
from edgefl.methods.task import State

GROUP = "body"


def test_sgd_by_hand() -> None:
    before = State({GROUP: {"w": np.float32([1.0, 2.0])}}, {"kept": 1})
    after = step("sgd", before, GROUP, {"w": np.array([10.0, -1.0])}, 0.1)
    np.testing.assert_array_equal(after.arrays[GROUP]["w"], np.float32([0.0, 2.1]))
    assert after.values == {"kept": 1}
    assert before.arrays[GROUP]["w"].tolist() == [1.0, 2.0]


def test_the_first_step_of_adam_is_as_long_as_its_rate_whatever_the_gradient() -> None:
    after = step("adam", State({GROUP: {"w": np.zeros(2)}}), GROUP, {"w": np.array([5.0, -1e-3])}, 0.01)
    np.testing.assert_allclose(after.arrays[GROUP]["w"], [-0.01, 0.01], rtol=1e-4)
    assert after.values == {STEPS: 1}
    np.testing.assert_allclose(after.arrays[FIRST]["w"], [0.5, -1e-4])
    np.testing.assert_allclose(after.arrays[SECOND]["w"], [0.025, 1e-9])


def test_adam_is_torch_s() -> None:
    torch = pytest.importorskip("torch", reason="torch's Adam is the oracle")
    values = np.random.RandomState(1)
    start, gradients = values.randn(3, 4), values.randn(5, 3, 4)
    weight = torch.tensor(start, requires_grad=True)
    oracle, state = torch.optim.Adam([weight], lr=0.02), State({GROUP: {"w": start}})
    for gradient in gradients:
        weight.grad = torch.tensor(gradient)
        oracle.step()
        state = step("adam", state, GROUP, {"w": gradient}, 0.02)
    np.testing.assert_allclose(state.arrays[GROUP]["w"], weight.detach().numpy(), rtol=0, atol=1e-12)


def test_parameters_without_a_gradient_and_other_groups_are_left_alone() -> None:
    other, still = {"w": np.ones(1)}, np.float32([3.0])
    state = State({GROUP: {"w": np.zeros(1), "still": still}, "other": other})
    for optimizer in ("sgd", "adam"):
        after = step(optimizer, state, GROUP, {"w": np.ones(1)}, 0.1)  # type: ignore[arg-type]
        assert after.arrays["other"] is other
        assert after.arrays[GROUP]["still"] is still
