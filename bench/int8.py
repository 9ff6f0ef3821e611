"""python -m bench int8: what a model loses when onnxruntime's own quantiser makes int8 of it, on data it has not seen.

Quantisation is static, per channel, calibrated on training images, as in docs/models.md. Accuracies are measured, and
nothing is timed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from edgefl import rng
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.dataset import DataSet
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Model, architectures
from edgefl.study.export.onnx_nodes import to_onnx

BATCH, AT_ONCE, SEED = 64, 256, 1
DIGITS_FOR_TRAINING = 1300  # samples of 1,797. The others are the test part
Array = Any


@dataclass(frozen=True)
class Case:
    """A model, the data that it is trained on, and how long it is trained."""

    data: str
    model: str
    epochs: int
    lr: float
    calibration: int


CASES = (
    Case("fashion-mnist", "fedspu_emnist", 4, 0.02, 512),
    Case("fashion-mnist", "lenet5", 4, 0.02, 512),
    Case("digits", "digits_cnn", 10, 0.05, 256),
)
QUICK = (Case("digits", "digits_cnn", 2, 0.05, 64),)


@dataclass(frozen=True)
class Found:
    """Shares of the test images that are right, and bytes: float32 first, int8 second.

    `same` is the share where both have one label. `ours` is the share where the learner and float32 in onnxruntime do.
    """

    case: Case
    images: int
    accuracy: tuple[float, float]
    same: float
    ours: float
    size: tuple[int, int]

    def __str__(self) -> str:
        before, after = self.accuracy
        return (
            f"{self.case.data}, {self.case.model}, {self.images} test images: {100 * before:.2f} % in float32, "
            f"{100 * after:.2f} % in int8, the same label on {100 * self.same:.2f} %, {self.size[0]} and "
            f"{self.size[1]} bytes; the learner says float32's label on {100 * self.ours:.2f} %"
        )


class Reader(CalibrationDataReader):  # type: ignore[misc]
    """Inputs in batches."""

    def __init__(self, x: Array) -> None:
        self._batches: Iterator[dict[str, Array]] = iter([{"input": x[i : i + BATCH]} for i in range(0, len(x), BATCH)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._batches, None)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench int8", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the digits alone, trained for a moment")
    parser.add_argument("--data-dir", help="directory of the data sets' files")
    options = parser.parse_args(arguments)
    for case in QUICK if options.quick else CASES:
        print(measure(case, options.data_dir), flush=True)
    return 0


def measure(case: Case, data_dir: str | None = None) -> Found:
    """Train the model, quantise it, and let onnxruntime run both on the test images."""
    data = parted(load(case.data, data_dir))
    assert data.x_test is not None
    model = trained(case, data)
    x, y = inputs(data, data.x_test), data.y_test
    with tempfile.TemporaryDirectory() as folder:
        whole, small = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        whole.write_bytes(to_onnx(model))
        settings = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
        reader = Reader(inputs(data, data.x[: case.calibration]))
        quantize_static(whole, small, reader, quant_format=QuantFormat.QDQ, **settings)
        before, after, ours = _labels(whole, x), _labels(small, x), GraphLearner(model).predict(x).argmax(1)
        accuracy = float((before == y).mean()), float((after == y).mean())
        sizes = whole.stat().st_size, small.stat().st_size
    return Found(case, len(x), accuracy, float((before == after).mean()), float((before == ours).mean()), sizes)


def parted(data: DataSet) -> DataSet:
    """Return the data with a test part, which the digits do not have."""
    if data.x_test is not None:
        return data
    order = np.random.default_rng(SEED).permutation(len(data.y))
    train, test = order[:DIGITS_FOR_TRAINING], order[DIGITS_FOR_TRAINING:]
    return replace(data, x=data.x[train], y=data.y[train], x_test=data.x[test], y_test=data.y[test])


def trained(case: Case, data: DataSet) -> Model:
    """Return the model of a case, trained on the data."""
    graph = architectures.build(case.model, data.input_shape, data.classes)
    learner = GraphLearner(Model(graph, graph.init(rng.stream(SEED, rng.INIT))))
    samples, draw = Samples(data.x, data.y, data.scale, data.shift), np.random.default_rng(SEED)
    for epoch in range(case.epochs):
        order = draw.permutation(len(data.y)).astype(np.int32)
        batches = [order[i : i + BATCH] for i in range(0, len(order) - BATCH + 1, BATCH)]
        learner.fit(samples, batches, SGD(case.lr * 0.5 ** (epoch // 3), momentum=0.9))
    return Model(graph, {name: value.copy() for name, value in learner.read().items()})


def inputs(data: DataSet, x: Array) -> Array:
    """Return samples as the model sees them."""
    return x.astype(np.float32) * np.float32(data.scale) + np.float32(data.shift)


def _labels(path: Path, x: Array) -> Array:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"input": x[i : i + AT_ONCE]})[0] for i in range(0, len(x), AT_ONCE)]
    return np.concatenate(parts).argmax(1)
