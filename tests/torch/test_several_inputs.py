"""Modules of several inputs and outputs against torch in float64: packed inputs, columns, and auxiliary outputs."""

from __future__ import annotations

import copy
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from edgefl.errors import DataError, GraphError
from edgefl.learning import SGD, Adam, GraphLearner, Samples, pack_inputs
from edgefl.models.graph import Model
from edgefl.models.graph.operations import InputPart
from edgefl.torch import from_torch

ROWS = np.arange(6, dtype=np.int32)
USERS, ITEMS = torch.tensor([0, 3, 1, 4, 2, 2]), torch.tensor([[1, 2], [0, 5], [5, 5], [3, 1], [2, 2], [0, 4]])
NUMBERS = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
IMAGES = torch.randn(6, 1, 5, 5, generator=torch.Generator().manual_seed(4))


class Of(nn.Module):
    """A module whose forward is a function of the module and its inputs."""

    def __init__(self, step: Any, **layers: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.step = step
        for name, make in layers.items():
            self.add_module(name, make)

    def forward(self, a: Tensor, b: Tensor | None = None, c: Tensor | None = None) -> Any:
        return self.step(self, *(each for each in (a, b, c) if each is not None))


def parts(width: int = 8) -> dict[str, nn.Module]:
    torch.manual_seed(6)
    return {
        "user": nn.Embedding(5, 4),
        "item": nn.Embedding(6, 4),
        "fc": nn.Linear(width, 3),
        "aux": nn.Linear(width, 3),
    }


def exits(m: Any, x: Tensor) -> Any:
    h = torch.relu(m.conv(x)).flatten(1)
    return m.early(h), m.late(torch.tanh(m.mid(h)))


def named(m: Any, x: Tensor) -> Any:
    early, late = exits(m, x)
    return {"late": late, "early": early} if m.training else late


def layers() -> dict[str, nn.Module]:
    torch.manual_seed(7)
    return {"conv": nn.Conv2d(1, 2, 3), "early": nn.Linear(18, 3), "mid": nn.Linear(18, 4), "late": nn.Linear(4, 3)}


def features(m: Any, x: Tensor) -> Any:
    """The features lead to the second output."""
    h = torch.tanh(m.aux(x))
    return h, m.head(h)


class Case(NamedTuple):
    """A module, its example, the main output, the weights of others, and the operations that the graph begins with."""

    module: nn.Module
    example: Any
    output: Any = None
    outputs: Any = None
    begins: Any = ()


CASES: dict[str, Case] = {
    "ids in two inputs": Case(
        Of(lambda m, a, b: m.fc(torch.cat([m.user(a), m.item(b).mean(1)], 1)), **parts()), (USERS, ITEMS),
        begins=[InputPart(0, (1,)), InputPart(1, (2,))]),
    "an image, numbers and ids": Case(
        Of(lambda m, a, b, c: m.fc(torch.cat([m.user(c), b], 1)) + m.late(m.conv(a).mean((2, 3)) * 2),
           **parts(), conv=nn.Conv2d(1, 4, 3), late=nn.Linear(4, 3)), (IMAGES, NUMBERS, USERS),
        begins=[InputPart(0, (1, 5, 5)), InputPart(25, (4,)), InputPart(29, (1,))]),
    "keywords": Case(
        Of(lambda m, a, b: m.fc(torch.cat([m.user(b), a], 1)), **parts()), {"b": USERS, "a": NUMBERS},
        begins=[InputPart(0, (1,)), InputPart(1, (4,))]),
    "columns of ids": Case(
        Of(lambda m, a: m.fc(torch.cat([m.user(a[:, 0]), m.item(a[:, 1:]).flatten(1)], 1)), **parts(12)),
        torch.cat([USERS[:, None], ITEMS], 1), begins=[InputPart(0, (1,)), InputPart(1, (2,))]),
    "a tower for two inputs": Case(
        Of(lambda m, a, b: m.fc(torch.relu(m.aux(a)) * m.aux(b)), aux=nn.Linear(4, 8), fc=nn.Linear(8, 3)),
        (NUMBERS, NUMBERS.flip(0))),
    "an early exit": Case(Of(exits, **layers()), IMAGES, 1, {0: 0.3}),
    "a dict in training alone": Case(Of(named, **layers()), IMAGES, "late", {"early": 2.0}),
    "features that lead on": Case(
        Of(features, aux=nn.Linear(4, 3), head=nn.Linear(3, 3)), NUMBERS, 0, {1: 1.0}),
}  # fmt: skip


def read(case: Case) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_torch(case.module, case.example, output=case.output, outputs=case.outputs)


def wide(example: Any) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    each = {
        key: value.double() if value.is_floating_point() else value
        for key, value in (
            example.items()
            if isinstance(example, dict)
            else enumerate([example] if isinstance(example, Tensor) else example)
        )
    }
    return ((), each) if isinstance(example, dict) else (tuple(each.values()), {})  # type: ignore[return-value]


def loss_in_float64(case: Case, twin: nn.Module, y: Tensor) -> Tensor:
    args, named_args = wide(case.example)
    found = twin(*args, **named_args)
    if isinstance(found, Tensor):
        return functional.cross_entropy(found, y)
    weights = {case.output: 1.0, **(case.outputs or {})}
    return torch.stack([weight * functional.cross_entropy(found[key], y) for key, weight in weights.items()]).sum()


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_steps_are_torchs(name: str) -> None:
    case, y = CASES[name], torch.tensor([0, 1, 2, 2, 1, 0])
    model = read(case)
    assert [node.op for node in model.graph.nodes if isinstance(node.op, InputPart)][: len(case.begins)] == [
        *case.begins
    ]
    example = case.example
    x = example.float().numpy() if isinstance(example, Tensor) else pack_inputs(example)
    args, named_args = wide(example)
    expected = copy.deepcopy(case.module).double().eval()(*args, **named_args)
    expected = expected if isinstance(expected, Tensor) else expected[case.output]
    np.testing.assert_allclose(GraphLearner(model).predict(x), expected.detach(), rtol=2e-6, atol=2e-6)
    for optimizer in (SGD(0.5), Adam(0.01, eps=1e-2)):
        twin, learner = copy.deepcopy(case.module).double().train(), GraphLearner(model)
        steps = torch.optim.SGD(twin.parameters(), 0.5) if isinstance(optimizer, SGD) else torch.optim.Adam(
            twin.parameters(), 0.01, eps=1e-2)  # fmt: skip
        loss_in_float64(case, twin, y).backward()
        steps.step()
        learner.fit(Samples(x, y.int().numpy()), [ROWS], optimizer)
        for key, value in ((key, each) for key, each in twin.named_parameters() if each.grad is not None):
            np.testing.assert_allclose(learner.read()[key], value.detach(), rtol=1e-5, atol=2e-6, err_msg=key)


def test_outputs_that_are_left_out_are_named() -> None:
    with pytest.warns(
        UserWarning, match="the module returns 2 outputs: the graph has output 0, and leaves out 1\\. from_torch"
    ):
        graph = from_torch(Of(exits, **layers()), IMAGES).graph
    assert graph.nodes[-1].name == "early" and graph.auxiliary == ()


MIXED = Of(lambda m, a, b: m.fc(a) + m.fc(b), fc=nn.Linear(4, 3))
REFUSED: dict[str, tuple[nn.Module, Any, dict[str, Any], str]] = {
    "outputs of training alone": (
        Of(named, **layers()),
        IMAGES,
        {},
        "2 outputs in training (late, early) and 1 in eval",
    ),
    "another name": (
        Of(exits, **layers()),
        IMAGES,
        {"output": "x"},
        "output 'x'; expected one of the module's outputs: 0",
    ),
    "a weight": (
        Of(exits, **layers()),
        IMAGES,
        {"output": 0, "outputs": {1: -1}},
        "outputs={1: -1}; expected a finite weight",
    ),
    "twice": (Of(exits, **layers()), IMAGES, {"output": 1, "outputs": {1: 1}}, "expected each output once"),
    "planes": (
        Of(lambda m, a: (m.conv(a).mean((2, 3)), m.conv(a)), **layers()),
        IMAGES,
        {"outputs": {1: 1}},
        "a further output of shape (2, 3, 3); expected one value for each class or target",
    ),
    "batch sizes": (MIXED, (NUMBERS, NUMBERS[:3]), {}, "a (6, 4), b (3, 4); expected one batch size for all inputs"),
    "a number": (MIXED, (NUMBERS, 2.0), {}, "example_input: b is float; expected a torch.Tensor"),
    "an input too few": (
        nn.Bilinear(4, 4, 3),
        NUMBERS,
        {},
        "takes input1, input2; expected one input, or a tuple of 2",
    ),
    "an unknown keyword": (MIXED, {"a": NUMBERS, "z": NUMBERS}, {}, "forward of Of with the inputs a, z: "),
    "ids": (
        Of(lambda m, a, b: m.fc(torch.cat([m.user(a), b], 1)), **parts()),
        (USERS + 3, NUMBERS),
        {},
        "expected ids, whole numbers from 0 to 4",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_one_sentence(name: str) -> None:
    module, example, settings, message = REFUSED[name]
    with pytest.raises((GraphError, IndexError)) as error:
        from_torch(module, example, **settings)
    assert isinstance(error.value, GraphError) and message in str(error.value)


def test_inputs_are_packed_side_by_side() -> None:
    packed = pack_inputs([np.array([7, 2**24]), np.array([[[1, 2]], [[3, 4]]])])
    assert packed.tolist() == [[7, 1, 2], [2**24, 3, 4]] and packed.dtype == np.float32
    with pytest.raises(DataError, match=r"inputs of shapes \[\(2,\), \(3,\)\]; expected arrays \[N, ...\] of one N"):
        pack_inputs([np.zeros(2), np.zeros(3)])
    with pytest.raises(DataError, match="id 16777217 in input 1; expected ids of at most 16777216"):
        pack_inputs({"a": [0], "b": [2**24 + 1]})
