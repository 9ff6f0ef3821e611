"""The conversion of a torch module to a Graph by torch.export, for modules that torch.fx cannot trace or convert.

The module is exported in training mode and in evaluation mode. Both graphs must agree but for dropouts and batch
statistics. trace.py checks the result on the example.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from edgefl.errors import GraphError
from edgefl.models.graph import Graph
from edgefl.models.graph.operations import Shape
from edgefl.models.graph.parameter_sources import needed_for
from edgefl.torch.aten_attention import ATEN_ATTENTION
from edgefl.torch.aten_functions import ATEN_FUNCTIONS
from edgefl.torch.aten_layers import ATEN_LAYERS
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_recurrent import ATEN_RECURRENT
from edgefl.torch.call_sources import LiftedCalls, Refusal
from edgefl.torch.exported_program import exported
from edgefl.torch.graph_converter import Converter
from edgefl.torch.module_state import in_mode, unchanged, without_random_numbers
from edgefl.torch.training_difference import check_modes

TABLE = ATEN_FUNCTIONS | ATEN_LAYERS | ATEN_RECURRENT | ATEN_ATTENTION


class Converted(NamedTuple):
    """A converted module.

    graph      graph in training mode, with frozen parameters
    left_out   end of the module that the graph leaves out, such as a softmax
    constants  values of frozen parameters of the graph that are not parameters of the module
    """

    graph: Graph
    left_out: nn.Module
    constants: dict[str, Tensor]


def converted_by_export(module: nn.Module, example: Tensor) -> Converted:
    """Return the graph of a module, and the constants that its forward uses.

    example  batch of inputs
    Raises   GraphError that names the line of the user's code, the operation, and what to write instead
    """
    found = _in_mode(module, example, True)
    other = _in_mode(module, example, False)
    check_modes(found.graph, other.graph, found.constants, other.constants)
    return found


def refusals(module: nn.Module, example: Tensor) -> list[Refusal]:
    """Return every operation of a module in training mode that edgefl cannot take.

    Raises  GraphError if the module cannot be exported
    """
    found: list[Refusal] = []
    try:
        _in_mode(module, example, True, found)
    except GraphError:
        if not found:
            raise
    return found


def _in_mode(
    module: nn.Module, example: Tensor, training: bool, refused: list[Refusal] | None = None
) -> Converted:  # fmt: skip
    with in_mode(module, training), unchanged(module), without_random_numbers():
        program = exported(module, example)
    outputs = program.call_spec.out_spec
    if not outputs.is_leaf() and outputs.num_leaves == 1:
        kind = getattr(outputs.type, "__name__", outputs.type)
        raise GraphError(f"the module returns a {kind} of one tensor; expected the tensor itself")
    lifting = Lifting(program, max(2, len(example)), TABLE)
    lifted = lifting.lift()
    calls = LiftedCalls(lifting, refused)
    shape: Shape = tuple(example.shape[1:])
    converter = Converter(calls, shape)
    graph = converter.convert(lifted)
    return _frozen(graph, converter.left_out, module, lifting, calls)


def _frozen(graph: Graph, left_out: nn.Module, module: nn.Module, lifting: Lifting, calls: LiftedCalls) -> Converted:
    """Return the graph with its frozen parameters: constants, parameters without requires_grad, kept statistics."""
    used = {node.full_name(part) for node in graph.nodes for part in node.op.parameters()}
    computed = needed_for(used, tuple(lifting.weights.computed))
    infos = Graph(graph.input_shape, graph.nodes, frozenset(), computed).parameters()
    own = dict(module.named_parameters(remove_duplicate=False))
    assert calls.constants is not None
    constants = dict(calls.constants)
    for name, info in infos.items():
        if name not in own and info.kind != "stat":
            constants.setdefault(name, lifting.tensors.get(name, Tensor()))
    still = {name for name in infos if name in own and not own[name].requires_grad}
    frozen = still | constants.keys() | (lifting.kept & infos.keys())
    return Converted(Graph(graph.input_shape, graph.nodes, frozenset(frozen), computed), left_out, constants)
