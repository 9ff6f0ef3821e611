"""The conversion of a torch module to a Graph by torch.fx: forward runs once on symbols, and every call becomes a node.

trace.py checks the result on the example. export_front_end.py converts what torch.fx cannot trace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape
from edgefl.torch.call_sources import FxCalls
from edgefl.torch.export_front_end import Converted
from edgefl.torch.frozen_parameters import with_frozen
from edgefl.torch.graph_converter import Converter
from edgefl.torch.module_state import in_mode, unchanged, without_random_numbers
from edgefl.torch.module_table import MODULES
from edgefl.torch.sequence_table import UNFOLDED
from edgefl.torch.shape_branches import decided, without_branches


class NotTracedError(GraphError):
    """A module whose forward torch.fx cannot trace."""


class TrainingLostError(GraphError):
    """A module that can be converted in evaluation mode alone. `refusal` is its refusal in training mode."""

    def __init__(self, message: str, refusal: GraphError) -> None:
        super().__init__(message)
        self.refusal = refusal


def converted_by_fx(module: nn.Module, input_shape: Shape) -> Converted:
    """Return the graph of a module. Its forward runs once on symbols, and every call becomes a node.

    input_shape  shape of one example
    Raises       NotTracedError if forward cannot run on symbols, TrainingLostError if only evaluation can be converted,
                 and GraphError that names the first operation that edgefl cannot take
    """
    graph, left_out = _converted(module, input_shape)
    return Converted(with_frozen(graph, module), left_out, {})


def _converted(module: nn.Module, input_shape: Shape) -> tuple[Graph, nn.Module]:
    """Return the graph of the module in training mode, and the end of the module that the graph leaves out.

    Raises  GraphError, also if the module can be converted in evaluation mode alone, because its training would be
            lost.
    """
    try:
        return _converted_in_mode(module, input_shape, True)
    except GraphError as error:
        in_training = error
    try:
        _converted_in_mode(module, input_shape, False)
    except GraphError:
        raise in_training from None
    raise lost_in_training(in_training)


def lost_in_training(error: GraphError) -> TrainingLostError:
    """Return the refusal of a module that can be converted in evaluation mode alone, from its refusal in training."""
    return TrainingLostError(
        f"in training mode: {error}; in evaluation mode the module can be converted, and its training would be "
        "lost: expected a forward without branches on self.training, and without further outputs in training (as by "
        "aux_logits=False)",
        error,
    )


def _converted_in_mode(module: nn.Module, input_shape: Shape, training: bool) -> tuple[Graph, nn.Module]:
    converter = Converter(FxCalls(module), input_shape)
    with in_mode(module, training), unchanged(module):
        return converter.convert(_traced(module, input_shape)), converter.left_out


def _traced(module: nn.Module, input_shape: Shape) -> fx.Graph:
    try:
        with without_random_numbers():
            return without_branches(_ModuleTracer(input_shape).trace(module), input_shape)
    except Exception as error:  # forward is foreign code: whatever it raises on symbols, it cannot be traced
        raise NotTracedError(f"{type(module).__name__} cannot be traced: {error}") from error


class _ModuleTracer(fx.Tracer):
    """A tracer that stops at the modules of the table and at torch's own modules, but not at modules of UNFOLDED."""

    def __init__(self, input_shape: Shape) -> None:
        super().__init__()
        self._input_shape = input_shape
        self._has_gradients = torch.is_grad_enabled()

    def create_node(self, *args: Any, **settings: Any) -> fx.Node:
        if torch.is_grad_enabled() != self._has_gradients:
            raise GraphError("torch.no_grad in forward; expected requires_grad=False on the parameters in it")
        return super().create_node(*args, **settings)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        def one_input(module: nn.Module, x: Any) -> Any:  # all other arguments have their defaults
            return root_fn(module, x)

        return super().create_args_for_root(one_input, is_module, concrete_args)

    def to_bool(self, obj: fx.Proxy) -> bool:
        return decided(obj.node, self._input_shape)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) in UNFOLDED:
            return False
        return type(m) in MODULES or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if type(m) in UNFOLDED:
            forward = partial(UNFOLDED[type(m)], m)
        return super().call_module(m, forward, args, kwargs)
