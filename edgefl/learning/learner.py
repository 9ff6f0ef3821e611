"""The requests of a method to a model on a device: the Learner protocol, and the values that it takes and returns.

No arithmetic happens here; graph_learner.py implements the protocol over a Graph. What is minimised is the loss of the
samples, of the graph's output, which has no softmax nor sigmoid in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import DataError
from edgefl.learning.fit_options import Delta, FitOptions, Trainable
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.optimizers import SGD as SGD
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import KINDS, Update

Array = NDArray[Any]
Batches = Sequence[NDArray[np.int32]]
SPARSE_BATCH = 16  # examples in a step, where nobody says


@dataclass(frozen=True)
class FitResult:
    """loss_sum: `examples` times the mean loss of those seen, before their step; it may be NaN or inf."""

    loss_sum: float
    examples: int
    steps: int


class Gradient(dict[str, Array]):
    """Gradient of a mean loss, parameter -> its block. loss_sum: the examples times it; it may be NaN or inf."""

    loss_sum: float


@dataclass(frozen=True)
class Evaluation:
    """loss_sum: `examples` times their mean loss; correct: decisions that are right, of `decisions` of each example.
    Of labels, one: that the first largest logit is the label's; of binary targets, one for each output, at logit 0.
    """

    loss_sum: float
    correct: int
    examples: int
    decisions: int = 1

    @property
    def accuracy(self) -> float | None:
        """Share of right decisions; None where there are none to take."""
        return self.correct / (self.examples * self.decisions) if self.decisions else None


class ExecutedFlops(NamedTuple):
    """Floating point operations that were executed: two for each multiply-accumulate of the layers' products, as the
    learner's kernels are called (lowering/product_flops.py). They depend on the backend and its instruction set.

    training  of steps, gradients and features
    search    of searches for the strongest coordinates
    """

    training: int = 0
    search: int = 0


@dataclass(frozen=True, eq=False)
class Samples:
    """A labelled data set in memory, and what is minimised on it; the model sees x * scale + shift.

    x     uint8 or floating [N, *input_shape], C-contiguous; a floating type must be the learner's (float32)
    y     targets, as the loss has them: int32 [N], labels from 0; or [N, outputs] of the learner's type
    Raises  DataError if types or lengths do not fit, a label is negative, or a target is none.
    """

    x: Array
    y: Array
    scale: float = 1.0
    shift: float = 0.0
    loss: Loss = CROSS_ENTROPY

    def __post_init__(self) -> None:
        if self.x.dtype not in (np.uint8, np.float32, np.float64) or not self.x.flags.c_contiguous:
            raise DataError(f"x: {self.x.dtype} with strides {self.x.strides}; expected contiguous uint8 or float32")
        self.loss.check_targets(self.y, len(self.x))

    def __len__(self) -> int:
        return len(self.y)


class Learner(Protocol):
    """A model on a device. Index arrays are int32 row numbers of the samples; batches may differ in length.

    Its parameters may lie anywhere, on a GPU or in a torch module. They go by torch's names, and nobody holds them:
    what is read is read-only, and what changes is written.
    """

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Whole parameters (None: all), read-only, good until the learner is next written or trained: where they lie
        in this process's memory it is not a copy. Raises ValueError for a name that is none of its parameters.
        """

    def take(
        self,
        selection: NeuronSet | Mask | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
    ) -> Update:
        """A copy of the blocks that are active under these neurons, or in this mask, as gather.take makes it."""

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Sets an update's coordinates, or whole parameters; every other coordinate keeps its bits.

        Whole parameters may be of any floating type, an update has the learner's. Everything is checked first.
        Raises  ValueError naming what is not a parameter, or differs from it in shape or type; nothing is written then.
        """

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """From now on only the coordinates of this mask exist (None: all of them): the others are 0.0 exactly, take no
        part in a step, and stay 0.0 whatever is trained. Of whole parameters that are written they are ignored; an
        update that lists one is refused. Coordinates that come back are 0.0 until they are written. How weights are
        held and multiplied may follow from the examples in the batches to come, `batch`.

        Raises  SelectionError if the mask does not fit the model, or lists a running statistic.
        """

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Of each named parameter the `counts[name]` coordinates outside a mask with the largest |gradient| of the mean
        loss over `index`, with the model as it is: positions in the flattened parameter, sorted. Of equal gradients the
        lower position is taken. No weight decay, batch statistics, running statistics left alone.

        Raises  SelectionError if a count exceeds the coordinates outside.
        """

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        optimizer: Optimizer,
        options: FitOptions = FitOptions(),
    ) -> FitResult:
        """Takes one step per batch of `joined(batches)`, in order, on the parameters that the options select.

        A model with dropout needs batches that carry a key of its random numbers (batches.py). Dropout acts in `fit`
        and in `gradient`. Evaluations, predictions, features and the search for the strongest coordinates run without
        dropout.
        """

    def joined(self, batches: Batches) -> Batches:
        """The batches that `fit` takes its steps on. A batch normalisation that sees one value per channel in a sample
        has nothing to normalise in a batch of one sample: in such a model a batch of one sample joins the batch before
        it. Raises TrainingError if no batch comes before it.
        """

    def gradient(
        self,
        samples: Samples,
        index: NDArray[np.int32],
        trainable: Trainable = None,
        delta: Delta = "exact",
        chunk: int | None = None,
        key: int | None = None,
    ) -> Gradient:
        """Gradient of the mean loss over `index`, compact, for the blocks that `trainable` selects; in passes of
        `chunk` examples whose gradients are summed, or in one. `key` is that of dropout, which is at work.
        """

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Loss and right decisions over `index` (None: all samples), with running statistics."""

    def predict(self, x: Array) -> Array:
        """Logits [N, classes] of inputs [N, *input_shape]."""

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Results [N, *shape of one] at a cut for `index` (None: all samples), in passes of `chunk`; without a name the
        inputs [N, in_features] of the last Linear layer.
        """

    def with_head(self, classes: int) -> Learner:
        """A learner of this body, whose parameters it shares, under a last Linear layer of its own with `classes`
        outputs. Asked again for as many classes it may be the same learner, its head as it was left.
        """

    def head(self) -> Learner:
        """A learner of the last Linear layer alone, whose parameters it shares. Its inputs are features."""

    def sub(self, neurons: NeuronSet) -> Learner:
        """A learner of the smaller graph that has only these neurons, with a copy of their blocks. Asked again for as
        many neurons it may be the same learner, which then holds the blocks asked for last.
        """

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """The inverse: the parameters of a learner that `sub(neurons)` gave, written to their places."""

    def clone(self) -> Learner:
        """An independent learner with equal parameters."""

    def memory(self) -> dict[str, int]:
        """Bytes held, by purpose."""

    def work(self) -> ExecutedFlops:
        """The operations that the learner and its relatives have executed since it was made. Evaluations and
        predictions do not count.
        """


MakeLearner = Callable[[Model], Learner]
