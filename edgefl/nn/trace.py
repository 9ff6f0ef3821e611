"""A torch module as a Graph, by torch.fx: forward is run once on symbols and every call becomes a node.

The result is checked on the example input, so a module whose forward does more than the trace shows (in-place writes
through views, branches on data) is refused and not converted wrongly.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from edgefl.errors import GraphError
from edgefl.graph import INPUT, Graph, Model, Node, Params
from edgefl.graph.operations import Flatten, Mul, Operation, Shape
from edgefl.nn.functions import FUNCTIONS, METHODS
from edgefl.nn.layers import MODULES
from edgefl.nn.module import to_torch
from edgefl.nn.step import Step, expect

BATCH = "the batch size"  # stands for x.size(0) while shapes are folded
RESHAPES = ("view", "reshape", torch.reshape)
SOFTMAXES: dict[Any, type[nn.Module]] = {
    functional.softmax: nn.Softmax,
    torch.softmax: nn.Softmax,
    "softmax": nn.Softmax,
    functional.log_softmax: nn.LogSoftmax,
    torch.log_softmax: nn.LogSoftmax,
    "log_softmax": nn.LogSoftmax,
}
TOLERANCE = 1e-4  # of the largest output; both sides run torch's own kernels, so real differences are far larger


def from_torch(module: nn.Module, example_input: Tensor) -> Model:
    """The graph and parameters of a torch module made of edgefl's operations.

    module         any nn.Module that torch.fx can trace; it is not changed
    example_input  float32 [batch, channels, height, width] or [batch, features]: gives the input shape, and checks
                   the result in evaluation mode
    A single layer is taken as a Sequential of it.
    A softmax or log_softmax at the end is left to the loss, with a warning: the graph's outputs are logits.
    Raises  GraphError naming the first operation or argument that edgefl cannot take.
    """
    if example_input.dtype != torch.float32 or example_input.dim() < 2:
        raise GraphError(
            f"example_input: {example_input.dtype} of {example_input.dim()} axes; expected float32 batches"
        )
    if type(module) in MODULES:  # names need a part before ".weight": those of a Sequential of one
        module = nn.Sequential(module)
    graph, left_out = _converted(module, tuple(example_input.shape[1:]))
    model = Model(graph, _parameters(graph, module))
    _check_output(model, module, example_input, left_out)
    return model


def _converted(module: nn.Module, input_shape: Shape) -> tuple[Graph, nn.Module]:
    """The graph, and what of the module's end it leaves out. As the module trains, for dropout; or, where that cannot
    be taken (as further outputs cannot), as it predicts.
    """
    for training in (True, False):
        converter = _Converter(module, input_shape)
        try:
            with _in_mode(module, training):
                return converter.convert(_trace(module)), converter.left_out
        except GraphError:
            if not training:
                raise
    raise AssertionError("both modes were tried")


def _trace(module: nn.Module) -> fx.Graph:
    try:
        return _Tracer().trace(module)
    except Exception as error:  # forward is foreign code: whatever it raises on symbols, it cannot be traced
        raise GraphError(f"{type(module).__name__} cannot be traced: {error}") from error


class _Tracer(fx.Tracer):
    """Stops at the modules that the table knows, and at torch's own."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in MODULES or super().is_leaf_module(m, module_qualified_name)


class _Converter:
    """One pass over a traced graph. Every traced node becomes the name of a result, or a value known now (a shape)."""

    def __init__(self, module: nn.Module, input_shape: Shape) -> None:
        self._modules = dict(module.named_modules())
        self._shapes: dict[str, Shape] = {INPUT: input_shape}
        self._nodes: list[Node] = []
        self._names: dict[fx.Node, str] = {}
        self._known: dict[fx.Node, Any] = {}
        self._called: set[str] = set()
        self._taken: set[str] = set()
        self.left_out: nn.Module = nn.Identity()  # of the module's end, over the graph's outputs

    def convert(self, traced: fx.Graph) -> Graph:
        self._taken = {str(node.target) for node in traced.nodes if node.op == "call_module"}
        for node in traced.nodes:
            try:
                self._visit(node)
            except GraphError as error:
                raise GraphError(f"{_describe(node, self._modules)}: {error}") from None
        output = next(iter(reversed(traced.nodes))).args[0]
        if not isinstance(output, fx.Node) or not self._nodes or self._names.get(output) != self._nodes[-1].name:
            raise GraphError(f"the module returns {output}; expected the result of its last operation")
        return Graph(self._shapes[INPUT], tuple(self._nodes))

    def _visit(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if INPUT in self._names.values():
                raise GraphError("a second input; expected one")
            self._names[node] = INPUT
        elif node.op == "call_module":
            module = self._modules[str(node.target)]
            if isinstance(module, nn.Softmax | nn.LogSoftmax):
                self._leave_out(node, module, module.dim)
            else:
                self._call_module(node)
        elif node.op in ("call_function", "call_method"):
            if node.target in SOFTMAXES:
                dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
                self._leave_out(node, SOFTMAXES[node.target](1), dim)
            elif not self._fold(node):
                self._append(node, self._step(node), node.name)
        elif node.op == "get_attr":
            raise GraphError("a parameter or buffer used outside its module; edgefl has no operation for it")

    def _leave_out(self, node: fx.Node, last: nn.Module, dim: Any) -> None:
        """A softmax of the logits at the end."""
        source = node.args[0] if node.args else next(iter(node.kwargs.values()))
        if len(self._shapes[self._name_of(source)]) != 1 or any(user.op != "output" for user in node.users):
            raise GraphError("expected at the end only, over the classes")
        expect("dim", dim, 1, -1)
        warnings.warn(f"{last} at the end is left to the loss: outputs are logits", stacklevel=2)
        self.left_out = last
        self._names[node] = self._name_of(source)

    def _call_module(self, node: fx.Node) -> None:
        name = str(node.target)
        module = self._modules[name]
        if type(module) not in MODULES:
            raise GraphError(f"expected one of {', '.join(kind.__name__ for kind in MODULES)}")
        ops = MODULES[type(module)](module)
        again = name in self._called
        if again and not callable(ops) and any(op.parameters() for op in ops):
            raise GraphError("called twice; edgefl has no shared weights")
        self._called.add(name)
        overwrites = bool(getattr(module, "inplace", False)) and bool(ops)
        inputs = tuple(value for value in (*node.args, *node.kwargs.values()) if isinstance(value, fx.Node))
        self._append(node, Step(ops, inputs, overwrites), name, is_free=not again)

    def _step(self, node: fx.Node) -> Step:
        """The meaning of a function or method call."""
        if node.target in RESHAPES:
            return self._reshape(node)
        table: dict[Any, Any] = METHODS if node.op == "call_method" else FUNCTIONS
        if node.target not in table:
            raise GraphError("edgefl has no operation for it")
        try:
            step: Step = table[node.target](*node.args, **node.kwargs)
        except TypeError as error:
            raise GraphError(f"arguments that edgefl does not know: {error}") from None
        return step

    def _append(self, node: fx.Node, step: Step, name: str, is_free: bool = False) -> None:
        """Add the operations of `step`, the last one named `name` or the next free name after it."""
        if step.overwrites:
            _refuse_later_use(step.inputs[0], node)
        inputs = tuple(self._name_of(source) for source in step.inputs)
        ops = step.ops(self._shapes[inputs[0]]) if callable(step.ops) else step.ops
        if ops and isinstance(ops[0], Mul):  # a gate comes second
            inputs = tuple(sorted(inputs, key=lambda name: -math.prod(self._shapes[name])))
        for count, op in enumerate(ops, start=1):
            is_last = count == len(ops)
            inputs = (self._append_op(op, inputs, name if is_last else f"{name}_{op.title}", is_free and is_last),)
        self._names[node] = inputs[0]

    def _append_op(self, op: Operation, inputs: tuple[str, ...], name: str, is_free: bool) -> str:
        unique = name if is_free else _unused(name, self._taken)
        self._taken.add(unique)
        self._shapes[unique] = op.output(*(self._shapes[source] for source in inputs))
        self._nodes.append(Node(unique, op, inputs))
        return unique

    def _name_of(self, node: Any) -> str:
        if node not in self._names:
            raise GraphError(f"argument {node}; expected the result of an operation")
        return self._names[node]

    def _fold(self, node: fx.Node) -> bool:
        """Take x.shape, x.size(...) and indexing of it out of the graph; True if `node` is one of these."""
        source, *rest = (*node.args, *node.kwargs.values())
        if node.target is operator.getitem and source in self._known:
            self._known[node] = self._known[source][rest[0]]  # type: ignore[index]
        elif _reads_shape(node):
            shape = (BATCH, *self._shapes[self._name_of(source)])
            self._known[node] = shape[rest[0]] if node.target == "size" and rest else shape  # type: ignore[index]
        return node in self._known

    def _reshape(self, node: fx.Node) -> Step:
        """view or reshape to [batch, features]."""
        source, *sizes = node.args
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            sizes = list(sizes[0])
        sizes = [self._known.get(size, size) if isinstance(size, fx.Node) else size for size in sizes]
        features = math.prod(self._shapes[self._name_of(source)])
        if sizes not in ([BATCH, -1], [BATCH, features], [-1, features]):
            raise GraphError(f"sizes {sizes}; expected [x.size(0), -1] or [-1, {features}]")
        return Step((Flatten(),), (source,))  # type: ignore[arg-type]


def _reads_shape(node: fx.Node) -> bool:
    return node.target == "size" or (node.target is getattr and node.args[1:] == ("shape",))


def _refuse_later_use(source: fx.Node, node: fx.Node) -> None:
    """Raise GraphError if a value that `node` overwrites is read after it: a graph has values, not memory."""
    order = list(node.graph.nodes)
    later = order[order.index(node) + 1 :]
    for user in later:
        if user in source.users and not _reads_shape(user):
            raise GraphError(f"in place, and {user} reads the overwritten {source}; expected inplace=False")


def _unused(name: str, taken: set[str]) -> str:
    """`name`, or name_1, name_2, ... if it is taken."""
    count, candidate = 0, name
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def _describe(node: fx.Node, modules: dict[str, nn.Module]) -> str:
    """What a reader of the module's code would call a traced node."""
    if node.op == "call_module":
        return f"module {node.target!r} ({type(modules[str(node.target)]).__name__})"
    if node.op == "call_function":
        return f"function {torch.overrides.resolve_name(node.target) or node.name}"
    return {"call_method": "method ", "get_attr": "attribute ", "placeholder": "input "}[node.op] + repr(node.target)


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
    return {name: np.array(state[name].detach().cpu().numpy(), order="C") for name in graph.parameters()}


def _check_output(model: Model, module: nn.Module, example_input: Tensor, left_out: nn.Module) -> None:
    """Raise GraphError unless graph, and what was left out after it, agree with the module on the example."""
    twin = to_torch(model).eval()
    with torch.no_grad(), _in_mode(module, False):
        expected = module(example_input.clone()).cpu()
        found = left_out(twin(example_input.detach().cpu().clone()))
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
