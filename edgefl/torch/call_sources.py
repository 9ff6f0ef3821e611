"""The sources of the calls that graph_converter.py converts: a trace by torch.fx, or a lifted export of torch.export.

A source knows the layers and tensors that calls name, and says what happens to a call that edgefl cannot take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, fx, nn

from edgefl.errors import GraphError
from edgefl.torch.aten_lifting import Lifting
from edgefl.torch.aten_remedies import remedy
from edgefl.torch.axis_order import Value, first
from edgefl.torch.code_lines import line_of, module_of, packet, torch_name
from edgefl.torch.exported_program import PREFIX
from edgefl.torch.module_table import MODULES
from edgefl.torch.traced_call import described

Named = tuple[tuple[str, str], ...]


class Calls(Protocol):
    """A source of calls, as graph_converter.py asks for it.

    modules    layers by the name that a call has for its layer
    named      full names of a layer's parameters that do not follow from its name, by the layer's name
    names      name of the parameter or buffer that begins at an address
    parameters names of the module's parameters
    constants  values of parameters of the graph that are not parameters of the module. None: constants are refused
    """

    modules: dict[str, nn.Module]
    named: dict[str, Named]
    names: dict[int, str]
    parameters: Collection[str]
    constants: dict[str, Tensor] | None

    def tensor(self, name: str) -> Tensor:
        """Return a parameter, buffer or constant by its name."""

    def refuse(self, node: fx.Node, message: str) -> dict[fx.Node, Value]:
        """Raise GraphError for a call, or return values with which the converter goes on to find further refusals."""


class RefusedCallError(GraphError):
    """A call that edgefl cannot take.

    layer  name of the layer whose setting or operation is refused. Empty: it is not of a layer that edgefl has
    """

    def __init__(self, message: str, layer: str = "") -> None:
        super().__init__(message)
        self.layer = layer


class FxCalls:
    """The calls of a trace by torch.fx."""

    def __init__(self, module: nn.Module) -> None:
        self.modules = dict(module.named_modules())
        self.named: dict[str, Named] = {}
        self.names = {value.data_ptr(): name for name, value in module.named_parameters()}
        self.parameters: Collection[str] = frozenset(self.names.values())
        self.constants: dict[str, Tensor] | None = None

    def tensor(self, name: str) -> Tensor:
        parent, _, last = name.rpartition(".")
        found = getattr(self.modules[parent], last)
        if not isinstance(found, Tensor):
            raise GraphError(f"{type(found).__name__}; expected a parameter")
        return found.detach()

    def refuse(self, node: fx.Node, message: str) -> dict[fx.Node, Value]:
        found = self.modules.get(str(node.target)) if node.op == "call_module" else None
        is_known = type(found) in MODULES or isinstance(found, nn.MultiheadAttention)
        layer = str(node.target) if is_known else ""
        raise RefusedCallError(f"{described(node, self.modules)}: {message}", layer)


class Refusal(NamedTuple):
    """An operation of a module that edgefl cannot take.

    line       line of the user's code, in words
    operation  torch's name of the operation, and its module
    like      number of operations of this name in the module
    message    what is wrong, and what is expected
    """

    line: str
    operation: str
    like: int
    message: str

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line else ""
        more = f" (the module has {self.like} such operations)" if self.like > 1 else ""
        return f"{where}{self.operation}: {self.message}{more}"


class LiftedCalls:
    """The calls of a lifted export.

    lifting   the lifting, which has lifted all nodes
    refusals  list to which refused calls are appended, or None to raise the first
    """

    def __init__(self, lifting: Lifting, refusals: list[Refusal] | None = None) -> None:
        self.modules, self.named = lifting.modules, lifting.named
        self.names = {lifting.tensors[name].data_ptr(): name for name in (*lifting.buffers, *lifting.parameters)}
        self.parameters: Collection[str] = lifting.parameters
        self.constants: dict[str, Tensor] | None = {}
        self._tensors, self._refusals = lifting.tensors, refusals
        self._counts = Counter(packet(node) for node in lifting.nodes)

    def tensor(self, name: str) -> Tensor:
        return self._tensors[name]

    def refuse(self, node: fx.Node, message: str) -> dict[fx.Node, Value]:
        origin = node.meta.get("origin", node)
        found = self._refusal(origin, message)
        if self._refusals is None:
            raise RefusedCallError(str(found), module_of(origin)[0].removeprefix(PREFIX))
        self._refusals.append(found)
        sizes = getattr(origin.meta.get("val"), "shape", ())
        if len(sizes) < 2 or any(isinstance(size, torch.SymInt) for size in sizes[1:]):
            return {}
        return {node: Value(node.name, tuple(map(int, sizes[1:])), first(len(sizes)))}

    def _refusal(self, origin: fx.Node, message: str) -> Refusal:
        if origin.op != "call_function":
            return Refusal("", f"{origin.op} {origin.name!r}", 1, message)
        name, kind = module_of(origin)
        name = name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""
        inside = f" in module {name!r} ({kind})" if name else ""
        instead = remedy(packet(origin))
        told = f"{message}: {instead}" if instead and instead not in message else message
        return Refusal(line_of(origin), f"{torch_name(origin)}{inside}", self._counts[packet(origin)], told)
