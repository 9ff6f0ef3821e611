"""The conversion of a torch module to a Graph, by torch.fx or by torch.export.

The result is checked on the example input. So a module whose forward does more than its graph shows (in-place writes
through views, branches on data) is refused and not converted wrongly. fx_front_end.py and export_front_end.py convert.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Model, Params
from edgefl.torch.attempt_warnings import warnings_of_success
from edgefl.torch.call_sources import RefusedCallError
from edgefl.torch.export_front_end import Converted, converted_by_export
from edgefl.torch.exported_program import NotExportedError
from edgefl.torch.fx_front_end import NotTracedError, TrainingLostError, converted_by_fx, lost_in_training
from edgefl.torch.graph_module import to_torch
from edgefl.torch.module_state import in_mode, unchanged
from edgefl.torch.module_table import MODULES
from edgefl.torch.module_wishes import check_inputs, check_wishes, say_unheard, unheard_hooks, unused_values

Read = tuple[Model, nn.Module]
TOLERANCE = 1e-4  # share of the largest output, far below real differences, as torch's kernels compute both sides


def from_torch(module: nn.Module, example_input: Tensor) -> Model:
    """Read the graph and the parameters of a torch module that is made of edgefl's operations.

    module         any nn.Module that torch.fx can trace or torch.export can export. The module is not changed
    example_input  float32 [batch, channels, height, width], [batch, features] or the like, or int64 ids [batch,
                   length]. The example gives the input shape, and checks the result in evaluation mode
    Raises         GraphError that names the first operation or argument that edgefl cannot take

    A single layer is taken as a Sequential of the layer. Parameters without requires_grad are frozen in the graph, and
    so are BatchNorms in evaluation mode within a module in training mode (frozen_parameters.py). A softmax or
    log_softmax at the end is left to the loss, with a warning: the outputs of the graph are logits. Warnings also name
    parameters that forward does not use, and hooks that training will not run. Arguments of forward that have defaults
    keep their defaults. A graph of one output gives [N, 1], also where the module gives [N].
    """
    return read_module(module, example_input)[0]


def read_module(module: nn.Module, example_input: Tensor) -> tuple[Model, nn.Module]:
    """Return the result of `from_torch`, and the part that it leaves out at the module's end.

    This part is the softmax that the loss includes, or nn.Flatten if the module makes [N] of [N, 1]. It is nn.Identity
    if nothing is left out.
    """
    if not isinstance(example_input, Tensor):
        raise GraphError(f"example_input is {type(example_input).__name__}; expected a torch.Tensor, a batch of inputs")
    if example_input.dtype not in (torch.float32, torch.int64) or example_input.dim() < 2:
        found = f"{example_input.dtype} of {example_input.dim()} axes"
        raise GraphError(f"example_input: {found}; expected float32 batches, or ids in int64")
    check_wishes(module)
    check_inputs(module)
    if type(module) in MODULES:  # parameter names need a prefix, which a Sequential of one layer gives
        module = nn.Sequential(module).train(module.training)
    model, left_out, lost_hooks = _read_in_either_way(module, example_input)
    say_unheard(module, model, lost_hooks)
    return model, left_out


def _read_in_either_way(module: nn.Module, example_input: Tensor) -> tuple[Model, nn.Module, list[str]]:
    """Return the model by torch.fx, or by torch.export if torch.fx cannot trace the module or convert its trace.

    torch.fx takes milliseconds and torch.export takes seconds, so torch.fx comes first. The third result names the
    hooks that the graph does not have.
    """
    try:
        with warnings_of_success():
            found = _checked(converted_by_fx(module, tuple(example_input.shape[1:])), module, example_input)
            return *found, unheard_hooks(module)
    except GraphError as error:
        by_fx = error
    try:
        return *_checked(converted_by_export(module, example_input), module, example_input), []
    except NotExportedError as error:
        raise (error if isinstance(by_fx, NotTracedError) else by_fx) from None
    except GraphError as error:
        raise _clearer(by_fx, error) from None


def _clearer(by_fx: GraphError, by_export: GraphError) -> GraphError:
    """Return the refusal that tells more: by torch.fx for a setting of a layer, and otherwise by torch.export.

    torch.export sees the operations of which a layer consists, and torch.fx sees the layer.
    """
    found, told = by_export, by_fx.refusal if isinstance(by_fx, TrainingLostError) else by_fx
    if isinstance(told, RefusedCallError) and isinstance(by_export, RefusedCallError):
        found = told if told.layer and told.layer == by_export.layer else by_export
    return lost_in_training(found) if isinstance(by_fx, TrainingLostError) else found


def _checked(found: Converted, module: nn.Module, example_input: Tensor) -> Read:
    """Return the model of a converted module. Raises GraphError unless it computes what the module computes."""
    model = Model(found.graph, _parameters(found.graph, module, found.constants))
    model = Model(*model, unused_values(module, model))
    _check_ids(found.graph, example_input)
    check_output(model, module, example_input, found.left_out)
    return model, found.left_out


def _parameters(graph: Graph, module: nn.Module, constants: Mapping[str, Tensor]) -> Params:
    """Return float32 copies of the module's values for the graph's parameters, and of the constants of its forward."""
    state = {**module.state_dict(), **constants}
    seen: dict[int, str] = {}
    for name in graph.parameters():
        if name not in state:
            raise GraphError(f"{name} is not in the module's state_dict; expected parameters that the module registers")
        value = state[name]
        if value.is_meta:
            raise GraphError(f"{name} is on the device meta; expected values: module.to_empty(device='cpu'), then init")
        if value.dtype != torch.float32:
            raise GraphError(f"{name} is {value.dtype}; expected torch.float32: module.float() converts it")
        first = seen.setdefault(value.data_ptr(), name)
        if first != name:
            raise GraphError(f"{name} shares its memory with {first}; edgefl has no shared weights")
    shapes = {name: info.shape for name, info in graph.parameters().items()}
    values = {name: state[name].detach().cpu().numpy().reshape(shape) for name, shape in shapes.items()}
    return {name: np.array(value, order="C") for name, value in values.items()}


def _check_ids(graph: Graph, example_input: Tensor) -> None:
    """Raise GraphError if the module looks up rows of a table and the example has values that are not ids of rows."""
    if graph.vocabulary is None:
        return
    ids = example_input.detach().to(torch.float64)
    if (ids != ids.floor()).any() or ids.min() < 0 or ids.max() >= graph.vocabulary:
        found = f"from {ids.min().item():g} to {ids.max().item():g}"
        raise GraphError(f"example_input {found}; expected ids, whole numbers from 0 to {graph.vocabulary - 1}")


def check_output(model: Model, module: nn.Module, example_input: Tensor, left_out: nn.Module) -> None:
    """Raise GraphError unless the graph, followed by what it left out, gives the module's output on the example.

    The module runs twice and must give equal outputs.
    """
    twin = to_torch(model).eval()
    with torch.no_grad(), in_mode(module, False), unchanged(module):
        expected = module(example_input.clone()).cpu()
        again = module(example_input.clone()).cpu()
        found = left_out(twin(example_input.detach().cpu().to(torch.float32, copy=True)))
    difference = (found - expected).abs().max().item() if found.shape == expected.shape else math.inf
    limit = TOLERANCE * max(1.0, expected.abs().max().item())
    if not difference <= limit:
        hooks = "".join(f"; {hooks}, which the trace does not have" for hooks in unheard_hooks(module))
        raise GraphError(
            f"{type(module).__name__}: its output on the example differs by {difference:g} from that of its trace; "
            f"expected at most {limit:g} (does forward write in place, depend on data, or drop values in evaluation?)"
            f"{hooks}"
        )
    if again.shape != expected.shape or not torch.equal(again, expected):
        raise GraphError(
            f"{type(module).__name__}: its output differs at a second call; expected a forward that keeps no state "
            "from one batch to the next: begin each batch from torch.zeros"
        )
