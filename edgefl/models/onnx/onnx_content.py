"""The content of an ONNX file as plain values: nodes, constants, the input and the output. Nothing is interpreted here.

Only this file and tensor_values.py need the onnx package, the format's own library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

try:
    import onnx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("reading ONNX needs onnx, which is not installed; pip install onnx") from error

from edgefl.errors import GraphError
from edgefl.models.onnx.tensor_values import DTYPES, External, tensor_value
from edgefl.models.onnx.wire_bounds import check_bounds

OPSETS = (7, onnx.defs.onnx_opset_version())  # opset 6 broadcasts in another way
STANDARD = ("", "ai.onnx")  # names of ONNX's own domain of operators
MOST_NODES = 1 << 14
MOST_INPUTS = 1 << 10  # of one node
SCOPES, QUOTED = "pkg.torch.onnx.name_scopes", re.compile("'([^']*)'")
LONGEST_NOTE = 2000  # characters of a node's name or note
A = onnx.AttributeProto
READERS: dict[int, Callable[[Any], Any]] = {  # type of an attribute -> its value
    A.FLOAT: lambda found: float(found.f),
    A.INT: lambda found: int(found.i),
    A.STRING: lambda found: found.s.decode("utf-8", "replace"),
    A.FLOATS: lambda found: [float(value) for value in found.floats],
    A.INTS: lambda found: [int(value) for value in found.ints],
    A.STRINGS: lambda found: [value.decode("utf-8", "replace") for value in found.strings],
}


class OnnxNode(NamedTuple):
    """One node of an ONNX graph.

    operator    name of the operator, with its domain in front if that is not ONNX's own
    inputs      names of the inputs, where "" stands for an input that is left out
    attributes  values of the attributes. A tensor is an array. A graph is None
    module      path of the torch module that the node was exported from, or ""
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    module: str = ""

    def __str__(self) -> str:
        return f"{self.operator} {self.name!r}" if self.name else f"{self.operator} of {self.outputs[0][:200]!r}"


class OnnxInput(NamedTuple):
    """The input of an ONNX graph. An extent is a number, or a text where the file leaves it open."""

    name: str
    extents: tuple[int | str, ...]
    is_ids: bool


@dataclass(frozen=True)
class OnnxContent:
    """An ONNX graph with one input and one output."""

    opset: int
    input: OnnxInput
    output: str
    nodes: tuple[OnnxNode, ...]
    constants: dict[str, np.ndarray] = field(repr=False)


def read_content(content: bytes, external: External) -> OnnxContent:
    """Return the content of an ONNX file.

    external  reads bytes of a file beside the model, by its name, for weights that are stored there
    Raises    GraphError that names the part that is damaged, contradictory or more than edgefl reads
    """
    check_bounds(content, onnx.ModelProto.DESCRIPTOR)
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # each implementation of protobuf has errors of its own
        raise GraphError(f"not an ONNX file ({error}); expected an undamaged .onnx file") from None
    if not model.HasField("graph"):
        raise GraphError("no graph; expected an ONNX model")
    graph = model.graph
    if len(graph.node) > MOST_NODES:
        raise GraphError(f"{len(graph.node)} nodes; the limit is {MOST_NODES}")
    if len(model.functions):
        name = model.functions[0].name
        raise GraphError(f"functions of its own, such as {name!r}; expected none: onnx.inliner removes them")
    constants: dict[str, np.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.name in constants:
            raise GraphError(f"two constants with the name {tensor.name[:200]!r}; expected one")
        constants[tensor.name] = tensor_value(tensor, external)
    if len(graph.sparse_initializer):
        raise GraphError("sparse constants; expected dense constants")
    nodes = tuple(_node(node, external) for node in graph.node)
    return OnnxContent(_opset(model), _input(graph, constants), _output(graph), nodes, constants)


def _opset(model: Any) -> int:
    versions = [each.version for each in model.opset_import if each.domain in STANDARD]
    least, most = OPSETS
    if len(versions) != 1 or not least <= versions[0] <= most:
        cure = "onnx.version_converter converts between versions"
        raise GraphError(f"opset {', '.join(map(str, versions)) or 'missing'}; expected {least} to {most}: {cure}")
    return int(versions[0])


def _input(graph: Any, constants: dict[str, np.ndarray]) -> OnnxInput:
    inputs = [each for each in graph.input if each.name not in constants]
    if len(inputs) != 1:
        names = ", ".join(repr(each.name[:200]) for each in inputs[:8]) or "none"
        cure = "onnx.utils.extract_model cuts out a part with one input"
        raise GraphError(f"{len(inputs)} inputs ({names}); expected one input: {cure}")
    found = inputs[0]
    kind = found.type.tensor_type
    if not found.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise GraphError(f"input {found.name[:200]!r} is not a tensor of a known rank; expected [batch, ...]")
    dtype = DTYPES.get(kind.elem_type)
    if dtype not in (np.float32, np.int64, np.int32):
        name = _type_name(kind.elem_type)
        raise GraphError(f"input {found.name[:200]!r} is {name}; expected float32, or int64 for ids")
    extents = tuple(_extent(dim, at) for at, dim in enumerate(kind.shape.dim))
    return OnnxInput(found.name, extents, dtype != np.float32)


def _extent(dim: Any, at: int) -> int | str:
    return int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param[:200] or f"axis {at}"


def _type_name(number: int) -> str:
    names = onnx.TensorProto.DataType
    return names.Name(number).lower() if number in names.values() else f"type {number}"


def _output(graph: Any) -> str:
    names = [each.name for each in graph.output]
    if len(names) != 1:
        shown = ", ".join(repr(name[:200]) for name in names[:8]) or "none"
        cure = "onnx.utils.extract_model cuts out a part with one output"
        raise GraphError(f"{len(names)} outputs ({shown}); expected one output: {cure}")
    return str(names[0])


def _node(node: Any, external: External) -> OnnxNode:
    operator = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    if len(node.input) > MOST_INPUTS:
        raise GraphError(
            f"{operator[:200]} {node.name[:200]!r} has {len(node.input)} inputs; the limit is {MOST_INPUTS}"
        )
    if not node.output:
        raise GraphError(f"{operator[:200]} {node.name[:200]!r} has no output; expected one")
    attributes = {each.name: _attribute(each, external) for each in node.attribute}
    inputs, outputs = tuple(node.input), tuple(node.output)
    return OnnxNode(node.name[:200], operator[:200], inputs, outputs, attributes, module_of(node))


def module_of(node: Any) -> str:
    """Return the path of the torch module that a node was exported from, as either exporter of torch notes it, or "".

    torch.export notes a list of scopes of which the last is the node's own, such as ['', 'layer1', 'layer1.0', 'relu'].
    TorchScript names the node "/layer1/layer1.0/relu/Relu".
    """
    noted = next((each.value for each in node.metadata_props if each.key == SCOPES), "")
    if noted:
        return (["", *QUOTED.findall(noted[:LONGEST_NOTE])[:-1]])[-1]
    modules = list[str]()
    for step in node.name[:LONGEST_NOTE].split("/")[1:-1]:
        if modules and step.startswith(modules[-1] + "."):
            modules.pop()
        modules.append(step)
    return ".".join(modules)


def _attribute(found: Any, external: External) -> Any:
    if found.type == A.TENSOR:
        return tensor_value(found.t, external)
    return READERS[found.type](found) if found.type in READERS else None
