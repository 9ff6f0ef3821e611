"""A step whose batch passes through the model in parts, whose gradients are summed before the step is taken.

Each part reads its examples through a slice of the batch's index. The gradient of its loss counts as much as its
examples, so the sum is the gradient of the whole batch up to rounding. The normalisations over a batch have the
statistics of a part, and running statistics follow each part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from edgefl.learning.losses import CrossEntropy, Loss
from edgefl.learning.lowering.computed import scaled
from edgefl.learning.lowering.gradients import Gradients
from edgefl.learning.lowering.recorder import Recorder
from edgefl.learning.lowering.schedule import IndexPart, Slot, Tensor, TrainedBlock

PLACES = "place_cross_entropy"  # it reads the whole index, because its mean is over the labels of the whole batch


class BatchPart(NamedTuple):
    """The examples of a part: their first position in the batch, their number, and the size of the whole batch."""

    first: int
    size: int
    whole: int

    @property
    def is_last(self) -> bool:
        return self.first + self.size == self.whole

    def arguments(self, op: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call for this part, from its arguments for a batch of as many examples."""
        if op == PLACES:
            outputs, y, index, first, *rest = args
            return outputs, y, index, first + self.first, *rest
        index = IndexPart(self.first, self.size)
        return tuple(index if isinstance(arg, Slot) and arg.name == "index" else arg for arg in args)

    def weighted(self, recorder: Recorder, of: Loss, gradient: Tensor) -> Tensor:
        """Return the gradient of the part's mean loss as a part of the gradient of the batch's mean loss.

        Cross-entropy at each place is such a part already.
        """
        is_of_places = isinstance(of, CrossEntropy) and math.prod(gradient.shape[2:]) > 1
        if is_of_places or self.size == self.whole:
            return gradient
        found = scaled(recorder, gradient, self.size / self.whole)
        recorder.keep(found)  # so it is not narrowed to float16
        return found


def batch_parts(batch: int, most: int) -> list[BatchPart]:
    """Return the parts of a batch, of `most` examples each. The last may have fewer. 0 is one part."""
    size = most or batch
    return [BatchPart(first, min(size, batch - first), batch) for first in range(0, batch, size)]


def refusal(loss: Loss, drops: bool) -> str:
    """Return why a batch cannot pass in parts, or an empty text."""
    if drops:
        return "with dropout or noise; expected a model without"
    if isinstance(loss, CrossEntropy) and loss.weight is not None:
        return f"with {loss}; expected a loss without weights of classes"
    return ""


class SummedGradients:
    """The gradients of the parts so far."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._sums = recorder, dict[str, TrainedBlock]()

    def add(self, passes: Iterable[Gradients]) -> None:
        """Record the addition of a part's gradients."""
        for gradients in passes:
            for name, block in gradients.items():
                self._sums[name] = self._added(name, block)

    def completed(self, passes: Iterable[Gradients]) -> Iterator[Gradients]:
        """Record the addition of the last part's gradients, and yield the sums."""
        for gradients in passes:
            yield {name: self._added(name, block) for name, block in gradients.items()}

    def _added(self, name: str, block: object) -> TrainedBlock:
        assert isinstance(block, TrainedBlock)
        held = self._sums.get(name)
        if held is None:
            return block
        self._recorder.call("add", held.values, block.values.view(*held.values.shape), held.values)
        return block._replace(values=held.values)
