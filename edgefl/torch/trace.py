"""A torch module as a Graph, by torch.fx: forward is run once on symbols and every call becomes a node.

The result is checked on the example input, so a module whose forward does more than the trace shows (in-place writes
through views, branches on data) is refused and not converted wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.operations import Shape
from edgefl.torch.frozen_parameters import with_frozen
from edgefl.torch.graph_converter import Converter
from edgefl.torch.graph_module import to_torch
from edgefl.torch.module_table import MODULES
from edgefl.torch.sequence_table import UNFOLDED

TOLERANCE = 1e-4  # of the largest output; both sides run torch's own kernels, so real differences are far larger


def from_torch(module: nn.Module, example_input: Tensor) -> Model:
    """The graph and parameters of a torch module made of edgefl's operations.

    module         any nn.Module that torch.fx can trace; it is not changed
    example_input  float32 [batch, channels, height, width], [batch, features] or alike, or int64 ids [batch, length]:
                   gives the input shape, and checks the result in evaluation mode
    A single layer is taken as a Sequential of it.
    Parameters without requires_grad, and BatchNorms in evaluation mode within a module in training mode, are frozen in
    the graph (frozen_parameters.py).
    A softmax or log_softmax at the end is left to the loss, with a warning: the graph's outputs are logits.
    Raises  GraphError naming the first operation or argument that edgefl cannot take.
    """
    if example_input.dtype not in (torch.float32, torch.int64) or example_input.dim() < 2:
        found = f"{example_input.dtype} of {example_input.dim()} axes"
        raise GraphError(f"example_input: {found}; expected float32 batches, or ids in int64")
    if type(module) in MODULES:  # names need a part before ".weight": those of a Sequential of one
        module = nn.Sequential(module).train(module.training)
    own = set(vars(module))
    try:
        graph, left_out = _converted(module, tuple(example_input.shape[1:]))
        graph = with_frozen(graph, module)
    finally:
        for constant in set(vars(module)) - own:  # that torch.fx has left there
            delattr(module, constant)
    model = Model(graph, _parameters(graph, module))
    _check_ids(graph, example_input)
    check_output(model, module, example_input, left_out)
    return model


def _converted(module: nn.Module, input_shape: Shape) -> tuple[Graph, nn.Module]:
    """The graph, and what of the module's end it leaves out. As the module trains, for dropout; or, where that cannot
    be taken (as further outputs cannot), as it predicts.
    """
    for training in (True, False):
        converter = Converter(module, input_shape)
        try:
            with _in_mode(module, training):
                return converter.convert(_trace(module)), converter.left_out
        except GraphError:
            if not training:
                raise
    raise AssertionError("both modes were tried")


def _trace(module: nn.Module) -> fx.Graph:
    try:
        return _ModuleTracer().trace(module)
    except Exception as error:  # forward is foreign code: whatever it raises on symbols, it cannot be traced
        raise GraphError(f"{type(module).__name__} cannot be traced: {error}") from error


class _ModuleTracer(fx.Tracer):
    """Stops at the modules that the table knows, and at torch's own, but for those that are made of others."""

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


def _parameters(graph: Graph, module: nn.Module) -> Params:
    """float32 copies of the module's values of the graph's parameters."""
    state = module.state_dict()
    seen: dict[int, str] = {}
    for name in graph.parameters():
        value = state[name]
        if value.dtype != torch.float32:
            raise GraphError(f"{name} is {value.dtype}; expected torch.float32")
        first = seen.setdefault(value.data_ptr(), name)
        if first != name:
            raise GraphError(f"{name} shares its memory with {first}; edgefl has no shared weights")
    shapes = {name: info.shape for name, info in graph.parameters().items()}
    values = {name: state[name].detach().cpu().numpy().reshape(shape) for name, shape in shapes.items()}
    return {name: np.array(value, order="C") for name, value in values.items()}


def _check_ids(graph: Graph, example_input: Tensor) -> None:
    """Raise GraphError if the module looks up rows that the example does not name."""
    if graph.vocabulary is None:
        return
    ids = example_input.detach().to(torch.float64)
    if (ids != ids.floor()).any() or ids.min() < 0 or ids.max() >= graph.vocabulary:
        found = f"from {ids.min().item():g} to {ids.max().item():g}"
        raise GraphError(f"example_input {found}; expected ids, whole numbers from 0 to {graph.vocabulary - 1}")


def check_output(model: Model, module: nn.Module, example_input: Tensor, left_out: nn.Module) -> None:
    """Raise GraphError unless graph, and what was left out after it, agree with the module on the example."""
    twin = to_torch(model).eval()
    with torch.no_grad(), _in_mode(module, False):
        expected = module(example_input.clone()).cpu()
        found = left_out(twin(example_input.detach().cpu().to(torch.float32, copy=True)))
    difference = (found - expected).abs().max().item() if found.shape == expected.shape else math.inf
    limit = TOLERANCE * max(1.0, expected.abs().max().item())
    if not difference <= limit:
        raise GraphError(
            f"{type(module).__name__}: its output on the example differs by {difference:g} from that of its trace; "
            f"expected at most {limit:g} (does forward write in place, depend on data, or drop values in evaluation?)"
        )


@contextmanager
def _in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Training or evaluation mode for the block; every submodule gets its own mode back."""
    modes = {part: part.training for part in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
