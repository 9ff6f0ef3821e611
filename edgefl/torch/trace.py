"""The conversion of a torch module to a Graph, by torch.fx or by torch.export.

The result is checked on the example input. So a module whose forward does more than its graph shows (in-place writes
through views, branches on data) is refused and not converted wrongly. fx_front_end.py and export_front_end.py convert.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph, Model, Params
from edgefl.models.graph.input_ids import id_values
from edgefl.torch.attempt_warnings import warnings_of_success
from edgefl.torch.call_sources import RefusedCallError
from edgefl.torch.example_inputs import Example, Inputs, check_ids, inputs_of
from edgefl.torch.export_front_end import Converted, converted_by_export
from edgefl.torch.exported_program import NotExportedError
from edgefl.torch.fx_front_end import NotTracedError, TrainingLostError, converted_by_fx, lost_in_training
from edgefl.torch.module_outputs import FIRST, Key, WantedOutputs
from edgefl.torch.module_table import MODULES
from edgefl.torch.module_wishes import check_inputs, check_wishes, say_unheard, unheard_hooks, unused_values
from edgefl.torch.output_check import check_output

Read = tuple[Model, nn.Module]


def from_torch(
    module: nn.Module,
    example_input: Example,
    *,
    output: Key | None = None,
    outputs: Mapping[Key, float] | None = None,
) -> Model:
    """Read the graph and the parameters of a torch module that is made of edgefl's operations.

    module         any nn.Module that torch.fx can trace or torch.export can export. The module is not changed
    example_input  float32 [batch, channels, height, width], [batch, features] or the like, or int64 ids [batch,
                   length]. The example gives the input shape, and checks the result in evaluation mode. A tuple or a
                   dict of tensors is the arguments of forward. Then the graph has one input [values], in which the
                   inputs lie side by side as `pack_inputs` of edgefl.learning puts them
    output         main output of a module that returns a tuple, dict or dataclass: its position, name or key. None
                   stands for the first output, with a warning that names the others
    outputs        weights of the losses of further outputs, which become auxiliary outputs of the graph. All other
                   outputs are left out
    Raises         GraphError that names the first operation or argument that edgefl cannot take

    A single layer is taken as a Sequential of the layer. Parameters without requires_grad are frozen in the graph, and
    so are BatchNorms in evaluation mode within a module in training mode (frozen_parameters.py). A softmax or
    log_softmax at the end is left to the loss, with a warning: the outputs of the graph are logits. Warnings also name
    parameters that forward does not use, and hooks that training will not run. Arguments of forward that have defaults
    keep their defaults. A graph of one output gives [N, 1], also where the module gives [N].
    """
    return read_module(module, example_input, WantedOutputs(output, outputs or {}))[0]


def read_module(module: nn.Module, example_input: Example, wanted: WantedOutputs = FIRST) -> tuple[Model, nn.Module]:
    """Return the result of `from_torch`, and the part that it leaves out at the module's end.

    This part is the softmax that the loss includes, or nn.Flatten if the module makes [N] of [N, 1]. It is nn.Identity
    if nothing is left out.
    """
    inputs = inputs_of(module, example_input)
    check_wishes(module)
    check_inputs(module, inputs)
    if type(module) in MODULES:  # parameter names need a prefix, which a Sequential of one layer gives
        module = nn.Sequential(module).train(module.training)
    model, left_out, lost_hooks = _read_in_either_way(module, inputs, wanted)
    say_unheard(module, model, lost_hooks)
    return model, left_out


def _read_in_either_way(module: nn.Module, inputs: Inputs, wanted: WantedOutputs) -> tuple[Model, nn.Module, list[str]]:
    """Return the model by torch.fx, or by torch.export if torch.fx cannot trace the module or convert its trace.

    torch.fx takes milliseconds and torch.export takes seconds, so torch.fx comes first. It takes modules of one input
    and one output. The third result names the hooks that the graph does not have.
    """
    if inputs.packed or not wanted.are_open:
        return *_checked(converted_by_export(module, inputs, wanted), module, inputs), []
    try:
        with warnings_of_success():
            found = _checked(converted_by_fx(module, inputs.shape), module, inputs)
            return *found, unheard_hooks(module)
    except GraphError as error:
        by_fx = error
    try:
        return *_checked(converted_by_export(module, inputs, wanted), module, inputs), []
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


def _checked(found: Converted, module: nn.Module, inputs: Inputs) -> Read:
    """Return the model of a converted module. Raises GraphError unless it computes what the module computes."""
    model = Model(found.graph, _parameters(found.graph, module, found.constants))
    model = Model(*model, unused_values(module, model))
    check_ids(inputs, id_values(found.graph))
    check_output(model, module, inputs, found.left_out, found.outputs)
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
