"""The conversion of a traced torch module to a Graph: the meaning of every call on symbols. Known values are folded.

The tables of meanings are module_table.py, function_table.py, shape_table.py and sequence_table.py. trace.py traces the
module and checks the result.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from edgefl.errors import GraphError
from edgefl.models.graph import INPUT, Graph
from edgefl.models.graph.operations import (
    Add,
    Elementwise,
    Embedding,
    Flatten,
    InputPart,
    Mul,
    Shape,
    Slice,
    WithParameter,
)
from edgefl.torch.axis_order import Axes, Value, first, last, time_first, wanted, with_channels
from edgefl.torch.bare_parameters import positions, viewed
from edgefl.torch.call_kinds import ARITHMETIC, COMBINING, JOINS, OVERWRITING, SOFTMAXES
from edgefl.torch.call_sources import Calls
from edgefl.torch.example_inputs import node_name
from edgefl.torch.expression_calls import SHAPES, broadcasting
from edgefl.torch.function_table import FUNCTIONS, METHODS
from edgefl.torch.graph_builder import Builder
from edgefl.torch.graph_ends import end_alone, ends
from edgefl.torch.input_columns import column
from edgefl.torch.module_table import MODULES
from edgefl.torch.parameter_operands import operand
from edgefl.torch.sequence_table import SEQUENCES, UNFOLDED, SequenceCall
from edgefl.torch.shape_table import MAXIMA, AxisConversion, flatten, leaves_batch_alone, transpose, unflatten
from edgefl.torch.traced_call import (
    ModuleSemantics,
    Step,
    called,
    computed,
    expect,
    is_end,
    reads_shape,
    refuse_later_use,
    refused,
)
from edgefl.torch.zero_state import ZEROS, are_zeros

_Several = tuple["Callable[[], Value] | _Several", ...]


class Converter:
    """One pass over a traced graph. Every traced node becomes a result with its axes, or a known value (a shape)."""

    def __init__(self, calls: Calls, input_shape: Shape, parts: tuple[tuple[str, InputPart], ...] = ()) -> None:
        self._calls, self._modules = calls, calls.modules
        self._input_shape, self._packed = input_shape, list(parts)
        self._parts: dict[str, InputPart] = {}  # parts of the input so far
        self._build = Builder()
        self._build.named = dict(calls.named)
        self._values: dict[fx.Node, Value] = {}
        self._several: dict[fx.Node, _Several] = {}  # makers of several results, which run on demand
        self._known: dict[fx.Node, Any] = {}
        self._called: set[str] = set()
        self._ends: dict[fx.Node, nn.Module] = {}  # ends of the module that the graph leaves out, such as a softmax
        self.left_out: nn.Module = nn.Identity()  # what the graph leaves out before the module's main output

    def convert(self, traced: fx.Graph, weights: tuple[float, ...] = ()) -> Graph:
        """Return the graph. `weights` are the weights of the losses of all outputs but the first."""
        self._build.taken = {str(node.target) for node in traced.nodes if node.op == "call_module"}
        for node in traced.nodes:
            try:
                self._visit(node)
            except GraphError as error:
                self._values |= self._calls.refuse(node, str(error))
        output = next(iter(reversed(traced.nodes))).args[0]
        every: Any = output if weights else (output,)
        results = [self._values.get(each) if isinstance(each, fx.Node) else None for each in every]
        self.left_out = self._ends.get(every[0], self.left_out)
        if weights:
            auxiliary = ends(self._build, results, weights)
            return Graph(self._input_shape, self._build.read(), auxiliary=auxiliary)
        end_alone(self._build, results[0], output)
        return Graph(self._input_shape, self._build.read())

    def _visit(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self._place(node)
        elif node.op == "call_module":
            self._visit_module(node, self._modules[str(node.target)])
        elif node.op in ("call_function", "call_method"):
            if node.target is refused:
                refused(*node.args)
            elif node.target in SOFTMAXES:
                dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
                self._leave_out(node, SOFTMAXES[node.target](1), dim)
            elif not self._fold(node):
                self._visit_call(node)
        elif node.op == "get_attr":
            self._known[node] = self._calls.tensor(str(node.target))

    def _place(self, node: fx.Node) -> None:
        if not self._packed:
            if self._values:
                raise GraphError("a second input; expected one")
            self._values[node] = Value(INPUT, self._input_shape, first(len(self._input_shape) + 1))
            return
        name, part = self._packed.pop(0)
        if node.users:
            rank = node.meta["origin"].meta["val"].dim()  # a tensor [batch] is one value of each example
            self._part(node, part, first(rank), node_name(name))

    def _part(self, node: fx.Node, part: InputPart, axes: Axes, name: str) -> None:
        """Add a part of the input."""
        own = self._build.add(part, (INPUT,), name)
        self._parts[own], self._values[node] = part, Value(own, part.shape, axes)

    def _visit_module(self, node: fx.Node, module: nn.Module) -> None:
        if isinstance(module, nn.Softmax | nn.LogSoftmax):
            self._leave_out(node, module, module.dim)
        elif isinstance(module, nn.Flatten):
            self._shape_by_module(node, flatten, module.start_dim, module.end_dim)
        elif isinstance(module, nn.Unflatten):
            self._shape_by_module(node, unflatten, module.dim, module.unflattened_size)
        elif isinstance(module, nn.Embedding) and isinstance(ids := self._resolved(node.args[0]), Tensor):
            self._known[node] = positions(module, ids)
        else:
            self._call_module(node)

    def _shape_by_module(self, node: fx.Node, entry: Callable[..., AxisConversion], *settings: Any) -> None:
        name, value = str(node.target), self._value_of(node.args[0])
        self._values[node] = self._build.shaped(entry(value, *settings), value, name, name not in self._called)
        self._called.add(name)

    def _visit_call(self, node: fx.Node) -> None:
        args, settings = list(self._resolved(node.args)), dict(self._resolved(node.kwargs))
        if node.target in JOINS:
            self._join(node, *args, **settings)
        elif node.target in COMBINING and any(isinstance(argument, Tensor) for argument in args):
            self._combine(node, COMBINING[node.target], args)
        elif node.target in SHAPES:
            value = self._value_of(args.pop(0) if args else settings.pop("input"))
            if value.name in self._parts and node.target in ("long", "int"):
                self._values[node] = value
                return
            if found := column(node.target, args, value, self._parts):
                self._part(node, *found, f"{value.name}_{found[0].start}")
                return
            if value.shape == (1,) and leaves_batch_alone(node.target, *args, **settings) and is_end(node):
                self._ends[node], self._values[node] = nn.Flatten(0), value
                return
            shaped = called(SHAPES[node.target], value, *args, **settings)
            if node.target in MAXIMA:
                self._several[node] = (lambda: self._build.shaped(shaped, value, node.name),)
            else:
                self._values[node] = self._build.shaped(shaped, value, node.name)
        else:
            self._append(node, self._step(node, args, settings), node.name)

    def _combine(self, node: fx.Node, kind: type[WithParameter], arguments: list[Any]) -> None:
        """Add an operation for a parameter, a buffer or a constant that is added or multiplied."""
        (seen,) = (argument for argument in arguments if isinstance(argument, Tensor))
        (source,) = (argument for argument in arguments if not isinstance(argument, Tensor))
        if node.target in OVERWRITING:
            refuse_later_use(source, node)
        op, value, name = operand(kind, seen, self._value_of(source), self._calls, self._build, node.name)
        self._values[node] = self._build.run((op,), (value,), name, True, lambda rank: value.axes)

    def _leave_out(self, node: fx.Node, end: nn.Module, dim: Any) -> None:
        """Leave out a softmax of the logits at the end of the module. Raises GraphError elsewhere."""
        source = node.args[0] if node.args else next(iter(node.kwargs.values()))
        if len(self._value_of(source).shape) != 1 or not is_end(node):
            raise GraphError("expected at the end only, over the classes")
        expect("dim", dim, 1, -1)
        warnings.warn(f"{end} at the end is left to the loss: outputs are logits", stacklevel=2)
        self._ends[node] = end
        self._values[node] = self._value_of(source)

    def _call_module(self, node: fx.Node) -> None:
        name = str(node.target)
        module = self._modules[name]
        if type(module) in SEQUENCES:
            self._call_sequence(node, module)
            return
        if type(module) not in MODULES:
            known = (*MODULES, *SEQUENCES, *UNFOLDED)
            raise GraphError(f"expected one of {', '.join(kind.__name__ for kind in known)}")
        found = MODULES[type(module)](module)
        means = found if isinstance(found, ModuleSemantics) else ModuleSemantics(found)
        again = name in self._called
        if again and not callable(means.ops) and any(op.parameters() for op in means.ops):
            raise GraphError("called twice; edgefl has no shared weights")
        self._called.add(name)
        overwrites = bool(getattr(module, "inplace", False)) and bool(means.ops)
        inputs = tuple(value for value in (*node.args, *node.kwargs.values()) if isinstance(value, fx.Node))
        self._append(node, Step(means.ops, inputs, overwrites), name, not again, means)

    def _call_sequence(self, node: fx.Node, module: nn.Module) -> None:
        name, args, settings = str(node.target), self._resolved(node.args), self._resolved(node.kwargs)
        if name in self._called:
            raise GraphError("called twice; edgefl has no shared weights")
        self._called.add(name)
        found: SequenceCall = called(SEQUENCES[type(module)], module, *args, **settings)
        value = self._value_of(found.source)
        if len(value.shape) != 2:
            raise GraphError(f"input of {len(value.shape)} extents; expected steps and features")
        value = self._build.placed(value, found.layout(3))
        for suffix, op in found.ops:
            value = self._build.run((op,), (value,), f"{name}{suffix}", not suffix, found.layout)
        end = partial(self._build.run, (Slice(value.shape[1] - 1, 1),), (value,), f"{name}_end", False, time_first)
        last: _Several = (((end,) if found.nested else end),) if found.has_end else ()
        self._several[node] = (lambda: value, *last)

    def _step(self, node: fx.Node, args: Any, settings: Any) -> Step:
        """Return the meaning of a function or method call."""
        table: dict[Any, Any] = METHODS if node.op == "call_method" else FUNCTIONS
        if node.target not in table:
            raise GraphError("edgefl has no operation for it")
        step: Step = called(table[node.target], *args, **settings)
        return step

    def _append(
        self, node: fx.Node, step: Step, name: str, is_free: bool = False, means: ModuleSemantics | None = None
    ) -> None:
        """Add the operations of `step`. The last one is named `name`, or the next free name after it."""
        if step.overwrites:
            refuse_later_use(step.inputs[0], node)
        values = tuple(self._value_of(source) for source in step.inputs)
        ops = step.ops
        if callable(ops):
            values = (self._build.placed(values[0], first(len(values[0].axes))),)
            ops = ops(values[0].shape)
        if not ops:
            self._values[node] = values[0]
            return
        if isinstance(ops[0], Elementwise):
            self._values[node] = self._build.evaluated(ops[0], values, name, is_free)
            return
        if isinstance(ops[0], Mul):  # puts the gate second
            values = tuple(sorted(values, key=lambda value: -math.prod(value.shape)))
        means = means or ModuleSemantics(ops)
        wants = means.wants or wanted(ops[0])
        if wants is last and means.wants is None:  # features are last, wherever the batch is
            values, wants = tuple(self._build.placed(value, with_channels(value.axes, -1)) for value in values), None
        layouts = [wants(len(value.axes)) if wants else values[0].axes for value in values]
        values = tuple(map(self._build.placed, values, layouts))
        if isinstance(ops[0], Add):
            values = self._build.alike(values)
        if isinstance(ops[0], Add | Mul) and (broadcast := broadcasting(ops[0], values)):
            self._values[node] = self._build.evaluated(broadcast, values, name)
            return
        gives = means.gives or wants or (lambda rank: values[0].axes)
        result = self._build.run(ops, values, name, is_free, gives)
        if isinstance(ops[0], Embedding) and values[0].axes == (0,):  # one id for each example, not a sequence of ids
            result = self._build.run((Flatten(),), (result,), f"{name}_row", False, first)
        if means.results is None:
            self._values[node] = result
        else:
            self._several[node] = tuple(
                partial(self._build.run, ops, (result,), name, False, gives) for ops in means.results
            )

    def _join(self, node: fx.Node, tensors: Any, dim: int = 0) -> None:
        """Add an operation that puts results one after another along their channels."""
        values = [self._value_of(source) for source in tensors]
        self._values[node] = self._build.joined(values, dim, node.name)

    def _value_of(self, node: Any) -> Value:
        if node not in self._values:
            raise GraphError(f"argument {node}; expected the result of an operation")
        return self._values[node]

    def _resolved(self, arguments: Any) -> Any:
        """Return the arguments with known values in place of traced nodes."""
        return fx.node.map_arg(arguments, lambda node: self._known.get(node, node))

    def _fold(self, node: fx.Node) -> bool:
        """Fold shapes, their items and arithmetic, and items of several results. Return whether `node` was folded."""
        arguments: list[Any] = [*node.args, *node.kwargs.values()]
        source, *rest = arguments or [None]
        if node.target is operator.getitem and self._known.get(source) is ZEROS:
            self._known[node] = ZEROS
        elif node.target is operator.getitem and source in self._known:
            self._known[node] = self._known[source][self._resolved(rest[0])]
        elif node.target in (operator.getitem, getattr) and isinstance(source, fx.Node) and source in self._several:
            self._take(node, source, rest[0])
        elif reads_shape(node):
            shape = self._value_of(source).extents
            self._known[node] = shape[rest[0]] if node.target == "size" and rest else shape
        elif node.target is getattr and rest == ["mT"]:
            value = self._value_of(source)
            self._values[node] = value._replace(axes=transpose(value, -2, -1).axes)
        elif node.target is getattr and rest in (["device"], ["dtype"]):
            self._known[node] = None
        elif are_zeros(node, self._known):
            self._known[node] = ZEROS
        elif self._is_constant(node):
            self._known[node] = self._constant(node)
        elif node.target in ARITHMETIC and not any(argument in self._values for argument in node.all_input_nodes):
            self._known[node] = computed(node.target, *self._resolved(node.args))
        return any(node in known for known in (self._known, self._values, self._several))

    def _is_constant(self, node: fx.Node) -> bool:
        """Return whether the call makes a tensor that is known: positions, or a view of a parameter."""
        return node.target is torch.arange or (
            bool(node.args)
            and isinstance(self._resolved(node.args[0]), Tensor)
            and not any(argument in self._values for argument in node.args if isinstance(argument, fx.Node))
        )

    def _constant(self, node: fx.Node) -> Tensor:
        args, settings = self._resolved(node.args), self._resolved(node.kwargs)
        if node.target is torch.arange:
            return torch.arange(*args)
        if node.target is operator.getitem:
            found: Tensor = args[0][args[1]]
            return found
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        return viewed(name, *args, **settings)

    def _take(self, node: fx.Node, source: fx.Node, which: Any) -> None:
        """Let the node be one of several results, if another node reads it."""
        if not node.users:
            self._known[node] = None
            return
        at = 0 if which == "values" else which
        if not isinstance(at, int) or not 0 <= at < len(self._several[source]):
            raise GraphError(f"result {which!r}; expected one of the first {len(self._several[source])}")
        found = self._several[source][at]
        if isinstance(found, tuple):
            self._several[node] = found
        else:
            self._values[node] = found()
