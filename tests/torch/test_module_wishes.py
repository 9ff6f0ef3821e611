"""Parts of a module beside the operations of forward: refused, named in a warning, or kept for export."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name every torch user writes)
from torch import nn
from torch.nn.utils import parametrizations, prune, spectral_norm

from edgefl.errors import GraphError
from edgefl.models.graph import Model, model_files
from edgefl.models.graph.operations import Dropout, Linear, MulParameter, ReLU
from edgefl.torch import from_torch
from edgefl.torch.state_dict import write_state_dict
from tests.torch.traced import Forward, example


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(3, 2))


def of(change: Callable[[nn.Sequential], object]) -> nn.Sequential:
    made = net()
    change(made)
    return made


def aside(m: nn.Module, x: torch.Tensor) -> object:
    return (m.a(x), m.b(x)) if m.training else m.a(x)


def noisy(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return m.a(x + torch.rand_like(x) if m.training else x)


def dropping(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return m.a(F.alpha_dropout(x, 0.5, training=True) if m.training else x)


REFUSED = {
    "spectral_norm": (lambda: nn.Sequential(spectral_norm(nn.Linear(4, 3))), "remove_spectral_norm(module, 'weight')"),
    "parametrized spectral_norm": (
        lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 3))),
        "torch.nn.utils.parametrize.remove_parametrizations(module, 'weight')",
    ),
    "the module itself": (lambda: parametrizations.orthogonal(nn.Linear(4, 4)), "ParametrizedLinear: weight is comp"),
    "pruning": (
        lambda: nn.Sequential(prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5)),
        "torch.nn.utils.prune.remove(module, 'weight')",
    ),
    "backward hook": (
        lambda: of(lambda m: m[0].register_full_backward_hook(lambda *a: None)),
        "module '0' (Linear): a backward hook, which may change gradients; expected no hook: remove it first",
    ),
    "backward pre-hook": (
        lambda: of(lambda m: m.register_full_backward_pre_hook(lambda *a: None)),
        "Sequential: a backward hook",
    ),
    "gradient hook": (lambda: of(lambda m: m[3].bias.register_hook(lambda g: 0 * g)), "parameter '3.bias': a gradient"),
    "hook after the gradient": (
        lambda: of(lambda m: m[0].weight.register_post_accumulate_grad_hook(lambda g: None)),
        "parameter '0.weight': a gradient hook",
    ),
    "further outputs in training": (
        lambda: Forward(aside, a=nn.Linear(4, 3), b=nn.Linear(4, 3)),
        "in training mode: the module returns 2 outputs in training (0, 1) and 1 in evaluation; expected the outputs",
    ),
    "noise in training": (
        lambda: Forward(noisy, a=nn.Linear(4, 3)),
        "torch.rand_like: edgefl has no operation for it: write nn.Dropout, or leave the noise to the data; in eval",
    ),
    "another dropout in training": (
        lambda: Forward(dropping, a=nn.Linear(4, 3)),
        "torch.nn.functional.alpha_dropout: edgefl has no operation for it: write nn.Dropout; in evaluation mode",
    ),
}


@pytest.mark.parametrize("mode", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_change_training_is_refused(make: Callable[[], nn.Module], message: str, mode: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of its older functions
        module = make().train(mode)
    with pytest.raises(GraphError) as error:
        from_torch(module, example(5, 4))
    assert message in str(error.value)


def test_what_the_remedy_gives_is_taken_with_the_present_values() -> None:
    layer = parametrizations.weight_norm(nn.Linear(4, 3))
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2)
    expected = layer.weight.detach().clone().numpy()
    torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_array_equal(from_torch(nn.Sequential(layer), example(5, 4)).params["0.weight"], expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m[0].register_forward_hook(lambda *a: None), "forward hooks of '0' (Linear) are not run"),
        (lambda m: m[1].register_forward_pre_hook(lambda *a: None), "forward hooks of '1' (ReLU) are not run"),
        (lambda m: m.register_forward_hook(lambda *a: None), "forward hooks of the module itself (Sequential) are not"),
        (lambda m: m.add_module("4", nn.Sequential(nn.Linear(2, 2))), ""),
        (lambda m: m.eval(), "the whole module is in evaluation mode, and edgefl trains it in training mode, in which"),
        (lambda m: m[2].eval(), ""),
    ],
)
def test_what_is_not_followed_is_named(change: Callable[[nn.Sequential], object], said: str) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        from_torch(of(change), example(5, 4))
    assert [said in str(each.message) for each in found] == [True] * bool(said)


def test_a_hook_that_changes_a_result_is_an_operation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no sentence says that the hook is not run
        model = from_torch(of(lambda m: m[0].register_forward_hook(lambda m, a, r: 2 * r)), example(5, 4))
    assert [node.op for node in model.graph.nodes][:2] == [Linear(4, 3), MulParameter((3,))]


def test_hooks_of_a_part_that_is_made_of_others_are_operations() -> None:
    inner = nn.Sequential(nn.Linear(4, 3))
    inner.register_forward_hook(lambda m, a, result: F.relu(result))
    assert [node.op for node in from_torch(nn.Sequential(inner), example(5, 4)).graph.nodes] == [Linear(4, 3), ReLU()]


def test_a_dropout_that_alone_is_in_evaluation_mode_drops_nothing() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2), nn.Dropout(0.25))
    module[1].eval()
    assert [node.op for node in from_torch(module, example(5, 4)).graph.nodes][1:] == [Linear(3, 2), Dropout(0.25)]
    assert [part.training for part in module.modules()] == [True, True, False, True, True]


class Aside(nn.Module):
    """A layer that forward uses, and what it does not use: parameters of two kinds, statistics and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.aux, self.norm = nn.Linear(4, 3), nn.Linear(2, 1), nn.BatchNorm1d(3)
        self.half = nn.Linear(1, 1).bfloat16()
        self.register_buffer("mask", torch.tensor([True, False]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x)


def aside_model() -> tuple[Aside, Model]:
    module = Aside()
    with pytest.warns(UserWarning) as found:
        model = from_torch(module, example(5, 4))
    names = "aux.weight, aux.bias, norm.weight, norm.bias, half.weight, half.bias"
    said = f"forward does not use {names}: neither trained nor sent, and kept for .pt files"
    assert [str(each.message) for each in found] == [said]
    return module, model


def test_unused_values_survive_files_copies_and_the_way_back(tmp_path) -> None:
    module, model = aside_model()
    model_files.save(tmp_path / "m.safetensors", model)
    ways = [model, model_files.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(model)), copy.copy(model)]
    for each in [*ways, model._replace(params=model.params)]:
        assert each.params.keys() == {"a.weight", "a.bias"}
        content = io.BytesIO()
        write_state_dict(each, content)
        content.seek(0)
        other = Aside()
        other.load_state_dict(torch.load(content, weights_only=True), strict=True)
        assert all(torch.equal(value, module.state_dict()[name]) for name, value in other.state_dict().items())
    graph, params = model  # what a Model is unpacked as
    assert len(model) == 2 and graph is model.graph and params is model.params
    assert Model(graph, params).unused == {} and model._replace(unused={}).unused == {}


def test_unused_values_change_neither_what_is_sent_nor_the_name() -> None:
    from edgefl.experiment.model_file import name_of

    _, model = aside_model()
    assert name_of(model) == name_of(Model(model.graph, model.params))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "edgefl.unused is '[1]'; expected a list of names"),
        ("{", "edgefl.unused is '{'; expected a list of names"),
        ('["a.weight"]', "parameters ['a.weight'] are only in the file, or only in its graph"),
        ('["nobody"]', "edgefl.unused names 'nobody'; expected names of values in the file"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, text: str, message: str) -> None:
    import safetensors.numpy

    _, model = aside_model()
    metadata = {model_files.GRAPH_KEY: model_files.dumps(model.graph), model_files.UNUSED_KEY: text}
    (tmp_path / "m.safetensors").write_bytes(safetensors.numpy.save(model.params, metadata=metadata))
    with pytest.raises(GraphError) as error:
        model_files.load(tmp_path / "m.safetensors")
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(("given", "found"), [(np.zeros((2, 4), np.float32), "ndarray"), (None, "NoneType")])
def test_an_example_that_is_no_tensor_is_named(given: object, found: str) -> None:
    with pytest.raises(GraphError, match=f"example_input is {found}; expected a torch.Tensor"):
        from_torch(net(), given)
