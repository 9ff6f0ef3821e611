"""The class Graph: a model's architecture as a frozen value, and Model: a graph with its parameters.

It uses no torch and no files. Parameters have torch's names, shapes and layouts ("conv1.weight", "bn1.running_mean").
There is no num_batches_tracked. The operations are in operations/, the JSON form is in json.py, and the parameters of a
sub-model are in neurons/submodel.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from edgefl.errors import GraphError
from edgefl.models.graph.auxiliary_outputs import AuxiliaryOutput, check_outputs
from edgefl.models.graph.computed_parameters import ComputedParameter, zero_places
from edgefl.models.graph.frozen_names import check_frozen
from edgefl.models.graph.initial_values import initial, uniform
from edgefl.models.graph.narrower import IdArray, resized
from edgefl.models.graph.node import Node
from edgefl.models.graph.operations import (
    Attention,
    BatchNorm,
    Embedding,
    ParamInfo,
    Shape,
)
from edgefl.models.graph.parameter_slices import SlicedParameter, check_slices
from edgefl.models.graph.parameter_sources import (
    check_computed,
    needed_for,
    nodes_behind,
    parameter_infos,
    roots_of,
    users_of,
)
from edgefl.models.graph.quantized_parameters import QuantizedParameter, check_precision, check_quantized
from edgefl.models.graph.shared_parameters import check_uses, other_names, parameter_uses
from edgefl.models.graph.structure_checks import INPUT, check_structure

if TYPE_CHECKING:
    from edgefl.rng import Stream

Params = dict[str, np.ndarray]


Blocks = Mapping[str, tuple[IdArray | None, IdArray | None]]
"""The active block (rows, cols) of each parameter, by full name. `None` stands for the whole axis."""


class Selection(Protocol):
    """The protocol of a set of neurons for Graph.sub. NeuronSet (neurons/neuron_set.py) follows this protocol."""

    def blocks_of(self, graph: Graph) -> Blocks:
        """Return the active blocks of every parameter of `graph`."""


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph of operations, checked on construction.

    input_shape  shape of one sample without the batch: [channels, height, width], [channels, length] or [features]. Its
                 name among the results is "input"
    nodes        nodes in topological order. The last node is the output. Every other result is used, or is auxiliary
    frozen       full names of the parameters that no training moves and no message of a round carries. A BatchNorm
                 whose running statistics are frozen normalises by its running statistics in training, too
    computed     parameters that follow from other parameters, in topological order. The parameters of the graph are
                 their sources
    auxiliary    results whose losses training adds to the loss of the output. Evaluations do not compute them
    slices       parameters of which training moves some rows or columns alone, in the order of their names
    constants    full names of the frozen parameters that are constants or buffers of a module's code, never trained
    quantized    frozen parameters that are held in fewer bits, in the order of their names
    Raises  GraphError that names the node and the value that does not fit.
    """

    input_shape: Shape
    nodes: tuple[Node, ...]
    frozen: frozenset[str] = frozenset()
    computed: tuple[ComputedParameter, ...] = ()
    auxiliary: tuple[AuxiliaryOutput, ...] = ()
    slices: tuple[SlicedParameter, ...] = ()
    constants: frozenset[str] = frozenset()
    quantized: tuple[QuantizedParameter, ...] = ()

    def __post_init__(self) -> None:
        check_outputs(self.nodes, self.auxiliary)
        check_structure(self.input_shape, self.nodes, self.auxiliary)
        check_uses(self.nodes, self.frozen)
        check_computed(self.nodes, self.computed, self.frozen)
        check_frozen(self.frozen, self.constants, self.nodes, self.parameters().keys())
        if self.slices != ():
            check_slices(self.slices, self.nodes, self.parameters())
        if self.quantized != ():
            check_quantized(self.quantized, self.constants, self.parameters())
        _ = self.shapes

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every result without the batch, by name, including "input"."""
        shapes = {INPUT: self.input_shape}
        for node in self.nodes:
            shapes[node.name] = node.output(shapes)
        return shapes

    @property
    def vocabulary(self) -> int | None:
        """Return the number of ids that an Embedding can look up, or None if the input is not ids.

        An input with some ids (InputPart) counts as an input that is not ids.
        """
        tables = [node for node in self.nodes if isinstance(node.op, Embedding) and node.inputs == (INPUT,)]
        sizes = [node.op.num_embeddings for node in tables if isinstance(node.op, Embedding)]
        return min(sizes, default=None)

    @property
    def output_shape(self) -> Shape:
        return self.shapes[self.nodes[-1].name]

    def parameters(self) -> dict[str, ParamInfo]:
        """Return the shape and kind of every parameter, by full name, in node order. A shared parameter occurs once, at
        the place of its first use.
        """
        infos = parameter_infos(self.nodes, self.computed)
        return {name: info._replace(kind="frozen") if name in self.frozen else info for name, info in infos.items()}

    @cached_property
    def shared(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes that use a parameter, in node order, for every parameter that several nodes use.

        A node also uses the sources of its computed parameters.
        """
        return {name: each for name, each in nodes_behind(self.nodes, self.computed).items() if len(each) > 1}

    @cached_property
    def roots(self) -> dict[str, tuple[str, ...]]:
        """Return the parameters from which each computed parameter follows."""
        return roots_of(self.computed)

    @cached_property
    def collected(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes and computed parameters that read a parameter, where its gradient has to be collected.

        These are the shared parameters, the sources of computed parameters, and the computed parameters themselves.
        """
        behind = {root for roots in self.roots.values() for root in roots} | self.shared.keys() | self.roots.keys()
        return {name: users for name, users in users_of(self.nodes, self.computed).items() if name in behind}

    def part_of_computed(self, names: Collection[str]) -> tuple[ComputedParameter, ...]:
        """Return the computed parameters with these names, and all of their computed sources, in the graph's order."""
        return needed_for(names, self.computed)

    def keeps_statistics(self, node: Node) -> bool:
        """Return whether a node is a BatchNorm that normalises by its running statistics in training, too."""
        return isinstance(node.op, BatchNorm) and node.full_name("running_mean") in self.frozen

    def part(self, input_shape: Shape, nodes: tuple[Node, ...]) -> Graph:
        """Return some of the nodes, or nodes with the same names, as a graph of their own.

        Parameters that are frozen in this graph, or trained in part, are so in the new graph, too.
        """
        computed, names = needed_for(parameter_uses(nodes), self.computed), {node.name for node in nodes[:-1]}
        auxiliary = tuple(each for each in self.auxiliary if each.result in names)
        infos = parameter_infos(nodes, computed)
        slices = tuple(each for each in self.slices if each.name in infos)
        frozen, constants = self.frozen.intersection(infos), self.constants.intersection(infos)
        quantized = tuple(each for each in self.quantized if each.name in infos)
        return Graph(input_shape, nodes, frozen, computed, auxiliary, slices, constants, quantized)

    def macs(self) -> dict[str, int]:
        """Return the multiply-accumulates of one sample's forward pass, by the name of each node that multiplies."""
        counts = {node.name: node.op.macs(self.shapes[node.name]) for node in self.nodes}
        return {name: count for name, count in counts.items() if count}

    def init(self, stream: Stream) -> Params:
        """Return fresh float32 parameters, drawn with torch's default distributions.

        Weights and biases of convolutions and Linear are uniform in +-1/sqrt(fan_in) (kaiming_uniform with a = sqrt 5).
        Norms start at weight 1, bias 0, running_mean 0 and running_var 1, and a PReLU at weight 1/4. Recurrent layers
        are uniform in +-1/sqrt(hidden_size). The in_proj of attention is drawn by Glorot, and its bias is 0. An
        Embedding is normally distributed. Torch has no default for AddParameter and MulParameter, which start at 0 and
        at 1. Sources of computed parameters come last, and are uniform in +-1/sqrt(fan_in).
        """
        params: Params = {}
        for node in self.nodes:
            for name, info in node.op.parameters().items():
                full = node.full_name(name)
                if full not in params and full not in self.roots:  # a shared parameter is drawn at its first use
                    params[full] = initial(node.op, name, info.shape, stream)
        params |= zero_places(self.computed)
        for name, info in self.parameters().items():
            if name not in params:
                params[name] = uniform(info.shape, 1.0 / math.sqrt(math.prod(info.shape[1:])), stream)
        return {name: params[name] for name in self.parameters()}

    def computed_values(self, params: Mapping[str, np.ndarray]) -> Params:
        """Return the values of all computed parameters by name, for these parameters."""
        found = dict(params)
        for each in self.computed:
            found[each.name] = each.op.value(*(np.asarray(found[name]) for name in each.sources))
        return {name: found[name] for name in self.roots}

    @cached_property
    def quantized_by_name(self) -> dict[str, QuantizedParameter]:
        return {each.name: each for each in self.quantized}

    @property
    def quantized_saving(self) -> int:
        """The bytes that the quantized parameters take less than in float32."""
        shapes = {name: info.shape for name, info in self.parameters().items()} if self.quantized else {}
        return sum(4 * math.prod(shapes[each.name]) - each.nbytes(shapes[each.name]) for each in self.quantized)

    def check(self, params: Mapping[str, np.ndarray]) -> None:
        """Raise GraphError unless `params` holds exactly this graph's parameters, each as float32 of its shape.

        A quantized parameter is a QuantizedArray of its precision.
        """
        expected = self.parameters()
        for name in expected.keys() - params.keys():
            raise GraphError(f"parameter {name!r} is missing; expected shape {expected[name].shape}")
        for name in params.keys() - expected.keys():
            raise GraphError(f"parameter {name!r} is not in the graph; expected {sorted(expected)}")
        for name, info in expected.items():
            value = params[name]
            if value.shape != info.shape or value.dtype != np.float32:
                raise GraphError(f"{name}: {value.dtype} of shape {value.shape}; expected float32 {info.shape}")
            check_precision(self.quantized_by_name.get(name), name, value)

    def sub(self, neurons: Selection) -> Graph:
        """Return the smaller graph that has only the active neurons. Names stay.

        Its parameters are float32, also where this graph's are quantized.

        The methods that train sub-models, Random Dropout and FjORD, need it. FedSPU keeps the full model. Without a
        norm, or with a BatchNorm in evaluation mode, the smaller model computes what the full model computes when the
        outputs of the inactive neurons are set to zero after their norm and ReLU. A GroupNorm sees the kept channels
        only.
        Raises  GraphError if a GroupNorm or grouped convolution would not keep equally many channels in each group,
                SelectionError if `neurons` belongs to another model.
        """
        blocks = neurons.blocks_of(self)
        nodes = tuple(_smaller(node, blocks) for node in self.nodes)
        return replace(self, nodes=_with_fewer_heads(nodes, {INPUT: self.input_shape}), quantized=())


class _GraphAndParams(NamedTuple):
    graph: Graph
    params: Params


class Model(_GraphAndParams):
    """A graph and the values of its parameters. A Model is unpacked as this pair.

    unused  values in the state_dict of the converted module that are not parameters of the graph, by torch's names and
            of any type. They are neither trained nor sent. A .pt file holds them, so that the module can load the file
    """

    unused: Params

    def __new__(cls, graph: Graph, params: Params, unused: Params | None = None) -> Model:
        made = super().__new__(cls, graph, params)
        made.unused = dict(unused or {})
        return made

    def _replace(self, **changed: Any) -> Model:
        """Return a Model with some fields changed, as `_replace` of a NamedTuple does. `unused` counts as a field."""
        return Model(**{"graph": self.graph, "params": self.params, "unused": self.unused, **changed})

    def beside(self) -> Params:
        """Return the values of `unused` for a file. The second name of a shared parameter has its present value."""
        names = other_names(self.graph.nodes)
        return {name: self.params[names[name]] if name in names else value for name, value in self.unused.items()}


def _smaller(node: Node, blocks: Blocks) -> Node:
    rows, cols = blocks.get(node.full_name(node.op.main), (None, None))
    if rows is None and cols is None:
        return node
    try:
        return replace(node, op=resized(node.op, rows, cols))
    except GraphError as error:
        raise GraphError(f"node {node.name!r}: {error}") from None


def _with_fewer_heads(nodes: tuple[Node, ...], shapes: dict[str, Shape]) -> tuple[Node, ...]:
    """Return nodes whose attentions have the heads that are left of their inputs."""
    if not any(isinstance(node.op, Attention) for node in nodes):
        return nodes
    found = []
    for node in nodes:
        inputs = [shapes[name] for name in node.inputs]
        own = replace(node, op=node.op.of_rows(inputs[0][0])) if isinstance(node.op, Attention) else node
        shapes[node.name] = own.op.output(*inputs)
        found.append(own)
    return tuple(found)
