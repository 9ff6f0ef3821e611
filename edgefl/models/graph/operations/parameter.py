"""Operations with a parameter and no matrix product: rows of a table, and values that are added or multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from edgefl.models.graph.operations.base import Operation, ParamInfo, Shape

LARGEST_ID = 2**24  # number of ids that float32, in which ids travel, can tell apart


@dataclass(frozen=True)
class Embedding(Operation):
    """The rows of the weight [num_embeddings, embedding_dim] for ids [length]. The result is [embedding_dim, length].

    padding_idx  a row without a gradient, or None
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None

    def __post_init__(self) -> None:
        for name, most in (("num_embeddings", LARGEST_ID), ("embedding_dim", LARGEST_ID)):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                self.refuse(f"{name}={value!r}", f"1 <= integer <= {most}")
        rows = range(self.num_embeddings)
        if self.padding_idx is not None and (type(self.padding_idx) is not int or self.padding_idx not in rows):
            self.refuse(f"padding_idx={self.padding_idx!r}", f"None, or a row below {self.num_embeddings}")

    @property
    def as_planes(self) -> EmbeddingOfRow:
        """Return the equivalent operation whose result is planes of one row."""
        return EmbeddingOfRow(self.num_embeddings, self.embedding_dim, self.padding_idx)

    def output(self, *inputs: Shape) -> Shape:
        if len(inputs[0]) != 1:
            self.refuse(f"input of shape {inputs[0]}", "ids [length]")
        return (self.embedding_dim, *inputs[0])

    def parameters(self) -> dict[str, ParamInfo]:
        return {"weight": ParamInfo((self.num_embeddings, self.embedding_dim))}


@dataclass(frozen=True)
class EmbeddingOfRow(Embedding):
    """An Embedding whose result is planes of one row, as kernels see it. The JSON of a graph never names this class."""

    def output(self, *inputs: Shape) -> Shape:
        features, length = super().output(*inputs)
        return (features, 1, length)


@dataclass(frozen=True)
class WithParameter(Operation):
    """A parameter that is combined with a result: one value for each channel, or for each value of a sample.

    shape          shape of the parameter in torch without leading ones: [channels], [channels, 1, 1], or the shape of
                   the result
    channels_last  whether the parameter is ordered as torch's [..., places, channels]
    ones           number of leading ones in the parameter's shape in torch
    """

    main: ClassVar[str] = ""  # an empty text, because the parameter has the node's name

    shape: Shape
    channels_last: bool = False
    ones: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.shape) <= 3 or self.ones > 3:
            self.refuse(f"shape={self.shape}, ones={self.ones}", "1 to 3 extents after at most 3 ones")

    def is_whole(self, source: Shape) -> bool:
        """Return whether the parameter has a value for each value of a result with more values than channels."""
        return math.prod(self.shape) == math.prod(source) > source[0]

    def output(self, *inputs: Shape) -> Shape:
        source = inputs[0]
        fits = math.prod(self.shape) == source[0] or self.is_whole(source)
        if not fits or (self.shape[-1] if self.channels_last else self.shape[0]) != source[0]:
            self.refuse(f"shape={self.shape} with a result of shape {source}", "a value for each, or for each channel")
        return source

    def parameters(self) -> dict[str, ParamInfo]:
        return {"": ParamInfo(self.shape)}


@dataclass(frozen=True)
class AddParameter(WithParameter):
    """The sum of a result and a parameter, as with learned positions."""


@dataclass(frozen=True)
class MulParameter(WithParameter):
    """The product of a result and a parameter, as in ConvNeXt's layer scale."""
