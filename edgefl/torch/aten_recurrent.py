"""The table ATEN_RECURRENT: recurrent layers for ATen's LSTM and GRU, one layer of torch for each of their layers.

An ATen operation has all layers of a torch module. A graph has a node for each layer, whose parameters keep torch's
names. sequence_table.py says what a layer means in a graph.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.torch.aten_layers import BARE
from edgefl.torch.aten_lifting import Entry, Lifting
from edgefl.torch.traced_call import expect

PARTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def _recurrent(kind: type[nn.LSTM] | type[nn.GRU]) -> Entry:
    def entry(
        lift: Lifting, input: fx.Node, state: Any, weights: list[fx.Node], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        expect("bidirectional", bidirectional, False)
        _check_state(lift, state if isinstance(state, list | tuple) else [state])
        each = len(weights) // num_layers
        if each not in (2, 4):
            raise GraphError(f"proj_size={weights[each - 1].meta['val'].shape[0]}; expected 0")
        source: fx.Node = lift.lifted(input)
        ends: list[fx.Node] = []
        for layer in range(num_layers):
            if layer and dropout and train:
                source = lift.call(functional.dropout, source, dropout, True)
            own = dict(zip(PARTS, weights[layer * each : layer * each + each], strict=False))
            rows, features = own[PARTS[0]].meta["val"].shape
            units = rows // (4 if kind is nn.LSTM else 3)
            module = kind(features, units, bias=has_biases, batch_first=batch_first, **BARE)
            result = lift.layer(module, own, source)
            source, ends = lift.call(operator.getitem, result, 0), [*ends, result]
        last = [_last(lift, result, kind) for result in ends] if _reads_states(lift.node) else []
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


ATEN_RECURRENT: dict[str, Entry] = {"lstm": _recurrent(nn.LSTM), "gru": _recurrent(nn.GRU)}
"""The layers for ATen's recurrent operations, by the name of the operation without its overload."""
