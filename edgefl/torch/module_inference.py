"""The class ModuleInference: passes of a torch module without training, chunk by chunk.

It computes scores, logits and features.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgefl.learning.learner import Array, Evaluation, Samples
from edgefl.learning.running.inference import EVALUATION_BATCH
from edgefl.learning.scores import evaluated, share_of, with_mean_iou
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.torch import module_parts
from edgefl.torch.objective import mean_loss, right
from edgefl.torch.passes import Passes, chunks


class ModuleInference:
    """A runner of the module of the passes, with running statistics and without dropout and gradients."""

    def __init__(self, module: nn.Module, spec: ModelSpec, passes: Passes) -> None:
        self._module, self._spec, self._passes = module, spec, passes

    def evaluation(self, samples: Samples, index: NDArray[np.int32]) -> Evaluation:
        """Return the loss and the number of right decisions over the samples of `index`."""
        total, correct, output = 0.0, 0, (0,)
        with self._passes.predicting():
            for rows in chunks(index, EVALUATION_BATCH):
                logits, y = self._module(self._passes.inputs(samples, rows)), self._passes.targets(samples, rows)
                total += mean_loss(samples.loss, logits, y).item() * samples.loss.divisor(samples.y, rows)
                correct, output = correct + int(right(samples.loss, logits, y)), tuple(logits.shape[1:])
        found = evaluated(samples, index, output, total * share_of(samples.loss, samples.y, index), correct)
        return with_mean_iou(found, samples, index, output, lambda: self._outputs(samples, index))

    def _outputs(self, samples: Samples, index: NDArray[np.int32]) -> Iterator[Array]:
        """Yield the outputs of the samples of `index` in parts."""
        with self._passes.predicting():
            for rows in chunks(index, EVALUATION_BATCH):
                yield self._module(self._passes.inputs(samples, rows)).cpu().numpy()

    def logits(self, samples: Samples, index: NDArray[np.int32]) -> Array:
        """Return the logits [N, classes] of the samples of `index`."""
        with self._passes.predicting():
            found = [self._module(self._passes.inputs(samples, rows)) for rows in chunks(index, EVALUATION_BATCH)]
        logits: Array = torch.cat(found).cpu().numpy()
        return logits

    def results(self, samples: Samples, index: NDArray[np.int32], chunk: int | None) -> Array:
        """Return the results [N, *shape of one result] for the samples of `index`, in passes of `chunk` samples."""
        found: Array = torch.cat(list(self._counted(samples, index, chunk))).cpu().numpy()
        return found

    def features(self, samples: Samples, index: NDArray[np.int32], chunk: int | None) -> Array:
        """Return the inputs [N, in_features] of the last Linear layer, in passes of `chunk` samples of `index`.

        Raises  GraphError if there is no Linear layer.
        """
        found: list[Tensor] = []
        last = module_parts.last_linear(self._module, self._spec)
        hook = last.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].detach()))
        try:
            deque(self._counted(samples, index, chunk), 0)
        finally:
            hook.remove()
        features: Array = torch.cat(found).reshape(len(index), -1).cpu().numpy()
        return features

    def _counted(self, samples: Samples, index: NDArray[np.int32], chunk: int | None) -> Iterator[Tensor]:
        """Yield the outputs of the module, pass by pass. Their operations are counted as training."""
        with self._passes.predicting():
            for rows in chunks(index, chunk or EVALUATION_BATCH):
                kind = self._spec.fingerprint, "features", len(rows)
                yield self._passes.executed.counted(kind, partial(self._module, self._passes.inputs(samples, rows)))
