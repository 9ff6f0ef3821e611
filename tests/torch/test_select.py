"""Torch models of which some neurons are trained: gradients and memory of converted layers beside torch's masked."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from edgefl.errors import GraphError, SelectionError
from edgefl.models.neurons.block_index import Axes
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.torch import compact_gradients, convert, from_torch, keep_frozen, native_tensors, select
from edgefl.torch.native_linear import NativeLinear
from tests.torch.small_networks import NETWORKS, batch, made

SHAPED = [name for name in NETWORKS if name not in ("branching", "lenet")]  # what from_torch reads
native = pytest.mark.skipif(native_tensors.ops() is None, reason="the native extension was not built")


def loss_of(model: nn.Module, dtype: torch.dtype = torch.float32, seed: int = 2) -> Tensor:
    x, y = batch(dtype=dtype, seed=seed)
    return F.cross_entropy(model(x), y)


def block(shape: tuple[int, ...], rows, cols) -> Tensor:
    """1 in a block of rows and columns, 0 elsewhere."""
    found = torch.zeros(shape)
    if rows is None and cols is None:
        return found + 1
    rows = torch.arange(shape[0]) if rows is None else torch.from_numpy(rows).long()
    if cols is None:
        found[rows] = 1
    else:
        found[rows.view(-1, 1), torch.from_numpy(cols).long()] = 1
    return found


@pytest.mark.filterwarnings("ignore:converted layers leave")
@pytest.mark.parametrize("keep", [0.2, 0.6])
@pytest.mark.parametrize("kind", [pytest.param("native", marks=native), "float64", "torch"])
@pytest.mark.parametrize("name", SHAPED)
def test_gradients_are_those_of_the_whole_model_in_active_blocks(name, kind, keep) -> None:
    dtype = torch.float64 if kind == "float64" else torch.float32
    exact = made(name).double()
    model = made(name).to(dtype) if kind == "torch" else convert(made(name)).to(dtype)
    spec = ModelSpec.of(from_torch(made(name), batch()[0]).graph)
    chosen = select(model, keep, example_input=batch()[0], seed=3)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    loss_of(exact, torch.float64).backward()
    loss_of(model, dtype).backward()
    for key, (rows, cols) in chosen.blocks(spec).items():
        active = block(spec.params[key].shape, rows, cols)
        if spec.params[key].kind == "stat":
            expected = torch.where(active > 0, exact.state_dict()[key], before[key].double())
            torch.testing.assert_close(model.state_dict()[key].double(), expected, rtol=1e-4, atol=1e-5)
            assert torch.equal(model.state_dict()[key][active == 0], before[key][active == 0])
            continue
        gradient = model.get_parameter(key).grad
        expected = exact.get_parameter(key).grad * active.double()
        assert (gradient - expected).abs().max() <= 1e-4 * (1 + expected.abs().max())
        assert not gradient[active == 0].any()


@native
def test_what_is_kept_of_an_input_is_its_active_channels() -> None:
    model = convert(made("cifar"))
    chosen = select(model, 0.5, example_input=batch()[0])
    assert chosen is not None
    y = model.conv2(torch.randn(2, 6, 8, 8).requires_grad_())
    kept, *_ = y.grad_fn.saved_tensors
    assert kept.shape == (2, len(chosen.active["conv1"]), 8, 8)
    assert type(model.fc1) is NativeLinear
    kept, *_ = model.fc1(torch.randn(3, 16 * 16).requires_grad_()).grad_fn.saved_tensors
    assert kept.shape == (3, len(chosen.active["conv2"]) * 16)


@native
@pytest.mark.parametrize("name", ["cifar", "resnet18", "mobilenet"])
def test_an_input_that_needs_its_gradient_gets_all_of_it(name) -> None:
    model, (x, y) = convert(made(name)), batch()
    select(model, 0.4, example_input=x)
    loss_of(model).backward()  # a pass whose signal stops early
    found = []
    for each, dtype in ((model, torch.float32), (made(name).double(), torch.float64)):
        free = x.to(dtype).requires_grad_()
        found += torch.autograd.grad(F.cross_entropy(each(free), y), free)
    assert (found[0] - found[1]).abs().max() <= 1e-4 * found[1].abs().max()


@native
def test_the_output_grad_above_the_first_layer_is_for_active_channels() -> None:
    model = convert(made("cifar"))
    select(model, {"conv1": [1, 4], "conv2": range(16), "fc1": [0], "fc2": [0]}, example_input=batch()[0])
    seen: list[Tensor] = []
    model.conv2.register_full_backward_hook(lambda module, before, after: seen.append(before[0]))
    loss_of(model).backward()
    assert seen[0][:, [1, 4]].any()
    assert not seen[0][:, [0, 2, 3, 5]].any()


@native
def test_a_depthwise_convolution_with_two_outputs_a_channel() -> None:
    torch.manual_seed(4)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 8, 3, groups=4), nn.Flatten(), nn.Linear(8 * 144, 5))
    model, exact = convert(layers), copy.deepcopy(layers).double()
    select(model, {"0": [1, 2]}, example_input=batch()[0])
    loss_of(model).backward()
    loss_of(exact, torch.float64).backward()
    kept = torch.zeros(8, 1, 1, 1)
    kept[2:6] = 1
    assert (model[1].weight.grad - exact[1].weight.grad * kept).abs().max() <= 1e-5
    y = model[1](torch.zeros(1, 4, 5, 5).requires_grad_())
    assert y.grad_fn.saved_tensors[0].shape == (1, 2, 5, 5)


@native
def test_compact_gradients_are_the_active_blocks() -> None:
    model = convert(made("cifar"))
    chosen = select(model, {"conv1": [0, 2], "conv2": [5], "fc1": range(120), "fc2": [1, 3]}, example_input=batch()[0])
    loss_of(model).backward()
    blocks = compact_gradients(model).blocks
    found = blocks["conv2.weight"]
    assert isinstance(found.index, Axes)
    assert found.values.shape == (1, 2, 3, 3)
    assert np.array_equal(found.values[0], model.conv2.weight.grad[5, [0, 2]].numpy())
    assert blocks["fc1.weight"].values.shape == (120, 16)
    assert blocks["fc.bias"].index is None
    assert "bn1.running_mean" not in blocks
    assert chosen == NeuronSet.of(ModelSpec.of(from_torch(made("cifar"), batch()[0]).graph), chosen.active)


@native
def test_frozen_coordinates_keep_their_bits_under_momentum_and_decay() -> None:
    model = convert(made("cifar"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    end = keep_frozen(optimizer, model)
    select(model, 0.5, example_input=batch()[0], seed=1)
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, seed=step).backward()
        optimizer.step()
    chosen = select(model, 0.5, seed=2)
    assert chosen is not None
    before = copy.deepcopy(model.state_dict())
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, seed=step).backward()
        optimizer.step()
    frozen = sorted(set(range(16)) - set(chosen.active["conv2"].tolist()))
    assert torch.equal(model.conv2.weight[frozen], before["conv2.weight"][frozen])
    assert torch.equal(model.bn2.running_var[frozen], before["bn2.running_var"][frozen])
    assert not torch.equal(model.conv2.weight, before["conv2.weight"])
    end()
    optimizer.step()
    assert not torch.equal(model.conv2.weight[frozen], before["conv2.weight"][frozen])


def test_all_neurons_again() -> None:
    model, other = convert(made("mlp")), convert(made("mlp"))
    select(model, 0.2, example_input=batch()[0])
    assert select(model, None) is None
    for each in (model, other):
        loss_of(each).backward()
    assert torch.equal(model[1].weight.grad, other[1].weight.grad)
    with pytest.raises(ValueError, match="no neurons are selected"):
        compact_gradients(model)


@native
def test_a_copy_and_a_saved_model_go_on_with_their_neurons() -> None:
    model = convert(made("cifar"))
    select(model, 0.3, example_input=batch()[0])
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for each in (model, other := copy.deepcopy(model), loaded := torch.load(stream, weights_only=False)):
        loss_of(each).backward()
    for each in (other, loaded):
        assert torch.equal(each.conv2.weight.grad, model.conv2.weight.grad)
        assert compact_gradients(each) == compact_gradients(model)


def test_a_model_that_cannot_be_read_takes_ids_by_layer() -> None:
    model = convert(made("branching"))
    with pytest.raises(GraphError, match="forward branches on values"):
        select(model, 0.5, example_input=batch()[0])
    with pytest.raises(ValueError, match="expected example_input=, or ids by layer"):
        select(model, 0.5)
    select(model, {"features.0": [1, 3], "features.1": [1, 3]})
    loss_of(model).backward()
    gradient = model.features[0].weight.grad
    assert not gradient[[0, 2]].any()
    assert gradient[[1, 3]].any()
    assert not model.features[1].bias.grad[[0, 2]].any()
    assert set(compact_gradients(model).blocks) == {
        f"features.{layer}.{name}" for layer in (0, 1) for name in ("weight", "bias")
    }


def test_neurons_that_are_not_the_models() -> None:
    model = convert(made("mlp"))
    with pytest.raises(SelectionError, match="ids from 0 to 16; expected 0 to 15"):
        select(model, {"1": [0, 16]}, example_input=batch()[0])
    with pytest.raises(ValueError, match=r"keep=1\.5"):
        select(model, 1.5)
    select(model, 0.5)
    with pytest.raises(ValueError, match="has no gradient"):
        compact_gradients(model)
