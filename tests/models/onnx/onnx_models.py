"""Small ONNX models for the tests: a graph of a few nodes, a file of it, and its outputs by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from edgefl.learning import GraphLearner
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Flatten
from edgefl.models.onnx.graph_reading import OnnxReading
from edgefl.models.onnx.onnx_content import read_content

Extents = Sequence[int | str]


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node whose inputs are names with spaces between them. "-" is an input that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(operator, names, output.split(), output.split()[0], **attributes)


def file_of(
    nodes: Sequence[onnx.NodeProto],
    shape: Extents,
    constants: Mapping[str, Any] | None = None,
    batch: int | str = "n",
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
) -> bytes:
    """Return an ONNX file with the input "x" [batch, *shape] and the output "y"."""
    return model_of(nodes, shape, constants, batch, opset, dtype).SerializeToString()


def model_of(
    nodes: Sequence[onnx.NodeProto],
    shape: Extents,
    constants: Mapping[str, Any] | None = None,
    batch: int | str = "n",
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    values = {name: np.asarray(value) for name, value in (constants or {}).items()}
    arrays = {name: value.astype(np.float32) if value.dtype.kind == "f" else value for name, value in values.items()}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info("x", dtype, [batch, *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def read(content: bytes, shape: tuple[int, ...] | None = None) -> Model:
    return OnnxReading(read_content(content, nothing_beside), shape).model()


def nothing_beside(location: str, offset: int, length: int) -> bytes:
    raise AssertionError(f"{location} is read")


def by_onnxruntime(content: bytes, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    return np.asarray(found)


def by_edgefl(model: Model, x: np.ndarray) -> np.ndarray:
    """Return the outputs of a model. A learner gives one row of outputs, so other outputs are flattened at the end."""
    graph, shape = model.graph, model.graph.output_shape
    if len(shape) > 1:
        last = Node("all_in_one_row", Flatten(), (graph.nodes[-1].name,))
        model = Model(Graph(graph.input_shape, (*graph.nodes, last), graph.frozen), model.params)
    return GraphLearner(model).predict(x.astype(np.float32)).reshape(len(x), *shape)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, as a share of the largest expected value, or of 1 if that is smaller."""
    return float(np.abs(found.reshape(expected.shape) - expected).max() / max(1.0, np.abs(expected).max()))
