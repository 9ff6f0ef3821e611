"""Default models for a user's own data, which follow the shape of a sample. They are our own designs.

The models are small enough for devices, and have batch norm, so that inputs of any scale will do.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.errors import GraphError
from edgefl.models.graph.operations import AdaptiveAvgPool1d, BatchNorm1d, Conv1d, Embedding, MaxPool1d, ReLU, Shape
from edgefl.models.graph.sequential import Layers

WIDTHS = (16, 32, 64, 64, 64)  # channels of the blocks, in order
SMALLEST = 8  # least number of rows, columns or positions that a block halves
HIDDEN = 64
EMBEDDING = 32


def default_name(input_shape: Shape, vocabulary: int | None) -> str:
    """Return the name of the model for samples of a shape: ids of words, features, sequences or planes.

    vocabulary  number of ids of words, or None if the samples are not ids
    """
    if vocabulary is not None and len(input_shape) == 1:
        return "text_cnn"
    return {1: "mlp", 2: "line_cnn"}.get(len(input_shape), "cnn")


def _mlp(model: Layers, _: int | None) -> None:
    """Add a batch norm of the features [F] and two hidden layers of 64 neurons."""
    _expect(model, "mlp", 1, "features [F]")
    model.add("norm", BatchNorm1d(model.shape[0]))
    for index in (1, 2):
        model.linear(f"fc{index}", HIDDEN)
        model.add(f"relu{index}", ReLU())


def _sequence_cnn(model: Layers, _: int | None) -> None:
    """Add convolutions of 5 positions along time with halvings, and then the mean over time."""
    _expect(model, "line_cnn", 2, "[channels, length]")
    for index, channels in enumerate(WIDTHS[1:4], start=1):
        _sequence_block(model, index, channels, width=5)
    model.add("mean", AdaptiveAvgPool1d(1))


def _sequence_block(model: Layers, index: int, channels: int, width: int) -> None:
    model.add(f"conv{index}", Conv1d(model.shape[0], channels, width, padding=width // 2))
    model.add(f"bn{index}", BatchNorm1d(channels))
    model.add(f"relu{index}", ReLU())
    if model.shape[1] >= SMALLEST:
        model.add(f"pool{index}", MaxPool1d(2, 2))


def _cnn(model: Layers, _: int | None) -> None:
    """Add at most five blocks, each of a 3x3 convolution and a halving, as long as the plane is large enough."""
    _expect(model, "cnn", 3, "[channels, height, width]")
    for index, channels in enumerate(WIDTHS, start=1):
        if index == 1 or min(model.shape[1:]) >= SMALLEST:
            model.conv_bn(index, channels, 3, pad=1)


def _text_cnn(model: Layers, vocabulary: int | None) -> None:
    """Add an embedding of ids of words, a convolution of 5 positions, and the mean over positions."""
    _expect(model, "text_cnn", 1, "ids of words [length]")
    if vocabulary is None:
        raise GraphError("model text_cnn for data without a vocabulary; expected ids of words, integers [N, length]")
    model.add("embedding", Embedding(vocabulary, EMBEDDING))
    _sequence_block(model, 1, WIDTHS[2], width=5)
    model.add("mean", AdaptiveAvgPool1d(1))


def _expect(model: Layers, name: str, axes: int, expected: str) -> None:
    if len(model.input_shape) != axes:
        raise GraphError(f"model {name} for examples of shape {model.input_shape}; expected {expected}")


BUILDERS: dict[str, Callable[[Layers, int | None], None]] = {
    "mlp": _mlp,
    "line_cnn": _sequence_cnn,
    "cnn": _cnn,
    "text_cnn": _text_cnn,
}
