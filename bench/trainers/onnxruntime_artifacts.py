"""LeNet5 as ONNX Runtime's training files: python -m bench.trainers.onnxruntime_artifacts FOLDER.

This is a process of its own, because a device would get these files ready made. So `onnx` is not in the trainer's
memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.trainers import task
from bench.trainers.onnxruntime_package import without_torch

OPSET, IR = 17, 8  # what ONNX Runtime 1.19 reads
WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2]}


def model(weights: task.Arrays) -> onnx.ModelProto:
    """Return the forward pass, from "x" to "logits", with torch's names of parameters."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "conv1.weight", "conv1.bias"], ["conv1"]),
        node("Relu", ["conv1"], ["relu1"]),
        node("MaxPool", ["relu1"], ["pool1"], **WINDOW),
        node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"]),
        node("Relu", ["conv2"], ["relu2"]),
        node("MaxPool", ["relu2"], ["pool2"], **WINDOW),
        node("Flatten", ["pool2"], ["flatten"]),
        node("Gemm", ["flatten", "fc1.weight", "fc1.bias"], ["fc1"], transB=1),
        node("Relu", ["fc1"], ["relu3"]),
        node("Gemm", ["relu3", "fc.weight", "fc.bias"], ["logits"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *task.SHAPE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", task.CLASSES])
    values = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "lenet5", [x], [logits], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def main(folder: Path) -> None:
    without_torch()
    from onnxruntime.training import artifacts

    weights = task.read(folder).weights
    artifacts.generate_artifacts(
        model(weights),
        requires_grad=list(weights),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=str(folder),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
