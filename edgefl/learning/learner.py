"""The requests of a method to a model on a device: the Learner protocol, and the values that it takes and returns.

This module computes nothing. graph_learner.py implements the protocol over a Graph. Training minimises the loss of the
samples, which is a loss of the graph's output. The output has no softmax and no sigmoid in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from edgefl.errors import DataError
from edgefl.learning.fit_options import Delta, FitOptions
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.optimizers import SGD as SGD
from edgefl.learning.optimizers import Optimizer
from edgefl.models.graph import Model
from edgefl.models.graph.operations import Kind
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters
from edgefl.models.neurons.update import KINDS, Update

Array = NDArray[Any]
Batches = Sequence[NDArray[np.int32]]
SPARSE_BATCH = 16  # examples in a step, where no caller gives a number


@dataclass(frozen=True)
class FitResult:
    """The result of a fit.

    loss_sum  `examples` times the mean loss of the examples seen, each before its step. It may be NaN or inf
    examples  number of examples seen
    steps     number of steps taken
    """

    loss_sum: float
    examples: int
    steps: int


class Gradient(dict[str, Array]):
    """The gradient of a mean loss: each parameter's name is mapped to the gradient of its trained block.

    `loss_sum` is the number of examples times the mean loss. It may be NaN or inf.
    """

    loss_sum: float


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    loss_sum   `examples` times the mean loss of the examples
    correct    number of right decisions. Where some places do not count, scores.evaluated says what it is
    decisions  number of decisions for each example. A label is one decision: the first largest logit should be the
               label's. A label per place is a decision for each place. A binary target is one decision for each output,
               at logit 0
    mean_iou   mean intersection over union of the classes that occur, where each pixel has a label. None: no pixels
    """

    loss_sum: float
    correct: int
    examples: int
    decisions: int = 1
    mean_iou: float | None = None

    @property
    def accuracy(self) -> float | None:
        """The share of right decisions. It is None where an example has no decisions."""
        return self.correct / (self.examples * self.decisions) if self.decisions else None


class ExecutedFlops(NamedTuple):
    """Floating point operations that were executed: two for each multiply-accumulate of the layers' products.

    The operations are counted as the learner's kernels are called (lowering/product_flops.py). So they depend on the
    backend and its instruction set.

    training  operations of steps, gradients and features
    search    operations of searches for the strongest coordinates
    """

    training: int = 0
    search: int = 0


@dataclass(frozen=True, eq=False)
class Samples:
    """A labelled data set in memory, and the loss that is minimised on it. The model sees x * scale + shift.

    x       uint8 or floating [N, *input_shape], C-contiguous. A floating type must be the learner's (float32)
    y       targets as the loss has them: int32 [N], labels from 0, int32 [N, *places], a label for each place of the
            model's output, or [N, *output_shape] of the learner's type
    auxiliary  targets of each auxiliary output of the model, in the form of `y`. () stands for `y` at every output
    Raises  DataError if types or lengths do not fit, a label is negative, or a target does not fit the loss
    """

    x: Array
    y: Array
    scale: float = 1.0
    shift: float = 0.0
    loss: Loss = CROSS_ENTROPY
    auxiliary: tuple[Array, ...] = ()

    def __post_init__(self) -> None:
        if self.x.dtype not in (np.uint8, np.float32, np.float64) or not self.x.flags.c_contiguous:
            raise DataError(f"x: {self.x.dtype} with strides {self.x.strides}; expected contiguous uint8 or float32")
        for targets in (self.y, *self.auxiliary):
            self.loss.check_targets(targets, len(self.x))

    def __len__(self) -> int:
        return len(self.y)


class Learner(Protocol):
    """A model on a device. Index arrays are int32 row numbers of the samples. Batches may differ in length.

    The parameters may lie anywhere, on a GPU or in a torch module. They have torch's names. No caller holds them:
    arrays that are read are read-only, and changes go through `write`.
    """

    def read(self, names: Collection[str] | None = None) -> Mapping[str, Array]:
        """Return whole parameters by name, read-only. `names` None means all parameters.

        The arrays are valid until the learner is next written or trained. They are not copies where the parameters lie
        in this process's memory. Raises ValueError for a name that is not one of the learner's parameters.
        """

    def take(
        self,
        selection: NeuronSet | Mask | TrainableParameters | None = None,
        *,
        kinds: Collection[Kind] = KINDS,
        names: Collection[str] | None = None,
        since: Mapping[str, Array] | None = None,
    ) -> Update:
        """Return a copy of the blocks under these neurons, in this mask, or of what is trained. See gather.take.

        A learner need not measure the change since earlier values.
        """

    def write(self, new: Update | Mapping[str, Array]) -> None:
        """Set the coordinates of an update, or whole parameters. Every other coordinate keeps its bits.

        Whole parameters may have any floating type. An update has the learner's type. Everything is checked first.

        Raises  ValueError naming the entry that is not a parameter, or differs from the parameter in shape or type.
                Nothing is written then
        """

    def restrict(self, mask: Mask | None, batch: int = SPARSE_BATCH) -> None:
        """Keep only the coordinates of this mask from now on. The mask None lifts the restriction.

        Other coordinates are exactly 0.0, take no part in a step, and stay 0.0 whatever is trained. In whole parameters
        that are written they are ignored, and an update that lists one is refused. Coordinates that come back are 0.0
        until they are written. `batch` is the number of examples in the batches to come. A learner may choose by this
        number how it holds and multiplies weights.

        Raises  SelectionError if the mask does not fit the model, or lists a parameter that is not learned
        """

    def strongest(
        self, samples: Samples, index: NDArray[np.int32], outside: Mask, counts: Mapping[str, int]
    ) -> Mapping[str, NDArray[np.uint32]]:
        """Return for each named parameter the `counts[name]` coordinates outside a mask with the largest |gradient|.

        The gradient is that of the mean loss over `index`, with batch statistics and without weight decay. The model is
        not changed, and running statistics stay as they are. Coordinates are positions in the flattened parameter,
        sorted. Among equal gradients the lower position is taken.

        Raises  SelectionError if a count exceeds the number of coordinates outside
        """

    def fit(
        self,
        samples: Samples,
        batches: Batches,
        optimizer: Optimizer,
        options: FitOptions = FitOptions(),
    ) -> FitResult:
        """Take one step per batch of `joined(batches)`, in order, on the parameters that the options select.

        A model with dropout needs batches that carry a key of its random numbers (batches.py). `fit` and `gradient` use
        dropout. Evaluations, predictions, features and the search for the strongest coordinates run without dropout.
        """

    def joined(self, batches: Batches) -> Batches:
        """Return the batches that `fit` takes its steps on.

        A batch normalisation that sees one value per channel in a sample cannot normalise a batch of one sample. In
        such a model a batch of one sample joins the batch before it. Raises TrainingError if no batch comes before it.
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
        """Return the gradient of the mean loss over `index`, for the blocks that `trainable` selects.

        The gradient comes from one pass, or from passes of `chunk` examples whose gradients are summed. Dropout acts,
        and `key` is the key of its random numbers.
        """

    def evaluate(self, samples: Samples, index: NDArray[np.int32] | None = None) -> Evaluation:
        """Return the loss and the right decisions over `index` (None: all samples), with running statistics."""

    def predict(self, x: Array) -> Array:
        """Return the logits [N, classes] of inputs [N, *input_shape]."""

    def features(
        self, samples: Samples, index: NDArray[np.int32] | None = None, chunk: int | None = None, cut: str = ""
    ) -> Array:
        """Return the results at a cut for `index` (None: all samples), [N, *shape of one result], in passes of `chunk`
        examples.

        Without the name of a cut they are the inputs [N, in_features] of the last Linear layer.
        """

    def with_head(self, classes: int) -> Learner:
        """Return a learner of this body under a last Linear layer of its own with `classes` outputs.

        The body's parameters are shared with this learner. A later call for as many classes may return the same
        learner, with its head as it was left.
        """

    def head(self) -> Learner:
        """Return a learner of the last Linear layer alone, whose parameters it shares. Its inputs are features."""

    def rest(self, cut: str) -> Learner:
        """Return a learner of all that follows a cut, whose parameters it shares. Its inputs are results at the cut."""

    def sub(self, neurons: NeuronSet) -> Learner:
        """Return a learner of the smaller graph that has only these neurons, with a copy of their blocks.

        A later call for as many neurons may return the same learner, which then holds the blocks of the later call.
        """

    def absorb(self, smaller: Learner, neurons: NeuronSet) -> None:
        """Write the parameters of a learner that `sub(neurons)` returned to their positions in this model."""

    def clone(self) -> Learner:
        """Return an independent learner with equal parameters."""

    def memory(self) -> dict[str, int]:
        """Return the bytes that are held, by purpose."""

    def work(self) -> ExecutedFlops:
        """Return the operations that the learner and its relatives have executed since it was made.

        Evaluations and predictions do not count.
        """


MakeLearner = Callable[[Model], Learner]
