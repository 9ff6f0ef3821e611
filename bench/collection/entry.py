"""The class Entry: one model of the collection, with the inputs and the targets that it is trained on.

A batch of a model is random and seeded. Nothing is converted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

Target = Literal["labels", "values", "probabilities"]
"""What the outputs of a model are trained for.

labels         The outputs are logits over axis 1 for one label, or for one label at each position behind it.
values         The outputs are numbers, which the mean squared error compares with targets of their shape.
probabilities  The outputs are the softmax of logits.
"""
Output = Tensor | tuple[Tensor, ...]


class Input(NamedTuple):
    """One input of a model: its shape without the batch, and the number of ids, or 0 for float32 values."""

    shape: tuple[int, ...]
    ids: int = 0

    def draw(self, batch: int, generator: torch.Generator) -> Tensor:
        if self.ids:
            return torch.randint(0, self.ids, (batch, *self.shape), generator=generator)
        return torch.randn(batch, *self.shape, generator=generator)


class Entry(NamedTuple):
    """A model of the collection.

    name     source and name, such as timm/ghostnet
    make     builds the module, in training mode, with random weights
    inputs   the arguments of forward
    target   what the outputs are trained for
    classes  axis of the outputs along which the logits of one decision lie
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Input, ...]
    target: Target = "labels"
    classes: int = 1

    @property
    def source(self) -> str:
        return self.name.split("/")[0]

    @property
    def axis_of_classes(self) -> Literal[1, -1]:
        """The class_axis of the loss: 1, or -1 where the classes are the last axis."""
        return 1 if self.classes == 1 else -1

    def module(self, seed: int = 1) -> nn.Module:
        """Build the module in training mode. The weights depend on the seed alone."""
        torch.manual_seed(seed)
        return self.make().train()

    def example(self, batch: int, seed: int = 1) -> tuple[Tensor, ...]:
        """Draw the inputs of a batch."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(each.draw(batch, generator) for each in self.inputs)

    def targets(self, output: Output, seed: int = 1) -> Output:
        """Draw targets for an output of the module. They do not depend on the inputs."""
        generator = torch.Generator().manual_seed(1000 + seed)
        if isinstance(output, tuple):
            return tuple(self._target(each, generator) for each in output)
        return self._target(output, generator)

    def loss(self, output: Output, target: Output) -> Tensor:
        """Return the mean loss of a batch. The losses of several outputs are added."""
        if isinstance(output, tuple):
            parts = [self._loss(*pair) for pair in zip(output, target, strict=True)]
            return torch.stack(parts).sum()
        assert isinstance(target, Tensor)
        return self._loss(output, target)

    def _target(self, output: Tensor, generator: torch.Generator) -> Tensor:
        if self.target == "values":
            return torch.randn(output.shape, generator=generator)
        shape = [size for axis, size in enumerate(output.shape) if axis != self.classes]
        return torch.randint(0, output.shape[self.classes], shape, generator=generator)

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.target == "values":
            return functional.mse_loss(output, target.to(output.dtype))
        if self.target == "probabilities":
            return functional.nll_loss(output.log(), target)
        return functional.cross_entropy(output.movedim(self.classes, 1), target)


def image(side: int, channels: int = 3) -> tuple[Input, ...]:
    """Return the input of square images."""
    return (Input((channels, side, side)),)


def values(*shape: int) -> tuple[Input, ...]:
    """Return one input of float32 values."""
    return (Input(shape),)


def ids(length: int, vocabulary: int) -> tuple[Input, ...]:
    """Return one input of `length` ids below `vocabulary`."""
    return (Input((length,), vocabulary),)
