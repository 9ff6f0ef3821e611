"""The conversion of a torch module to a Graph by torch.export, for modules that torch.fx cannot trace or convert.

The module is exported in training mode and in evaluation mode. Both graphs must agree but for dropouts and batch
statistics. trace.py checks the result on the example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.export import ExportedProgram

from edgefl.errors import GraphError
from edgefl.models.graph import Graph
from edgefl.models.graph.parameter_sources import needed_for
from edgefl.torch.aten_attention import ATEN_ATTENTION
from edgefl.torch.aten_compositions import ATEN_COMPOSITIONS
from edgefl.torch.aten_expressions import ATEN_EXPRESSIONS
from edgefl.torch.aten_functions import ATEN_FUNCTIONS
from edgefl.torch.aten_layers import ATEN_LAYERS
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_nodes import drops_attention
from edgefl.torch.aten_norms import ATEN_NORMS
from edgefl.torch.aten_recurrent import ATEN_RECURRENT
from edgefl.torch.call_sources import LiftedCalls, Refusal
from edgefl.torch.example_inputs import Inputs
from edgefl.torch.exported_program import exported
from edgefl.torch.frozen_parameters import earlier_constants
from edgefl.torch.graph_converter import Converter
from edgefl.torch.module_outputs import Chosen, WantedOutputs, chosen, found_again, output_names
from edgefl.torch.module_state import in_mode, unchanged, without_random_numbers
from edgefl.torch.training_difference import agreed

TABLE = (
    ATEN_FUNCTIONS | ATEN_EXPRESSIONS | ATEN_LAYERS | ATEN_RECURRENT | ATEN_ATTENTION | ATEN_NORMS | ATEN_COMPOSITIONS
)


class Converted(NamedTuple):
    """A converted module.

    graph      graph in training mode, with frozen parameters
    left_out   end of the module that the graph leaves out, such as a softmax
    constants  values of frozen parameters of the graph that are not parameters of the module
    outputs    the module's names of the graph's output and of its auxiliary outputs
    """

    graph: Graph
    left_out: nn.Module
    constants: dict[str, Tensor]
    outputs: tuple[str, ...] = ("",)


def converted_by_export(module: nn.Module, inputs: Inputs, wanted: WantedOutputs) -> Converted:
    """Return the graph of a module, and the constants that its forward uses.

    inputs  a batch
    wanted  the main output, and the weights of further outputs
    Raises  GraphError that names the line of the user's code, the operation, and what to write instead
    """
    training = _exported(module, inputs, True)
    names = output_names(training)
    early = _exported(module, inputs, False) if len(names) > 1 else None  # an export takes seconds
    outputs = chosen(names, names if early is None else output_names(early), wanted)
    found = _converted(module, training, inputs, outputs)
    evaluation = early or _exported(module, inputs, False)
    again, drops = found_again(outputs, output_names(evaluation)), drops_attention(training.graph)
    graph = agreed(found, _converted(module, evaluation, inputs, again, drops_shares=drops))
    constants = {name: value for name, value in found.constants.items() if name in graph.parameters()}
    return found._replace(graph=graph, constants=constants)


def refusals(module: nn.Module, inputs: Inputs) -> list[Refusal]:
    """Return every operation of a module in training mode that edgefl cannot take.

    Raises  GraphError if the module cannot be exported
    """
    found: list[Refusal] = []
    try:
        program = _exported(module, inputs, True)
        names = output_names(program)
        outputs = Chosen(tuple(at for at, _ in names), tuple(name for _, name in names), (1.0,) * (len(names) - 1))
        _converted(module, program, inputs, outputs, found)
    except GraphError:
        if not found:
            raise
    return found


def _exported(module: nn.Module, inputs: Inputs, training: bool) -> ExportedProgram:
    with in_mode(module, training), unchanged(module), without_random_numbers():
        return exported(module, inputs)


def _converted(
    module: nn.Module, program: ExportedProgram, inputs: Inputs, outputs: Chosen, refused: list[Refusal] | None = None,
    drops_shares: bool = False,
) -> Converted:  # fmt: skip
    lifting = Lifting(program, max(2, len(inputs.tensors[0])), TABLE, outputs.places, drops_shares)
    lifted = lifting.lift()
    calls = LiftedCalls(lifting, refused)
    converter = Converter(calls, inputs.shape, tuple(zip(inputs.names, inputs.parts, strict=False)))
    graph = converter.convert(lifted, outputs.weights)
    return _frozen(graph, converter.left_out, module, lifting, calls)._replace(outputs=outputs.names)


def _frozen(graph: Graph, left_out: nn.Module, module: nn.Module, lifting: Lifting, calls: LiftedCalls) -> Converted:
    """Return the graph with its frozen parameters: constants, parameters without requires_grad, kept statistics."""
    used = {node.full_name(part) for node in graph.nodes for part in node.op.parameters()}
    computed = needed_for(used, tuple(lifting.weights.computed))
    infos = Graph(graph.input_shape, graph.nodes, frozenset(), computed, graph.auxiliary).parameters()
    own = dict(module.named_parameters(remove_duplicate=False))
    assert calls.constants is not None
    constants = dict(calls.constants)
    for name, info in infos.items():
        if name not in own and info.kind != "stat":
            constants.setdefault(name, lifting.tensors.get(name, Tensor()))
    still = {name for name in infos if name in own and not own[name].requires_grad}
    frozen = still | constants.keys() | (lifting.kept & infos.keys())
    never = frozenset(constants) | earlier_constants(module, still)  # trained, whatever patterns say
    whole = Graph(graph.input_shape, graph.nodes, frozenset(frozen), computed, graph.auxiliary, (), never)
    return Converted(whole, left_out, constants)
