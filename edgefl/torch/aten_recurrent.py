"""The table ATEN_RECURRENT: recurrent layers for ATen's RNN, LSTM and GRU, one of torch for each layer and direction.

An ATen operation has all layers of a torch module. A graph has a node for each layer and direction, whose parameters
keep torch's names. The second direction reads and writes its sequence in reverse. sequence_table.py says what a layer
means in a graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.torch.aten_layers import BARE
from edgefl.torch.aten_lifting import Entry, Lifting

PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


class _Layers(NamedTuple):
    """What the layers of a recurrent node share. `make` takes the sizes of a layer of one direction."""

    lift: Lifting
    make: Callable[..., nn.RNNBase]
    gates: int
    weights: tuple[dict[str, fx.Node], ...]  # of each layer and direction
    settings: dict[str, Any]
    ends: list[fx.Node]  # results of each layer and direction

    def run(self, at: int, source: fx.Node, is_reversed: bool) -> fx.Node:
        """Return the states after each step of one direction of a layer. `at` is its place in torch's order."""
        own, steps = self.weights[at], 1 if self.settings["batch_first"] else 0
        rows, features = own[PARTS[0]].meta["val"].shape
        module = self.make(features, rows // self.gates, **self.settings, **BARE)
        turned = self.lift.call(torch.flip, source, [steps]) if is_reversed else source
        result = self.lift.layer(module, own, turned)
        self.ends.append(result)
        states = self.lift.call(operator.getitem, result, 0)
        return self.lift.call(torch.flip, states, [steps]) if is_reversed else states


def _recurrent(kind: type[nn.RNNBase], make: Callable[..., nn.RNNBase]) -> Entry:
    def entry(
        lift: Lifting, input: fx.Node, state: Any, weights: list[fx.Node], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        _check_state(lift, state if isinstance(state, list | tuple) else [state])
        directions = 2 if bidirectional else 1
        each = len(weights) // (num_layers * directions)
        if each not in (2, 4):
            raise GraphError(f"proj_size={weights[each - 1].meta['val'].shape[0]}; expected 0")
        own = tuple(dict(zip(PARTS, weights[at : at + each], strict=False)) for at in range(0, len(weights), each))
        settings = {"bias": has_biases, "batch_first": batch_first}
        layers = _Layers(lift, make, GATES[kind], own, settings, [])
        source: fx.Node = lift.lifted(input)
        for layer in range(num_layers):
            if layer and dropout and train:
                source = lift.call(functional.dropout, source, dropout, True)
            found = [layers.run(layer * directions + way, source, bool(way)) for way in range(directions)]
            source = lift.call(torch.cat, found, 2) if bidirectional else found[0]
        last = [_last(lift, result, kind) for result in layers.ends] if _reads_states(lift.node) else []
        lift.states[lift.node] = last
        lift.several[lift.node] = (source, *last[-1:])
        return source

    return entry


def _last(lift: Lifting, result: fx.Node, kind: type[nn.Module]) -> fx.Node:
    """Return the call that reads a layer's last state, [1, batch, units]."""
    state = lift.call(operator.getitem, result, 1)
    return lift.call(operator.getitem, state, 0) if kind is nn.LSTM else state


def _reads_states(node: fx.Node) -> bool:
    return any(user.args[1] == 1 and user.users for user in node.users)


def _check_state(lift: Lifting, states: Sequence[Any]) -> None:
    """Raise GraphError unless the initial states are zeros."""
    for state in states:
        if lift.is_value(state) or lift.is_parameter(state) or bool(torch.as_tensor(lift.known(state)).any()):
            raise GraphError(
                "an initial state; expected no state, or torch.zeros that forward makes: the state starts at 0"
            )


GATES: dict[type[nn.RNNBase], int] = {nn.RNN: 1, nn.GRU: 3, nn.LSTM: 4}

ATEN_RECURRENT: dict[str, Entry] = {
    "lstm": _recurrent(nn.LSTM, nn.LSTM),
    "gru": _recurrent(nn.GRU, nn.GRU),
    "rnn_tanh": _recurrent(nn.RNN, nn.RNN),
    "rnn_relu": _recurrent(nn.RNN, partial(nn.RNN, nonlinearity="relu")),
}
"""The layers for ATen's recurrent operations, by the name of the operation without its overload."""
