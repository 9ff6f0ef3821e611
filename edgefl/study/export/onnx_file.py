"""An ONNX file under construction: nodes, constants, and at the end the bytes. onnx_nodes.py chooses the operators.

Only this file needs the onnx package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    needed = "edgefl.study.export.onnx_nodes needs onnx, which is not installed; pip install onnx"
    raise ModuleNotFoundError(needed) from error

from edgefl import __version__
from edgefl.models.graph import INPUT, Model, Node
from edgefl.models.graph.operations import Shape

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET, IR_VERSION = 17, 8  # the IR version that came with the opset, which older readers take
OUTPUT = "output"
BATCH = "batch"


class Writer:
    """The nodes and constants of an ONNX graph under construction.

    nodes   nodes in topological order
    values  parameters and constants by name, in the order in which they were asked for
    """

    def __init__(self, model: Model) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, np.ndarray] = {}
        self._model, self._values = model, {**model.params, **model.graph.computed_values(model.params)}
        self._results = {INPUT: INPUT}  # name of a result in the model's graph -> its name in the ONNX graph
        self._at = model.graph.nodes[0]
        self._count = 0

    def add(self, node: Node, write: Callable[[Any, list[str], Writer], str]) -> None:
        """Write a node of the model's graph in ONNX's operators, with the function `write` for its operation."""
        self._at, self._count = node, 0
        inputs = [self._results[name] for name in node.inputs]
        self._results[node.name] = write(node.op, inputs, self)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add one ONNX operator with these attributes, and return the name of its result."""
        name = f"{self._at.name}:{self._count}"
        self._count += 1
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    @property
    def input_shape(self) -> Shape:
        """Return the shape of the present node's first input, without the batch."""
        return self._model.graph.shapes[self._at.inputs[0]]

    def parameters(self) -> list[str]:
        """Return the names of all parameters of the present node, in torch's order."""
        return [self.parameter(name) for name in self._at.op.parameters()]

    def parameter(self, name: str, shape: Sequence[int] | None = None) -> str:
        """Return the name of a parameter of the present node, which is stored in its own shape or in another shape.

        A shared parameter is stored once. A Reshape node gives it another shape where a node needs one.
        """
        full, value = self._at.full_name(name), self.value(name)
        value = value if shape is None else value.reshape(shape)
        if self.values.setdefault(full, value).shape == value.shape:
            return full
        return self.node("Reshape", full, self.constant(f"{name}.shape", value.shape))

    def value(self, name: str) -> np.ndarray:
        """Return a parameter of the present node as an array. A computed parameter is stored as its value."""
        return np.ascontiguousarray(self._values[self._at.full_name(name)])

    def constant(self, name: str, value: Any) -> str:
        """Store numbers that are not a parameter, integers as int64 and others as float32, and return their name."""
        full, array = f"{self._at.name}:{name}", np.asarray(value)
        self.values[full] = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        return full

    def content(self, metadata: Mapping[str, str]) -> bytes:
        """Return the file of the nodes so far, of which the last is the output, with these entries as metadata."""
        self.nodes[-1].output[0] = OUTPUT
        graph = self._model.graph
        written = helper.make_graph(
            self.nodes,
            "edgefl",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [BATCH, *graph.input_shape])],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [BATCH, *graph.output_shape])],
            [numpy_helper.from_array(value, name) for name, value in self.values.items()],
        )
        whole = helper.make_model(
            written,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="edgefl",
            producer_version=__version__,
        )
        if metadata:
            helper.set_model_props(whole, dict(metadata))
        return bytes(whole.SerializeToString(deterministic=True))
