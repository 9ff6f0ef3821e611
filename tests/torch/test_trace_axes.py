"""from_torch of what moves axes and places: which operations are left. That the numbers agree, from_torch checks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import Tensor, nn

from edgefl.errors import DataError, GraphError
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Model
from edgefl.torch import from_torch, to_torch
from tests.torch.traced import Forward

SEQUENCE, PLANES = (2, 6, 5), (2, 4, 5, 3)
P, R, S, V = "Permute", "Reshape", "Slice", "FlattenPlaces"


def converted(step, *shape: int, **modules: nn.Module) -> Model:
    return from_torch(Forward(step, **modules), torch.randn(*shape, generator=torch.Generator().manual_seed(2)))


CASES = {
    "features last, a matrix at each moment": (lambda m, x: m.fc(x), SEQUENCE, [P, "Linear"]),
    "and back": (lambda m, x: m.fc(x).transpose(1, 2), SEQUENCE, [P, "Linear"]),
    "channels first, moved there": (lambda m, x: m.fc(x.permute(0, 2, 1).mT), SEQUENCE, [P, "Linear"]),
    "two views of one input": (lambda m, x: m.fc(x) + m.norm(x), SEQUENCE, [P, "Linear", "LayerNorm", "Add"]),
    "a sum with what is as torch has it": (lambda m, x: m.fc(x) + x, SEQUENCE, [P, "Linear", "Add"]),
    "moments flattened": (lambda m, x: m.fc(x).flatten(1), SEQUENCE, [P, "Linear", V]),
    "by reshape": (lambda m, x: m.fc(x).reshape(x.size(0), -1), SEQUENCE, [P, "Linear", V]),
    "the last moment": (lambda m, x: m.fc(x)[:, -1], SEQUENCE, [P, "Linear", S, "Flatten"]),
    "by select": (lambda m, x: m.fc(x).select(1, 5), SEQUENCE, [P, "Linear", S, "Flatten"]),
    "of the input": (lambda m, x: m.fc(x[:, 0, :]), SEQUENCE, [P, S, "Flatten", "Linear"]),
    "all but the first": (lambda m, x: m.fc(x)[:, 1:].mean(1), SEQUENCE, [P, "Linear", S, "GlobalAvgPool", "Flatten"]),
    "narrowed": (lambda m, x: m.fc(x).narrow(1, 2, 3).amax(1), SEQUENCE, [P, "Linear", S, "MaxPool1d", "Flatten"]),
    "the largest moment": (lambda m, x: m.fc(x).max(dim=1)[0], SEQUENCE, [P, "Linear", "MaxPool1d", "Flatten"]),
    "its values": (lambda m, x: torch.max(m.fc(x), 1).values, SEQUENCE, [P, "Linear", "MaxPool1d", "Flatten"]),
    "the mean of the input": (lambda m, x: m.fc(x.mean(1)), SEQUENCE, [P, "GlobalAvgPool", "Flatten", "Linear"]),
    "a mean that stays": (lambda m, x: m.fc(x.mean(1, keepdim=True)).squeeze(1), SEQUENCE,
                          [P, "GlobalAvgPool", "Linear", "Flatten"]),
    "time before the batch, and back": (lambda m, x: m.fc(x.transpose(0, 1)).transpose(0, 1)[:, 0], SEQUENCE,
                                        [P, "Linear", S, "Flatten"]),
    "a gate of features": (lambda m, x: m.fc(x) * torch.sigmoid(m.norm(x).mean(1)).unsqueeze(1), SEQUENCE,
                           [P, "Linear", "LayerNorm", "GlobalAvgPool", "Flatten", "Sigmoid", R, "Mul"]),
    "planes with channels last": (lambda m, x: m.cell(x).relu(), PLANES, [P, "Linear", "ReLU"]),
    "moved by name": (lambda m, x: m.cell(torch.movedim(m.conv(x), 1, -1)).moveaxis(-1, 1), (2, 3, 4, 5),
                      ["Conv2d", "Linear"]),
    "cells as a line": (lambda m, x: m.cell(x).view(x.size(0), 20, 3)[:, 7], PLANES,
                        [P, "Linear", R, S, "Flatten"]),
    "rows averaged": (lambda m, x: m.conv(x).mean(3).amax(2), (2, 3, 4, 5),
                      ["Conv2d", "AvgPool2d", R, "MaxPool1d", "Flatten"]),
    "rows by arithmetic": (lambda m, x: m.conv(x).reshape(x.shape[0], 3, x.shape[2] * x.shape[3]).transpose(1, 2),
                           (2, 3, 4, 5), ["Conv2d", R]),
    "unflattened": (lambda m, x: m.conv(m.flat(x).unflatten(1, (3, -1, 2))), (2, 5), ["Linear", R, "Conv2d"]),
    "one channel of features": (lambda m, x: m.line(m.flat(x)[:, None]), (2, 5), ["Linear", R, P, "Conv1d"]),
    "dots": (lambda m, x: m.fc(x)[..., :], SEQUENCE, [P, "Linear"]),
}  # fmt: skip


def test_what_is_left_of_axes_that_are_moved() -> None:
    torch.manual_seed(1)
    for name, (step, shape, expected) in CASES.items():
        modules = {"fc": nn.Linear(5, 5), "norm": nn.LayerNorm(5), "cell": nn.Linear(3, 3), "conv": nn.Conv2d(3, 3, 1),
                   "flat": nn.Linear(5, 12), "line": nn.Conv1d(1, 2, 3)}  # fmt: skip
        model = converted(step, *shape, **modules)
        found = [node.op.title for node in model.graph.nodes]
        if found[-1] == P and expected[-1] != P:  # to where torch has the result's axes
            found.pop()
        assert found == expected, name
        again = from_torch(to_torch(model), torch.randn(*shape))
        assert again.graph == model.graph, name


class Positions(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.position, self.fc = nn.Parameter(torch.randn(shape)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.tanh(x + self.position)).mean(1)


@pytest.mark.parametrize("shape", [(6, 4), (1, 6, 4), (4,), (1, 1, 4)])
def test_a_parameter_keeps_its_name_and_shape_in_torch(shape) -> None:
    module = Positions(*shape)
    model = from_torch(module, torch.randn(2, 6, 4))
    back = to_torch(model).state_dict()
    assert back["position"].shape == shape
    assert torch.equal(back["position"], module.state_dict()["position"])


def test_positions_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GraphError, match=r"seen as \(7, 4\) with a result of \[batch, 6, 4\]; expected equal extents"):
        from_torch(Positions(7, 4), torch.randn(2, 6, 4))
    module = Forward(lambda m, x: m.conv(x) + m.rows.weight[:, :, None], conv=nn.Conv2d(3, 5, 1), rows=nn.Linear(6, 5))
    with pytest.raises(GraphError, match="expected a value for each channel, or for each value of an example"):
        from_torch(module, torch.randn(2, 3, 6, 4))


class Words(nn.Module):
    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.embed, self.fc = nn.Embedding(7, 4, **settings), nn.Linear(4, 3)  # type: ignore[arg-type]

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(F.relu(self.embed(ids)).mean(1))


def test_settings_of_an_embedding_that_mean_something_else_are_refused() -> None:
    for name, value in (("max_norm", 1.0), ("sparse", True), ("scale_grad_by_freq", True)):
        with pytest.raises(GraphError, match=f"{name}={value}; expected"):
            from_torch(Words(**{name: value}), torch.tensor([[1, 2], [3, 6]]))
    with pytest.raises(GraphError, match=r"example_input from 0\.5 to 0\.5; expected ids, whole numbers from 0 to 6"):
        from_torch(Words(), torch.full((2, 3), 0.5))


def test_an_id_without_a_row_is_named_before_anything_is_trained() -> None:
    learner = GraphLearner(from_torch(Words(padding_idx=0), torch.tensor([[1, 2], [3, 6]])))
    before = {name: value.copy() for name, value in learner.read().items()}
    y, batch = np.zeros(2, np.int32), [np.arange(2, dtype=np.int32)]
    for wrong, message in ((7, "id 7 in sample 1"), (-1, "id -1"), (2.5, "id 2.5"), (np.nan, "id nan")):
        samples = Samples(np.array([[1, 2], [3, wrong]], np.float32), y)
        for call in (lambda s=samples: learner.fit(s, batch, SGD(0.1)), lambda s=samples: learner.evaluate(s)):
            with pytest.raises(DataError, match=message):
                call()
        with pytest.raises(DataError, match=message):
            learner.predict(samples.x)
    assert all((value == before[name]).all() for name, value in learner.read().items())
