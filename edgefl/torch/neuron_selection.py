"""The selection of the neurons of a torch model that are trained.

The frozen neurons take part in the forward pass, and converted layers compute no gradients for them.

    model = convert(model)
    select(model, 0.2, example_input=x[:2])      # a fifth of each hidden layer's neurons, drawn anew at every call
    keep_frozen(optimizer, model)                # once: neither momentum nor weight decay moves the others
    loss(model(x), y).backward()                 # .grad is 0 outside the active blocks
    blocks = compact_gradients(model)            # which are these, as a message carries them

The graph of a model, which from_torch reads, tells which neurons it has (edgefl/models/neurons/model_spec.py). If
from_torch cannot read the model, ids by layer select outputs of these layers, and no inputs. The source is FedSPU
(docs/algorithms.md section 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.gather import take
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec, layer_of
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import KINDS, Update
from edgefl.rng import NEURONS, stream
from edgefl.torch.conversion import PLAIN, plain
from edgefl.torch.gradient_reach import shorten
from edgefl.torch.layer_selection import ActiveChannels, mask_of
from edgefl.torch.native_block import keep_frozen as keep_statistics
from edgefl.torch.native_tensors import Array
from edgefl.torch.trace import from_torch

Neurons = NeuronSet | float | Mapping[str, Iterable[int]]
LEARNED: tuple[Kind, ...] = ("learn",)
Chosen = tuple[ModelSpec, NeuronSet]

GRAPH, SPEC, CHOSEN = "edgefl_read", "edgefl_spec", "edgefl_chosen"  # attributes of the selected model
_HOOKS: WeakKeyDictionary[nn.Module, list[Any]] = WeakKeyDictionary()


def select(
    model: nn.Module, neurons: Neurons | None, *, example_input: Tensor | None = None, seed: int = 0, round: int = 0
) -> NeuronSet | None:
    """Train only these neurons of a model until the next call, and return their set, or train all neurons again.

    neurons        set of the model's specification, or a share of each group above 0 and at most 1, drawn for `seed`
                   and `round`, or ids by group. If no call has had an example, ids by layer. None: all neurons are
                   trained again
    example_input  example as `from_torch` takes it, at the first call, which tells which neurons the model has
    seed, round    numbers that the draw of a share follows
    Raises         GraphError if `from_torch` cannot read the model, SelectionError for neurons that the model does not
                   have, ValueError for a share out of bounds or without an example
    """
    _release(model)
    if neurons is None:
        return None
    spec = _spec(model, neurons, example_input)
    if isinstance(neurons, NeuronSet):
        neurons.check(spec)
        chosen = neurons
    elif isinstance(neurons, Mapping):
        chosen = NeuronSet.of(spec, neurons)
    else:
        chosen = NeuronSet.draw(spec, neurons, stream(seed, NEURONS, round=round))
    model.__dict__[CHOSEN] = spec, chosen
    _apply(model, spec, chosen)
    if GRAPH in model.__dict__:
        shorten(model, model.__dict__[GRAPH], chosen)
    return chosen


def compact_gradients(model: nn.Module) -> Update:
    """Copy the gradients of the active blocks of a model with selected neurons.

    model   model that has run a backward pass
    Raises  ValueError if a parameter has no gradient, or if no neurons are selected
    """
    spec, chosen = _chosen(model)
    gradients: dict[str, Array] = {}
    for name, param in spec.params.items():
        if param.kind == "learn":
            found = model.get_parameter(name).grad
            if found is None:
                raise ValueError(f"{name} has no gradient; expected backward() before")
            gradients[name] = found.detach().cpu().contiguous().reshape(param.shape).numpy()
    return take(gradients, spec, chosen, kinds=LEARNED)


def keep_frozen(optimizer: torch.optim.Optimizer, model: nn.Module) -> Callable[[], None]:
    """Keep the steps of an optimizer from moving frozen coordinates, whatever its momentum and weight decay.

    Return a function that ends this.
    optimizer  optimizer over parameters of the model
    model      model whose neurons `select` selects. The frozen coordinates may change from step to step
    """
    before: list[tuple[Tensor, ActiveChannels, Tensor]] = []

    def remember(*_: Any) -> None:
        before[:] = [(values, active, values.clone()) for values, active in _frozen(model)]

    def put_back(*_: Any) -> None:
        with torch.no_grad():
            for values, active, old in before:
                values.copy_(torch.where(mask_of(values, active), values, old))
        before.clear()

    handles = optimizer.register_step_pre_hook(remember), optimizer.register_step_post_hook(put_back)

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end


def _spec(model: nn.Module, neurons: Neurons, example_input: Tensor | None) -> ModelSpec:
    """Return the specification of the model's neurons: from its graph, or from the layers that `neurons` names."""
    found: ModelSpec | None = model.__dict__.get(SPEC)
    if example_input is not None:
        example = example_input.float() if example_input.is_floating_point() else example_input
        graph = model.__dict__[GRAPH] = from_torch(plain(model).float().cpu(), example.cpu()).graph
        found = model.__dict__[SPEC] = ModelSpec.of(graph)
    if found is not None:
        return found
    if not isinstance(neurons, Mapping):
        raise ValueError("neurons of a model without an example of its input; expected example_input=, or ids by layer")
    return _by_layer(model, list(neurons))


def _by_layer(model: nn.Module, layers: list[str]) -> ModelSpec:
    """Return a specification with one group for each layer, along its outputs. No group lies along inputs."""
    params, groups = {}, {}
    for layer in layers:
        for name, value in model.get_submodule(layer).named_parameters(layer, recurse=False):
            kind: Kind = "learn" if value.requires_grad else "frozen"
            params[name] = ParamSpec(tuple(value.shape), kind, AxisSpec(layer))
            groups[layer] = value.shape[0]
        for name, statistic in model.get_submodule(layer).named_buffers(layer, recurse=False):
            if statistic.dim() == 1:
                params[name] = ParamSpec(tuple(statistic.shape), "stat", AxisSpec(layer))
    return ModelSpec(params, groups, b"")


def _chosen(model: nn.Module) -> Chosen:
    found: Chosen | None = model.__dict__.get(CHOSEN)
    if found is None:
        raise ValueError("no neurons are selected; expected select(model, neurons) before")
    return found


def _blocks(spec: ModelSpec, chosen: NeuronSet) -> dict[str, ActiveChannels]:
    """Return the active channels of each restricted parameter."""
    found = chosen.blocks(spec, KINDS).items()
    return {name: ActiveChannels(rows, cols) for name, (rows, cols) in found if rows is not None or cols is not None}


def _frozen(model: nn.Module) -> list[tuple[Tensor, ActiveChannels]]:
    """Return the parameters with frozen coordinates, detached from autograd."""
    if CHOSEN not in model.__dict__:
        return []
    spec, chosen = _chosen(model)
    learned = [item for item in _blocks(spec, chosen).items() if spec.params[item[0]].kind == "learn"]
    return [(model.get_parameter(name).detach(), active) for name, active in learned]


def _apply(model: nn.Module, spec: ModelSpec, chosen: NeuronSet) -> None:
    """Tell converted layers what is frozen. In other layers, cut the gradients and put the statistics back by hooks."""
    handles = _HOOKS.setdefault(model, [])
    shared = model.__dict__[GRAPH].shared if GRAPH in model.__dict__ else {}
    for name, active in _blocks(spec, chosen).items():
        owner = model.get_submodule(layer_of(name))
        if name in shared and spec.params[name].kind == "learn":  # another layer may add to its gradient
            handles.append(model.get_parameter(name).register_hook(partial(_cut, active)))
        if type(owner) in PLAIN:
            known: Any = owner
            known.edgefl_active = _merged(known.edgefl_active, active)
        elif spec.params[name].kind == "learn":
            handles.append(model.get_parameter(name).register_hook(partial(_cut, active)))
        else:
            handles += _statistics_kept(owner, model.get_buffer(name), active)


def _merged(known: ActiveChannels, active: ActiveChannels) -> ActiveChannels:
    """Return the active channels of a layer: the known channels, completed by the channels of one more parameter."""
    return ActiveChannels(
        known.outs if active.outs is None else active.outs, known.ins if active.ins is None else active.ins
    )


def _cut(active: ActiveChannels, gradient: Tensor) -> Tensor:
    return gradient * mask_of(gradient, active)


def _statistics_kept(owner: nn.Module, statistic: Tensor, active: ActiveChannels) -> list[Any]:
    """Add hooks that restore the frozen channels of a statistic after each call of the layer, and return the hooks."""
    before: list[Tensor] = []

    def remember(*_: Any) -> None:
        before[:] = [statistic.clone()]

    def put_back(*_: Any) -> None:
        keep_statistics([statistic], before, active)

    return [owner.register_forward_pre_hook(remember), owner.register_forward_hook(put_back)]


def _release(model: nn.Module) -> None:
    """Let all neurons be trained again."""
    model.__dict__.pop(CHOSEN, None)
    for handle in _HOOKS.pop(model, []):
        handle.remove()
    for module in model.modules():
        if type(module) in PLAIN:
            module.__dict__.pop("edgefl_active", None)
