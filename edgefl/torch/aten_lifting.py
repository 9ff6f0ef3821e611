"""The lifting of an exported ATen graph to calls of torch's functions and layers, which graph_converter.py converts.

Constants are computed, writes in place become values, and dead nodes vanish. The tables are in aten_functions.py and
aten_layers.py. An operation without an entry becomes a call of `refused`, so that the converter can name all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn

from edgefl.errors import GraphError
from edgefl.models.graph.structure_checks import NODE_NAME
from edgefl.torch.aten_nodes import drops_attention, is_cast_to_itself, is_whole_slice, live
from edgefl.torch.aten_random import NOT_RANDOM, RANDOM, RandomMask
from edgefl.torch.bare_parameters import VIEWING
from edgefl.torch.code_lines import packet
from edgefl.torch.constant_values import FILLING, Constants
from edgefl.torch.exported_program import PREFIX
from edgefl.torch.followed_moves import FollowedMoves
from edgefl.torch.in_place_writes import Memory, is_in_place
from edgefl.torch.lifted_parameters import LiftedParameters
from edgefl.torch.merged_windows import times
from edgefl.torch.parameter_chains import for_windows, is_of_cells, permuted, reshaped
from edgefl.torch.traced_call import refused

if TYPE_CHECKING:
    from torch.export import ExportedProgram

COUNTER = "num_batches_tracked"
Entry = Callable[..., Any]  # takes the lifting and the arguments of a node, and returns the calls for it


class Lifting:
    """One pass over an exported graph.

    graph    the calls so far
    modules  layers that hold the settings of calls, without values, by name
    named    full names of a layer's parameters that do not follow from the layer's name, by the layer's name
    tensors  parameters, buffers and constants that calls read, by name. `parameters` and `buffers` list the names that
             the module has for them
    kept     names of running statistics that a BatchNorm does not move in training
    table    entries by the name of the ATen operation
    outputs  positions of the outputs to lift, the graph's output first
    drops_shares  whether an attention drops weights of values in training, so that no attention is a SelfAttention
    """

    def __init__(
        self, program: ExportedProgram, batch_size: int, table: dict[str, Entry], outputs: tuple[int, ...] = (0,),
        drops_shares: bool = False,
    ) -> None:  # fmt: skip
        self.graph = fx.Graph()
        self.modules: dict[str, nn.Module] = {}
        self.named: dict[str, tuple[tuple[str, str], ...]] = {}
        self.tensors: dict[str, Tensor] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.kept: set[str] = set()
        self.node: fx.Node = next(iter(program.graph.nodes))
        self._program, self._batch_size, self._table, self._outputs = program, batch_size, table, outputs
        self._constants, self._memory = Constants(), Memory(program.graph)
        self.several: dict[fx.Node, tuple[fx.Node, ...]] = {}  # calls for the results of a node that has several
        self.states: dict[fx.Node, list[fx.Node]] = {}  # last states of the layers of a recurrent node
        self._lifted: dict[fx.Node, Any] = {}
        self.moves = FollowedMoves()
        self.masks: dict[fx.Node, RandomMask] = {}
        self.weights = LiftedParameters(self.known, lambda value: str(self.constant(value).target))
        self._live = live(program.graph)
        self.drops_shares = drops_shares or drops_attention(program.graph)
        self.nodes = [node for node in program.graph.nodes if node in self._live]

    def lift(self) -> fx.Graph:
        """Lift all nodes, and return the calls."""
        for node in self._program.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self._place(node)
            elif node.op == "output":
                found = [self.lifted(node.args[0][at]) for at in self._outputs]
                self.graph.output(found[0] if len(found) == 1 else tuple(found))
                self._erase_dead()
            elif node.op == "call_function" and node in self._live:
                try:
                    self._visit(node)
                except Exception as error:  # an ATen call may have a form that no entry expects
                    told = str(error) if isinstance(error, GraphError) else "a form that edgefl does not know"
                    sources = [
                        each for each in node.all_input_nodes if each not in self.masks and each not in self.moves.far
                    ]
                    read = [self._lifted[each] for each in sources if each in self._lifted]
                    self._lifted[node] = self.call(refused, told, *read)  # it reads them, so that they are not dead
                    self._lifted[node].meta["kept"] = is_in_place(node)
        return self.graph

    def _erase_dead(self) -> None:
        """Erase the calls that nothing reads, such as a layer whose parameters an attention has taken over."""
        for call in reversed(self.graph.nodes):
            if not call.users and call.op not in ("placeholder", "output") and not call.meta.get("kept"):
                self.graph.erase_node(call)

    def _place(self, node: fx.Node) -> None:
        signature, state = self._program.graph_signature, self._program.state_dict
        if full := signature.inputs_to_parameters.get(node.name):
            name = full.removeprefix(PREFIX)
            self.tensors[name] = state[full].detach()
            self.weights.add(node, name, self.tensors[name])
            self.parameters.append(name)
        elif full := signature.inputs_to_buffers.get(node.name):
            own = state[full] if full in state else self._program.constants[full]
            self._constants.set(node, own.detach().clone())
            if full in state:
                self.tensors[full.removeprefix(PREFIX)] = self._constants.concrete(node)
                self.buffers.append(full.removeprefix(PREFIX))
        elif full := signature.inputs_to_lifted_tensor_constants.get(node.name):
            self._constants.set(node, self._program.constants[full].detach().clone())
        else:
            alone = len(self._program.graph_signature.user_inputs) == 1
            self._lifted[node] = self.graph.placeholder("x" if alone else node.name)
            self._lifted[node].meta["origin"] = node

    def _visit(self, node: fx.Node) -> None:
        if is_in_place(node):
            self._check_buffer(node)
        sources = node.all_input_nodes
        if node.target is torch.ops.aten.sym_size.int and sources[0] not in self._constants:
            if node.args[1] != 0 and not isinstance(node.meta["val"], int):
                raise GraphError("a size that follows from the batch size; expected sizes that all batches share")
            self._constants.set(node, max(1, times(node.meta["val"])) * self._batch_size)
        elif packet(node) in RANDOM:
            self._lifted[node] = _called(RANDOM[packet(node)], self, *node.args, **node.kwargs)
        elif all(each in self._constants for each in sources):
            self._constants.compute(node)
        elif packet(node) in FILLING:
            self._constants.fill(node, self._batch_size)
        elif all(each in self._constants or each in self.weights for each in sources):
            self._view_parameter(node)
        else:
            if (followed := self.moves.call_for(self, node)) is not None:
                self._lifted[node] = followed
                return
            entry = self._table.get(packet(node))
            if entry is None:
                raise GraphError("edgefl has no operation for it")
            earlier = self._memory.overwritten(node) if is_in_place(node) else []
            found = _called(entry, self, *node.args, **node.kwargs)
            self._lifted |= dict.fromkeys([node, *earlier], found)

    def extents(self, node: fx.Node) -> tuple[int, ...]:
        """Return the sizes of a node, with the example's batch size."""
        sizes = node.meta["val"].shape
        return tuple(times(size) * self._batch_size if times(size) else int(size) for size in sizes)

    def draw(self, mask: RandomMask) -> fx.Node:
        """Keep what is known of a random mask, and return the call that refuses every use but a StochasticDepth."""
        earlier = self._memory.overwritten(self.node) if is_in_place(self.node) else []
        self.masks |= dict.fromkeys([self.node, *earlier], mask)
        return self.call(refused, NOT_RANDOM)

    def concrete(self, arguments: Any) -> Any:
        """Return arguments with numbers in place of sizes."""
        return self._constants.concrete(arguments)

    def stacked(self, sources: list[fx.Node]) -> str:
        """Return the name of the rows of several parameters below each other, as one parameter."""
        name = self.weights.stacked(sources)
        self._publish()
        return name

    def transposed(self, source: fx.Node) -> str:
        """Return the name of a transposed parameter."""
        name = self.weights.transposed(source)
        self._publish()
        return name

    def permuted(self, source: fx.Node, shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the name and the shape of a parameter, seen in a shape, whose axis i becomes axis order[i]."""
        name = permuted(self.weights, reshaped(self.weights, self.weights.name_of(source), shape), order)
        self._publish()
        return name, self.weights.shape_of(name)

    def bias(self, source: fx.Node, shape: tuple[int, ...], windows: int, fixed: Tensor | None) -> str:
        """Return the name of a bias [heads, queries, keys] of all windows as [windows * heads, keys, queries].

        fixed  constant that is added to it
        """
        name, _ = self.permuted(source, shape, (0, 2, 1))
        name = for_windows(self.weights, name, windows, fixed)
        self._publish()
        return name

    def _check_buffer(self, node: fx.Node) -> None:
        """Raise GraphError if a node writes into a parameter, or into a buffer that is not a count of batches."""
        base = self._memory.base(node)
        signature = self._program.graph_signature
        full = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}.get(base.name, "")
        if full and not full.endswith(COUNTER):
            raise GraphError(
                f"forward writes into {full.removeprefix(PREFIX)!r}; expected a forward that keeps no state"
            )

    def _view_parameter(self, node: fx.Node) -> None:
        """Lift a node that reads parameters and constants alone: a view of a parameter, or a computed parameter."""
        name, source = packet(node), node.args[0]
        self.weights.follow(node)
        if name in ("alias", "contiguous", "clone", "expand") or is_whole_slice(node) or is_cast_to_itself(node):
            assert isinstance(source, fx.Node)
            if source in self.weights.names:
                self.weights.names[node] = self.weights.names[source]
            self._lifted[node] = self.lifted(source)
        elif name == "t":
            self._lifted[node] = self.method("transpose", self.lifted(source), 0, 1)
        elif name.removeprefix("_unsafe_") in VIEWING and not is_of_cells(node):
            args = [fx.node.map_arg(each, self._of_parameter) for each in node.args[1:]]
            self._lifted[node] = self.method(name.removeprefix("_unsafe_"), self.lifted(source), *args, **node.kwargs)
        else:
            self._lifted[node] = self._read(self._weight(node))

    def _of_parameter(self, size: fx.Node) -> Any:
        """Return a size of a view of a parameter. A parameter that forward repeats for a batch is there once."""
        return 1 if size.target is torch.ops.aten.sym_size.int else self.known(size)

    def _weight(self, node: fx.Node) -> str:
        """Return the name of a parameter or of a computed parameter, which calls may read by its name."""
        name = self.weights.name_of(node)
        self._publish()
        return name

    def _publish(self) -> None:
        """Let calls read all computed parameters by their names."""
        self.parameters += [each.name for each in self.weights.computed if each.name not in self.tensors]
        self.tensors |= {each: self.weights.values[each] for each in self.parameters if each not in self.tensors}

    def is_value(self, argument: Any) -> bool:
        """Return whether an argument depends on the input of the module."""
        return isinstance(argument, fx.Node) and not (argument in self._constants or argument in self.weights)

    def is_parameter(self, argument: Any) -> bool:
        """Return whether an argument is a parameter, or computed from parameters."""
        return argument in self.weights

    def known(self, argument: Any) -> Any:
        """Return the value of a constant or of a number. Raises GraphError for the batch size, as a number."""
        if isinstance(argument, fx.Node):
            if isinstance(argument.meta.get("val"), torch.SymInt):
                raise GraphError("arithmetic with the batch size; expected numbers that all batches share")
            return self._constants.of(argument)
        return argument

    def lifted(self, arguments: Any) -> Any:
        """Return arguments with calls in place of the exported graph's nodes."""
        return fx.node.map_arg(arguments, self._one)

    def _one(self, node: fx.Node) -> Any:
        if node in self._lifted:
            return self._lifted[node]
        if node in self.weights:
            return self._read(self._weight(node))
        if isinstance(node.meta.get("val"), torch.SymInt):
            return self._size(node)
        found = self._constants.of(node)
        return self.constant(found) if isinstance(found, Tensor) else found

    def _size(self, node: fx.Node) -> fx.Node:
        """Return the call for the batch size, or for arithmetic with it."""
        if node.target is torch.ops.aten.sym_size.int:
            batch = next(each for each in self.graph.nodes if each.op == "placeholder")
            return self.method("size", batch, 0)
        assert callable(node.target)
        return self.call(node.target, *self.lifted(node.args))

    def constant(self, value: Tensor) -> fx.Node:
        """Return the call that reads a constant, which has its buffer's name if it is a whole buffer."""
        place = (value.data_ptr(), value.numel())
        whole = [each for each in self.buffers if (self.tensors[each].data_ptr(), self.tensors[each].numel()) == place]
        name = whole[0] if whole else f"constant-{len(self.tensors)}"
        self.tensors.setdefault(name, value)
        if self.tensors[name].shape != value.shape or self.tensors[name].stride() != value.stride():
            self.tensors[name := f"view-{len(self.tensors)}"] = value
        return self._read(name)

    def _read(self, name: str) -> fx.Node:
        return self._emitted(self.graph.create_node("get_attr", name))

    def call(self, function: Callable[..., Any], *args: Any, **settings: Any) -> fx.Node:
        """Append the call of a function with lifted arguments."""
        return self._emitted(self.graph.call_function(function, args, settings))

    def method(self, name: str, *args: Any, **settings: Any) -> fx.Node:
        """Append the call of a tensor's method with lifted arguments."""
        return self._emitted(self.graph.call_method(name, args, settings))

    def layer(self, module: nn.Module, parts: dict[str, Any], *inputs: Any, name: str = "") -> fx.Node:
        """Append the call of a layer.

        module  layer without values, which has the settings
        parts   nodes of the exported graph that are the layer's parameters, by the last part of their names
        name    name of a layer without parameters
        """
        full = {part: self.parameter_name(source) for part, source in parts.items() if source is not None}
        name, named = self._names_of(full, name or packet(self.node))
        self.modules[name] = module
        if named:
            self.named[name] = named
        return self._emitted(self.graph.create_node("call_module", name, inputs))

    def parameter_name(self, source: Any) -> str:
        """Return the full name of a parameter, or of a constant that takes a parameter's place."""
        if isinstance(source, Tensor):
            return str(self.constant(source).target)
        if isinstance(source, str):
            return source
        if source in self.weights:
            return self._weight(source)
        if source in self._constants:
            return str(self.constant(self._constants.of(source)).target)
        raise GraphError("a weight that forward computes; expected a parameter that forward uses as it is")

    def _names_of(self, full: dict[str, str], otherwise: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return a free name for a layer, and the names of its parameters that do not follow from the layer's name."""
        prefixes = {name.rpartition(".")[0] for name in full.values()}
        prefix = prefixes.pop() if len(prefixes) == 1 else ""
        name = base = re.sub(r"[^A-Za-z0-9_.]", "_", prefix) or otherwise
        name = base = name if NODE_NAME.fullmatch(name) else otherwise
        count = 0
        while name in self.modules:
            count += 1
            name = f"{base}_{count}"
        pairs = tuple(sorted((part, own) for part, own in full.items() if own != f"{name}.{part}"))
        return name, pairs

    def _emitted(self, call: fx.Node) -> fx.Node:
        call.meta["origin"] = self.node
        return call


def _called(entry: Entry, *args: Any, **settings: Any) -> Any:
    try:
        return entry(*args, **settings)
    except TypeError as error:
        raise GraphError(f"arguments that edgefl does not know: {error}") from None
